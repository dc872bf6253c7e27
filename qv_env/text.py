"""Boards as text: one form for people, and one that can be parsed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from qv_env.actions import NUM_COLUMNS, NUM_FOUNDATIONS
from qv_env.cards import (
    COPIES,
    NUM_CARDS,
    NUM_KINDS,
    NUM_RANKS,
    NUM_SUITS,
    RANK_LETTERS,
    SUIT_SYMBOLS,
    card_text,
    cards_text,
    parse_cards,
)
from qv_env.rules import (
    CARDS_PER_COLUMN,
    MAX_COLUMN,
    NO_CARD,
    STATE,
    STOCK_CARDS,
    Game,
    awaited,
    count_unseen,
    waste_top,
)

_RED = "\x1b[31m"
_PLAIN = "\x1b[0m"


def _symbol(card_id: int, color: bool) -> str:
    """A card for people: ``10♥``, three characters wide; red suits in red if ``color`` is set."""
    if card_id == NO_CARD:
        return "   "
    suit, rank = divmod(int(card_id) - 1, NUM_RANKS)
    text = f"{RANK_LETTERS[rank].replace('T', '10') + SUIT_SYMBOLS[suit]:>3}"
    return f"{_RED}{text}{_PLAIN}" if color and suit in (1, 2) else text


def board_text(game: Game, deal: str = "", color: bool = False) -> str:
    """Return a board that a person can read at a glance.

    Foundations are in the order of the rules; columns and foundations have the numbers that action
    names use. Of the stock only the size is shown.

    Args:
        game: A record of ``qv_env.rules.STATE``.
        deal: The deal's code, for the first line.
        color: Whether red suits are printed in red, with terminal escapes.
    """
    foundations = []
    for f, height in enumerate(game["foundations"]):
        top = (f % NUM_SUITS) * NUM_RANKS + int(height)
        empty = f"  {SUIT_SYMBOLS[f % NUM_SUITS]}"
        foundations.append(_symbol(top, color) if height else empty)
    cards = int(game["foundations"].sum())
    lines = [
        (f"{deal}  " if deal else "")
        + f"score {game['score']}  moves {game['moves']}  foundations {cards}/{NUM_CARDS}",
        f"stock {game['stock_size']}  waste {game['waste_size']}"
        + (f": {_symbol(waste_top(game), color).strip()}" if game["waste_size"] else ""),
        "",
        "  ".join(f"{f'f{f + 1}':>3}" for f in range(NUM_FOUNDATIONS)),
        "  ".join(foundations),
        "",
        "  ".join(f"{f'c{c + 1}':>3}" for c in range(NUM_COLUMNS)),
    ]
    for row in range(max(1, int(game["heights"].max()))):
        line = "  ".join(_symbol(game["columns"][c, row], color) for c in range(NUM_COLUMNS))
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def state_text(game: Game, show_stock: bool = False) -> str:
    """Return a game as plain lines that ``parse_state`` can read.

    Args:
        game: A record of ``qv_env.rules.STATE``.
        show_stock: Whether to write the stock's hidden order (next card first), or only its size.
    """
    waste = game["waste"][: game["waste_size"]].astype(int) - 1
    stock = game["stock"][: game["stock_size"]].astype(int)[::-1] - 1
    lines = [
        f"score {game['score']}",
        f"moves {game['moves']}",
        "foundations " + " ".join(str(height) for height in game["foundations"]),
        f"stock {cards_text(stock)}" if show_stock else f"stock {game['stock_size']} unseen",
        f"waste {cards_text(waste)}",
    ]
    for c in range(NUM_COLUMNS):
        column = game["columns"][c, : game["heights"][c]].astype(int) - 1
        lines.append(f"column {c + 1} {cards_text(column)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def parse_state(text: str) -> np.ndarray:
    """Return the game that a text describes: STATE (1,).

    The text is what ``state_text`` writes, or just ten lines of cards: the columns of a new game,
    bottom card first. If the stock is "unseen", its order is unknown: ``determinize`` the game
    before drawing from it.

    Raises:
        ValueError: The text is not such a board, or the position is impossible; the message names
            the line or the card.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    states = np.zeros(1, dtype=STATE)
    game = states[0]
    if len(lines) == NUM_COLUMNS and not any(line.lower().startswith("column") for line in lines):
        lines = [f"column {c + 1} {line}" for c, line in enumerate(lines)]
        lines.append(f"stock {STOCK_CARDS} unseen")
    seen = set()
    for number, line in enumerate(lines, start=1):
        key, _, rest = line.partition(" ")
        key = key.lower()
        if key == "column":
            index, _, rest = rest.strip().partition(" ")
            key = f"column {index}"
        if key in seen:
            raise ValueError(f"line {number}: {key!r} stands there twice")
        seen.add(key)
        try:
            _parse_line(game, key, rest)
        except ValueError as error:
            raise ValueError(f"line {number} ({line!r}): {error}") from None
    missing = {f"column {c + 1}" for c in range(NUM_COLUMNS)} - seen
    if missing:
        raise ValueError(f"the board lacks {min(missing)!r}")
    _check_state(game)
    return states


