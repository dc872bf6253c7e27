"""The sub-environments of a batch, with the attributes that single environments have."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from qv_env.deals import load_stream
from qv_env.rules import Game
from qv_env.variants import METADATA

# The keywords of a batch that a single environment does not have.
_OF_BATCHES = (
    "num_envs", "vectorization_mode", "copy", "autoreset_mode", "num_threads", "max_episode_steps",
)  # fmt: skip


def single_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """Return the spec of one environment of a batch, given the batch's spec (None for None)."""
    if spec is None:
        return None
    single = copy.deepcopy(spec)
    limit = single.kwargs.get("max_episode_steps", spec.max_episode_steps)
    for name in _OF_BATCHES:
        single.kwargs.pop(name, None)
    single.max_episode_steps = limit
    return single


class Batch(Protocol):
    """The members of a batch used here; see :class:`qv_env.QuaranteVoleursVectorEnv`."""

    single_observation_space: spaces.Space
    single_action_space: spaces.Space
    render_mode: str | None

    @property
    def arrays(self) -> Any: ...  # noqa: D102

    @property
    def np_random_seed(self) -> tuple[int | None, ...]: ...  # noqa: D102

    def render(self) -> tuple[Any, ...] | None: ...  # noqa: D102


class SubEnv:
    """One environment of a batch, as ``get_attr``, ``call`` and ``env_method`` see it.

    Attributes can be set, but that does not change the game.

    Args:
        batch: The batch.
        index: The environment's index, 0..num_envs - 1.
        spec: The spec of a single environment.

    Attributes:
        action_space: The action space of one environment.
        observation_space: The observation space of one environment.
        metadata: The metadata of one environment.
        render_mode: The batch's render mode.
        spec: The given spec.
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
        """A copy, in its present state, of the generator from which deals are drawn."""
        return np.random.Generator(load_stream(self._batch.arrays.streams[self._index]))

    @property
    def np_random_seed(self) -> int | None:
        """The seed of that generator; None before the first reset."""
        return self._batch.np_random_seed[self._index]

    @property
    def state(self) -> Game:
        """The live game, read-only; not for agents, since it holds the order of the stock."""
        states = self._batch.arrays.states.view()
        states.flags.writeable = False
        return states[self._index]

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (192,), or (112,) without take-backs."""
        return self._batch.arrays.masks[self._index].astype(np.bool_)

    def render(self) -> Any:
        """Render the game in the render mode; see the batch."""
        frames = self._batch.render()
        return None if frames is None else frames[self._index]
