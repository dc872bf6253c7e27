"""Cards, deal numbers and codes, the shuffle, pools and suites, and the stream of random deals."""

from __future__ import annotations

import hashlib
import random

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qv_env
from qv_env.cards import card_text, cards_text, parse_card, parse_cards
from qv_env.deals import (
    HELD_OUT_FROM,
    NUM_DEALS,
    STREAM,
    checked_deck,
    deal_code,
    deal_number,
    deck_of,
    load_stream,
    mixed,
    next_raw,
    parse_code,
    pick,
    store_stream,
)
from qv_env.suites import SUITE_SIZES, deal_of_seed, deal_pool, suite

from . import reference

NUMBERS = [0, 1, 21, 31, 32, 2**20, 2**34 - 1, 2**34, 2**35 - 1]

# ---------------------------------------------------------------------------------------- cards


def test_card_text_both_ways():
    texts = [rank + suit for suit in "SHDC" for rank in "A23456789TJQK"]
    assert [card_text(card) for card in range(52)] == texts
    assert [parse_card(text) for text in texts] == list(range(52))
    assert parse_cards(" ".join(texts)) == list(range(52))
    assert cards_text(range(52)) == " ".join(texts)


@pytest.mark.parametrize(
    ("text", "card"),
    [("as", 0), (" TD ", 35), ("10D", 35), ("10d", 35), ("kC", 51), ("\tJh\n", 23)],
)
def test_cards_are_read_in_every_usual_writing(text, card):
    assert parse_card(text) == card


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a rank and a suit"),
        ("A", "not a rank and a suit"),
        ("10", "not a rank and a suit"),
        ("ASS", "not a rank and a suit"),
        ("11D", "not a rank and a suit"),
        ("SA", "no rank"),
        ("1D", "no rank"),
        ("0S", "no rank"),
        ("AX", "no suit"),
        ("A♠", "no suit"),
    ],
)
def test_a_bad_card_is_refused_with_a_reason(text, says):
    with pytest.raises(ValueError, match=says) as caught:
        parse_card(text)
    assert repr(text) in str(caught.value)


def test_one_bad_card_among_many_is_named():
    with pytest.raises(ValueError, match="'ZZ'"):
        parse_cards("AS ZZ KC")


@pytest.mark.parametrize("number", [-1, 52, 1000])
def test_a_number_that_is_no_card_has_no_text(number):
    with pytest.raises(ValueError, match=str(number)):
        card_text(number)


# ---------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (0, "FT1-N-AAAAAAA"),
        (21, "FT1-N-AAAAAAV"),
        (26, "FT1-N-AAAAAA2"),
        (31, "FT1-N-AAAAAA7"),
        (32, "FT1-N-AAAAABA"),
        (2**34 - 1, "FT1-N-P777777"),
        (2**34, "FT1-N-QAAAAAA"),
        (2**35 - 1, "FT1-N-7777777"),
    ],
)
def test_codes_are_seven_base_32_digits(number, code):
    assert deal_code(number) == code
    assert parse_code(code) == number


@given(st.integers(0, 2**35 - 1))
def test_every_number_has_its_own_code(number):
    code = deal_code(number)
    assert code == reference.code_of_number(number)
    assert parse_code(code) == deal_number(code) == deal_number(number) == number


