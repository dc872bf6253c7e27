"""The native batch as a stable-baselines3 ``VecEnv`` (needs stable-baselines3)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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

from qv_env.compiling import compiled
from qv_env.deals import code_of
from qv_env.rules import LEGAL, REFUSALS
from qv_env.variants import METADATA, writable
from qv_env.vector import QuaranteVoleursVectorEnv


def make_sb3_env(
    num_envs: int = 1, seed: int | None = None, **kwargs: Any
) -> QuaranteVoleursVecEnv:
    """Return a stable-baselines3 ``VecEnv`` over one native batch.

    Args:
        num_envs: Number of environments.
        seed: Seeds environment i with seed + i at the first reset; None uses entropy from the
            system.
        **kwargs: Keywords of :class:`qv_env.QuaranteVoleursVectorEnv` (``observation``, ``memory``,
            ``max_episode_steps``, ``num_threads``, ...), except ``copy`` and ``autoreset_mode``.

    Returns:
        A ``VecEnv``. At the end of an episode, its info has ``terminal_observation``,
        ``TimeLimit.truncated`` and ``episode`` (``r``, ``l``, ``t``, as ``Monitor`` reports them).
        ``sb3_contrib.MaskablePPO`` finds the method ``action_masks``. Infos have the single
        environment's keys except ``action_mask``: ``action_masks`` returns all masks at once.

    Raises:
        ValueError: A keyword has an invalid value.
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
    """Return whether two sets of reset options are equal; decks may be arrays."""
    return some.keys() == others.keys() and all(
        np.array_equal(some[key], others[key]) for key in some
    )


class _Shown(NamedTuple):
    """The values that the kept infos of n environments show, and a buffer for their changes."""

    score: np.ndarray  # int64 (n,)
    foundation_cards: np.ndarray  # int64 (n,)
    refusal: np.ndarray  # uint8 (n,)
    changed: np.ndarray  # int64 (n,)


@compiled
def _note_changes(
    score: np.ndarray,
    cards: np.ndarray,
    refusal: np.ndarray,
    shown_score: np.ndarray,
    shown_cards: np.ndarray,
    shown_refusal: np.ndarray,
    changed: np.ndarray,
) -> int:
    """Update the shown values; write the indices of changed environments and return their count."""
    count = 0
    for i in range(len(score)):
        if (
            score[i] != shown_score[i]
            or cards[i] != shown_cards[i]
            or refusal[i] != shown_refusal[i]
        ):
            shown_score[i], shown_cards[i], shown_refusal[i] = score[i], cards[i], refusal[i]
            changed[count] = i
            count += 1
    return count


