"""The features that the table network reads from an observation, in plain torch.

:func:`read_features` turns observations into rows of the network's table and into numbers;
:mod:`agents.networks.layout` describes both. :mod:`agents.networks.kernels` computes the same in
compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agents.networks.layout import (
    ABOVE,
    BELOW,
    HEIGHT,
    HIGHER,
    LOWER,
    NEAR_TOP,
    NEXT_HIGHER,
    NEXT_LOWER,
    NO_CARD,
    NO_NEIGHBOUR,
    ON_TOP,
    OVER,
    PLACES_ELSEWHERE,
    PLACES_IN_COLUMNS,
    SUIT_OF,
    UNSEEN,
    WANTED,
    WASTE_DEPTH,
)
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.rules import CARDS_PER_COLUMN, MAX_COLUMN, STOCK_CARDS

_FAR = 255  # a depth below that of any card: the card is not there


class Features(NamedTuple):
    """The features of n positions.

    Attributes:
        column_cards: int64 (n, 10, 5, 5): the five rows of each column's first four cards and of
            its top card.
        columns: int64 (n, 10, 3): the rows of each column as a whole.
        piles: int64 (n, 9, 5): the rows of the waste's top and of the eight foundations' tops.
        below: int64 (n, 4, 5) with memory, else (n, 0, 5): the rows of the four cards under the
            waste's top, nearest first.
        numbers: float (n, 37), with memory (n, 89): as :mod:`agents.networks.layout` lists them.
    """

    column_cards: Tensor
    columns: Tensor
    piles: Tensor
    below: Tensor
    numbers: Tensor


def read_features(
    observation: Mapping[str, Tensor], memory: bool, dtype: torch.dtype = torch.float32
) -> Features:
    """Read observations.

    Args:
        observation: The ``cards`` observation of n games, any integer or float dtype: ``columns``
            (n, 10, 16), ``foundations`` (n, 8), ``waste_top``, ``waste_size``, ``stock_size``
            (n, 1); with ``memory`` also ``waste`` (n, 64) and ``unseen`` (n, 52).
        memory: Whether ``waste`` and ``unseen`` are read.
        dtype: The dtype of the numbers.

    Returns:
        The features, on the observation's device.
    """
    columns, foundations = observation["columns"].long(), observation["foundations"].long()
    waste_top = observation["waste_top"].long()
    waste_size, stock_size = observation["waste_size"].long(), observation["stock_size"].long()
    n = len(columns)
    waste = observation["waste"].long() if memory else columns.new_zeros(n, 0)
    unseen = observation["unseen"].long() if memory else columns.new_zeros(n, NUM_KINDS)

    heights = (columns != 0).sum(dim=2)
    above = heights.unsqueeze(2) - 1 - torch.arange(MAX_COLUMN, device=columns.device)
    in_columns = _nearest(columns.flatten(1), above.flatten(1))
    below_top = waste_size - 1 - torch.arange(waste.shape[1], device=columns.device)
    in_waste = _nearest(waste, below_top).scatter(1, waste_top, 0)
    by_suit = foundations.unflatten(1, (2, NUM_SUITS))
    table = _Table(by_suit.amin(dim=1), by_suit.amax(dim=1), _places(in_columns, in_waste, unseen))

    tops = columns.gather(2, (heights - 1).clamp(min=0).unsqueeze(2))
    first = columns[:, :, :CARDS_PER_COLUMN]
    suits = torch.arange(NUM_SUITS, device=columns.device).repeat(2)
    grown = torch.where(foundations > 0, suits * NUM_RANKS + foundations, 0)
    depths = waste_size - 2 - torch.arange(WASTE_DEPTH if memory else 0, device=columns.device)
    below = torch.where(depths >= 0, waste.gather(1, depths.clamp(min=0)), 0)
    empty = (heights == 0).sum(dim=1, keepdim=True)
    numbers = [
        table.lower.to(dtype) / NUM_RANKS,
        table.higher.to(dtype) / NUM_RANKS,
        waste_size.to(dtype) / STOCK_CARDS,
        stock_size.to(dtype) / STOCK_CARDS,
        _next_cards(table, in_columns, in_waste, dtype),
        empty.to(dtype) / 3,
        (empty > 0).to(dtype),
        _over_lower(waste).unsqueeze(1).to(dtype) / 16,
        *([unseen.to(dtype)] if memory else []),
    ]
    return Features(
        column_cards=table.rows(torch.cat([first, tops], dim=2)),
        columns=_column_rows(table, columns, heights, above),
        piles=table.rows(torch.cat([waste_top, grown], dim=1)),
        below=table.rows(below),
        numbers=torch.cat(numbers, dim=1),
    )


class _Table(NamedTuple):
    """The parts of a position that determine the rows of a card.

    Attributes:
        lower, higher: int64 (n, 4): heights of each suit's lower and higher foundation.
        places: int64 (n, 55): the place of each card, by card id; then NO_NEIGHBOUR and NO_CARD.
    """

    lower: Tensor
    higher: Tensor
    places: Tensor

    def distances(self, cards: Tensor) -> tuple[Tensor, Tensor]:
        """The distances of cards to their suit's foundations, -13..12; 13 for no card."""
        suits = _constant(SUIT_OF, cards).clamp(max=NUM_SUITS - 1)
        ranks = (cards - 1) % NUM_RANKS
        lower, higher = (ranks - _of(heights, suits) for heights in (self.lower, self.higher))
        return torch.where(cards > 0, lower, NUM_RANKS), torch.where(cards > 0, higher, NUM_RANKS)

    def rows(self, cards: Tensor) -> Tensor:
        """The five rows of cards (ids, 0 for none): int64 (*cards.shape, 5)."""
        lower, higher = self.distances(cards)
        return torch.stack(
            [
                cards,
                LOWER + NUM_RANKS + lower,
                HIGHER + NUM_RANKS + higher,
                ABOVE + _of(self.places, _constant(NEXT_HIGHER, cards)),
                BELOW + _of(self.places, _constant(NEXT_LOWER, cards)),
            ],
            dim=-1,
        )


