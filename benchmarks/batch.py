"""The native batch: compared with copying the same bytes, and on several threads."""

from __future__ import annotations

import hashlib
import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import RandomPlayer, Result, Row, Sizes, Target, in_turns, rate, ratio
from benchmarks.measure import summary as summary_of
from qv_env import MAX_EPISODE_STEPS, NUM_ACTIONS, QuaranteVoleursVectorEnv
from qv_env.actions import NUM_COLUMNS, NUM_FOUNDATIONS
from qv_env.compiling import compiled
from qv_env.rules import MAX_COLUMN

_CALLS = 10  # steps, or copies, in a round
_COLUMN_BYTES = NUM_COLUMNS * MAX_COLUMN
# What a step returns for each game: the observation, the mask, the reward, two flags, four numbers
# and whether the game is won.
_GAME_BYTES = _COLUMN_BYTES + NUM_FOUNDATIONS + 3 + NUM_ACTIONS + 8 + 2 + 4 * 8 + 1
_NUMBERS = ("deal", "score", "moves", "foundation_cards", "won")


class Handout(NamedTuple):
    """The data that a step of n games returns, as separate arrays."""

    columns: np.ndarray  # uint8 (n, 10, 16)
    foundations: np.ndarray  # uint8 (n, 8)
    waste_top: np.ndarray  # uint8 (n, 1)
    waste_size: np.ndarray  # uint8 (n, 1)
    stock_size: np.ndarray  # uint8 (n, 1)
    action_mask: np.ndarray  # int8 (n, 192)
    reward: np.ndarray  # float64 (n,)
    terminated: np.ndarray  # bool (n,)
    truncated: np.ndarray  # bool (n,)
    deal: np.ndarray  # int64 (n,)
    score: np.ndarray  # int64 (n,)
    moves: np.ndarray  # int64 (n,)
    foundation_cards: np.ndarray  # int64 (n,)
    won: np.ndarray  # bool (n,)


def handout(step: tuple[Any, ...]) -> Handout:
    """Return copies of the numeric arrays that a step returned."""
    observation, rewards, terminated, truncated, infos = step
    return Handout(
        **{key: np.array(array, order="C") for key, array in observation.items()},
        action_mask=np.array(infos["action_mask"]),
        reward=np.array(rewards),
        terminated=np.array(terminated),
        truncated=np.array(truncated),
        **{name: np.array(infos[name]) for name in _NUMBERS},
    )


