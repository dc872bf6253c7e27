"""How many pictures of the table are drawn in a second, on one core.

``python benchmarks/render.py`` plays random games with ``render_mode="rgb_array"`` and draws every
position; ``python benchmarks/render.py --frames 5000`` draws so many.
"""

from __future__ import annotations

import argparse
import time

import gymnasium as gym


def main() -> None:
    """Print frames per second: steps and pictures together, and the pictures alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=2000, help="pictures to draw (2000)")
    frames = parser.parse_args().frames
    env = gym.make("qv_env:QuaranteVoleurs-v0", render_mode="rgb_array")
    _, info = env.reset(seed=0)
    env.action_space.seed(0)
    started = time.perf_counter()
    env.render()
    print(f"first picture, sprites drawn: {time.perf_counter() - started:.2f} s")

    drawing = 0.0
    started = time.perf_counter()
    for _ in range(frames):
        action = env.action_space.sample(info["action_mask"])
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        before = time.perf_counter()
        env.render()
        drawing += time.perf_counter() - before
    total = time.perf_counter() - started
    print(f"random play with pictures: {frames / total:,.0f} frames/s")
    print(f"pictures alone: {frames / drawing:,.0f} frames/s")


if __name__ == "__main__":
    main()