def _parse_line(game: Game, key: str, rest: str) -> None:
    if key in ("score", "moves"):
        value = _count(rest)
        if not 0 <= value < 1 << 31:
            raise ValueError(f"{key} is out of range")
        game[key] = value
    elif key == "foundations":
        heights = [_count(word) for word in rest.split()]
        if len(heights) != NUM_FOUNDATIONS or not all(0 <= h <= NUM_RANKS for h in heights):
            raise ValueError(f"there are {NUM_FOUNDATIONS} foundations of 0..{NUM_RANKS} cards")
        game["foundations"] = heights
    elif key == "stock" and rest.endswith("unseen"):
        size = _count(rest.removesuffix("unseen"))
        if not 0 <= size <= STOCK_CARDS:
            raise ValueError(f"the stock holds 0..{STOCK_CARDS} cards")
        game["stock_size"] = size
    elif key in ("stock", "waste"):
        cards = np.array(parse_cards(rest), dtype=np.uint8) + 1
        if len(cards) > STOCK_CARDS:
            raise ValueError(f"the {key} holds at most {STOCK_CARDS} cards")
        game[key][: len(cards)] = cards[::-1] if key == "stock" else cards
        game[f"{key}_size"] = len(cards)
    elif key in {f"column {c + 1}" for c in range(NUM_COLUMNS)}:
        c = int(key.split()[1]) - 1
        cards = np.array(parse_cards(rest), dtype=np.uint8) + 1
        if len(cards) > MAX_COLUMN:
            raise ValueError(f"a column holds at most {MAX_COLUMN} cards")
        for below, above in pairwise(cards[CARDS_PER_COLUMN - 1 :]):
            if awaited(int(below)) != above:
                raise ValueError(
                    f"above a column's first {CARDS_PER_COLUMN} cards each is one rank below the"
                    f" last, in suit; {card_text(above - 1)} cannot lie on {card_text(below - 1)}"
                )
        game["columns"][c, : len(cards)] = cards
        game["heights"][c] = len(cards)
    else:
        raise ValueError("no such line in a board")


def _count(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{digits!r} is not a number of digits 0 to 9")
    return int(digits)


def _check_state(game: Game) -> None:
    """Raise a ValueError unless the board holds each of the 104 cards exactly once."""
    counts = np.zeros(NUM_KINDS + 1, dtype=int)
    np.add.at(counts, game["columns"].ravel(), 1)
    np.add.at(counts, game["waste"], 1)
    np.add.at(counts, game["stock"], 1)
    for f, height in enumerate(game["foundations"]):
        start = (f % NUM_SUITS) * NUM_RANKS + 1
        counts[start : start + height] += 1
    for card in range(NUM_KINDS):
        if counts[card + 1] > COPIES:
            raise ValueError(f"the board holds {card_text(card)} {counts[card + 1]} times")
    if int(game["stock_size"]) + int(game["waste_size"]) > STOCK_CARDS:
        raise ValueError(f"stock and waste hold more than {STOCK_CARDS} cards together")
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(game, unseen)
    if unseen.sum() != game["stock_size"]:
        raise ValueError(
            f"the board shows {NUM_CARDS - unseen.sum()} cards face up and {game['stock_size']}"
            f" in the stock, which is not {NUM_CARDS} together"
        )
    stock_known = bool(game["stock"].any())
    if stock_known and game["stock_size"]:
        missing = [card for card in range(NUM_KINDS) if counts[card + 1] < COPIES]
        if missing:
            raise ValueError(f"the board lacks {card_text(missing[0])}")
