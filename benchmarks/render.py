"""Measure how many pictures of the table are drawn per second, on one core.

    python -m benchmarks.render [--frames N]

Random games are played with ``render_mode="rgb_array"``, and every position is drawn.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import gymnasium as gym

from qv_env import command_line
from qv_env.command_line import Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    parser = Parser("python -m benchmarks.render", __doc__)
    parser.add_argument(
        "--frames",
        metavar="N",
        type=command_line.integer(1, 10**9),
        default=2000,
        help="pictures to draw (default: 2000)",
    )
    return command_line.run(parser, _render, arguments)


def _render(options: argparse.Namespace) -> int:
    """Print frames per second: of steps and pictures together, and of pictures alone."""
    frames = options.frames
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