@pytest.mark.parametrize("text", ["ft1-n-aaaaaav", "  FT1-N-AAAAAAV", "Ft1-n-AaAaAaV \n"])
def test_codes_are_read_in_lower_case_and_between_blanks(text):
    assert parse_code(text) == 21
    assert deal_number(text) == 21


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "does not start with FT1-N-"),
        ("AAAAAAV", "does not start with FT1-N-"),
        ("FT2-N-AAAAAAV", "does not start with FT1-N-"),
        ("FT1-A-AAAAAAV", "does not start with FT1-N-"),
        ("FT1 N AAAAAAV", "does not start with FT1-N-"),
        ("FT1-N-", "0 characters"),
        ("FT1-N-AAAAAV", "6 characters"),
        ("FT1-N-AAAAAAAV", "8 characters"),
        ("FT1-N- AAAAAV", "' '"),
        ("FT1-N-AAAAAA0", "'0'"),
        ("FT1-N-AAAAAA1", "'1'"),
        ("FT1-N-8AAAAAA", "'8'"),
        ("FT1-N-AAA9AAA", "'9'"),
        ("FT1-N-AAA=AAA", "'='"),
        ("FT1-N-AAAAAAÄ", "'Ä'"),
    ],
)
def test_a_bad_code_is_refused_with_what_is_wrong(code, says):
    with pytest.raises(ValueError, match=says) as caught:
        parse_code(code)
    assert repr(code) in str(caught.value)
    with pytest.raises(ValueError, match=says):
        deal_number(code)


@pytest.mark.parametrize("code", ["FT1-N-AAAAAß", "FT1-N-AAAAAAſ", "FT1-N-AAAAAAı", "FT1-N-AAAAAﬀ"])
def test_letters_that_only_look_like_digits_in_upper_case_are_no_code(code):
    """Upper-casing turns some letters beyond ASCII into digits of the alphabet, ß even into two."""
    with pytest.raises(ValueError, match="deal code"):
        parse_code(code)


@pytest.mark.parametrize("number", [-1, 2**35, 2**64, 1.0, 21.5, True, None, [], np.float64(3)])
def test_a_bad_number_is_refused(number):
    for function in (deal_code, deal_number, deck_of):
        with pytest.raises(ValueError, match="deal"):
            function(number)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int16, np.uint8])
def test_numbers_of_every_integer_type_are_deals(kind):
    assert deal_number(kind(21)) == 21
    assert type(deal_number(kind(21))) is int
    assert deal_code(kind(21)) == "FT1-N-AAAAAAV"
    assert deck_of(kind(21)).tolist() == deck_of(21).tolist()


# -------------------------------------------------------------------------------------- shuffle


@pytest.mark.parametrize(
    ("number", "first", "stock", "last"),
    [
        (0, "5S 9S 2D JC 3H QH KS 6D 4H 4C", "JD 9C 9H 2C", "AC"),
        (21, "JH QD TH KD 5D 3H TD JH JD KH", "5D 4S 6H 4S", "3S"),
    ],
)
def test_the_documented_deals(number, first, stock, last):
    deck = deck_of(number)
    assert cards_text(deck[:10]) == first
    assert cards_text(deck[40:44]) == stock
    assert card_text(deck[-1]) == last


@pytest.mark.parametrize("number", NUMBERS)
def test_decks_are_the_reference_shuffle(number):
    deck = deck_of(number)
    assert deck.dtype == np.uint8
    assert deck.shape == (104,)
    assert deck.tolist() == reference.deck_of_number(number)


def test_many_decks_are_the_reference_shuffle_and_hold_each_card_twice():
    numbers = random.Random(1).sample(range(2**35), 300)
    for number in numbers:
        deck = deck_of(number).tolist()
        assert deck == reference.deck_of_number(number)
        assert sorted(deck) == sorted(2 * list(range(52)))


def test_a_deck_goes_row_by_row_to_the_columns_then_to_the_stock():
    deck = deck_of(5)
    env = qv_env.QuaranteVoleursEnv(stock_visible=True)
    observation, _ = env.reset(options={"deal": 5})
    for k in range(40):
        assert observation["columns"][k % 10, k // 10] == deck[k] + 1
    assert not observation["columns"][:, 4:].any()
    assert (observation["stock"] == deck[40:] + 1).all()


# ------------------------------------------------------------------------------- explicit decks


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_deck_is_any_sequence_of_104_integers(kind):
    deck = reference.deck_of_number(9)
    checked = checked_deck(kind(deck))
    assert checked.dtype == np.uint8
    assert checked.tolist() == deck


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64])
def test_a_deck_may_be_an_array_of_any_integer_type(kind):
    deck = np.array(reference.deck_of_number(9), dtype=kind)
    assert checked_deck(deck).tolist() == deck.tolist()


