"""Cards: numbers and text.

A *card* is ``suit * 13 + rank``: suits spades, hearts, diamonds, clubs = 0..3, ranks ace to king =
0..12. A *card id* is card + 1, so that 0 can mean "no card": states and observations hold ids.
The text of a card is its rank, then its suit: ``AS``, ``TD`` (``10D`` is accepted as well), ``KC``.
"""

from __future__ import annotations

from collections.abc import Iterable

SUIT_LETTERS = "SHDC"
SUIT_SYMBOLS = "♠♥♦♣"
RANK_LETTERS = "A23456789TJQK"

NUM_SUITS = 4
NUM_RANKS = 13
NUM_KINDS = NUM_SUITS * NUM_RANKS  # 52 different cards
COPIES = 2
NUM_CARDS = NUM_KINDS * COPIES  # 104 cards on the table

ACE = 0
KING = NUM_RANKS - 1


def card_text(card: int) -> str:
    """Return the text of a card, such as ``TD``.

    Args:
        card: A card, 0..51.

    Raises:
        ValueError: The number is not a card.
    """
    if not 0 <= card < NUM_KINDS:
        raise ValueError(f"card {card!r} is outside 0..{NUM_KINDS - 1}")
    return RANK_LETTERS[card % NUM_RANKS] + SUIT_LETTERS[card // NUM_RANKS]


def parse_card(text: str) -> int:
    """Return the card (0..51) that a text names; lower case and ``10D`` are accepted as well.

    Raises:
        ValueError: The text is not a card; the message says why.
    """
    cleaned = text.strip()
    cleaned = cleaned.upper() if cleaned.isascii() else cleaned  # "ſ" would become "S"
    if cleaned.startswith("10"):
        cleaned = "T" + cleaned[2:]
    if len(cleaned) != 2:
        raise ValueError(f"card {text!r} is not a rank and a suit, such as AS, TD or KC")
    rank, suit = RANK_LETTERS.find(cleaned[0]), SUIT_LETTERS.find(cleaned[1])
    if rank < 0:
        raise ValueError(f"card {text!r} has no rank of {RANK_LETTERS}")
    if suit < 0:
        raise ValueError(f"card {text!r} has no suit of {SUIT_LETTERS}")
    return suit * NUM_RANKS + rank


def cards_text(cards: Iterable[int]) -> str:
    """Return cards as text, separated by blanks."""
    return " ".join(card_text(int(card)) for card in cards)


def parse_cards(text: str) -> list[int]:
    """Return the cards that a text names, separated by blanks.

    Raises:
        ValueError: One of them is not a card.
    """
    return [parse_card(word) for word in text.split()]
