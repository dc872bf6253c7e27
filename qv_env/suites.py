"""Pools of deals: named suites of held-out deals, ranges and lists.

A suite's content never changes under its name. The suites are consecutive parts of one fixed
sequence of different held-out deals (SplitMix64 from a fixed state, each output's upper 34 bits
added to 2^34), so they are disjoint and need no file.

===========  =======  ==========================================
name         deals    for
===========  =======  ==========================================
dev-200          200  tuning, and evaluation during training
test-1000      1,000  tables
test-10000    10,000  tables with narrow intervals
===========  =======  ==========================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from qv_env.deals import HELD_OUT_FROM, NUM_DEALS, deal_number, split_mix

SUITE_SIZES = {"dev-200": 200, "test-1000": 1_000, "test-10000": 10_000}

_SEQUENCE_STATE = 0x5175_6172_616E_7465  # "Quarante" in ASCII

Deals: TypeAlias = "str | Sequence[int | str] | None"


def _held_out_sequence(length: int) -> list[int]:
    """The first deals of the fixed sequence that the suites are cut from."""
    state, deals = np.uint64(_SEQUENCE_STATE), dict[int, None]()
    while len(deals) < length:
        state, x = (np.uint64(word) for word in split_mix(state))
        deals[HELD_OUT_FROM + (int(x) >> 30)] = None
    return list(deals)


@cache
def _all_suites() -> dict[str, np.ndarray]:
    numbers = np.array(_held_out_sequence(sum(SUITE_SIZES.values())), dtype=np.int64)
    numbers.flags.writeable = False
    ends = np.cumsum(list(SUITE_SIZES.values()))
    return dict(zip(SUITE_SIZES, np.split(numbers, ends[:-1]), strict=True))


def suite(name: str) -> np.ndarray:
    """Return the deal numbers of a suite: int64 (size,), in the suite's order, read-only.

    Raises:
        ValueError: There is no such suite; the message lists those there are.
    """
    if name not in SUITE_SIZES:
        raise ValueError(f"no suite {name!r}; there are {', '.join(SUITE_SIZES)}")
    return _all_suites()[name]


@dataclass(frozen=True, eq=False)
class DealPool:
    """The deals that a reset may draw: a range, or a list of numbers.

    Attributes:
        start: First number of a range; 0 for a list.
        size: How many deals there are.
        numbers: int64, the list's numbers; empty for a range.
    """

    start: int
    size: int
    numbers: np.ndarray


_NO_NUMBERS = np.zeros(0, dtype=np.int64)


def deal_pool(deals: Deals) -> DealPool:
    """Return the pool that the keyword ``deals`` describes.

    Args:
        deals: ``None`` for the training half (0 to 2^34 - 1), a suite's name, ``"lo:hi"`` for the
            numbers lo to hi - 1, or a list of codes or numbers.

    Raises:
        ValueError: It is none of these, or empty; the message says what is wrong and where.
    """
    if deals is None:
        return DealPool(0, HELD_OUT_FROM, _NO_NUMBERS)
    if isinstance(deals, str):
        if ":" in deals:
            return _range(deals)
        return _list(suite(deals))
    if not isinstance(deals, (list, tuple, range, np.ndarray)):
        raise ValueError(f"deals is a suite's name, 'lo:hi' or a list, not {deals!r}")
    numbers = []
    for place, deal in enumerate(deals):
        try:
            numbers.append(deal_number(deal))
        except ValueError as error:
            raise ValueError(f"deals[{place}]: {error}") from None
    if not numbers:
        raise ValueError("deals is an empty list")
    return _list(np.array(numbers, dtype=np.int64))


def _list(numbers: np.ndarray) -> DealPool:
    return DealPool(0, len(numbers), numbers)


def _range(text: str) -> DealPool:
    ends = text.split(":")
    try:
        low, high = (int(end) for end in ends)
    except ValueError:
        raise ValueError(f"deals {text!r} is not two integers lo:hi") from None
    if not 0 <= low < high <= NUM_DEALS:
        raise ValueError(f"deals {text!r} needs 0 <= lo < hi <= {NUM_DEALS}")
    return DealPool(low, high - low, _NO_NUMBERS)
