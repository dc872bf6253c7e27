"""Deals: numbers, codes, the shuffle, and the random stream from which resets draw.

A deal number is an integer in [0, 2^35). Numbers below 2^34 are for training; the rest are held
out for benchmarks. A number's code is ``FT1-N-`` followed by its seven base-32 digits (RFC 4648),
most significant first: 21 is ``FT1-N-AAAAAAV``. The app's own shuffle is not published, so the
mapping from numbers to decks is this project's own; it will not change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from qv_env.cards import COPIES, NUM_CARDS, NUM_KINDS, card_text
from qv_env.compiling import compiled, inlined

NUM_DEALS = 1 << 35
HELD_OUT_FROM = 1 << 34  # deals from here on are never drawn by a plain reset

CODE_PREFIX = "FT1-N-"
CODE_DIGITS = 7
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

_32 = np.uint64(32)
_LOW_32 = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


def deal_code(number: int) -> str:
    """Return the code of a deal number, such as ``FT1-N-AAAAAAV`` for 21.

    Raises:
        ValueError: The number is not an integer in [0, 2^35).
    """
    number = _checked_number(number)
    digits = (_ALPHABET[number >> 5 * place & 31] for place in reversed(range(CODE_DIGITS)))
    return CODE_PREFIX + "".join(digits)


def code_of(number: int) -> str:
    """Return the code of a deal number, or ``""`` for -1, an explicit deck."""
    return deal_code(number) if number >= 0 else ""


def parse_code(code: str) -> int:
    """Return the deal number of a code; lower case and surrounding blanks are accepted.

    Raises:
        ValueError: The text is not a code; the message says what is wrong with it.
    """
    if not isinstance(code, str):
        raise ValueError(f"a deal code is text, not {code!r}")
    cleaned = code.strip()
    cleaned = cleaned.upper() if cleaned.isascii() else cleaned  # "ß" would become "SS"
    if not cleaned.startswith(CODE_PREFIX):
        raise ValueError(f"deal code {code!r} does not start with {CODE_PREFIX}")
    digits = cleaned[len(CODE_PREFIX) :]
    if len(digits) != CODE_DIGITS:
        raise ValueError(
            f"deal code {code!r} has {len(digits)} characters after {CODE_PREFIX},"
            f" not {CODE_DIGITS}"
        )
    number = 0
    for digit in digits:
        value = _ALPHABET.find(digit)
        if value < 0:
            raise ValueError(f"deal code {code!r} has {digit!r}, which is none of A..Z and 2..7")
        number = number << 5 | value
    return number


def deal_number(deal: int | str) -> int:
    """Return the deal number of a code or a number.

    Raises:
        ValueError: The value is neither, or outside [0, 2^35).
    """
    return parse_code(deal) if isinstance(deal, str) else _checked_number(deal)


def typed_deal(text: str) -> int:
    """Return the deal number that a person typed: a code, or a number in digits.

    Raises:
        ValueError: The text is neither, or the number is outside [0, 2^35).
    """
    return deal_number(int(text) if re.fullmatch(r"\s*-?[0-9]+\s*", text) else text)


def _checked_number(number: Any) -> int:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)):
        raise ValueError(f"a deal is a code or an integer, not {number!r}")
    if not 0 <= number < NUM_DEALS:
        raise ValueError(f"deal number {number} is outside 0..{NUM_DEALS - 1}")
    return int(number)


_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mixed(x: np.uint64) -> np.uint64:
    """The finalizer of SplitMix64: a bijection whose outputs look unrelated for related inputs."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def split_mix(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Advance SplitMix64 (Steele, Lea and Flood 2014): return its next state and its output."""
    state += _GOLDEN_RATIO
    return state, mixed(state)


@compiled
def shuffle(number: np.uint64, deck: np.ndarray) -> None:
    """Write the deck of a deal number: uint8 (104,), cards 0..51, each twice.

    SplitMix64, seeded with the number as its state, drives a Fisher-Yates shuffle from the last
    card down.
    """
    for i in range(NUM_CARDS):
        deck[i] = i % NUM_KINDS
    state = np.uint64(number)
    for i in range(NUM_CARDS - 1, 0, -1):
        state, x = split_mix(state)
        j = np.int64(((x >> _32) * np.uint64(i + 1)) >> _32)
        deck[i], deck[j] = deck[j], deck[i]


