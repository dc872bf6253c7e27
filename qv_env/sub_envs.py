"""The games of a batch one by one, with the attributes that single environments have."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from qv_env.deals import load_stream
from qv_env.rules import Game
from qv_env.variants import METADATA

# What a batch is made with, beside the keywords that a single environment has.
_OF_BATCHES = (
    "num_envs", "vectorization_mode", "copy", "autoreset_mode", "num_threads", "max_episode_steps",
)  # fmt: skip


def single_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """Return the spec of one game of a batch that has this spec, None where it has none."""
    if spec is None:
        return None
    single = copy.deepcopy(spec)
    limit = single.kwargs.get("max_episode_steps", spec.max_episode_steps)
    for name in _OF_BATCHES:
        single.kwargs.pop(name, None)
    single.max_episode_steps = limit
    return single


class Batch(Protocol):
    """What is asked of a batch; :class:`qv_env.QuaranteVoleursVectorEnv` says what it means."""

    single_observation_space: spaces.Space
    single_action_space: spaces.Space
    render_mode: str | None

    @property
    def arrays(self) -> Any: ...  # noqa: D102

    @property
    def np_random_seed(self) -> tuple[int | None, ...]: ...  # noqa: D102

    def render(self) -> tuple[Any, ...] | None: ...  # noqa: D102


class SubEnv:
    """One game of a batch: what ``get_attr``, ``call`` and ``env_method`` see of it.

    Attributes can be set. That changes nothing in the game.

    Args:
        batch: The batch.
        index: Which of its games, 0..num_envs - 1.
        spec: Of one environment of its kind.

    Attributes:
        action_space: Of one environment, as the following ones.
        observation_space: As above.
        metadata: As above.
        render_mode: As above.
        spec: As given.
    """

    def __init__(self, batch: Batch, index: int, spec: EnvSpec | None = None) -> None:
        self._batch = batch
        self._index = index
        self.action_space = batch.single_action_space
        self.observation_space = batch.single_observation_space
        self.metadata = dict(METADATA)
        self.render_mode = batch.render_mode
        self.spec = spec

    @property
    def unwrapped(self) -> SubEnv:
        """This object itself."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """A copy of the generator that the game's deals are drawn from, as it stands."""
        return np.random.Generator(load_stream(self._batch.arrays.streams[self._index]))

    @property
    def np_random_seed(self) -> int | None:
        """The seed of that generator; None before the first reset."""
        return self._batch.np_random_seed[self._index]

    @property
    def state(self) -> Game:
        """The game itself, live and read-only; not for agents, as it holds the stock."""
        states = self._batch.arrays.states.view()
        states.flags.writeable = False
        return states[self._index]

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (192,), or (112,) without take-backs."""
        return self._batch.arrays.masks[self._index].astype(np.bool_)

    def render(self) -> Any:
        """Return the game as the render mode says; see the batch."""
        frames = self._batch.render()
        return None if frames is None else frames[self._index]
