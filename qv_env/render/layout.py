"""The layout of the table: the positions of all cards, counts and labels.

Everything that draws a game uses this layout: the pixel renderer and the window call the functions,
and the pages read the same numbers as JSON (:func:`layout_json`). Nothing is drawn here.

The table is 960 x 640 units, x to the right and y downwards from the top left corner; a unit is a
pixel of the rendered picture. All numbers are ints::

    deal            note                        cards  score  moves     header
    stock  waste   f1    f2    f3    f4    f5    f6    f7    f8         the upper row
    c1     c2      c3    c4    c5    c6    c7    c8    c9    c10        the columns

A column's cards overlap downwards. Up to ten cards are ``MAX_STEP`` apart; in longer columns they
are closer, so that a column of 16 (the maximum) just fits. The index of a covered card, which is
its rank and suit in the upper left corner, is always visible; in columns so long that a large index
would be cut off, cards have a smaller one (``TIGHT``).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from qv_env.actions import COLUMN, FOUNDATION, NUM_COLUMNS, NUM_FOUNDATIONS, STOCK, WASTE
from qv_env.rules import MAX_COLUMN, Game


class Rect(NamedTuple):
    """A rectangle: left, top, width, height."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first x that is not in the rectangle."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The first y that is not in the rectangle."""
        return self.y + self.height


class Label(NamedTuple):
    """The place of a text, which is centred vertically in it.

    Attributes:
        place: The rectangle that the text must not exceed.
        align: ``"left"``, ``"center"`` or ``"right"``.
        size: Size of the font.
    """

    place: Rect
    align: str
    size: int


WIDTH, HEIGHT = 960, 640
CARD_WIDTH, CARD_HEIGHT = 84, 112
CORNER = 8  # radius of a card's corners

_LEFT = 15  # x of the leftmost pile
_PITCH = 94  # from one pile to the next
_UPPER_ROW = 46
_COLUMNS = 184
_COLUMNS_END = 622  # the lower limit of the columns' cards

# The index of a card, relative to its upper left corner.
INDEX = Rect(6, 6, 66, 23)
TIGHT_INDEX = Rect(6, 3, 50, 16)

MAX_STEP = 36  # from a card to the one on top of it, if there is room


def _fan(height: int) -> tuple[int, ...]:
    if height <= 1:
        return (0,) * height
    room = _COLUMNS_END - _COLUMNS - CARD_HEIGHT
    step = min(MAX_STEP, room / (height - 1))
    return tuple(int(step * row) for row in range(height))


# Indexed by a column's height, 0..16: how far below the column's top each of its cards starts, ...
FANS = tuple(_fan(height) for height in range(MAX_COLUMN + 1))
# ... and whether its cards need the smaller index.
TIGHT = tuple(any(b - a < INDEX.bottom for a, b in pairwise(fan)) for fan in FANS)


def _pile(index: int) -> Rect:
    """The index-th pile from the left in the upper row."""
    return Rect(_LEFT + _PITCH * index, _UPPER_ROW, CARD_WIDTH, CARD_HEIGHT)


STOCK_PLACE = _pile(0)
WASTE_PLACE = _pile(1)
FOUNDATION_PLACES = tuple(_pile(2 + f) for f in range(NUM_FOUNDATIONS))
COLUMN_PLACES = tuple(
    Rect(_LEFT + _PITCH * c, _COLUMNS, CARD_WIDTH, CARD_HEIGHT) for c in range(NUM_COLUMNS)
)


def _count(pile: Rect) -> Label:
    """A count on a pile's lower edge."""
    return Label(Rect(pile.x + 16, pile.bottom - 16, pile.width - 32, 28), "center", 23)


def _name(pile: Rect, y: int) -> Label:
    return Label(Rect(pile.x, y, pile.width, 14), "center", 12)


# The places of texts, by name.
LABELS: dict[str, Label] = {
    "deal": Label(Rect(15, 5, 190, 28), "left", 20),
    "note": Label(Rect(210, 4, 322, 30), "left", 14),
    "cards": Label(Rect(537, 5, 150, 28), "right", 24),
    "score": Label(Rect(692, 5, 128, 28), "right", 24),
    "moves": Label(Rect(825, 5, 120, 28), "right", 24),
    "stock": _count(STOCK_PLACE),
    "waste": _count(WASTE_PLACE),
    "won": Label(Rect(230, 340, 500, 140), "center", 64),
    **{f"f{f + 1}": _name(p, p.bottom + 5) for f, p in enumerate(FOUNDATION_PLACES)},
    **{f"c{c + 1}": _name(p, _COLUMNS_END + 3) for c, p in enumerate(COLUMN_PLACES)},
}


