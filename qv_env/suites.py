"""Pools of deals: named suites of held-out deals, ranges and lists.

The deals of a suite never change. The suites are consecutive parts of one fixed sequence of
distinct held-out deals (SplitMix64 from a fixed state, each output's upper 34 bits added to 2^34),
so they are disjoint and need no file:

===========  =======  ==========================================
name         deals    for
===========  =======  ==========================================
dev-200          200  tuning, and evaluation during training
test-1000      1,000  tables
test-10000    10,000  tables with narrow intervals
===========  =======  ==========================================

For each deal of the first two suites, a file beside this module records the result of a solver that
knows the stock (``difficulty``). These results divide them into suites by difficulty, in the same
order:

=================================  ========================================================
name                               deals of ``dev-200``, of ``test-1000``
=================================  ========================================================
``dev-easy``, ``test-easy``        won by the solver's first beam (300 wide, no take-backs)
``dev-hard``, ``test-hard``        won with more than that
``dev-unsolved``, ``test-unsolved``  not won: given up, or proven lost
=================================  ========================================================
"""

from __future__ import annotations

import base64
import binascii
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

import numpy as np
from gymnasium.utils import seeding

from qv_env.actions import NUM_ACTIONS
from qv_env.deals import HELD_OUT_FROM, NUM_DEALS, deal_code, deal_number, pick, split_mix

_PARTS = {"dev-200": 200, "test-1000": 1_000, "test-10000": 10_000}  # of the fixed sequence

LABELLED = {"dev": "dev-200", "test": "test-1000"}  # the suites with the solver's results
_CUT_SIZES = {
    "dev-easy": 90,
    "dev-hard": 32,
    "dev-unsolved": 78,
    "test-easy": 388,
    "test-hard": 192,
    "test-unsolved": 420,
}
SUITE_SIZES = _PARTS | _CUT_SIZES

_SEQUENCE_STATE = 0x5175_6172_616E_7465  # "Quarante" in ASCII

Deals: TypeAlias = "str | Sequence[int | str] | None"


def _held_out_sequence(length: int) -> list[int]:
    """Return the first deals of the fixed sequence, of which the suites are parts."""
    state, deals = np.uint64(_SEQUENCE_STATE), dict[int, None]()
    while len(deals) < length:
        state, x = (np.uint64(word) for word in split_mix(state))
        deals[HELD_OUT_FROM + (int(x) >> 30)] = None
    return list(deals)


@cache
def _parts() -> dict[str, np.ndarray]:
    numbers = np.array(_held_out_sequence(sum(_PARTS.values())), dtype=np.int64)
    numbers.flags.writeable = False
    ends = np.cumsum(list(_PARTS.values()))
    return dict(zip(_PARTS, np.split(numbers, ends[:-1]), strict=True))


@cache
def _cut(name: str) -> np.ndarray:
    numbers = np.array([record.deal for record in difficulty(name)], dtype=np.int64)
    numbers.flags.writeable = False
    return numbers


def suite(name: str) -> np.ndarray:
    """Return the deal numbers of a suite: int64 (size,), in the suite's order, read-only.

    Raises:
        ValueError: There is no such suite; the message lists the suites.
    """
    if name not in SUITE_SIZES:
        raise ValueError(f"no suite {name!r}; there are {', '.join(SUITE_SIZES)}")
    return _cut(name) if name in _CUT_SIZES else _parts()[name]


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

    def draw(self, bit_generator: np.random.BitGenerator) -> int:
        """Return the deal number that the next 64 bits of a generator choose."""
        raw = np.uint64(bit_generator.random_raw())
        return int(pick(raw, self.start, self.size, self.numbers))


_NO_NUMBERS = np.zeros(0, dtype=np.int64)