def _constant(table: np.ndarray, index: Tensor) -> Tensor:
    """Entries of a constant table."""
    return torch.from_numpy(table.astype(np.int64)).to(index.device)[index]


def _of(table: Tensor, index: Tensor) -> Tensor:
    """Entries of a table with one row per game: ``table[i, index[i, ...]]``."""
    return table.gather(1, index.flatten(1)).view_as(index)


def _nearest(cards: Tensor, above: Tensor) -> Tensor:
    """How many cards lie above the nearer copy of each card id: int64 (n, 53), _FAR for none.

    Args:
        cards: Card ids, (n, m); the result for id 0, which is padding, has no meaning.
        above: How many cards lie above each, (n, m).
    """
    far = cards.new_full((len(cards), NUM_KINDS + 1), _FAR)
    return far.scatter_reduce(1, cards, above, "amin")


def _places(in_columns: Tensor, in_waste: Tensor, unseen: Tensor) -> Tensor:
    """The place of each card: int64 (n, 55); see :class:`_Table`."""
    column = torch.where(in_columns == _FAR, 0, (in_columns + 1).clamp(max=PLACES_IN_COLUMNS - 1))
    elsewhere = torch.nn.functional.pad(torch.where(unseen > 0, UNSEEN, 0), (1, 0))
    elsewhere = torch.where(in_waste < WASTE_DEPTH, NEAR_TOP, elsewhere)
    elsewhere = torch.where(in_waste == 0, ON_TOP, elsewhere)
    others = column.new_tensor([NO_NEIGHBOUR, NO_CARD]).expand(len(column), 2)
    return torch.cat([PLACES_ELSEWHERE * column + elsewhere, others], dim=1)


def _next_cards(table: _Table, in_columns: Tensor, in_waste: Tensor, dtype: torch.dtype) -> Tensor:
    """Where the cards lie that foundations take next: float (n, 24), three numbers each."""
    heights = torch.stack([table.lower, table.higher], dim=2)
    suits = torch.arange(NUM_SUITS, device=heights.device).view(1, -1, 1)
    cards = (suits * NUM_RANKS + heights + 1).clamp(max=NUM_KINDS)
    missing = torch.where(heights < NUM_RANKS, 0, _FAR)  # a full foundation takes none
    above = [torch.maximum(_of(where, cards), missing) for where in (in_columns, in_waste)]
    near = [torch.where(far == _FAR, 0, 1 / (1 + far.to(dtype))) for far in above]
    neither = (heights < NUM_RANKS) & (above[0] == _FAR) & (above[1] == _FAR)
    return torch.stack([*near, neither.to(dtype)], dim=3).flatten(1)


def _column_rows(table: _Table, columns: Tensor, heights: Tensor, above: Tensor) -> Tensor:
    """The rows of columns as a whole: int64 (n, 10, 3)."""
    lower, higher = table.distances(columns)
    wanted = (lower == 0) | (higher == 0)
    nearest = torch.where(wanted, above, MAX_COLUMN).amin(dim=2)
    rows = [HEIGHT + heights, WANTED + nearest, OVER + _over_lower(columns)]
    return torch.stack(rows, dim=2)


def _over_lower(piles: Tensor) -> Tensor:
    """How many cards of each pile (..., size) lie, anywhere, above a lower one of their suit."""
    suits = _constant(SUIT_OF, piles)
    upper, under = piles.unsqueeze(-1), piles.unsqueeze(-2)
    inverted = (suits.unsqueeze(-1) == suits.unsqueeze(-2)) & (under < upper)
    return inverted.tril(diagonal=-1).any(dim=-1).sum(dim=-1)