def card_place(column: int, row: int, height: int) -> Rect:
    """Return the place of a column's card.

    Args:
        column: 0..9.
        row: Which card, 0 the bottom one.
        height: How many cards the column has, 1..16.

    Raises:
        IndexError: There is no such column, height or card.
    """
    place = COLUMN_PLACES[column]
    return place._replace(y=place.y + FANS[height][row])


def index_place(card: Rect, tight: bool) -> Rect:
    """Return the place of the rank and suit of a card at a given place."""
    index = TIGHT_INDEX if tight else INDEX
    return index._replace(x=card.x + index.x, y=card.y + index.y)


# ------------------------------------------------------------------------------ the last move


class LastMove(NamedTuple):
    """The move of a step, as pictures mark it; it reveals nothing hidden from the player.

    Attributes:
        source: Kind of the pile that the card left: ``STOCK``, ``WASTE``, ``COLUMN`` or
            ``FOUNDATION`` (``qv_env.actions``).
        source_index: The pile's index, 0 if there is only one of its kind.
        target: Kind of the pile to which the card went.
        target_index: The pile's index.
    """

    source: int
    source_index: int
    target: int
    target_index: int


def last_move(before: Game, after: Game) -> LastMove | None:
    """Return the move that leads from one position to another.

    Args:
        before: A record of ``qv_env.rules.STATE``.
        after: The record after at most one step.

    Returns:
        The move; None unless exactly one card went from one pile to another (after a refused
        action, or in a new game).
    """
    if after["moves"] != before["moves"] + 1:
        return None
    left, reached = [], []
    for (kind, index, old), (_, _, new) in zip(_sizes(before), _sizes(after), strict=True):
        if new == old - 1:
            left.append((kind, index))
        elif new == old + 1:
            reached.append((kind, index))
        elif new != old:
            return None
    if len(left) != 1 or len(reached) != 1:
        return None
    return LastMove(*left[0], *reached[0])


def _sizes(game: Game) -> list[tuple[int, int, int]]:
    """Kind, index and number of cards of every pile."""
    return [
        (STOCK, 0, int(game["stock_size"])),
        (WASTE, 0, int(game["waste_size"])),
        *((COLUMN, c, size) for c, size in enumerate(game["heights"].tolist())),
        *((FOUNDATION, f, size) for f, size in enumerate(game["foundations"].tolist())),
    ]


def source_place(move: LastMove, height: int) -> Rect:
    """Return the place that a moved card left, for the outline around it.

    Args:
        move: The move.
        height: The number of cards now in the source pile; used for columns only.
    """
    if move.source == COLUMN:
        return card_place(move.source_index, height, height + 1)
    return _pile_place(move.source, move.source_index)


def target_place(move: LastMove, height: int) -> Rect:
    """Return the present place of a moved card, for the frame around it.

    Args:
        move: The move.
        height: The number of cards now in the target pile; used for columns only.
    """
    if move.target == COLUMN:
        return card_place(move.target_index, height - 1, height)
    return _pile_place(move.target, move.target_index)


def _pile_place(kind: int, index: int) -> Rect:
    if kind == FOUNDATION:
        return FOUNDATION_PLACES[index]
    return STOCK_PLACE if kind == STOCK else WASTE_PLACE


# ---------------------------------------------------------------------------------- for pages


def layout_json() -> dict[str, Any]:
    """Return the whole layout as lists, numbers and strings, for ``json.dumps``.

    Rectangles are ``[x, y, width, height]``. The card in row r of a column of h cards is
    ``fans[h][r]`` below the column's place; ``tight[h]`` tells whether its index is the smaller
    one.

    Returns:
        Keys ``width``, ``height``, ``card`` (width, height), ``corner``, ``stock``, ``waste``,
        ``foundations`` (8), ``columns`` (10), ``fans`` (17), ``tight`` (17), ``index``,
        ``tight_index`` (relative to the card), ``labels`` (name: place, align, size).
    """
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "card": [CARD_WIDTH, CARD_HEIGHT],
        "corner": CORNER,
        "stock": list(STOCK_PLACE),
        "waste": list(WASTE_PLACE),
        "foundations": [list(place) for place in FOUNDATION_PLACES],
        "columns": [list(place) for place in COLUMN_PLACES],
        "fans": [list(fan) for fan in FANS],
        "tight": list(TIGHT),
        "index": list(INDEX),
        "tight_index": list(TIGHT_INDEX),
        "labels": {
            name: {"place": list(label.place), "align": label.align, "size": label.size}
            for name, label in LABELS.items()
        },
    }
