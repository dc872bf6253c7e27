"""The piles of the table, by the names that actions give them."""

from __future__ import annotations

from typing import Any, NamedTuple

from qv_env.actions import COLUMN, FOUNDATION, NUM_COLUMNS, NUM_FOUNDATIONS, STOCK, WASTE


class Pile(NamedTuple):
    """A place for cards: its kind (as ``qv_env.actions`` numbers them), and which one of them."""

    kind: int
    number: int  # from 0


# Every pile by its name, in the order they stand on the table.
PILES: dict[str, Pile] = {
    "stock": Pile(STOCK, 0),
    "w": Pile(WASTE, 0),
    **{f"f{f + 1}": Pile(FOUNDATION, f) for f in range(NUM_FOUNDATIONS)},
    **{f"c{c + 1}": Pile(COLUMN, c) for c in range(NUM_COLUMNS)},
}
_NAMES = {pile: name for name, pile in PILES.items()}


def pile_name(kind: int, number: int) -> str:
    """Return a pile's name.

    Args:
        kind: As ``qv_env.actions`` numbers them.
        number: Which one of them, from 0.
    """
    return _NAMES[Pile(kind, number)]


def named_pile(name: Any) -> Pile:
    """Return the pile of a name.

    Raises:
        ValueError: There is no such pile.
    """
    pile = PILES.get(name) if isinstance(name, str) else None
    if pile is None:
        raise ValueError(
            f"there is no pile {name if not isinstance(name, str) else name[:40]!r}; there are"
            f" stock, w, c1..c{NUM_COLUMNS} and f1..f{NUM_FOUNDATIONS}"
        )
    return pile