def test_a_checked_deck_is_a_copy():
    deck = deck_of(9)
    checked = checked_deck(deck)
    checked[0] = 0
    assert deck.tolist() == reference.deck_of_number(9)


def _changed(place: int, value: object) -> list:
    deck: list = reference.deck_of_number(0)
    deck[place] = value
    return deck


@pytest.mark.parametrize(
    ("deck", "says"),
    [
        ([], r"\(104,\)"),
        (reference.deck_of_number(0)[:-1], r"\(104,\)"),
        ([*reference.deck_of_number(0), 0], r"\(104,\)"),
        ([reference.deck_of_number(0)], r"\(104,\)"),
        (None, r"\(104,\)"),
        (7, r"\(104,\)"),
        (_changed(3, 52), r"deck\[3\] is 52"),
        (_changed(103, -1), r"deck\[103\] is -1"),
        (_changed(0, 1.5), "integers"),
        ([float(card) for card in reference.deck_of_number(0)], "integers"),
        ([reference.as_text((0, 0))] * 104, "integers"),
        (np.zeros(104, dtype=bool), "integers"),
        ([0] * 104, "holds AS 104 times"),
        (_changed(0, 5), "times, not 2"),  # deal 0 starts with 5S = 4; now 6S is there thrice
    ],
)
def test_a_bad_deck_is_refused_with_what_is_wrong(deck, says):
    with pytest.raises(ValueError, match=says):
        checked_deck(deck)


# ---------------------------------------------------------------------------------------- pools


def _content(deals) -> tuple[int, int, list[int]]:
    pool = deal_pool(deals)
    assert pool.numbers.dtype == np.int64
    return pool.start, pool.size, pool.numbers.tolist()


def test_pools():
    assert _content(None) == (0, 2**34, [])
    assert _content("5:8") == (5, 3, [])
    assert _content(f"0:{2**35}") == (0, 2**35, [])
    assert _content(f"{2**35 - 1}:{2**35}") == (2**35 - 1, 1, [])
    assert _content("dev-200") == (0, 200, suite("dev-200").tolist())
    assert _content([3, "FT1-N-AAAAAAV", np.int64(9), 3]) == (0, 4, [3, 21, 9, 3])
    assert _content((2**35 - 1,)) == (0, 1, [2**35 - 1])
    assert _content(np.array([4, 2])) == (0, 2, [4, 2])


@pytest.mark.parametrize(
    ("deals", "says"),
    [
        ("", "no suite"),
        ("dev", "no suite 'dev'.*dev-200"),
        ("FT1-N-AAAAAAV", "no suite"),
        (":", "two integers"),
        ("5:", "two integers"),
        ("1:2:3", "two integers"),
        ("a:b", "two integers"),
        ("1.5:3", "two integers"),
        ("5:5", "lo < hi"),
        ("8:5", "lo < hi"),
        ("-1:5", "0 <= lo"),
        (f"0:{2**35 + 1}", str(2**35)),
        ([], "empty"),
        ([1, -1], r"deals\[1\].*-1"),
        ([2**35], r"deals\[0\]"),
        ([1, 2, "FT1-N-AAAAAA0"], r"deals\[2\].*'0'"),
        ([1.0], r"deals\[0\]"),
        ([None], r"deals\[0\]"),
        ([True], r"deals\[0\]"),
        (5, "not 5"),
        (3.5, "3.5"),
        (b"5:8", "5:8"),
        ({"lo": 5}, "lo"),
        (True, "True"),
    ],
)
def test_a_bad_pool_is_refused_with_what_is_wrong(deals, says):
    with pytest.raises(ValueError, match=says):
        deal_pool(deals)
    with pytest.raises(ValueError, match=says):
        qv_env.QuaranteVoleursEnv(deals=deals)
    with pytest.raises(ValueError, match=says):
        qv_env.QuaranteVoleursVectorEnv(2, deals=deals)


