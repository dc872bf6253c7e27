"""The single environment and the stable-baselines3 environment, compared with baselines."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from benchmarks.measure import RandomPlayer, Result, Row, Sizes, Target, in_turns, ratio
from benchmarks.measure import summary as summary_of
from qv_env import ENV_ID, MAX_EPISODE_STEPS
from qv_env.sb3 import make_sb3_env

_CHUNK = 20  # steps of a single environment in a round: few, so that rounds are rarely interrupted


class PreparedEnv(gym.Env):
    """Only returns the arrays and infos of a recorded game, or copies of them.

    Args:
        env: The environment whose spaces it has.
        game: Observation and info of the reset and of each step.
        copying: Whether copies of arrays and dicts are returned.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's)

    def __init__(self, env: gym.Env, game: list[tuple[Any, dict[str, Any]]], copying: bool) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._game, self._copying = game, copying
        self._next = iter(game).__next__

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the result of the recorded reset."""
        self._next = iter(self._game).__next__
        return self._next()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the result of the next recorded step."""
        observation, info = self._next()
        if self._copying:
            observation = {key: array.copy() for key, array in observation.items()}
            info = {**info, "action_mask": info["action_mask"].copy()}
        return observation, 0.0, False, False, info


class _Replay:
    """Plays one recorded game repeatedly, one round at a time.

    Args:
        env: The environment.
        actions: The actions of the game.
    """

    def __init__(self, env: gym.Env, actions: list[Any]) -> None:
        self._env = env
        self._actions = actions
        self._at = len(actions)

    def round(self) -> float:
        """Play some steps, starting a new game if none are left; return the seconds per step."""
        if self._at >= len(self._actions):
            self._env.reset(seed=0)
            self._at = 0
        chunk = self._actions[self._at : self._at + _CHUNK]
        self._at += len(chunk)
        step = self._env.step
        begin = time.perf_counter()
        for action in chunk:
            step(action)
        return (time.perf_counter() - begin) / len(chunk)


def measure_single(sizes: Sizes) -> Result:
    """Measure steps through ``gym.make``, and through the same wrappers around nothing."""
    env = gym.make(ENV_ID)
    player = RandomPlayer(1)
    observation, info = env.reset(seed=0)
    game, actions, over = [(observation, info)], [], False
    while not over:
        actions.append(np.int64(player.act(info["action_mask"][None])[0]))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        game.append((observation, info))
        over = terminated or truncated

    def prepared(copying: bool) -> gym.Env:
        entry: Any = partial(PreparedEnv, env, game, copying)
        return gym.make(EnvSpec("Prepared-v0", entry, max_episode_steps=MAX_EPISODE_STEPS))

    envs = {"prepared": prepared(False), "copied": prepared(True), "gym.make": env}
    layers = {name: _layers(made) for name, made in envs.items()}
    assert len({tuple(names) for names in layers.values()}) == 1, layers
    envs["unwrapped"] = env.unwrapped
    times = in_turns({k: _Replay(made, actions).round for k, made in envs.items()}, sizes.seconds)
    micro = {name: 1e6 * float(np.median(values)) for name, values in times.items()}
    rows = [
        Row("Gymnasium's wrappers around prepared arrays", micro["prepared"], "µs/step"),
        Row("Gymnasium's wrappers around copies of them", micro["copied"], "µs/step"),
        Row("single environment by gym.make", micro["gym.make"], "µs/step",
            ratio(times, "gym.make", "prepared"), "of prepared arrays", Target("≤ 8", 8.0)),
        Row("the same", micro["gym.make"], "µs/step",
            ratio(times, "gym.make", "copied"), "of copied arrays"),
        Row("its own time, without the wrappers", micro["unwrapped"], "µs/step",
            target=Target("< 10 (aim)", 10.0, aim=True)),
    ]  # fmt: skip
    return Result(
        rows,
        {
            "seconds_a_step": summary_of(times),
            "wrappers": layers["gym.make"],
            "steps_of_the_game": len(actions),
        },
    )


def _layers(env: gym.Env) -> list[str]:
    """Return the names of the wrappers around an environment, outermost first."""
    names = []
    while isinstance(env, gym.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    return names


class _VecPlay:
    """Random play in a stable-baselines3 environment.

    Args:
        env: The environment, already reset.
    """

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self._player = RandomPlayer(env.num_envs)
        self._masks = get_action_masks(env)

    def step(self) -> float:
        """Step, then get the masks as MaskablePPO does; return the seconds of both."""
        actions = self._player.act(self._masks)
        begin = time.perf_counter()
        self._env.step(actions)
        self._masks = get_action_masks(self._env)
        return time.perf_counter() - begin


def measure_sb3(sizes: Sizes) -> Result:
    """Measure ``make_sb3_env`` and ``DummyVecEnv``, step and masks, over whole episodes."""
    games = sizes.sb3_games
    envs = {
        "make_sb3_env": make_sb3_env(games, seed=0),
        "DummyVecEnv": DummyVecEnv([lambda: Monitor(gym.make(ENV_ID))] * games),
    }
    plays = {}
    for name, env in envs.items():
        env.seed(0)
        env.reset()
        plays[name] = _VecPlay(env)
    # All games begin at once, so resets coincide: whole episodes are timed, not medians of rounds.
    times = in_turns({name: play.step for name, play in plays.items()}, 0.0, sizes.sb3_steps)
    totals = {name: float(values.sum()) for name, values in times.items()}
    steps = sizes.sb3_steps * games
    rows = [
        Row(f"DummyVecEnv over gym.make and Monitor, {games} games",
            steps / totals["DummyVecEnv"], "steps/s"),
        Row(f"make_sb3_env, {games} games", steps / totals["make_sb3_env"], "steps/s",
            totals["DummyVecEnv"] / totals["make_sb3_env"], "of DummyVecEnv",
            Target("≥ 10", 10.0, at_least=True)),
    ]  # fmt: skip
    for env in envs.values():
        env.close()
    return Result(
        rows, {"seconds_a_step": summary_of(times), "ratio_of_medians": ratio(
            times, "DummyVecEnv", "make_sb3_env")}
    )  # fmt: skip