class QuaranteVoleursVecEnv(VecEnv):
    """A stable-baselines3 ``VecEnv`` over a native batch; see :func:`make_sb3_env`.

    Args:
        batch: A batch in ``SAME_STEP`` autoreset mode, which this environment then owns.
    """

    def __init__(self, batch: QuaranteVoleursVectorEnv) -> None:
        self.batch = batch
        super().__init__(batch.num_envs, batch.single_observation_space, batch.single_action_space)
        self.metadata = dict(METADATA)
        self._actions: np.ndarray | None = None
        # Each environment's info as last returned (except `moves`), and the values it shows.
        self._infos: list[dict[str, Any]] = [{} for _ in range(batch.num_envs)]
        self._shown = _Shown(
            np.zeros(batch.num_envs, dtype=np.int64),
            np.zeros(batch.num_envs, dtype=np.int64),
            np.zeros(batch.num_envs, dtype=np.uint8),
            np.zeros(batch.num_envs, dtype=np.int64),
        )
        self._start = time.time()

    def reset(self) -> VecEnvObs:
        """Start new games with the seeds and options that were set; return the observations."""
        seeds = None if all(seed is None for seed in self._seeds) else self._seeds
        observation, _ = self.batch.reset(seed=seeds, options=self._batch_options())
        self._reset_seeds()
        self._reset_options()
        self._begin(range(self.num_envs))
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
        """Store the actions for ``step_wait``: integers (num_envs,)."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; return observations, rewards float32, dones bool and infos."""
        assert self._actions is not None, "step_async comes first"
        infos: list[dict[str, Any]] = []
        observation, rewards, dones, finals = self._advance(self._actions, infos)
        for i, info in finals.items():
            infos[i] = info
        return observation, rewards, dones, infos

    def advance(
        self, actions: np.ndarray
    ) -> tuple[VecEnvObs, np.ndarray, np.ndarray, dict[int, dict[str, Any]]]:
        """Step all environments as ``step`` does, but return infos of ended episodes only.

        Args:
            actions: Integers (num_envs,).

        Returns:
            Observations, rewards float32 (num_envs,), dones bool (num_envs,), and the infos of the
            environments whose episodes ended, by index.
        """
        return self._advance(actions, None)

    def _advance(
        self, actions: np.ndarray, infos: list[dict[str, Any]] | None
    ) -> tuple[VecEnvObs, np.ndarray, np.ndarray, dict[int, dict[str, Any]]]:
        """Step all environments; see ``advance``.

        ``infos``, if it is a list, gets an info for each environment, as if no episode had ended;
        the caller replaces those of ended episodes.
        """
        batch, arrays = self.batch, self.batch.arrays
        num_ended, _ = batch.step_games(actions)
        rewards = arrays.reward.astype(np.float32)
        dones = arrays.ended.copy()
        if infos is not None:
            infos += self._current_infos()
        if not num_ended:
            return batch.finish_step(), rewards, dones, {}
        finals = self._final_infos(np.flatnonzero(dones).tolist())
        observation = batch.finish_step()
        self._begin(finals)
        return observation, rewards, dones, finals

    def _current_infos(self) -> list[dict[str, Any]]:
        """Return copies of the kept infos, updated, as if no episode had ended."""
        arrays = self.batch.arrays
        shown = self._shown
        count = _note_changes(
            arrays.score, arrays.foundation_cards, arrays.refusal,
            shown.score, shown.foundation_cards, shown.refusal, shown.changed,
        )  # fmt: skip
        for i in shown.changed[:count].tolist():
            info = self._infos[i]
            info["score"] = int(arrays.score[i])
            info["foundation_cards"] = int(arrays.foundation_cards[i])
            info["refusal"] = REFUSALS[arrays.refusal[i]]
        infos = list(map(dict.copy, self._infos))
        for info, moves in zip(infos, arrays.moves.tolist(), strict=True):
            info["moves"] = moves
        return infos

    def _final_infos(self, ended: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the last infos of ended episodes that are not yet reset, by environment index."""
        arrays = self.batch.arrays
        elapsed = round(time.time() - self._start, 6)
        finals = {}
        for i in ended:
            score = int(arrays.score[i])
            finals[i] = {
                "deal": self._infos[i]["deal"],
                "score": score,
                "moves": int(arrays.moves[i]),
                "foundation_cards": int(arrays.foundation_cards[i]),
                "won": bool(arrays.won[i]),
                "refusal": REFUSALS[arrays.refusal[i]],
                "TimeLimit.truncated": not arrays.terminated[i],
                "terminal_observation": self.batch.observation_of(i),
                # The score of a game is the sum of its rewards.
                "episode": {"r": float(score), "l": int(arrays.elapsed[i]), "t": elapsed},
            }
        return finals

    def _begin(self, which: Iterable[int]) -> None:
        """Set up the infos of environments that were just reset."""
        deals = self.batch.arrays.deal
        for i in which:
            info = {
                "deal": code_of(int(deals[i])),
                "score": 0,
                "moves": 0,
                "foundation_cards": 0,
                "won": False,
                "refusal": "",
            }
            self.reset_infos[i] = info
            self._infos[i] = {**info, "TimeLimit.truncated": False}
            self._shown.score[i] = 0
            self._shown.foundation_cards[i] = 0
            self._shown.refusal[i] = LEGAL

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (num_envs, 192), or (num_envs, 112)."""
        return self.batch.action_masks()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of each environment (640, 960, 3), with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            gym.logger.warn("get_images() needs render_mode='rgb_array'.")
            return [None] * self.num_envs
        frames = self.batch.render()
        assert frames is not None
        return frames

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(writable(state))

    def close(self) -> None:
        """Stop the batch's threads and close its window."""
        self.batch.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment named by ``indices`` (None: all)."""
        return [getattr(self.batch.sub_envs[i], attr_name) for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of each environment named by ``indices`` (None: all)."""
        for i in self._get_indices(indices):
            setattr(self.batch.sub_envs[i], attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of each environment (``render``, ...); return the results."""
        which = list(self._get_indices(indices))
        if method_name in ("action_masks", "render"):  # all games at once
            results = getattr(self.batch, method_name)(*method_args, **method_kwargs)
            if indices is None and results is not None:
                return list(results)
            return [None if results is None else results[i] for i in which]
        return [
            getattr(self.batch.sub_envs[i], method_name)(*method_args, **method_kwargs)
            for i in which
        ]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return True for ``Monitor``, since this environment reports episode statistics itself."""
        wrapped = issubclass(wrapper_class, Monitor)
        return [wrapped for _ in self._get_indices(indices)]
