"""The native batch as a stable-baselines3 ``VecEnv`` (needs stable-baselines3)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from qv_env.env import QuaranteVoleursEnv, code_of
from qv_env.vector import QuaranteVoleursVectorEnv

_NUMBERS = ("score", "moves", "foundation_cards", "won", "refusal")


def make_sb3_env(
    num_envs: int = 1, seed: int | None = None, **kwargs: Any
) -> QuaranteVoleursVecEnv:
    """Return a stable-baselines3 ``VecEnv`` over one native batch.

    Args:
        num_envs: Number of games.
        seed: Seeds game i with seed + i at the first reset; None for entropy from the system.
        **kwargs: Keywords of :class:`qv_env.QuaranteVoleursVectorEnv` (``observation``, ``memory``,
            ``max_episode_steps``, ``num_threads``, ...), except ``copy`` and ``autoreset_mode``.

    Returns:
        A ``VecEnv`` whose finished episodes leave ``terminal_observation``,
        ``TimeLimit.truncated`` and ``episode`` (``r``, ``l``, ``t``, as ``Monitor`` gives them) in
        their info, and whose ``action_masks`` is what ``sb3_contrib.MaskablePPO`` looks for. Infos
        have the single environment's keys, but for ``action_mask``: masks are asked for at once.

    Raises:
        ValueError: A keyword has a value that it cannot have.
        TypeError: There is no such keyword.
    """
    for name in ("copy", "autoreset_mode"):
        if name in kwargs:
            raise TypeError(f"make_sb3_env sets {name!r} itself, as a VecEnv needs it")
    env = QuaranteVoleursVecEnv(
        QuaranteVoleursVectorEnv(num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)
    )
    if seed is not None:
        env.seed(seed)
    return env


def _same_options(some: dict[str, Any], others: dict[str, Any]) -> bool:
    """Whether reset options are the same; decks may be arrays."""
    return some.keys() == others.keys() and all(
        np.array_equal(some[key], others[key]) for key in some
    )


class _Seat:
    """What ``get_attr`` and ``env_method`` see of one game of the batch."""

    def __init__(self, batch: QuaranteVoleursVectorEnv, index: int) -> None:
        self._batch = batch
        self._index = index
        self.action_space = batch.single_action_space
        self.observation_space = batch.single_observation_space
        self.render_mode = batch.render_mode
        self.metadata = QuaranteVoleursEnv.metadata
        self.spec = batch.spec

    def action_masks(self) -> np.ndarray:
        return self._batch.action_masks()[self._index]

    def render(self) -> Any:
        frames = self._batch.render()
        return None if frames is None else frames[self._index]


class QuaranteVoleursVecEnv(VecEnv):
    """A stable-baselines3 ``VecEnv`` over a native batch; see :func:`make_sb3_env`.

    Args:
        batch: A batch in ``SAME_STEP`` autoreset mode, which this environment then owns.
    """

    def __init__(self, batch: QuaranteVoleursVectorEnv) -> None:
        self.batch = batch
        self._seats = [_Seat(batch, i) for i in range(batch.num_envs)]
        super().__init__(batch.num_envs, batch.single_observation_space, batch.single_action_space)
        self._actions: np.ndarray | None = None
        self._lengths = np.zeros(batch.num_envs, dtype=np.int64)
        self._codes = [""] * batch.num_envs
        self._start = time.time()

    def reset(self) -> VecEnvObs:
        """Start new games with the seeds and options set before; return the observations."""
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        observation, infos = self.batch.reset(seed=seeds, options=self._batch_options())
        self._reset_seeds()
        self._reset_options()
        self._lengths[:] = 0
        self._codes = [code_of(number) for number in infos["deal"].tolist()]
        self.reset_infos = self._single_infos(infos, self._codes)
        for info in self.reset_infos:
            del info["TimeLimit.truncated"]
        return observation

    def _batch_options(self) -> dict[str, Any] | None:
        if not any(self._options):
            return None
        first = self._options[0]
        if all(_same_options(options, first) for options in self._options):
            return first
        for i, options in enumerate(self._options):
            if set(options) - {"deal"}:
                raise ValueError(
                    f"options of environment {i} are {options!r}: where environments differ, only"
                    " 'deal' can be given"
                )
        return {"deals": [options.get("deal") for options in self._options]}

    def step_async(self, actions: np.ndarray) -> None:
        """Take note of the actions: integers (num_envs,)."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all games; return observations, rewards float32, dones bool, and infos."""
        assert self._actions is not None, "step_async comes first"
        observation, rewards, terminated, truncated, infos = self.batch.step(self._actions)
        self._lengths += 1
        dones = terminated | truncated
        ended = np.flatnonzero(dones).tolist()
        final = infos.pop("final_info", None)
        final_obs = infos.pop("final_obs", None)
        singles = self._single_infos(infos, self._codes)
        if ended:
            elapsed = round(time.time() - self._start, 6)
            final_infos = self._single_infos(
                {name: final[name][ended] for name in _NUMBERS},
                [self._codes[i] for i in ended],
            )
            for i, info in zip(ended, final_infos, strict=True):
                info["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
                info["terminal_observation"] = final_obs[i]
                # The score of a game is the sum of its rewards.
                score = round(float(info["score"]), 6)
                info["episode"] = {"r": score, "l": int(self._lengths[i]), "t": elapsed}
                self._codes[i] = code_of(int(infos["deal"][i]))
                reset_info = singles[i]
                del reset_info["TimeLimit.truncated"]
                reset_info["deal"] = self._codes[i]
                self.reset_infos[i] = reset_info
                singles[i] = info
            self._lengths[ended] = 0
        return observation, rewards.astype(np.float32), dones, singles

    @staticmethod
    def _single_infos(infos: dict[str, Any], codes: Sequence[str]) -> list[dict[str, Any]]:
        """One dict a game, of a batch's infos, without its mask."""
        numbers = (infos[name].tolist() for name in _NUMBERS)
        return [
            {
                "deal": code,
                "score": score,
                "moves": moves,
                "foundation_cards": cards,
                "won": won,
                "refusal": refusal,
                "TimeLimit.truncated": False,
            }
            for code, score, moves, cards, won, refusal in zip(codes, *numbers, strict=True)
        ]

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (num_envs, 192), or (num_envs, 112)."""
        return self.batch.action_masks()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of each game, uint8 (640, 960, 3), with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            gym.logger.warn("get_images() needs render_mode='rgb_array'.")
            return [None] * self.num_envs
        frames = self.batch.render()
        assert frames is not None
        return frames

    def close(self) -> None:
        """Stop the batch's threads and close its window."""
        self.batch.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each game named by ``indices`` (None: all)."""
        return [getattr(self._seats[i], attr_name) for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of each game named by ``indices`` (None: all)."""
        for i in self._get_indices(indices):
            setattr(self._seats[i], attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call ``action_masks``, ``render`` or another method of each game; return the results."""
        which = list(self._get_indices(indices))
        if method_name in ("action_masks", "render"):  # all games at once
            results = getattr(self.batch, method_name)(*method_args, **method_kwargs)
            if indices is None and results is not None:
                return list(results)
            return [None if results is None else results[i] for i in which]
        return [getattr(self._seats[i], method_name)(*method_args, **method_kwargs) for i in which]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Say True for ``Monitor``, whose episode statistics this environment gives itself."""
        wrapped = issubclass(wrapper_class, Monitor)
        return [wrapped for _ in self._get_indices(indices)]
