"""Checks that a player follows the protocol, for authors of players.

``python -m qv_env check-player MODULE:NAME`` runs them; :func:`check_player` does so in a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qv_env import MAX_EPISODE_STEPS, QuaranteVoleursEnv, action_name, deal_code, deck_of
from qv_env.actions import DRAW, NUM_ACTIONS
from qv_env.deals import HELD_OUT_FROM
from qv_env.evaluation.play import game_rng, play_deals
from qv_env.evaluation.players.base import Episode, Player
from qv_env.rules import (
    COLUMN_CARDS,
    LEGAL,
    REFUSALS,
    foundation_cards,
    is_won,
    legal_actions,
    new_game,
    play,
    refusal,
)

DEALS = tuple(range(HELD_OUT_FROM - 6, HELD_OUT_FROM))  # training deals, so none is held out
KNOWN_DRAWS = (0, 1, 20, 50)  # numbers of draws after which twin deals differ


class ProtocolError(ValueError):
    """A player breaks the protocol; the message says how."""


def check_player(
    player: Player,
    deals: Sequence[int] = DEALS,
    seed: int = 0,
    max_episode_steps: int = MAX_EPISODE_STEPS,
) -> None:
    """Check that a player follows the protocol of :class:`qv_env.evaluation.Player`.

    * Its games are legal, and their results are those that the loop reports.
    * With the same seed it repeats the same games, in any order and with any number of seats.
    * In two deals that differ in hidden cards only, it chooses the same actions until the first of
      these cards is drawn.

    Args:
        player: The player.
        deals: Deal numbers that it plays, several times each.
        seed: Seeds its randomness.
        max_episode_steps: The step limit, at least 1.

    Raises:
        ProtocolError: The player breaks the protocol; the message says how.
        ValueError: The player chose an action that is not legal.
    """
    if player.played(list(deals)[:1]) is not None:
        raise ProtocolError("its games were recorded earlier, so there is nothing to check")
    together = _games(player, deals, seed, max_episode_steps, len(deals))
    for episode in together.values():
        _check_game(episode, max_episode_steps)
    for name, order, seats in (
        ("in a second run", deals, len(deals)),
        ("with one game at a time", deals[::-1], 1),
        ("with three games at a time", deals[::-1], 3),
    ):
        games = _games(player, order, seed, max_episode_steps, seats)
        for deal, episode in together.items():
            if games[deal].actions != episode.actions:
                raise ProtocolError(
                    f"deal {deal_code(deal)} is played differently {name}: a game may depend only"
                    " on the player, the deal and the seat's generator"
                )
    if not player.env_kwargs.get("stock_visible", False):
        for deal in deals[:2]:
            for known in KNOWN_DRAWS:
                _check_hidden_order(player, deal, known, seed, max_episode_steps)


def _games(
    player: Player, deals: Sequence[int], seed: int, max_episode_steps: int, seats: int
) -> dict[int, Episode]:
    episodes = play_deals(player, deals, seed, max_episode_steps, num_seats=seats, record=True)
    return {episode.deal: episode for episode in episodes}


def _check_game(episode: Episode, max_episode_steps: int) -> None:
    """Replay a game with the rules and compare its result."""
    game = new_game(deck_of(episode.deal))[0]
    where = f"deal {deal_code(episode.deal)}"
    for number, action in enumerate(episode.actions, start=1):
        reason = refusal(game, action)
        if reason != LEGAL:
            raise ProtocolError(
                f"{where}, step {number} ({action_name(action)}): {REFUSALS[reason]}"
            )
        play(game, action)
    stuck = not legal_actions(game, np.zeros(NUM_ACTIONS, dtype=np.int8))
    won = bool(is_won(game))
    ended = {
        "score": int(game["score"]),
        "won": won,
        "foundation_cards": int(foundation_cards(game)),
        "steps": len(episode.actions),
        "truncated": len(episode.actions) == max_episode_steps and not won and not stuck,
    }
    for name, value in ended.items():
        if getattr(episode, name) != value:
            raise ProtocolError(
                f"{where}: {name} is {getattr(episode, name)}, by the rules {value}"
            )


def _check_hidden_order(
    player: Player, deal: int, known: int, seed: int, max_episode_steps: int
) -> None:
    """Compare a player's actions in a deal and in a twin with another order of hidden cards.

    The first ``known`` cards of the stock are the same in both.
    """
    deck = [int(card) for card in deck_of(deal)]
    seen = COLUMN_CARDS + known
    hidden = np.random.default_rng([deal, known]).permutation(deck[seen:]).tolist()
    one, other = (
        _until_drawn(player, cards, known, game_rng(seed, deal), max_episode_steps)
        for cards in (deck, deck[:seen] + hidden)
    )
    if one != other:
        step = next(
            (k for k, (a, b) in enumerate(zip(one, other, strict=False), 1) if a != b),
            min(len(one), len(other)) + 1,
        )
        raise ProtocolError(
            f"step {step} of deal {deal_code(deal)} depends on the order of hidden cards"
        )


def _until_drawn(
    player: Player, deck: list[int], known: int, rng: np.random.Generator, max_episode_steps: int
) -> list[int]:
    """Return the actions up to the draw after ``known`` draws, or to the end of the game."""
    env = QuaranteVoleursEnv(**player.env_kwargs)
    observation, info = env.reset(options={"deck": deck})
    player.prepare(1)
    player.start(0, rng)
    actions: list[int] = []
    while len(actions) < max_episode_steps and actions.count(DRAW) <= known:
        batch: Any = (
            {key: array[None] for key, array in observation.items()}
            if isinstance(observation, dict)
            else observation[None]
        )
        (action,) = player.act(np.array([0]), batch, info["action_mask"][None])
        actions.append(int(action))
        observation, _, terminated, _, info = env.step(action)
        if terminated:
            break
    return actions
