"""Deals in the formats of other solvers, so that those can check our solver's results.

Solvitaire (Blake and Gent) reads a deal as JSON: ``"tableau piles"`` and ``"stock"``, each pile
from its bottom to its top, cards as ``"10H"``; the last card of the stock is drawn first. The rules
of the game are a second file, ``SOLVITAIRE_RULES``. (According to its sources
``deal_parser.cpp``, ``rules_parser.cpp`` and ``card.cpp``.)

PySolFC's text format is written by Freecell Solver's tools and by ``pysol_cards``: a line
``Talon:`` with the stock, next card first, then one line per column, bottom card first, cards as
``10H`` or ``TH``. It has no line for a waste, so it describes deals only. (According to the sources
of ``pysol_cards``: ``deal_game.py``, ``cards.py``.)

All of these formats, like this package, do not distinguish the two copies of a card.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from qv_env.actions import NUM_COLUMNS
from qv_env.cards import card_text, parse_card, parse_cards
from qv_env.deals import checked_deck
from qv_env.rules import CARDS_PER_COLUMN, COLUMN_CARDS, STOCK_CARDS
from qv_env.strict_json import FormatError, parse_json, shown

# The rules for Solvitaire; its defaults supply the rest: two foundations for each suit, built up
# from the ace, and any card may be put into an empty column.
SOLVITAIRE_RULES: dict[str, Any] = {
    "tableau piles": {
        "count": NUM_COLUMNS,
        "build policy": "same-suit",
        "spaces policy": "any",
        "move built group": "no",
    },
    "foundations": {"present": True, "initial cards": "none", "removable": True},
    "stock": {"size": STOCK_CARDS, "deal type": "waste", "deal count": 1, "redeal": False},
    "two decks": True,
}


def _written(card: int) -> str:
    """A card as ``10H`` or ``AS``."""
    return card_text(card).replace("T", "10")


def _columns_of(deck: np.ndarray) -> list[list[int]]:
    """Return the columns dealt from a deck, bottom card first."""
    return [[int(card) for card in deck[c:COLUMN_CARDS:NUM_COLUMNS]] for c in range(NUM_COLUMNS)]


def _deck_from(columns: Sequence[Sequence[int]], stock: Sequence[int]) -> np.ndarray:
    """Return the deck that deals these columns (bottom card first) and stock (next card first).

    Raises:
        ValueError: The piles are not those of a new deal, or not two packs.
    """
    heights = [len(column) for column in columns]
    if heights != [CARDS_PER_COLUMN] * NUM_COLUMNS:
        raise ValueError(
            f"a deal has {NUM_COLUMNS} columns of {CARDS_PER_COLUMN} cards, not {heights}"
        )
    if len(stock) != STOCK_CARDS:
        raise ValueError(f"a deal's stock has {STOCK_CARDS} cards, not {len(stock)}")
    rows = [columns[c][row] for row in range(CARDS_PER_COLUMN) for c in range(NUM_COLUMNS)]
    return checked_deck([*rows, *stock])


# ---------------------------------------------------------------------------------- Solvitaire


def solvitaire_json(deck: Sequence[int] | np.ndarray) -> str:
    """Return a deal in Solvitaire's JSON format.

    Args:
        deck: 104 cards (0..51, each twice) in the order in which they are dealt.

    Raises:
        ValueError: The deck is not valid.
    """
    cards = checked_deck(deck)
    content = {
        "tableau piles": [[_written(card) for card in column] for column in _columns_of(cards)],
        "stock": [_written(int(card)) for card in cards[COLUMN_CARDS:][::-1]],
    }
    return json.dumps(content, indent=1) + "\n"


def parse_solvitaire(text: str) -> np.ndarray:
    """Return the deck of a deal in Solvitaire's JSON format: uint8 (104,), cards 0..51.

    Raises:
        ValueError: The text is not JSON, or not a new deal of this game; the message says why.
    """
    try:
        content = parse_json(text)
    except FormatError as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(content, dict) or not {"tableau piles", "stock"} <= set(content):
        raise ValueError('a deal is an object with "tableau piles" and "stock"')
    known = {"tableau piles", "stock", "waste", "foundations"}
    if not set(content) <= known:
        raise ValueError(f"this game has no {shown(min(set(content) - known))}")
    piles, foundations = content["tableau piles"], content.get("foundations", [])
    for key, value in (("tableau piles", piles), ("foundations", foundations)):
        if not isinstance(value, list):
            raise ValueError(f'"{key}" is a list of piles, not {shown(value)}')
    if _cards(content.get("waste", [])) or any(_cards(pile) for pile in foundations):
        raise ValueError("a deal has no cards in the waste and on foundations yet")
    return _deck_from([_cards(pile) for pile in piles], _cards(content["stock"])[::-1])


def _cards(pile: Any) -> list[int]:
    """Return the cards of a pile in Solvitaire's JSON format: ranks A, 1..13, J, Q, K, any case."""
    if not isinstance(pile, list) or not all(isinstance(card, str) for card in pile):
        raise ValueError(f"a pile is a list of cards as text, not {shown(pile)}")
    cards = []
    for card in pile:
        rank = card[:-1]
        if rank in ("1", "11", "12", "13"):
            rank = {"1": "A", "11": "J", "12": "Q", "13": "K"}[rank]
        try:
            cards.append(parse_card(rank + card[-1:]))
        except ValueError:
            raise ValueError(f"{shown(card)} is no card; cards look like 10H, AS, kd") from None
    return cards


# ------------------------------------------------------------------------------------- PySolFC


def pysol_text(deck: Sequence[int] | np.ndarray) -> str:
    """Return a deal in PySolFC's text format, as Freecell Solver's tools write it.

    Args:
        deck: 104 cards (0..51, each twice) in the order in which they are dealt.

    Raises:
        ValueError: The deck is not valid.
    """
    cards = checked_deck(deck)
    lines = ["Talon: " + " ".join(_written(int(card)) for card in cards[COLUMN_CARDS:])]
    lines += [" ".join(map(_written, column)) for column in _columns_of(cards)]
    return "\n".join(lines) + "\n"


def parse_pysol(text: str) -> np.ndarray:
    """Return the deck of a deal in PySolFC's text format: uint8 (104,), cards 0..51.

    Columns may start with a colon, as in printed positions; a ``Foundations:`` line is allowed if
    it holds no card.

    Raises:
        ValueError: The text is not a new deal of this game; the message says why.
    """
    columns: list[list[int]] = []
    stock: list[int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        key, colon, rest = line.strip().partition(":")
        try:
            if not key and not colon:
                continue
            if key == "Talon":
                if stock is not None:
                    raise ValueError("the talon stands there twice")
                stock = parse_cards(rest)
            elif key == "Foundations":
                if any(not part.endswith(("-0", "-")) for part in rest.split()):
                    raise ValueError("a deal has no cards on foundations yet")
            elif key and colon:
                raise ValueError(f"there is no {key!r} in this game")
            else:
                columns.append(parse_cards(rest if colon else key))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if stock is None:
        raise ValueError("there is no line 'Talon:'")
    return _deck_from(columns, stock)
