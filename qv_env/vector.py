"""The native batch: many games in one array, stepped by compiled code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from qv_env.cards import NUM_CARDS
from qv_env.compiling import compiled, inlined
from qv_env.deals import STREAM, code_of, load_stream, next_raw, pick, shuffle, store_stream
from qv_env.observation import encode, encode_move
from qv_env.render.pixels import picture
from qv_env.render.window import MAX_TABLES, Window
from qv_env.rules import (
    LEGAL,
    REFUSALS,
    STATE,
    WORK_SIZE,
    attempt,
    deal_cards,
    foundation_cards,
    legal_actions,
    write_legal_actions,
)
from qv_env.sub_envs import SubEnv, single_spec
from qv_env.suites import Deals
from qv_env.text import board_text
from qv_env.variants import (
    MAX_EPISODE_STEPS,
    METADATA,
    Observation,
    Variant,
    checked_render_mode,
    chosen_deal,
    writable,
)

_REFUSAL_TEXTS = np.array(REFUSALS, dtype=object)

# The numeric entries of a batch's infos, named as their arrays below.
_NUMBERS = ("score", "moves", "foundation_cards", "won")

_DRAWN = -2  # in an array of deals: draw one from the pool


class BatchArrays(NamedTuple):
    """The complete state of a batch of n environments, as compiled code takes it."""

    states: np.ndarray  # rules.STATE (n,)
    streams: np.ndarray  # deals.STREAM (n,): the generators from which resets draw deals
    deal: np.ndarray  # int64 (n,), -1 for an explicit deck
    elapsed: np.ndarray  # int64 (n,): steps in the episode
    rows: np.ndarray  # uint8 (n, size): the observations
    masks: np.ndarray  # int8 (n, num_actions)
    reward: np.ndarray  # float64 (n,)
    score: np.ndarray  # int64 (n,)
    moves: np.ndarray  # int64 (n,)
    foundation_cards: np.ndarray  # int64 (n,)
    won: np.ndarray  # bool (n,)
    terminated: np.ndarray  # bool (n,)
    truncated: np.ndarray  # bool (n,)
    ended: np.ndarray  # bool (n,): ended by the last step and not yet reset
    refusal: np.ndarray  # uint8 (n,), indices of rules.REFUSALS


def _new_arrays(num_envs: int, row_size: int, num_actions: int) -> BatchArrays:
    def zeros(kind: Any, *shape: int) -> np.ndarray:
        return np.zeros((num_envs, *shape), dtype=kind)

    return BatchArrays(
        states=zeros(STATE),
        streams=zeros(STREAM),
        deal=np.full(num_envs, -1, dtype=np.int64),
        elapsed=zeros(np.int64),
        rows=zeros(np.uint8, row_size),
        masks=zeros(np.int8, num_actions),
        reward=zeros(np.float64),
        score=zeros(np.int64),
        moves=zeros(np.int64),
        foundation_cards=zeros(np.int64),
        won=zeros(np.bool_),
        terminated=zeros(np.bool_),
        truncated=zeros(np.bool_),
        ended=zeros(np.bool_),
        refusal=zeros(np.uint8),
    )


@compiled
def _begin(arrays: BatchArrays, i: int, deck: np.ndarray, flags: int) -> None:
    """Start a game with a given deck in environment i."""
    game = arrays.states[i]
    deal_cards(game, deck)
    encode(game, flags, arrays.rows[i])
    legal_actions(game, arrays.masks[i])
    arrays.elapsed[i] = 0
    arrays.reward[i] = 0.0
    arrays.score[i] = 0
    arrays.moves[i] = 0
    arrays.foundation_cards[i] = 0
    arrays.won[i] = False
    arrays.terminated[i] = False
    arrays.truncated[i] = False
    arrays.ended[i] = False
    arrays.refusal[i] = LEGAL


@compiled
def _draw_games(
    arrays: BatchArrays,
    chosen: np.ndarray,
    pool_start: int,
    pool_size: int,
    pool_numbers: np.ndarray,
    flags: int,
) -> None:
    """Start a game from the pool in each chosen environment (``chosen``: bool (n,))."""
    deck = np.empty(NUM_CARDS, dtype=np.uint8)
    for i in range(len(chosen)):
        if chosen[i]:
            raw = next_raw(arrays.streams[i])
            arrays.deal[i] = pick(raw, pool_start, pool_size, pool_numbers)
            shuffle(np.uint64(arrays.deal[i]), deck)
            _begin(arrays, i, deck, flags)


@compiled
def _deal_games(arrays: BatchArrays, chosen: np.ndarray, decks: np.ndarray, flags: int) -> None:
    """Start a game with ``decks[i]`` in each chosen environment i (``chosen``: bool (n,))."""
    for i in range(len(chosen)):
        if chosen[i]:
            _begin(arrays, i, decks[i], flags)


@compiled
def _find_outside(actions: np.ndarray, idle: np.ndarray, num_actions: int) -> int:
    """Return the first environment whose action is outside the space, or -1; skip idle ones."""
    outside = 0
    for i in range(len(actions)):
        outside += not (idle[i] or 0 <= actions[i] < num_actions)
    if outside:
        for i in range(len(actions)):
            if not (idle[i] or 0 <= actions[i] < num_actions):
                return i
    return -1


@inlined
def _step_game(
    arrays: BatchArrays,
    i: int,
    action: int,
    limit: int,
    flags: int,
    mask_words: np.ndarray,
    work: np.ndarray,
) -> None:
    """Step environment i; see ``_step_games``."""
    game = arrays.states[i]
    reason, points = attempt(game, action)
    legal = write_legal_actions(game, mask_words[i], work)
    if reason == LEGAL:
        encode_move(game, action, flags, arrays.rows[i])
    cards = foundation_cards(game)
    arrays.elapsed[i] += 1
    won = cards == NUM_CARDS
    terminated = won or legal == 0
    truncated = 0 < limit <= arrays.elapsed[i]
    arrays.reward[i] = points
    arrays.score[i] = game["score"]
    arrays.moves[i] = game["moves"]
    arrays.foundation_cards[i] = cards
    arrays.won[i] = won
    arrays.terminated[i] = terminated
    arrays.truncated[i] = truncated
    arrays.ended[i] = terminated or truncated
    arrays.refusal[i] = reason


@compiled
def _step_games(
    arrays: BatchArrays,
    low: int,
    high: int,
    actions: np.ndarray,
    idle: np.ndarray,
    limit: int,
    flags: int,
) -> tuple[int, int]:
    """Step each environment low..high - 1 that is not idle.

    Args:
        arrays: The batch.
        low: First environment.
        high: Last environment + 1.
        actions: int64 (n,), each within the action space.
        idle: bool (n,): environments that were just reset instead.
        limit: Steps after which an episode is truncated; -1 for never.
        flags: Contents of the observations, as ``qv_env.observation.encode`` takes them.

    Returns:
        How many episodes ended, and how many actions were refused.
    """
    mask_words = arrays.masks.view(np.uint64)
    work = np.zeros(WORK_SIZE, dtype=np.uint64)
    num_ended = 0
    num_refused = 0
    for i in range(low, high):
        if not idle[i]:
            # The default observation is by far the most used: with a constant 0 its step is
            # compiled without the code for the other variants.
            if flags == 0:
                _step_game(arrays, i, actions[i], limit, 0, mask_words, work)
            else:
                _step_game(arrays, i, actions[i], limit, flags, mask_words, work)
            num_ended += arrays.ended[i]
            num_refused += arrays.refusal[i] != LEGAL
    return num_ended, num_refused


class QuaranteVoleursVectorEnv(gym.vector.VectorEnv[Observation, np.ndarray, np.ndarray]):
    """Many environments of Quarante Voleurs, stepped together by compiled code.

    For the same seeds and actions, the results are bit for bit those of ``num_envs`` single
    environments under Gymnasium's ``SyncVectorEnv``, in every autoreset mode. The documentation of
    :class:`qv_env.QuaranteVoleursEnv` describes actions, observations, rewards and info.

    In infos, ``deal`` is an int64 array of deal numbers (-1 for an explicit deck), ``refusal`` an
    object array of str, and the others are numeric arrays; each comes with its ``_key`` array of
    bool.

    Args:
        num_envs: Number of environments.
        max_episode_steps: Steps after which an episode is truncated; None for 500, -1 for never.
        copy: True: observations and info arrays are copies. False: they are read-only views of
            the live arrays, which the next step overwrites. Rewards and flags are always copies.
        autoreset_mode: A ``gymnasium.vector.AutoresetMode``, its name (``"NEXT_STEP"``,
            ``"SAME_STEP"`` or ``"DISABLED"``) or its value, in upper or lower case.
        num_threads: How many threads share a step; results do not depend on it.
        render_mode: As for the single environment; with ``"human"``, one window shows the first 16
            environments.
        observation, memory, stock_visible, take_back, deals: As for the single environment.

    Raises:
        ValueError: A keyword has an invalid value; the message names it.
    """

    metadata = {  # noqa: RUF012  (declared by the base class, replaced in each instance)
        **METADATA,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    # Older versions of Gymnasium call close() even on an instance whose __init__ raised.
    _executor: tuple[int, ThreadPoolExecutor] | None = None
    _window: Window | None = None

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        copy: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_threads: int = 1,
        render_mode: str | None = None,
        observation: str = "cards",
        memory: bool = False,
        stock_visible: bool = False,
        take_back: bool = True,
        deals: Deals = None,
    ) -> None:
        self.num_envs = _positive("num_envs", num_envs)
        self.num_threads = _positive("num_threads", num_threads)
        if max_episode_steps is None:
            max_episode_steps = MAX_EPISODE_STEPS
        if max_episode_steps != -1:
            max_episode_steps = _positive("max_episode_steps", max_episode_steps)
        self._limit = int(max_episode_steps)
        if not isinstance(copy, (bool, np.bool_)):
            raise ValueError(f"copy is True or False, not {copy!r}")
        self.copy = bool(copy)
        self.autoreset_mode = _checked_autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = checked_render_mode(render_mode)

        variant = Variant(observation, memory, stock_visible, take_back, deals)
        self._encoding = variant.encoding
        self._pool = variant.pool
        self._num_actions = variant.num_actions
        self.single_observation_space = variant.encoding.space
        self.single_action_space = variant.action_space

        self._arrays = _new_arrays(num_envs, variant.encoding.size, variant.num_actions)
        self._seeds: list[int | None] = [None] * num_envs
        self._started = np.zeros(num_envs, dtype=np.bool_)  # has been reset at least once
        self._all_started = False
        self._num_ended = 0
        self._none_idle = np.zeros(num_envs, dtype=np.bool_)
        self._before: np.ndarray | None = None  # for pictures: the states before the last step
        self._prepare_views()

    # Created on first use: the space of a large batch takes as much memory as the batch itself.

    @cached_property
    def observation_space(self) -> spaces.Space[Observation]:  # type: ignore[override]
        """The batched observation space."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[np.ndarray]:  # type: ignore[override]
        """The batched action space."""
        return batch_space(self.single_action_space, self.num_envs)

    def _prepare_views(self) -> None:
        """Create the read-only views of the live arrays that ``copy=False`` returns."""
        arrays = self._arrays
        self._live_observation = self._encoding.views(_closed(arrays.rows))
        live = {"action_mask": arrays.masks, "deal": arrays.deal}
        live |= {name: getattr(arrays, name) for name in _NUMBERS}
        live["refusal"] = np.full(self.num_envs, "", dtype=object)
        everywhere = _closed(np.ones(self.num_envs, dtype=np.bool_))
        self._live_infos: dict[str, Any] = {key: _closed(array) for key, array in live.items()}
        self._live_infos |= {f"_{key}": everywhere for key in live}

    # --------------------------------------------------------------------------------- Gymnasium

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new games.

        Args:
            seed: An int s seeds environment i with s + i; a list gives one seed for each; None
                continues with the present generators.
            options: ``{"deal": code_or_number}`` or ``{"deck": [...]}`` starts that deal or deck in
                every environment, ``{"deals": [...]}`` one deal in each (None: from the pool). With
                ``"reset_mask"``, a bool array (num_envs,), only the selected environments are
                reset.

        Returns:
            Observations and infos, as the class describes them.

        Raises:
            ValueError, TypeError: A seed or option is invalid; the running games are unchanged.
        """
        seeds = self._checked_seeds(seed)
        if options is not None and not isinstance(options, dict):
            raise ValueError(f"reset options are a dict, not {options!r}")
        options = dict(options or {})
        chosen = self._checked_reset_mask(options)
        decks, numbers = self._checked_deals(options, chosen)

        for i in np.flatnonzero(chosen):
            single_seed = seeds[i]
            if single_seed is not None or not self._started[i]:
                generator, used = seeding.np_random(single_seed)
                store_stream(generator.bit_generator, self._arrays.streams[i])
                self._seeds[i], self._started[i] = used, True
        self._all_started = bool(self._started.all())
        drawn = chosen & (numbers == _DRAWN)
        self._draw(drawn)
        if decks is not None:
            given = chosen & ~drawn
            self._arrays.deal[given] = numbers[given]
            _deal_games(self._arrays, given, decks, self._encoding.flags)
        self._num_ended = int(np.count_nonzero(self._arrays.ended))
        if self.render_mode is not None:
            before = self._arrays.states.copy()
            if self._before is not None:
                before[~chosen] = self._before[~chosen]
            self._before = before
            if self.render_mode == "human":
                self._show(self.metadata["render_fps"])
        return self._observation(), self._infos(chosen, any_refused=False)

    def step(
        self, actions: Sequence[int] | np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one action in every environment.

        Args:
            actions: Integers (num_envs,). In ``NEXT_STEP`` mode, an environment whose episode ended
                in the step before is reset instead, and its action is ignored.

        Returns:
            Observations, rewards float64 (num_envs,), terminations and truncations bool
            (num_envs,), infos.

        Raises:
            gymnasium.error.ResetNeeded: An environment was never reset.
            ValueError: An action is outside the action space, or ``actions`` is not an array of
                integers of shape (num_envs,); no game is changed. In ``DISABLED`` mode also: an
                environment whose episode ended was not reset.
        """
        num_ended, num_refused = self.step_games(actions)
        arrays = self._arrays
        rewards = arrays.reward.copy()
        terminations = arrays.terminated.copy()
        truncations = arrays.truncated.copy()
        final: dict[str, Any] = {}
        if num_ended and self.autoreset_mode == AutoresetMode.SAME_STEP:
            final = self._final(arrays.ended.copy(), num_refused > 0)
        observation = self.finish_step()
        infos = final | self._infos(None, num_refused > 0)
        return observation, rewards, terminations, truncations, infos

    # A step in two halves, for adapters that need other results than `step` returns.

    def step_games(self, actions: Sequence[int] | np.ndarray) -> tuple[int, int]:
        """Do the first half of a step; afterwards :attr:`arrays` holds the result.

        Call :meth:`finish_step` next, in every mode. In ``NEXT_STEP`` mode this method resets the
        environments whose episodes ended in the step before. In ``SAME_STEP`` mode, episodes that
        end in this step keep their final state in :attr:`arrays` until :meth:`finish_step` resets
        them.

        Args:
            actions: Integers (num_envs,).

        Returns:
            How many episodes ended, and how many actions were refused.

        Raises:
            gymnasium.error.ResetNeeded, ValueError: As for :meth:`step`; no game is changed.
        """
        arrays = self._arrays
        idle = self._none_idle
        if not self._all_started:
            raise gym.error.ResetNeeded("reset the environments before the first step")
        if self._num_ended and self.autoreset_mode == AutoresetMode.DISABLED:
            raise ValueError(
                f"environment {int(np.argmax(arrays.ended))} has ended; with"
                " autoreset_mode=DISABLED reset it before the next step (options 'reset_mask')"
            )
        resets = self._num_ended > 0 and self.autoreset_mode == AutoresetMode.NEXT_STEP
        if resets:
            idle = arrays.ended.copy()
        taken = self._checked_actions(actions, idle)
        if self.render_mode is not None:
            self._before = arrays.states.copy()
        if resets:
            self._draw(idle)

        self._num_ended, num_refused = self._run_step(taken, idle)
        return self._num_ended, num_refused

    def finish_step(self) -> Observation:
        """Do the second half of a step: reset in ``SAME_STEP`` mode, and update the window.

        Returns:
            Observations, as :meth:`step` returns them.
        """
        if self._num_ended and self.autoreset_mode == AutoresetMode.SAME_STEP:
            self._draw(self._arrays.ended.copy())
            self._num_ended = 0
        if self.render_mode == "human":
            self._show(self.metadata["render_fps"])
        return self._observation()

    @property
    def arrays(self) -> BatchArrays:
        """The live arrays of the batch, which the next step overwrites; do not write to them.

        For adapters and tools such as recorders. They are not for agents, since the states hold
        the order of the hidden stock.
        """
        return self._arrays

    def observation_of(self, game: int) -> Observation:
        """Return a copy of one environment's observation, as a single environment returns it."""
        return self._encoding.view(self._arrays.rows[game].copy())

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now: bool (num_envs, 192), or (num_envs, 112)."""
        return self._arrays.masks.copy().view(np.bool_)

    def render(self) -> tuple[Any, ...] | None:
        """Render every environment in the render mode.

        Returns:
            ``"ansi"``: the boards as text. ``"rgb_array"``: pictures, uint8 (640, 960, 3) each.
            ``"human"``: None; the window is redrawn without a pause.

        Raises:
            gymnasium.error.DependencyNotInstalled: Pillow or pygame-ce is missing.
        """
        if self.render_mode == "ansi":
            return tuple(
                board_text(state, code_of(int(deal)))
                for state, deal in zip(self._arrays.states, self._arrays.deal, strict=True)
            )
        if self.render_mode == "rgb_array":
            return tuple(self._picture(i) for i in range(self.num_envs))
        if self.render_mode == "human":
            self._show(None)
            return None
        gym.logger.warn("render() was called, but no render_mode was given.")
        return None

    def _picture(self, i: int) -> np.ndarray:
        arrays = self._arrays
        before = None if self._before is None else self._before[i]
        code = code_of(int(arrays.deal[i]))
        return picture(arrays.states[i], code, before, int(arrays.refusal[i]), arrays.masks[i])

    def _show(self, fps: float | None) -> None:
        if self._window is None:
            self._window = Window()
        if not self._window.dismissed:
            shown = range(min(self.num_envs, MAX_TABLES))
            self._window.show([self._picture(i) for i in shown], fps)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads and close the window."""
        if self._window is not None:
            self._window.close()
        if self._executor is not None:
            self._executor[1].shutdown()
            self._executor = None

    # Made at first use, when Gymnasium has given the batch its spec.

    @cached_property
    def sub_envs(self) -> list[SubEnv]:
        """Its games one by one, with the attributes of single environments."""
        spec = single_spec(self.spec)
        return [SubEnv(self, i, spec) for i in range(self.num_envs)]

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each game or, where it can be called, what it returns.

        Args:
            name: Such as ``"action_masks"``, ``"render"``, ``"spec"``; see
                :class:`qv_env.sub_envs.SubEnv`.
            *args: For the call.
            **kwargs: For the call.

        Raises:
            AttributeError: A game of a batch has no such attribute; ``reset`` and ``step`` are the
                batch's.
        """
        if name in ("action_masks", "render"):  # all games at once
            results = getattr(self, name)(*args, **kwargs)
            return (None,) * self.num_envs if results is None else tuple(results)
        values = [getattr(env, name) for env in self.sub_envs]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each game, as :meth:`call` does."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each game's :class:`qv_env.sub_envs.SubEnv`; the games do not change.

        Args:
            name: Of the attribute.
            values: A list or tuple of one value a game, or one value for all.

        Raises:
            ValueError: There is not one value a game.
        """
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"{len(values)} values of {name!r} for {self.num_envs} environments")
        for env, value in zip(self.sub_envs, values, strict=True):
            setattr(env, name, value)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Copies, in their present state, of the generators from which deals are drawn."""
        return tuple(np.random.Generator(load_stream(stream)) for stream in self._arrays.streams)

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The seeds of the environments' generators; None for those not yet reset."""
        return tuple(self._seeds)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_executor", "_live_observation", "_live_infos"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(writable(state))
        self._prepare_views()

    # --------------------------------------------------------------------------- checking inputs

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            seed = [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed has {len(seed)} entries for {self.num_envs} environments")
        for i, single in enumerate(seed):
            if single is not None and (not isinstance(single, (int, np.integer)) or single < 0):
                raise ValueError(f"seed[{i}] is {single!r}, not a non-negative integer or None")
        return [None if single is None else int(single) for single in seed]

    def _checked_reset_mask(self, options: dict[str, Any]) -> np.ndarray:
        if "reset_mask" not in options:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = options.pop("reset_mask")
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"options['reset_mask'] is a bool array, not {mask!r}")
        if mask.shape != (self.num_envs,):
            raise ValueError(
                f"options['reset_mask'] has shape ({self.num_envs},), not {mask.shape}"
            )
        if not mask.any():
            raise ValueError("options['reset_mask'] names no environment")
        return mask

    def _checked_deals(
        self, options: dict[str, Any], chosen: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the decks (num_envs, 104) given in options, if any, and each one's deal number."""
        numbers = np.full(self.num_envs, _DRAWN, dtype=np.int64)
        if "deals" not in options:
            single = chosen_deal(options)
            if single is None:
                return None, numbers
            numbers[:] = single[0]
            return np.broadcast_to(single[1], (self.num_envs, NUM_CARDS)).copy(), numbers
        deals = options.pop("deals")
        if options:
            raise ValueError(f"options 'deals' and {min(options)!r} do not go together")
        if isinstance(deals, str) or not hasattr(deals, "__len__"):
            raise ValueError(f"options['deals'] is a list of deals, not {deals!r}")
        if len(deals) != self.num_envs:
            raise ValueError(
                f"options['deals'] has {len(deals)} entries for {self.num_envs} environments"
            )
        decks = np.zeros((self.num_envs, NUM_CARDS), dtype=np.uint8)
        for i in np.flatnonzero(chosen):
            if deals[i] is not None:
                try:
                    single = chosen_deal({"deal": deals[i]})
                except ValueError as error:
                    raise ValueError(f"options['deals'][{i}]: {error}") from None
                assert single is not None
                numbers[i], decks[i] = single
        return decks, numbers

    def _checked_actions(self, actions: Sequence[int] | np.ndarray, idle: np.ndarray) -> np.ndarray:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"actions are integers of shape ({self.num_envs},), not {array.dtype} of shape"
                f" {array.shape}"
            )
        taken = np.ascontiguousarray(array, dtype=np.int64)
        outside = _find_outside(taken, idle, self._num_actions)
        if outside >= 0:
            raise ValueError(
                f"actions[{outside}] is {array[outside]}, outside 0..{self._num_actions - 1}"
            )
        return taken

    # ------------------------------------------------------------------------------ the kernels

    def _draw(self, chosen: np.ndarray) -> None:
        """Start a game from the pool in each chosen environment."""
        pool = self._pool
        flags = self._encoding.flags
        _draw_games(self._arrays, chosen, pool.start, pool.size, pool.numbers, flags)

    def _run_step(self, actions: np.ndarray, idle: np.ndarray) -> tuple[int, int]:
        def part(low: int, high: int) -> tuple[int, int]:
            limit, flags = self._limit, self._encoding.flags
            return _step_games(self._arrays, low, high, actions, idle, limit, flags)

        threads = min(self.num_threads, self.num_envs)
        if threads == 1:
            return part(0, self.num_envs)
        bounds = [self.num_envs * k // threads for k in range(threads + 1)]
        others = [self._threads().submit(part, low, high) for low, high in pairwise(bounds[1:])]
        counts = [part(bounds[0], bounds[1]), *(other.result() for other in others)]
        return sum(ended for ended, _ in counts), sum(refused for _, refused in counts)

    def _threads(self) -> ThreadPoolExecutor:
        """The thread pool of this process; a forked child does not inherit its parent's."""
        if self._executor is None or self._executor[0] != os.getpid():
            executor = ThreadPoolExecutor(self.num_threads - 1, "qv_env")
            self._executor = os.getpid(), executor
        return self._executor[1]

    # ---------------------------------------------------------------------------- making results

    def _observation(self) -> Observation:
        if not self.copy:
            return self._live_observation
        return self._encoding.views(self._arrays.rows.copy())

    def _infos(self, chosen: np.ndarray | None, any_refused: bool) -> dict[str, Any]:
        """Return the infos of all environments, or of the chosen ones (the others are zeroed)."""
        arrays = self._arrays
        if not self.copy and chosen is None:
            infos = self._live_infos.copy()
            if any_refused:
                infos["refusal"] = _REFUSAL_TEXTS[arrays.refusal]
            return infos
        infos = {"action_mask": arrays.masks.copy(), "deal": arrays.deal.copy()}
        for name in _NUMBERS:
            infos[name] = getattr(arrays, name).copy()
        if any_refused:
            infos["refusal"] = _REFUSAL_TEXTS[arrays.refusal]
        else:
            infos["refusal"] = np.full(self.num_envs, "", dtype=object)
        return _with_keys(infos, chosen)

    def _final(self, ended: np.ndarray, any_refused: bool) -> dict[str, Any]:
        """Return ``final_obs`` and ``final_info`` of episodes that just ended, before the reset."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended).tolist():
            final_obs[i] = self.observation_of(i)
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": self._infos(ended, any_refused),
            "_final_info": ended.copy(),
        }


def _closed(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def _with_keys(infos: dict[str, Any], chosen: np.ndarray | None) -> dict[str, Any]:
    """Add the ``_key`` arrays to infos, and blank the entries of environments not chosen."""
    if chosen is None or chosen.all():
        keys = np.ones((len(infos), len(infos["deal"])), dtype=np.bool_)
        return infos | {f"_{key}": row for key, row in zip(infos, keys, strict=True)}
    for key, array in infos.items():
        array[~chosen] = None if key == "refusal" else 0
    return infos | {f"_{key}": chosen.copy() for key in infos}


def _checked_autoreset_mode(mode: Any) -> AutoresetMode:
    for known in AutoresetMode:
        texts = known.name.lower(), known.value.lower()
        if mode is known or (isinstance(mode, str) and mode.lower() in texts):
            return known
    names = ", ".join(known.name for known in AutoresetMode)
    raise ValueError(f"autoreset_mode is one of {names}, not {mode!r}")


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} is a positive integer, not {value!r}")
    return int(value)