@compiled
def copy_games(source: Handout, target: Handout) -> None:
    """Copy game by game and array by array, in words of eight bytes if a row is that long."""
    n = len(source.reward)
    columns = source.columns.reshape(n, _COLUMN_BYTES).view(np.uint64)
    columns_to = target.columns.reshape(n, _COLUMN_BYTES).view(np.uint64)
    foundations, foundations_to = source.foundations, target.foundations
    mask = source.action_mask.view(np.uint64)
    mask_to = target.action_mask.view(np.uint64)
    for i in range(n):
        for k in range(_COLUMN_BYTES // 8):
            columns_to[i, k] = columns[i, k]
        for f in range(NUM_FOUNDATIONS):
            foundations_to[i, f] = foundations[i, f]
        target.waste_top[i, 0] = source.waste_top[i, 0]
        target.waste_size[i, 0] = source.waste_size[i, 0]
        target.stock_size[i, 0] = source.stock_size[i, 0]
        for k in range(NUM_ACTIONS // 8):
            mask_to[i, k] = mask[i, k]
        target.reward[i] = source.reward[i]
        target.terminated[i] = source.terminated[i]
        target.truncated[i] = source.truncated[i]
        target.deal[i] = source.deal[i]
        target.score[i] = source.score[i]
        target.moves[i] = source.moves[i]
        target.foundation_cards[i] = source.foundation_cards[i]
        target.won[i] = source.won[i]


@compiled
def copy_blocks(source: np.ndarray, target: np.ndarray) -> None:
    """Copy game by game, each as one block of bytes: uint8 (n, 406)."""
    for i in range(len(source)):
        for k in range(_GAME_BYTES):
            target[i, k] = source[i, k]


def staggered(env: QuaranteVoleursVectorEnv, player: RandomPlayer) -> dict[str, Any]:
    """Reset a batch and play until its games are of all ages, so that resets spread evenly.

    Returns:
        The infos of the last step.
    """
    _, infos = env.reset(seed=0)
    ages = np.arange(env.num_envs) % MAX_EPISODE_STEPS
    for age in range(MAX_EPISODE_STEPS):
        infos = env.step(player.act(infos["action_mask"]))[4]
        chosen = ages == age
        if chosen.any():  # the infos of a reset are valid only for the games that it reset
            env.reset(options={"reset_mask": chosen})
            infos = {"action_mask": env.action_masks()}
    return infos


class _Play:
    """Random play in a batch, one round at a time.

    Args:
        games: Number of games in the batch.
        steps: Number of steps in a round.
        **keywords: Keywords of the batch.
    """

    def __init__(self, games: int, steps: int, **keywords: Any) -> None:
        self.games = games
        self.steps = steps
        self.env = QuaranteVoleursVectorEnv(games, **keywords)
        self.player = RandomPlayer(games)
        self._infos = staggered(self.env, self.player)
        self.player.seconds, self.player.calls = 0.0, 0
        self.ended = 0

    def round(self) -> float:
        """Play some steps; return the seconds per game and step, without choosing actions."""
        seconds = 0.0
        for _ in range(self.steps):
            actions = self.player.act(self._infos["action_mask"])
            begin = time.perf_counter()
            step = self.env.step(actions)
            seconds += time.perf_counter() - begin
            self.ended += int(np.count_nonzero(step[2] | step[3]))
            self._infos = step[4]
        return seconds / (self.steps * self.games)

    def details(self) -> dict[str, float]:
        """Further figures of the play."""
        steps = self.player.calls * self.games
        return {
            "chooser_s": self.player.seconds / steps,
            "episodes_per_1000_steps": 1000 * self.ended / steps,
        }


def measure_batch(sizes: Sizes) -> Result:
    """Measure the batch and copies of the data that its steps return, in alternating rounds."""
    games = sizes.games
    live, fresh = _Play(games, _CALLS, copy=False), _Play(games, _CALLS, copy=True)
    source = handout(fresh.env.step(fresh.player.actions * 0))
    target = Handout(*(np.zeros_like(array) for array in source))
    assert sum(array.nbytes for array in source) == games * _GAME_BYTES
    block = np.ones((games, _GAME_BYTES), dtype=np.uint8)
    other = np.zeros_like(block)

    def copying() -> float:
        begin = time.perf_counter()
        for _ in range(_CALLS):
            copy_games(source, target)
        return (time.perf_counter() - begin) / (_CALLS * games)

    def copying_blocks() -> float:
        begin = time.perf_counter()
        for _ in range(_CALLS):
            copy_blocks(block, other)
        return (time.perf_counter() - begin) / (_CALLS * games)

    times = in_turns(
        {
            "copy": copying,
            "copy_false": live.round,
            "copy_block": copying_blocks,
            "copy_true": fresh.round,
        },
        2 * sizes.seconds,
    )
    assert all(np.array_equal(a, b) for a, b in zip(source, target, strict=True))
    rows = [
        Row(f"copying a step's {_GAME_BYTES} bytes, array by array", rate(times["copy"]),
            "games/s"),
        Row("the same bytes as one block per game", rate(times["copy_block"]), "games/s",
            ratio(times, "copy", "copy_block"), "of copying array by array"),
        Row(f"native batch, {games:,} games, copy=False", rate(times["copy_false"]), "steps/s",
            ratio(times, "copy", "copy_false"), "of copying",
            Target("≥ 1/6 (hope: 1/4)", 1 / 6, at_least=True)),
        Row(f"native batch, {games:,} games, copy=True", rate(times["copy_true"]), "steps/s",
            ratio(times, "copy", "copy_true"), "of copying", Target("≥ 1/8", 1 / 8, at_least=True)),
        Row("choosing a random legal action (not counted)", 1 / live.details()["chooser_s"],
            "games/s"),
    ]  # fmt: skip
    blocks = {name: ratio(times, "copy_block", name) for name in ("copy_false", "copy_true")}
    bests = {name: float(times["copy"].min() / times[name].min()) for name in blocks}
    return Result(
        rows,
        {
            "seconds_a_game": summary_of(times),
            "ratio_to_copying_blocks": blocks,
            "ratio_of_best_rounds": bests,
            "copy_false": live.details(),
            "copy_true": fresh.details(),
        },
    )


def digest_of(games: int, num_threads: int, steps: int) -> str:
    """Play a batch at random and return a hash of all data that its steps returned."""
    env = QuaranteVoleursVectorEnv(games, num_threads=num_threads, max_episode_steps=steps // 2)
    player = RandomPlayer(games)
    digest = hashlib.sha256()
    _, infos = env.reset(seed=0)
    for _ in range(steps):
        step = env.step(player.act(infos["action_mask"]))
        infos = step[4]
        for array in handout(step):
            digest.update(array.tobytes())
    env.close()
    return digest.hexdigest()


def measure_threads(sizes: Sizes) -> Result:
    """Measure a large batch on one thread and on two, and compare the data they return."""
    games = sizes.many_games
    digests = [digest_of(games, threads, 40) for threads in (1, 2)]
    plays = {threads: _Play(games, 1, copy=False, num_threads=threads) for threads in (1, 2)}
    times = in_turns({str(n): play.round for n, play in plays.items()}, sizes.seconds)
    for play in plays.values():
        play.env.close()
    same = digests[0] == digests[1]
    rows = [
        Row(f"{games:,} games, num_threads=1", rate(times["1"]), "steps/s"),
        Row(f"{games:,} games, num_threads=2", rate(times["2"]), "steps/s",
            ratio(times, "1", "2"), "of one thread"),
        Row("differing bytes in the data of both", "none" if same else "some",
            ratio=float(not same), target=Target("none", 0.0)),
    ]  # fmt: skip
    return Result(
        rows,
        {
            "seconds_a_game": summary_of(times),
            "ratio_of_best_rounds": float(times["1"].min() / times["2"].min()),
            "digests": digests,
        },
    )
