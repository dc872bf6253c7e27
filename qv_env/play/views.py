"""What lies open on the table, as pages are told it; nothing in it depends on hidden cards."""

from __future__ import annotations

from typing import Any

import numpy as np

from qv_env.actions import ACTION_NAMES, MOVES, NUM_COLUMNS, NUM_FOUNDATIONS
from qv_env.cards import NUM_SUITS, SUIT_LETTERS, card_text
from qv_env.play.history import History
from qv_env.play.piles import pile_name
from qv_env.rules import NO_CARD, Game, foundation_cards, foundation_top


def open_cards(game: Game) -> dict[str, Any]:
    """Return the piles of a game: five keys of ``qv_env.play.game.Game.view``.

    Args:
        game: A record of ``qv_env.rules.STATE``.

    Returns:
        ``columns``, ``foundations``, ``waste``, ``stock`` and ``foundation_cards``.
    """
    tops = [foundation_top(game, f) for f in range(NUM_FOUNDATIONS)]
    return {
        "columns": [_texts(game["columns"][c, : game["heights"][c]]) for c in range(NUM_COLUMNS)],
        "foundations": [
            {
                "suit": SUIT_LETTERS[f % NUM_SUITS],
                "cards": int(game["foundations"][f]),
                "top": card_text(top - 1) if top != NO_CARD else "",
            }
            for f, top in enumerate(tops)
        ],
        "waste": _texts(game["waste"][: game["waste_size"]]),
        "stock": int(game["stock_size"]),
        "foundation_cards": int(foundation_cards(game)),
    }


def last_move(history: History) -> dict[str, Any] | None:
    """Return the last move as ``qv_env.play.game.Game.view`` has it; None where there is none."""
    if not history.actions:
        return None
    action = history.actions[-1]
    return {
        "action": action,
        "name": ACTION_NAMES[action],
        "source": pile_name(MOVES[action].source, MOVES[action].source_index),
        "target": history.landings[-1],
    }


def _texts(card_ids: np.ndarray) -> list[str]:
    return [card_text(card_id - 1) for card_id in card_ids.tolist()]