def deck_of(number: int) -> np.ndarray:
    """Return the deck of a deal number: uint8 (104,), cards 0..51 in dealing order.

    The first 40 cards go to the columns (card k to column k mod 10, row k div 10), the rest to the
    stock, where card 40 is drawn first.

    Raises:
        ValueError: The number is outside [0, 2^35).
    """
    deck = np.empty(NUM_CARDS, dtype=np.uint8)
    shuffle(np.uint64(_checked_number(number)), deck)
    return deck


def checked_deck(deck: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return an explicit deck as uint8 (104,), after checking that it holds each card twice.

    Raises:
        ValueError: The deck is not valid; the message says what is wrong and where.
    """
    cards = np.asarray(deck)
    if cards.shape != (NUM_CARDS,):
        raise ValueError(f"a deck has shape ({NUM_CARDS},), not {cards.shape}")
    if cards.dtype.kind not in "iu":
        raise ValueError(f"a deck holds integers, not {cards.dtype}")
    outside = np.flatnonzero((cards < 0) | (cards >= NUM_KINDS))
    if outside.size:
        place = int(outside[0])
        raise ValueError(f"deck[{place}] is {cards[place]}, outside 0..{NUM_KINDS - 1}")
    counts = np.bincount(cards, minlength=NUM_KINDS)
    wrong = np.flatnonzero(counts != COPIES)
    if wrong.size:
        card = int(wrong[0])
        raise ValueError(f"the deck holds {card_text(card)} {counts[card]} times, not {COPIES}")
    return cards.astype(np.uint8)


# The random stream of one environment in compiled code: the state of NumPy's PCG64 (O'Neill 2014,
# XSL-RR 128/64) in four words. With it a batch draws deals in compiled code; single environments
# use NumPy's own generator and get the same numbers.
STREAM = np.dtype(
    [
        ("state_high", np.uint64),
        ("state_low", np.uint64),
        ("increment_high", np.uint64),
        ("increment_low", np.uint64),
    ]
)


@compiled
def _multiply_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of a 64 x 64-bit product."""
    a_high, a_low = a >> _32, a & _LOW_32
    b_high, b_low = b >> _32, b & _LOW_32
    middle = a_high * b_low + ((a_low * b_low) >> _32)
    middle_2 = a_low * b_high + (middle & _LOW_32)
    return a_high * b_high + (middle >> _32) + (middle_2 >> _32)


@compiled
def next_raw(stream: Any) -> np.uint64:
    """Advance a PCG64 stream (a STREAM record) and return its next 64 bits."""
    multiplier_high = np.uint64(0x2360ED051FC65DA4)
    multiplier_low = np.uint64(0x4385DF649FCCF645)
    high, low = stream["state_high"], stream["state_low"]
    product_high = (
        _multiply_high(low, multiplier_low) + high * multiplier_low + low * multiplier_high
    )
    product_low = low * multiplier_low
    new_low = product_low + stream["increment_low"]
    carry = _ONE if new_low < product_low else np.uint64(0)
    new_high = product_high + stream["increment_high"] + carry
    stream["state_high"] = new_high
    stream["state_low"] = new_low
    word = new_high ^ new_low
    turn = new_high >> np.uint64(58)
    return (word >> turn) | (word << ((np.uint64(64) - turn) & np.uint64(63)))


def store_stream(bit_generator: np.random.BitGenerator, stream: Any) -> None:
    """Write the state of a NumPy PCG64 generator into a STREAM record."""
    words: Any = bit_generator.state["state"]
    for name, word in (("state", int(words["state"])), ("increment", int(words["inc"]))):
        stream[f"{name}_high"] = word >> 64
        stream[f"{name}_low"] = word & (1 << 64) - 1


def load_stream(stream: Any) -> np.random.PCG64:
    """Return a NumPy PCG64 generator in the state of a STREAM record."""
    bit_generator = np.random.PCG64(0)
    state: Any = bit_generator.state
    for name, key in (("state", "state"), ("increment", "inc")):
        state["state"][key] = int(stream[f"{name}_high"]) << 64 | int(stream[f"{name}_low"])
    state["has_uint32"] = 0
    bit_generator.state = state
    return bit_generator


@compiled
def pick(raw: np.uint64, start: int, size: int, numbers: np.ndarray) -> Any:
    """Return the deal that 64 random bits choose from a pool.

    Args:
        raw: 64 random bits.
        start: First number of a pool that is a range; unused if ``numbers`` is not empty.
        size: How many deals the pool has, 1..2^35.
        numbers: int64, the pool's numbers, or empty for a range.
    """
    index = np.int64(_multiply_high(raw, np.uint64(size)))
    if numbers.size:
        return numbers[index]
    return start + index