@pytest.mark.parametrize(
    ("deals", "numbers"),
    [("5:8", {5, 6, 7}), ([1, "FT1-N-AAAAAAV"], {1, 21}), ([2**35 - 1], {2**35 - 1})],
)
def test_resets_draw_from_the_pool_and_reach_all_of_it(deals, numbers):
    env = qv_env.QuaranteVoleursEnv(deals=deals)
    env.reset(seed=0)
    assert {parse_code(env.reset()[1]["deal"]) for _ in range(60)} == numbers


def test_plain_resets_never_draw_a_held_out_deal():
    for env, count in ((qv_env.QuaranteVoleursEnv(), 1), (qv_env.QuaranteVoleursVectorEnv(50), 50)):
        drawn = []
        for k in range(300 // count):
            deal = env.reset(seed=0 if k == 0 else None)[1]["deal"]
            drawn += [parse_code(deal)] if count == 1 else deal.tolist()
        assert max(drawn) < 2**34
        assert len(set(drawn)) == 300
        assert max(drawn) > 2**33  # the whole half is drawn from: all below has a chance of 2^-300


# --------------------------------------------------------------------------------------- suites

# SHA-256 of a suite's codes, a line each: results under a suite's name stay comparable for ever.
SUITE_DIGESTS = {
    "dev-200": "f0394f9f45454aed6fbe9eb1708efbf3f3e7751bd076d426aeedec9713b2f38d",
    "test-1000": "c5ec955430cbb37f671b8d13f377d1ffabfee78c04e06f21cde015ae3cd1d715",
    "test-10000": "86e7cc246e9f22e325bd95c0adf3c557658c8ba3300a70d6f7448061a607596a",
}


@pytest.mark.parametrize("name", SUITE_DIGESTS)
def test_the_content_of_a_suite_never_changes(name):
    codes = "".join(deal_code(number) + "\n" for number in suite(name))
    assert hashlib.sha256(codes.encode()).hexdigest() == SUITE_DIGESTS[name]


def test_suites_are_cut_from_the_documented_sequence():
    """SplitMix64 from the state that spells "Quarante" in ASCII: upper 34 bits, upper half."""
    outputs = reference.split_mix_64(int.from_bytes(b"Quarante"))
    sequence: dict[int, None] = {}
    while len(sequence) < 11200:
        sequence[2**34 + next(outputs) // 2**30] = None
    numbers = list(sequence)
    assert suite("dev-200").tolist() == numbers[:200]
    assert suite("test-1000").tolist() == numbers[200:1200]
    assert suite("test-10000").tolist() == numbers[1200:]


def test_the_finalizer_of_split_mix_is_the_references():
    for state in (0, 1, 2**63, 2**64 - 1):
        output = next(reference.split_mix_64(state))
        assert mixed(np.uint64((state + 0x9E3779B97F4A7C15) % 2**64)) == output


def test_suites_have_their_sizes_and_are_disjoint_and_held_out():
    assert {name: len(suite(name)) for name in SUITE_SIZES} == SUITE_SIZES
    sizes = {"dev-200": 200, "test-1000": 1000, "test-10000": 10000}
    assert sizes.items() <= SUITE_SIZES.items()
    together = np.concatenate([suite(name) for name in sizes])
    assert len(set(together.tolist())) == 11200
    assert together.min() >= HELD_OUT_FROM == 2**34
    assert together.max() < NUM_DEALS == 2**35


def test_suites_cannot_be_written_to():
    assert suite("dev-200").dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        suite("dev-200")[0] = 1


@pytest.mark.parametrize("name", ["", "dev", "DEV-200", "test-100000"])
def test_a_suite_that_does_not_exist(name):
    with pytest.raises(ValueError, match="dev-200, test-1000, test-10000"):
        suite(name)


# --------------------------------------------------------------------------- the random stream


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63, 2**100])
def test_the_compiled_stream_is_numpys(seed):
    generator = np.random.PCG64(np.random.SeedSequence(seed))
    stream = np.zeros(1, dtype=STREAM)
    store_stream(generator, stream[0])
    for _ in range(200):
        assert int(next_raw(stream[0])) == generator.random_raw()