def deal_pool(deals: Deals) -> DealPool:
    """Return the pool that the keyword ``deals`` describes.

    Args:
        deals: ``None`` for the training half (0 to 2^34 - 1), a suite's name, ``"lo:hi"`` for the
            numbers lo to hi - 1, or a list of codes or numbers.

    Raises:
        ValueError: The value is none of these, or empty; the message says what is wrong and where.
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


def deal_of_seed(seed: int, deals: Deals = None) -> int:
    """Return the number of the deal that ``reset(seed=seed)`` gives.

    Args:
        seed: A non-negative integer.
        deals: The pool that the environment draws from, as its keyword ``deals`` names it.

    Raises:
        ValueError: There is no such pool.
        gymnasium.error.Error: The seed is not a non-negative integer.
    """
    generator, _ = seeding.np_random(seed)
    return deal_pool(deals).draw(generator.bit_generator)


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


# --------------------------------------------------------------------------------- difficulty

# A deal that the solver won within this many attempts is easy: a search of the first reachable
# positions, and one narrow beam.
EASY_ATTEMPTS = 2
VERDICTS = ("won", "lost", "given up")
_FIELDS = ("code", "verdict", "attempts", "positions", "score", "cards", "actions")


@dataclass(frozen=True)
class DealRecord:
    """The result of the solver, which knows the stock, for one deal.

    Attributes:
        deal: The deal's number.
        verdict: ``"won"``; ``"lost"``: proven to be lost, even with take-backs; or ``"given up"``:
            not solved within the effort that the data file states, so nothing is known.
        attempts: How many attempts the solver made: a measure of difficulty.
        positions: How many positions the solver examined.
        score: The score after ``actions``, 0..1360.
        cards: The number of cards on the foundations after ``actions``, 0..104.
        actions: The actions of the winning game; if the deal was not won, the actions that put the
            most cards on the foundations, of those found.
    """

    deal: int
    verdict: str
    attempts: int
    positions: int
    score: int
    cards: int
    actions: tuple[int, ...]

    @property
    def level(self) -> str:
        """``"easy"``, ``"hard"`` or ``"unsolved"``: the suite by difficulty of the deal."""
        if self.verdict != "won":
            return "unsolved"
        return "easy" if self.attempts <= EASY_ATTEMPTS else "hard"


def difficulty(name: str) -> tuple[DealRecord, ...]:
    """Return the solver's result for each deal of a suite, in the suite's order.

    Raises:
        ValueError: There are no results for the suite; the message lists the suites with results.
    """
    if name in LABELLED.values():
        return _records(name)
    if name not in _CUT_SIZES:
        known = ", ".join([*LABELLED.values(), *_CUT_SIZES])
        raise ValueError(f"nothing is known about the deals of {name!r}, only of {known}")
    part, _, level = name.partition("-")
    return tuple(record for record in _records(LABELLED[part]) if record.level == level)


@cache
def _records(name: str) -> tuple[DealRecord, ...]:
    path = files("qv_env") / "data" / f"{name}.csv"
    return tuple(parse_records(path.read_text(encoding="utf-8")))


def records_text(records: Iterable[DealRecord], note: str) -> str:
    """Return the content of a data file: a line ``# note``, then CSV with a header row."""
    lines = [f"# {note}", ",".join(_FIELDS)]
    for record in records:
        actions = base64.b64encode(bytes(record.actions)).decode("ascii")
        numbers = f"{record.attempts},{record.positions},{record.score},{record.cards}"
        lines.append(f"{deal_code(record.deal)},{record.verdict},{numbers},{actions}")
    return "\n".join(lines) + "\n"


def parse_records(text: str) -> list[DealRecord]:
    """Parse the text that ``records_text`` returns.

    Raises:
        ValueError: The text is not valid; the message names the line.
    """
    records = []
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if number == 1 or (number == 2 and row == list(_FIELDS)):
            continue
        try:
            code, verdict, *numbers, encoded = row
            attempts, positions, score, cards = map(int, numbers)
            actions = tuple(base64.b64decode(encoded, validate=True))
            if verdict not in VERDICTS or max(actions, default=0) >= NUM_ACTIONS:
                raise ValueError(f"{verdict!r} or an action is unknown")
            deal = deal_number(code)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"line {number}: {error}") from None
        records.append(DealRecord(deal, verdict, attempts, positions, score, cards, actions))
    return records
