"""Boards as text: for people, and for reading back."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import qv_env
from qv_env import deck_of, parse_action
from qv_env.rules import REFUSALS, determinize, legal_actions, new_game, play, refusal
from qv_env.text import board_text, parse_state, state_text

from . import reference
from .reference import Table
from .test_rules import expected_state, positions

DATA = Path(__file__).parent / "data"

# A game of deal 0 that has everything: runs, two suits on the foundations, waste cards in columns.
MOVES = (
    "c3>f c2>c7 c2>c6 draw draw draw draw w>c9 draw draw draw draw draw draw w>f c9>f c9>f draw"
    " w>f c1>f w>c1 draw w>c8 draw draw c6>c8 draw draw w>c1 c1>c2 draw c2>c1 draw w>f draw w>c4"
    " draw draw w>c7 draw"
)


def played(number: int, moves: str) -> tuple[np.ndarray, Table]:
    """The same game on both tables after some moves."""
    states, table = new_game(deck_of(number)), Table(reference.deck_of_number(number))
    for name in moves.split():
        action = parse_action(name)
        assert refusal(states[0], action) == 0, name
        play(states[0], action)
        table.play(action)
    return states, table


def names_of_legal(states: np.ndarray) -> set[str]:
    mask = np.zeros(192, dtype=np.int8)
    legal_actions(states[0], mask)
    return {qv_env.action_name(int(action)) for action in np.flatnonzero(mask)}


# ------------------------------------------------------------------------------------ for people


def test_a_board_as_people_see_it():
    states, _ = played(0, MOVES)
    assert board_text(states[0], "FT1-N-AAAAAAA") == (DATA / "board.txt").read_text("utf-8")


def test_a_fresh_board():
    lines = board_text(new_game(deck_of(0))[0]).splitlines()
    assert lines == [
        "score 0  moves 0  foundations 0/104",
        "stock 64  waste 0",
        "",
        " f1   f2   f3   f4   f5   f6   f7   f8",
        "  ♠    ♥    ♦    ♣    ♠    ♥    ♦    ♣",
        "",
        " c1   c2   c3   c4   c5   c6   c7   c8   c9  c10",
        " 5♠   9♠   2♦   J♣   3♥   Q♥   K♠   6♦   4♥   4♣",
        " 4♠   4♦   Q♣   9♦  10♦  10♠   6♥   A♥   3♣  10♥",
        " 5♦   6♠   J♣   4♣   A♠   9♦   A♦   9♠   K♥   K♥",
        " 2♠   Q♠   A♥   6♦   9♥   7♠   K♠   8♠   3♣   K♣",
    ]


def test_colours_are_escapes_around_red_cards_only():
    states, _ = played(0, MOVES)
    plain, colored = board_text(states[0]), board_text(states[0], color=True)
    assert "\x1b" not in plain
    assert "\x1b[31m 4♦\x1b[0m" in colored
    assert "\x1b[31m10♦\x1b[0m" in colored
    assert colored.replace("\x1b[31m", "").replace("\x1b[0m", "") == plain
    cards = [c for c in ("2♠", "3♣", "J♠", "K♣") if f"\x1b[31m {c}" in colored]
    assert cards == []


def test_the_board_does_not_depend_on_the_hidden_order():
    states, _ = played(0, MOVES)
    other = determinize(states, np.random.default_rng(0))
    assert other[0]["stock"].tolist() != states[0]["stock"].tolist()
    assert board_text(other[0]) == board_text(states[0])
    assert state_text(other[0]) == state_text(states[0])


# ---------------------------------------------------------------------------------- there and back


def test_the_text_of_a_game():
    states, table = played(0, MOVES)
    assert state_text(states[0], show_stock=True) == table.text()
    assert state_text(states[0]) == table.text(show_stock=False)
    assert "stock 42 unseen\n" in state_text(states[0])


def test_an_empty_pile_is_an_empty_line_end():
    states, _ = played(0, " ".join(["draw"] * 64))
    text = state_text(states[0], show_stock=True)
    assert "\nstock\n" in text
    assert parse_state(text).tobytes() == states.tobytes()
    assert parse_state(state_text(states[0])).tobytes() == states.tobytes()


@given(positions())
@settings(max_examples=60)
def test_any_position_is_read_back(table):
    states = expected_state(table)
    text = state_text(states[0], show_stock=True)
    assert text == table.text()
    assert parse_state(text).tobytes() == states.tobytes()
    unseen = parse_state(state_text(states[0]))
    assert not unseen[0]["stock"].any()
    unseen["stock"] = states["stock"]
    assert unseen.tobytes() == states.tobytes()


def test_reading_is_generous_with_case_blanks_and_order():
    states, table = played(0, MOVES)
    lines = table.text().splitlines()
    random.Random(0).shuffle(lines)
    text = "\n\n".join("  " + line.lower() for line in lines)
    assert parse_state(text).tobytes() == states.tobytes()


def test_what_a_board_does_not_say_is_zero():
    table = Table(reference.deck_of_number(7))
    text = "".join(line + "\n" for line in table.text().splitlines() if line.startswith("column"))
    states = parse_state(text + "stock 64 unseen")
    expected = new_game(deck_of(7))
    expected["stock"] = 0
    assert states.tobytes() == expected.tobytes()


# -------------------------------------------------------------------- the rules page's layout


def test_the_layout_of_the_rules_page():
    """Ten lines of four cards, the stock not known; what may move is worked out by hand."""
    text = (DATA / "rules_page_layout.txt").read_text()
    states = parse_state(text)
    game = states[0]
    assert (game["stock_size"], game["waste_size"]) == (64, 0)
    assert (game["score"], game["moves"]) == (0, 0)
    assert game["heights"].tolist() == [4] * 10
    assert not game["foundations"].any()
    assert not game["stock"].any()
    tops = [qv_env.card_text(int(card) - 1) for card in game["columns"][:, 3]]
    assert " ".join(tops) == "2H 9H 8H 7D JS QS 4H 3H 4D TC"
    # 2H goes on 3H, 3H on 4H, 8H on 9H, JS on QS; there is no ace to put up.
    assert names_of_legal(states) == {"draw", "c1>c8", "c8>c7", "c3>c2", "c5>c6"}


def test_the_layout_of_the_rules_page_can_be_played_once_determinized():
    states = parse_state((DATA / "rules_page_layout.txt").read_text())
    game = determinize(states, np.random.default_rng(0))[0]
    stock = sorted((game["stock"] - 1).tolist())
    shown = (game["columns"][:, :4].ravel() - 1).tolist()
    assert sorted(stock + shown) == sorted(2 * list(range(52)))
    assert REFUSALS[refusal(game, 0)] == ""
    play(game, 0)
    assert (game["waste_size"], game["stock_size"]) == (1, 63)


# ------------------------------------------------------------------------------------ bad boards

GOOD = Table(reference.deck_of_number(0)).text()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("score 0", "score -1", "line 1.*-1"),
        ("score 0", "score x", "line 1.*'x'"),
        ("score 0", "score", "line 1"),
        ("score 0", "score 2147483648", "line 1.*out of range"),
        ("moves 0", "moves 1.5", r"line 2.*1\.5"),
        ("score 0", "points 0", "line 1.*no such line"),
        ("score 0", "score 0\nscore 0", "line 2.*'score' stands there twice"),
        ("foundations 0", "foundations", "line 3.*8 foundations"),
        ("foundations 0", "foundations 0 0", "line 3.*8 foundations"),
        ("foundations 0", "foundations 14", r"line 3.*0\.\.13"),
        ("foundations 0", "foundations -1", "line 3.*-1"),
        ("foundations 0", "foundations x", "line 3.*'x'"),
        ("foundations 0", "foundations 1", "holds AS 3 times"),
        ("stock JD", "stock", "40 cards face up and 63 in the stock"),
        ("stock JD", "stock JD JD", "line 4.*at most 64"),
        ("stock JD", "stock ZD", "line 4.*'ZD' has no rank"),
        ("stock JD", "stock AS", "holds AS 3 times"),
        ("waste", "waste AS", "AS 3 times|64"),
        ("waste", "waste 5 unseen", "line 5.*'5'"),
        ("column 1 ", "column 2 ", "line 7.*'column 2' stands there twice"),
        ("column 1 ", "column 0 ", "line 6.*no such line"),
        ("column 10 ", "column 11 ", "line 15.*no such line"),
        ("column 1 ", "column x ", "line 6.*no such line"),
        ("column 1 ", "column 1 X", "line 6.*card"),
        ("column 1 5S", "column 1 5S 5S", "lie on"),
        ("column 1 5S 4S 5D 2S", "column 1 5S 4S 5D 2S AS", "AS 3 times"),
        ("column 1 5S 4S 5D 2S", "column 1 5S 4S 5D 2S AH", "AH cannot lie on 2S"),
        ("column 1 5S 4S 5D 2S", "column 1 5S 4S 5D 2S AS AS", "AS cannot lie on AS"),
        ("column 1 5S 4S 5D 2S", "column 1 5S 4S 5D", "39 cards face up and 64"),
        ("column 10 ", "column 10 " + "AS " * 13, "line 15.*at most 16"),
    ],
)
def test_a_bad_board_is_refused_with_what_is_wrong(old, new, says):
    assert old in GOOD
    with pytest.raises(ValueError, match=f"(?s){says}"):
        parse_state(GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("stock", "says"),
    [
        ("65 unseen", r"0\.\.64"),
        ("-1 unseen", "-1"),
        ("63 unseen", "40 cards face up and 63"),
        ("unseen", "stock unseen"),
        ("all unseen", "'all"),
    ],
)
def test_a_bad_count_of_unseen_cards_is_refused(stock, says):
    lines = [f"stock {stock}" if x.startswith("stock") else x for x in GOOD.splitlines()]
    with pytest.raises(ValueError, match=says):
        parse_state("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lacks 'column 1'"),
        ("\n".join(GOOD.splitlines()[:-1]), "lacks 'column 10'"),
        ("\n".join(x for x in GOOD.splitlines() if x[:5] != "stock"), "0 in the stock"),
        ("AS KS QS JS\n" * 10, "AS 10 times"),
        ("AS KS QS JS\n" * 9, "line 1.*no such line"),
        ("AS KS QS JX\n" * 10, "line 1.*'JX'"),
        ("hello", "line 1.*'hello'"),
    ],
)
def test_a_text_that_is_no_board_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        parse_state(text)


def test_stock_and_waste_never_hold_more_than_64_cards_together():
    """The 40 cards dealt to the columns never come to the waste: drawing would overflow it."""
    cards = [(suit, rank) for suit in range(4) for rank in range(13) for _ in range(2)]
    table = Table(reference.deck_of_number(0))
    table.columns = [[] for _ in range(10)]
    table.foundations = [[(suit, rank) for rank in range(4)] for suit in reference.SLOT_SUITS]
    left = [card for card in cards if card[1] >= 4]
    table.waste, table.stock = left[:40], left[40:]
    assert len(table.waste) + len(table.stock) == 72
    with pytest.raises(ValueError, match="64"):
        parse_state(table.text())
    with pytest.raises(ValueError, match="64"):
        parse_state(table.text(show_stock=False))