def test_a_stream_loads_where_it_was_stored():
    generator = np.random.PCG64(7)
    stream = np.zeros(1, dtype=STREAM)
    store_stream(generator, stream[0])
    first = [int(next_raw(stream[0])) for _ in range(5)]
    rest = load_stream(stream[0])
    assert [int(rest.random_raw()) for _ in range(5)] == [
        int(next_raw(stream[0])) for _ in range(5)
    ]
    assert first == [int(generator.random_raw()) for _ in range(5)]
    assert load_stream(stream[0]).state["state"]["inc"] == generator.state["state"]["inc"]


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**35), st.integers(0, 2**35 - 1))
def test_pick_is_a_product_of_big_integers(raw, size, start):
    index = raw * size // 2**64
    nothing = np.zeros(0, dtype=np.int64)
    assert int(pick(np.uint64(raw), start, size, nothing)) == start + index


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**35 - 1), min_size=1, max_size=20))
def test_pick_takes_the_number_at_its_place(raw, numbers):
    index = raw * len(numbers) // 2**64
    chosen = pick(np.uint64(raw), 0, len(numbers), np.array(numbers, dtype=np.int64))
    assert int(chosen) == numbers[index]


SEEDED = {
    0: "FT1-N-KGD7LZ7",
    1: "FT1-N-IGBV56N",
    2: "FT1-N-EF6IDJD",
    3: "FT1-N-BL3I2SP",
    4: "FT1-N-PC3A77O",
}


@pytest.mark.parametrize("seed", [*range(20), 2**32, 2**70])
def test_a_seeded_reset_deals_what_is_documented(seed):
    env = gym.make("qv_env:QuaranteVoleurs-v0")
    generator = np.random.PCG64(np.random.SeedSequence(seed))
    for options in ({"seed": seed}, {}, {}):
        number = int(generator.random_raw()) >> 30
        assert env.reset(**options)[1]["deal"] == deal_code(number)


@pytest.mark.parametrize("seed", SEEDED)
def test_a_seeded_reset_gives_the_same_deal_for_ever(seed):
    assert qv_env.QuaranteVoleursEnv().reset(seed=seed)[1]["deal"] == SEEDED[seed]
    batch = qv_env.QuaranteVoleursVectorEnv(1)
    assert deal_code(batch.reset(seed=seed)[1]["deal"][0]) == SEEDED[seed]


@pytest.mark.parametrize("deals", [None, "dev-200", "5:12", [3, "FT1-N-AAAAAAV"]])
def test_the_deal_of_a_seed_is_the_one_that_a_reset_gives(deals):
    env = qv_env.QuaranteVoleursEnv(deals=deals)
    for seed in (*range(10), 2**40):
        assert deal_code(deal_of_seed(seed, deals)) == env.reset(seed=seed)[1]["deal"]
    assert [deal_code(deal_of_seed(seed)) for seed in SEEDED] == list(SEEDED.values())


def test_a_seed_that_is_none():
    with pytest.raises(gym.error.Error, match="-1"):
        deal_of_seed(-1)


def test_an_unseeded_environment_does_not_repeat_itself():
    deals = {qv_env.QuaranteVoleursEnv().reset()[1]["deal"] for _ in range(5)}
    assert len(deals) == 5
