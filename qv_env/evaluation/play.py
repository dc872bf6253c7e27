"""Playing fixed deals: the loop in which players act in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from qv_env import MAX_EPISODE_STEPS, QuaranteVoleursVectorEnv
from qv_env.evaluation.players.base import Episode, Player
from qv_env.playthroughs.playthrough import Playthrough

LIKELIEST = 5  # how many of a player's likeliest actions are recorded per step


def game_rng(seed: int, deal: int) -> np.random.Generator:
    """Return the random generator for a player in one game.

    It depends on the seed and the deal only, so that the result of a deal does not depend on the
    other deals played, their order, or the number of workers.
    """
    return np.random.default_rng([seed, deal])


def play_deals(
    player: Player,
    deals: Sequence[int] | np.ndarray,
    seed: int = 0,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    num_seats: int = 256,
    record: bool = False,
) -> Iterator[Episode]:
    """Let a player play each deal once, many at a time; yield episodes as they end.

    Args:
        player: The player.
        deals: Deal numbers.
        seed: Seeds the player's randomness, together with each deal's number.
        max_episode_steps: The step limit; -1 for none.
        num_seats: The number of seats: how many games are played at a time.
        record: Whether episodes keep their actions and the player's insight.

    Yields:
        One Episode per deal, in the order in which they end.

    Raises:
        ValueError: The player chose an action that is not legal.
    """
    deals = [int(deal) for deal in deals]
    if not deals:
        return
    played = player.played(deals)
    if played is not None:
        yield from played
        return
    num_seats = min(num_seats, len(deals))
    env = QuaranteVoleursVectorEnv(
        num_seats,
        max_episode_steps=max_episode_steps,
        autoreset_mode=AutoresetMode.DISABLED,
        copy=False,
        **player.env_kwargs,
    )
    player.prepare(num_seats)
    queue = iter(range(len(deals)))
    index = np.full(num_seats, -1)  # index of the deal at each seat; -1: the seat is idle
    records: list[Episode | None] = [None] * num_seats
    steps = np.zeros(num_seats, dtype=np.int64)
    ended = np.ones(num_seats, dtype=np.bool_)
    while True:
        fresh = np.flatnonzero(ended)
        if fresh.size:
            numbers: list[int | None] = [None] * num_seats
            for seat in fresh.tolist():
                index[seat] = next(queue, -1)
                deal = deals[index[seat]]  # an idle seat gets an arbitrary deal
                numbers[seat] = deal
                steps[seat] = 0
                records[seat] = Episode(int(index[seat]), deal, 0, False, 0, 0, False)
                if index[seat] >= 0:
                    player.start(seat, game_rng(seed, deal))
            observation, _ = env.reset(options={"reset_mask": ended, "deals": numbers})
            mask = env.action_masks().view(np.int8)
        seats = np.flatnonzero(index >= 0)
        if not seats.size:
            return
        everywhere = seats.size == num_seats
        seen = observation if everywhere else rows_of(observation, seats)
        legal = mask if everywhere else mask[seats]
        actions = np.argmax(mask, axis=1)  # for idle seats any legal action
        chosen = np.asarray(player.act(seats, seen, legal))
        allowed = legal[np.arange(seats.size), chosen] != 0
        if not allowed.all():
            seat = int(np.argmin(allowed))
            raise ValueError(
                f"player {player.name} chose action {chosen[seat]} in deal"
                f" {deals[index[seats[seat]]]}, which is not legal there"
            )
        actions[seats] = chosen
        if record:
            _record(records, seats, chosen, player.insight())
        observation, _, terminated, truncated, info = env.step(actions)
        mask = info["action_mask"]
        steps += 1
        ended = terminated | truncated
        for seat in np.flatnonzero(ended & (index >= 0)).tolist():
            episode = records[seat]
            assert episode is not None
            episode.score = int(info["score"][seat])
            episode.won = bool(info["won"][seat])
            episode.foundation_cards = int(info["foundation_cards"][seat])
            episode.steps = int(steps[seat])
            episode.truncated = bool(truncated[seat] and not terminated[seat])
            yield episode


def rows_of(observation: Any, seats: np.ndarray) -> Any:
    """Return the observations of some seats.

    Args:
        observation: An array (n, ...), or a dict of such arrays.
        seats: int (k,), indices in 0..n - 1 of the arrays' first dimension.
    """
    if isinstance(observation, dict):
        return {key: array[seats] for key, array in observation.items()}
    return observation[seats]


def _record(
    records: list[Episode | None],
    seats: np.ndarray,
    chosen: np.ndarray,
    insight: dict[str, np.ndarray],
) -> None:
    values, probabilities = insight.get("value"), insight.get("probabilities")
    for k, seat in enumerate(seats.tolist()):
        episode = records[seat]
        assert episode is not None
        episode.actions.append(int(chosen[k]))
        if values is not None:
            episode.values.append(float(values[k]))
        if probabilities is not None:
            row = probabilities[k]
            best = np.argsort(-row, kind="stable")[:LIKELIEST]
            episode.likeliest.append([(int(a), float(row[a])) for a in best if row[a] > 0])


def watch(player: Player, deal: int, seed: int = 0, max_episode_steps: int = MAX_EPISODE_STEPS
          ) -> Playthrough:  # fmt: skip
    """Let a player play one deal and return the playthrough.

    It is the same game as in a benchmark of this player, deal, seed and step limit.

    Args:
        player: The player.
        deal: The deal's number.
        seed: Seeds the player's randomness, together with the deal's number.
        max_episode_steps: The step limit; -1 for none.
    """
    (episode,) = play_deals(player, [deal], seed, max_episode_steps, record=True)
    return playthrough_of(episode, player, seed)


def playthrough_of(
    episode: Episode, player: Player, seed: int, extra: dict[str, Any] | None = None
) -> Playthrough:
    """Return a recorded episode as a playthrough, with optional further keys."""
    return episode.playthrough(player.name, player.settings, seed, extra)
