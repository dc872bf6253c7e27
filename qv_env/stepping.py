"""One reset and one step of an environment, for the single environment and the batch alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from qv_env._jit import compiled
from qv_env.cards import NUM_CARDS
from qv_env.observation import encode
from qv_env.rules import LEGAL, Game, deal_cards, foundation_cards, legal_actions, play, refusal

# What a reset or a step leaves to report, one record an environment.
OUTCOME = np.dtype(
    [
        ("reward", np.float64),
        ("score", np.int64),
        ("moves", np.int64),
        ("foundation_cards", np.int64),
        ("won", np.bool_),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
        ("refusal", np.uint8),  # an index of rules.REFUSALS
    ]
)


@compiled
def _report(game: Game, flags: int, row: np.ndarray, mask: np.ndarray, outcome: Any) -> None:
    encode(game, flags, row)
    legal = legal_actions(game, mask)
    cards = foundation_cards(game)
    won = cards == NUM_CARDS
    outcome["score"] = game["score"]
    outcome["moves"] = game["moves"]
    outcome["foundation_cards"] = cards
    outcome["won"] = won
    outcome["terminated"] = won or legal == 0
    outcome["truncated"] = False


@compiled
def begin(
    game: Game, deck: np.ndarray, flags: int, row: np.ndarray, mask: np.ndarray, outcome: Any
) -> None:
    """Deal a deck and report the position.

    Args:
        game: A record of STATE; overwritten.
        deck: uint8 (104,), cards 0..51.
        flags: What the observation holds (``qv_env.observation``).
        row: uint8, gets the observation.
        mask: int8 (192,) or (112,), gets the mask of legal actions.
        outcome: A record of OUTCOME; its ``terminated`` is False, as a reset's is.
    """
    deal_cards(game, deck)
    _report(game, flags, row, mask, outcome)
    outcome["reward"] = 0.0
    outcome["refusal"] = LEGAL
    outcome["terminated"] = False


@compiled
def advance(
    game: Game, action: int, flags: int, row: np.ndarray, mask: np.ndarray, outcome: Any
) -> None:
    """Take an action, or refuse it, and report the position; arguments as for ``begin``."""
    reason = refusal(game, action)
    points = 0
    if reason == LEGAL:
        points = play(game, action)
    _report(game, flags, row, mask, outcome)
    outcome["reward"] = points
    outcome["refusal"] = reason
