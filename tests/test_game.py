"""The table for people: gestures, refusals, undo, records, saves, the terminal."""

from __future__ import annotations

import copy
import io
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qv_env.actions import ACTION_NAMES, NUM_ACTIONS, parse_action
from qv_env.cards import card_text, parse_cards
from qv_env.deals import HELD_OUT_FROM, deal_code, deck_of, parse_code
from qv_env.play import game as module
from qv_env.play.game import PILES, UNDO_LIMIT, Game, random_deal
from qv_env.play.terminal import play_in_terminal
from qv_env.playthroughs.playthrough import Playthrough, PlaythroughError, read_playthrough
from qv_env.rules import REFUSALS, STOCK_CARDS, legal_actions, new_game, play
from qv_env.text import board_text
from tests import golden

WON = Path(__file__).parent / "data" / "won.json"
STOCK_EMPTY, NOTHING, FOUNDATION, COLUMN, ACE = REFUSALS[1:]
BOTH = f"{FOUNDATION}; {COLUMN}"
EVERYWHERE = tuple(PILES)


def table(columns: str, waste: str = "", foundations: str = "0 0 0 0 0 0 0 0", **settings) -> Game:
    """A game that stands like this: "5S 4S | 9H | ..." from the left, and some cards in the stock.

    Few of these tables can come up in a game; a gesture looks at the tops of the piles only.
    """
    game = Game(0, **settings)
    state = game._history.states[0]
    for c in range(10):
        state["heights"][c], state["columns"][c] = 0, 0
    for c, text in enumerate(columns.split("|")):
        cards = np.array(parse_cards(text), dtype=np.uint8)
        state["heights"][c] = len(cards)
        state["columns"][c, : len(cards)] = cards + 1
    cards = np.array(parse_cards(waste), dtype=np.uint8)
    state["waste_size"] = len(cards)
    state["waste"][: len(cards)] = cards + 1
    state["foundations"] = [int(height) for height in foundations.split()]
    return game


def won_game() -> Game:
    game = Game(read_playthrough(WON).deal)
    for action in read_playthrough(WON).actions:
        assert game.play(action).moved
    return game


def legal(game: Game) -> list[int]:
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    legal_actions(game._history.states[0], mask)
    return np.flatnonzero(mask).tolist()


def bytes_of(game: Game) -> bytes:
    return game._history.states.tobytes()


def name(outcome) -> str:
    assert outcome.moved
    assert outcome.refusal == ""
    return ACTION_NAMES[outcome.action]


def refused(game: Game, outcome) -> str:
    assert not outcome.moved
    assert outcome[:2] == (None, 0)
    return outcome.refusal


# --------------------------------------------------------------------------------------- deals


def test_a_random_deal_is_of_the_training_half():
    games = [Game() for _ in range(50)]
    numbers = {parse_code(game.deal) for game in games}
    assert len(numbers) == 50
    assert max(numbers) < HELD_OUT_FROM
    assert min(parse_code(random_deal(held_out=True)) for _ in range(50)) >= HELD_OUT_FROM
    assert len({game.identity for game in games}) == 50


@pytest.mark.parametrize("deal", ["FT1-N-AAAAAAV", " ft1-n-aaaaaav\n", 21])
def test_a_deal_by_code_or_number(deal):
    game = Game(deal)
    assert (game.deal, game.view()["deal"], game.deck) == ("FT1-N-AAAAAAV",) * 2 + (None,)
    assert bytes_of(game) == new_game(deck_of(21)).tobytes()


def test_an_explicit_deck():
    for deck in (deck_of(21), deck_of(21).tolist()):
        game = Game(deck=deck)
        assert (game.deal, game.view()["deal"]) == ("", "")
        assert bytes_of(game) == bytes_of(Game(21))
        game.play("draw")
        assert Game.loads(game.dumps()).view() == game.view()
        assert game.playthrough().deck == tuple(deck_of(21).tolist())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deal": "FT1-N-AAAAAA1"}, "'1', which is none of"),
        ({"deal": "FT1-N-AAAAAA"}, "6 characters"),
        ({"deal": "AAAAAAA"}, "does not start with FT1-N-"),
        ({"deal": 1 << 35}, "outside"),
        ({"deal": True}, "a code or an integer"),
        ({"deck": [0] * 104}, "AS 104 times"),
        ({"deck": [1, 2]}, "2 cards"),
        ({"deal": 0, "deck": deck_of(0)}, "both a deal and a deck"),
    ],
)
def test_what_is_no_deal(arguments, message):
    with pytest.raises(ValueError, match=message):
        Game(**arguments)
    with pytest.raises(ValueError, match=message):
        Game(0).new(**arguments)


def test_a_new_game_has_the_settings_of_the_last_one():
    game = Game(5, automatic_placing=True, double_clicks=False)
    game.play("draw")
    other = game.new("FT1-N-AAAAAAV")
    assert (other.deal, other.automatic_placing, other.double_clicks) == (
        deal_code(21),
        True,
        False,
    )
    assert (other.moves, game.moves) == (0, 1)
    assert other.identity != game.identity
    assert game.new().deal != game.new().deal


# ----------------------------------------------------------------------------------------- tap


def test_a_tap_sends_a_card_to_a_foundation():
    game = table("5D AS | 9H", waste="AH")
    assert name(game.tap("c1")) == "c1>f"
    assert name(game.tap("w")) == "w>f"
    assert [pile["top"] for pile in game.view()["foundations"]] == ["AS", "AH"] + [""] * 6
    assert game.score == 20


def test_a_tap_moves_a_columns_card_to_foundations_only():
    game = table("5D | 6D | 9H")
    assert refused(game, game.tap("c1")) == FOUNDATION
    assert refused(game, game.tap("c4")) == NOTHING


def test_a_tap_on_the_waste_goes_to_a_column_where_no_foundation_accepts():
    game = table("9H | 6D | 9C", waste="5D")
    outcome = game.tap("w")
    assert (name(outcome), outcome.points) == ("w>c2", 5)


def test_of_two_columns_a_tap_takes_the_longer_and_of_equal_ones_the_left():
    assert name(table("6D | 2C 6D | 9H", waste="5D").tap("w")) == "w>c2"
    assert name(table("9H | 2C 6D | 3C 6D", waste="5D").tap("w")) == "w>c2"


def test_a_tap_on_the_waste_takes_an_empty_column_last():
    full = "9H | 6D | 9C | 9H | 9C | 9S | 9S | 9D | 9D"
    assert name(table(f"{full} |", waste="5D").tap("w")) == "w>c2"
    assert name(table(f"{full} |", waste="5C").tap("w")) == "w>c10"
    game = table(f"{full} | TS", waste="5C")
    assert refused(game, game.tap("w")) == BOTH


def test_where_all_columns_show_aces_their_rule_is_named():
    aces = "AS | AS | AH | AH | AD | AD | AC | AC | AC |"
    game = table(f"{aces} AC", waste="5D")
    assert refused(game, game.tap("w")) == f"{FOUNDATION}; {ACE}"
    game = table(f"{aces} 9H", waste="5D")
    assert refused(game, game.tap("w")) == BOTH


def test_a_tap_on_the_stock_draws():
    game = Game(0)
    assert name(game.tap("stock")) == "draw"
    assert game.view()["waste"] == ["JD"]
    assert (game.view()["stock"], game.moves, game.score) == (63, 1, 0)
    for _ in range(63):
        assert game.tap("stock").moved
    assert refused(game, game.tap("stock")) == STOCK_EMPTY
    assert "stock" not in game.view()["accepting"]


def test_a_tap_on_a_foundation_takes_nothing_back():
    game = table("9H", foundations="3 0 0 0 0 0 0 0")
    assert refused(game, game.tap("f1")) == module.DRAG_TO_TAKE_BACK
    assert refused(game, game.double_click("f1")) == module.DRAG_TO_TAKE_BACK
    assert refused(game, game.tap("f2")) == NOTHING


# -------------------------------------------------------------------------------- double click


def test_a_double_click_goes_to_a_foundation_first():
    assert name(table("2S | 3S | 9H", foundations="1 0 0 0 0 0 0 0").double_click("c1")) == "c1>f"


def test_a_double_click_takes_the_longest_column():
    assert name(table("6D | 5D | 9C 6D").double_click("c2")) == "c2>c3"
    assert name(table("9C 6D | 5D | 9C 6D").double_click("c2")) == "c2>c1"
    assert name(table("6D | 9C 6D | 9H", waste="5D").double_click("w")) == "w>c2"


def test_a_double_click_takes_the_leftmost_empty_column_last():
    assert name(table("6D | | 9H 5D").double_click("c3")) == "c3>c1"
    assert name(table("6C | | 9H 5D | | 9C").double_click("c3")) == "c3>c2"
    assert name(table("6C | | 9H | | 9C", waste="5D").double_click("w")) == "w>c2"
    # A column's only card, too, as the table of the app's features has it.
    assert name(table("6C | | 5D").double_click("c3")) == "c3>c2"


def test_a_double_click_on_the_stock_draws_one_card():
    game = Game(0)
    assert name(game.double_click("stock")) == "draw"
    assert game.view()["stock"] == 63


def test_a_double_click_that_nothing_accepts():
    game = table("9H | 9H | 9C | 9C | 9D | 9D | 9S | 9S | KS | KS", waste="5D")
    assert refused(game, game.double_click("c1")) == BOTH
    assert refused(game, game.double_click("w")) == BOTH
    assert refused(table("9H"), table("9H").double_click("c2")) == NOTHING


def test_double_clicks_can_be_switched_off():
    game = table("6D | 5D", double_clicks=False)
    assert refused(game, game.double_click("c2")) == module.NO_DOUBLE_CLICKS
    game.double_clicks = True
    assert game.double_click("c2").moved


# ---------------------------------------------------------------------------------------- drop


def test_a_card_goes_where_it_is_dropped():
    game = table("6D | 5D | 9C 6D | | AS", waste="AH")
    assert name(game.drop("c2", "c1")) == "c2>c1"
    assert name(game.drop("c1", "c4")) == "c1>c4"
    assert name(game.drop("w", "c2")) == "w>c2"
    assert name(game.drop("c5", "f1")) == "c5>f"
    assert name(game.drop("c2", "f")) == "c2>f"
    assert name(game.drop("f1", "c2")) == "f1>c2"


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        ("c1", "c2", COLUMN),  # same rank step, other suit
        ("c1", "c3", COLUMN),  # same suit, two ranks higher
        ("c1", "c5", COLUMN),  # same suit, one rank lower
        ("w", "c1", COLUMN),
        ("c1", "c4", ACE),
        ("w", "c4", ACE),
        ("f1", "c4", ACE),
        ("f1", "c1", COLUMN),
        ("c1", "f1", FOUNDATION),
        ("c1", "f3", FOUNDATION),
        ("c1", "f", FOUNDATION),
        ("w", "f1", FOUNDATION),  # the next rank, but not the suit
        ("w", "f6", FOUNDATION),  # the suit, but the other slot
        ("c10", "c1", NOTHING),
        ("c10", "f1", NOTHING),
        ("c10", None, NOTHING),
        ("f8", "c1", NOTHING),
        ("f1", "f5", module.NOT_BETWEEN_FOUNDATIONS),
        ("f1", "f", module.NOT_BETWEEN_FOUNDATIONS),
        ("c1", "w", module.NOT_ONTO_STOCK_OR_WASTE),
        ("c1", "stock", module.NOT_ONTO_STOCK_OR_WASTE),
        ("w", "stock", module.NOT_ONTO_STOCK_OR_WASTE),
        ("f1", "w", module.NOT_ONTO_STOCK_OR_WASTE),
        ("stock", "c1", module.STOCK_TO_WASTE_ONLY),
        ("stock", "f1", module.STOCK_TO_WASTE_ONLY),
        ("stock", "f", module.STOCK_TO_WASTE_ONLY),
    ],
)
def test_every_refused_drop_names_its_rule_and_changes_nothing(source, target, rule):
    columns = "7D | 8C | 9D | AH | 6D | KS | KS | KH | KH"
    game = table(columns, waste="3H", foundations="2 2 0 0 1 0 0 0")
    before = bytes_of(game), game.view()
    assert refused(game, game.drop(source, target)) == rule
    assert (bytes_of(game), game.view()) == before


def test_a_drop_beside_all_piles_or_where_it_was_is_no_move_and_no_refusal():
    for automatic in (False, True):
        game = table("6D | 5D", foundations="1 0 0 0 0 0 0 0", automatic_placing=automatic)
        assert refused(game, game.drop("c1", "c1")) == ""
        assert refused(game, game.drop("f1", None)) == ""
        assert refused(game, game.drop("f1", "f1")) == ""
        assert refused(game, game.drop("stock", None)) == ""
    game.automatic_placing = False
    assert refused(game, game.drop("c2", None)) == ""


def test_the_left_of_two_foundations_gets_the_card_wherever_it_is_dropped():
    for target in ("f1", "f5", "f"):
        game = table("9H AS", waste="9C")
        assert name(game.drop("c1", target)) == "c1>f"
        assert game.view()["last_move"]["target"] == "f1"
    # Where only the right one accepts it, it is that one which it has to be dropped on.
    game = table("9H AS", foundations="1 0 0 0 0 0 0 0")
    assert refused(game, game.drop("c1", "f1")) == FOUNDATION
    assert game.accepting("c1")[0] == "f5"
    assert name(game.drop("c1", "f5")) == "c1>f"
    assert game.view()["last_move"] == {
        "action": 12,
        "name": "c1>f",
        "source": "c1",
        "target": "f5",
    }


def test_the_stocks_card_can_be_dropped_on_the_waste():
    game = Game(0)
    assert name(game.drop("stock", "w")) == "draw"
    assert game.view()["last_move"] == {
        "action": 0,
        "name": "draw",
        "source": "stock",
        "target": "w",
    }


def test_taking_back_costs_points_and_never_below_zero():
    game = table("AS | 9H | KD 3S | AH", waste="2S")
    for pile in ("c1", "w", "c4"):
        game.tap(pile)
    assert game.score == 30
    outcome = game.drop("f1", "c3")
    assert (name(outcome), outcome.points, game.score) == ("f1>c3", -15, 15)
    assert game.drop("f1", "c1").points == -15
    assert game.drop("f2", "c4").points == 0
    assert [game.undo().points for _ in range(3)] == [0, 15, 15]
    assert game.score == 30


@pytest.mark.parametrize("target", ["c1", "c5", "c9", "f2", "w", "stock", None])
def test_automatic_placing_sends_a_card_to_the_best_place(target):
    game = table("6D | 5D | 9C 6D | AS | ", waste="4C", automatic_placing=True)
    assert name(game.drop("c2", target)) == "c2>c3"
    assert name(game.drop("c4", target)) == "c4>f"
    if target != "w":
        assert name(game.drop("w", target)) == "w>c2"
    # Off at first.
    assert Game(0).automatic_placing is False


def test_automatic_placing_names_the_rule_of_the_pile_the_card_was_dropped_on():
    columns = "9H | 9H | 9C | 9C | 9D | 9D | 9S | 9S | AS | AS"
    game = table(columns, automatic_placing=True)
    assert refused(game, game.drop("c1", "c2")) == COLUMN
    assert refused(game, game.drop("c1", "c9")) == ACE
    assert refused(game, game.drop("c1", "f2")) == FOUNDATION
    assert refused(game, game.drop("c1", "w")) == module.NOT_ONTO_STOCK_OR_WASTE
    assert refused(game, game.drop("c1", None)) == BOTH


def test_automatic_placing_takes_a_card_back_only_onto_a_column():
    columns = "3S | 9C 3S | 9H | 9H | 9C | 9D | 9D | 9S | KH |"
    game = table(columns, foundations="2 0 0 0 0 0 0 0", automatic_placing=True)
    assert refused(game, game.drop("f1", "f5")) == module.NOT_BETWEEN_FOUNDATIONS
    assert refused(game, game.drop("f1", "w")) == module.NOT_ONTO_STOCK_OR_WASTE
    assert refused(game, game.drop("f1", None)) == ""
    assert name(game.drop("f1", "c9")) == "f1>c2"
    assert name(game.drop("stock", "w")) == "draw"


# -------------------------------------------------------------------------------- placing help


def test_the_placing_help_names_what_accepts_a_card_the_best_first():
    game = table("6D | 5D | 9C 6D | | AS |", waste="3C", foundations="0 0 0 1 0 0 0 0")
    assert game.accepting("c2") == ("c3", "c1", "c4", "c6", "c7", "c8", "c9", "c10")
    assert game.accepting("c5") == ("f1", "c4", "c6", "c7", "c8", "c9", "c10")
    assert game.accepting("w") == ("c4", "c6", "c7", "c8", "c9", "c10")
    assert game.accepting("f4") == ("c4", "c6", "c7", "c8", "c9", "c10")
    assert game.accepting("stock") == ("w",)
    assert game.accepting("c4") == game.accepting("f1") == ()
    assert set(game.view()["accepting"]) == {"stock", "w", "f4", "c1", "c2", "c3", "c5"}


@given(st.integers(0, 2**34), st.lists(st.integers(0, 10**6), max_size=60))
def test_what_the_placing_help_names_is_exactly_what_a_drop_does(deal, choices):
    game = Game(deal)
    for choice in choices:
        actions = legal(game)
        game.play(actions[choice % len(actions)])
    assert len(legal(game)) == sum(len(found) for found in game.view()["accepting"].values())
    for source in EVERYWHERE:
        for target in EVERYWHERE:
            other = copy.deepcopy(game)
            named = target in game.accepting(source)
            outcome = other.drop(source, target)
            if named:
                assert outcome.moved
                assert other.view()["last_move"]["source"] == source
                assert other.view()["last_move"]["target"] == target
            elif outcome.moved:  # the right one of two foundations that both accept it
                assert other.view()["last_move"]["target"] == f"f{int(target[1:]) - 4}"
        best = game.accepting(source)[:1]
        other = copy.deepcopy(game)
        if source[0] != "f":
            assert other.double_click(source).moved == bool(best)
            assert not best or other.view()["last_move"]["target"] == best[0]


@pytest.mark.parametrize(
    "pile", ["", "c0", "c11", "f9", "f", "C1", "waste", None, 3, ["c1"], "x" * 99]
)
def test_what_is_no_pile(pile):
    game = Game(0)
    before = game.dumps()
    for gesture in (
        game.tap,
        game.double_click,
        game.accepting,
        lambda pile: game.drop(pile, "c1"),
        lambda pile: game.drop("c1", "none such" if pile in (None, "f") else pile),
    ):
        with pytest.raises(ValueError, match=r"there is no pile .{1,50}; there are stock, w"):
            gesture(pile)
    assert game.dumps() == before


def test_actions_by_id_and_name():
    game = Game(0)
    assert name(game.play(0)) == "draw"
    assert name(game.play(" DRAW ")) == "draw"
    assert refused(game, game.play("f1>c1")) == NOTHING
    for wrong in (192, -1, "c1>c1", "undo"):
        with pytest.raises(ValueError, match="action"):
            game.play(wrong)
    assert game.moves == 2


# ---------------------------------------------------------------------------------------- undo


def test_the_last_hundred_actions_can_be_undone_and_not_one_more():
    solution = read_playthrough(WON)
    game = Game(solution.deal)
    history = [bytes_of(game)]
    for action in solution.actions[:150]:
        game.play(action)
        history.append(bytes_of(game))
    assert (game.undoable, game.view()["can_undo"]) == (UNDO_LIMIT, True)
    for step in range(149, 49, -1):
        outcome = game.undo()
        assert outcome.action == solution.actions[step]
        assert bytes_of(game) == history[step]
    assert (game.undoable, game.view()["can_undo"]) == (0, False)
    assert refused(game, game.undo()) == module.UNDO_EXHAUSTED
    assert bytes_of(game) == history[50]
    assert (game.moves, game.undos) == (150, 100)
    assert game.actions == solution.actions[:50]
    assert game.view()["last_move"]["action"] == solution.actions[49]
    # What is played now can be undone again, and no further than that.
    for action in solution.actions[50:60]:
        game.play(action)
    assert (game.undoable, game.moves) == (10, 160)


def test_nothing_to_undo():
    game = Game(0)
    assert refused(game, game.undo()) == module.NOTHING_TO_UNDO
    game.tap("stock")
    assert name(game.undo()) == "draw"
    assert refused(game, game.undo()) == module.NOTHING_TO_UNDO
    assert (game.moves, game.undos) == (1, 1)


def test_the_score_comes_back_and_the_move_counter_does_not_go_down():
    game = Game(golden.DEAL)
    scores = [0]
    for action in golden.chosen_actions(golden.DEAL, golden.SEED, golden.MOVES_PLAYED):
        game.play(action)
        scores.append(game.score)
    assert any(after < before for before, after in pairwise(scores))
    for k in range(golden.MOVES_PLAYED):
        before, outcome = game.score, game.undo()
        assert game.score == scores[-2 - k] == before + outcome.points
        assert game.view()["moves"] == golden.MOVES_PLAYED
    assert game.view()["score"] == 0
    assert game.view()["last_move"] is None


def test_refusals_count_nothing_and_cannot_be_undone():
    game = Game(0)
    game.tap("stock")
    for _ in range(3):
        game.play("f1>c1")
    assert (game.moves, game.undoable) == (1, 1)


# ------------------------------------------------------------------------------------- the end


def test_a_won_game_takes_no_more_moves_but_can_be_undone():
    game = won_game()
    view = game.view()
    assert (view["won"], view["stuck"], view["foundation_cards"]) == (True, False, 104)
    assert view["accepting"] == {}
    assert (view["score"], view["moves"]) == (read_playthrough(WON).score, len(game.actions))
    assert [pile["top"] for pile in view["foundations"]] == ["KS", "KH", "KD", "KC"] * 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", game.finished)
    before = bytes_of(game)
    assert refused(game, game.drop("f1", "c1")) == module.GAME_WON
    assert refused(game, game.play("f1>c1")) == module.GAME_WON
    assert bytes_of(game) == before
    last = game.undo().action
    assert (game.won, game.finished) == (False, None)
    game.play(last)
    assert game.won
    assert game.finished
    assert game.moves == len(game.actions) + 1


def test_a_stuck_game_is_told_as_such():
    game = Game(0)
    while game.view()["stock"]:
        game.tap("stock")
    columns = "9H | 9H | 9C | 9C | 9D | 9D | 9S | 9S | KH | KH"
    game._history.states = table(columns, waste="5D")._history.states
    assert not game.stuck
    game._history.states[0]["stock_size"] = 0
    assert (game.stuck, game.view()["stuck"], game.view()["won"]) == (True, True, False)
    assert refused(game, game.tap("stock")) == STOCK_EMPTY
    assert game.undo().moved  # as people do then


def test_a_game_has_an_end_even_for_who_shuffles_for_ever(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 3)
    game = Game(0)
    for _ in range(3):
        game.tap("stock")
    assert refused(game, game.tap("stock")) == module.TOO_MANY_ACTIONS
    assert game.view()["accepting"] == {}
    game.undo()
    assert game.tap("stock").moved
    text = game.dumps()
    monkeypatch.setattr(module, "MAX_ACTIONS", 2)
    with pytest.raises(PlaythroughError, match="at most"):
        Game.loads(text)


# --------------------------------------------------------------------------------------- views


def test_a_view_holds_all_that_lies_open():
    game = Game(0)
    view = game.view()
    assert view["deal"] == "FT1-N-AAAAAAA"
    assert [column[0] for column in view["columns"]] == [
        card_text(card) for card in deck_of(0)[:10].tolist()
    ]
    assert view["foundations"][5] == {"suit": "H", "cards": 0, "top": ""}
    assert "".join(pile["suit"] for pile in view["foundations"]) == "SHDCSHDC"
    assert (view["waste"], view["stock"], view["score"], view["moves"]) == ([], 64, 0, 0)
    assert (view["last_move"], view["undoable"], view["can_undo"]) == (None, 0, False)
    assert (view["automatic_placing"], view["double_clicks"]) == (False, True)
    for _ in range(3):
        game.tap("stock")
    assert game.view()["waste"] == ["JD", "9C", "9H"]
    assert json.loads(json.dumps(game.view())) == game.view()


@given(st.integers(0, 2**34), st.lists(st.integers(0, 10**6), max_size=80), st.randoms())
def test_a_view_depends_on_nothing_hidden(deal, choices, random):
    game = Game(deck=deck_of(deal))
    for choice in choices:
        actions = legal(game)
        game.play(actions[choice % len(actions)])
    drawn = STOCK_CARDS - game.view()["stock"]
    deck = deck_of(deal).tolist()
    hidden = deck[40 + drawn :]
    random.shuffle(hidden)
    other = Game(deck=deck[: 40 + drawn] + hidden)
    for action in game.actions:
        other.play(action)
    assert other.view() == game.view()
    assert other.text() == game.text()


def test_the_board_as_text_has_the_move_counter():
    game = Game(21)
    for _ in range(3):
        game.tap("stock")
    game.undo()
    states = new_game(deck_of(21))
    for _ in range(2):
        play(states[0], 0)
    states[0]["moves"] = 3
    assert game.text() == board_text(states[0], game.deal)
    assert "\x1b" in game.text(color=True)


# ------------------------------------------------------------------------------------- records


def test_a_playthrough_is_the_final_line():
    game = Game(0)
    for _ in range(5):
        game.tap("stock")
    game.undo()
    record = game.playthrough()
    assert (record.player, record.deal, record.deck) == ("human", game.deal, None)
    assert (record.actions, record.score, record.won) == ((0,) * 4, 0, False)
    assert set(record.extra) == {"game", "started", "finished", "moves", "undos"}
    assert (record.extra["moves"], record.extra["undos"]) == (5, 1)
    assert record.extra["game"] == game.identity
    assert game.started == record.extra["started"] <= record.extra["finished"]


def test_a_game_is_kept_in_a_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    game = Game(0)
    assert game.keep(folder) is None
    game.tap("stock")
    game.undo()
    assert game.keep(folder) is None
    assert not folder.exists()
    game.tap("stock")
    path = game.keep(folder)
    game.tap("stock")
    assert game.keep(folder) == path  # a game has one file
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{16}\.json", path.name)
    assert [file.name for file in folder.iterdir()] == [path.name]
    assert read_playthrough(path).actions == (0, 0)
    won = won_game()
    record = read_playthrough(won.keep(folder))
    assert record.won
    assert record.actions == read_playthrough(WON).actions
    assert record.extra["finished"] == won.finished


# --------------------------------------------------------------------------------------- saves

GESTURES = st.one_of(
    st.tuples(st.just("play"), st.integers(0, 10**6)),
    st.tuples(st.just("play"), st.integers(0, 10**6)),
    st.tuples(st.just("tap"), st.sampled_from(EVERYWHERE)),
    st.tuples(st.just("double_click"), st.sampled_from(EVERYWHERE)),
    st.tuples(st.just("drop"), st.sampled_from(EVERYWHERE), st.sampled_from((*EVERYWHERE, None))),
    st.tuples(st.just("undo")),
    st.tuples(st.just("many"), st.sampled_from(("play", "undo")), st.integers(1, 130)),
    st.tuples(st.just("set"), st.sampled_from(("automatic_placing", "double_clicks"))),
)


def do(game: Game, verb: str, *rest) -> None:
    if verb == "play":
        actions = legal(game)
        if actions:
            game.play(actions[rest[0] % len(actions)])
    elif verb == "many":
        for k in range(rest[1]):
            do(game, rest[0], *([7 * k] if rest[0] == "play" else []))
    elif verb == "set":
        setattr(game, rest[0], not getattr(game, rest[0]))
    else:
        getattr(game, verb)(*rest)


class Ledger:
    """What a game has to be, kept in the most obvious way: a list of all that was played."""

    def __init__(self, game: Game) -> None:
        self.game, self.line, self.made, self.reach = game, [], 0, 0

    def do(self, gesture) -> None:
        if gesture[0] == "many":
            for k in range(gesture[2]):
                self.do((gesture[1], 7 * k) if gesture[1] == "play" else (gesture[1],))
            return
        before = len(self.game.actions)
        do(self.game, *gesture)
        if gesture[0] == "undo":
            if self.reach:
                self.line.pop()
                self.reach -= 1
        elif len(self.game.actions) > before:
            self.line.append(self.game.actions[-1])
            self.made += 1
            self.reach = min(self.reach + 1, 100)

    def check(self) -> None:
        game = self.game
        truth = Playthrough.from_actions(self.line, deal=game.deal)
        assert game.actions == tuple(self.line)
        assert (game.score, game.won) == (truth.score, truth.won)
        assert (game.moves, game.undoable) == (self.made, self.reach)
        assert game.undos == self.made - len(self.line)


@given(st.integers(0, 2**34), st.lists(GESTURES, max_size=25), st.lists(GESTURES, max_size=5))
def test_a_restored_game_is_the_same_and_goes_on_the_same(deal, gestures, more):
    game = Game(deal)
    ledger = Ledger(game)
    for gesture in gestures:
        ledger.do(gesture)
    ledger.check()
    text = game.dumps()
    twin = Game.loads(text)
    assert twin.dumps() == text
    assert twin.view() == game.view()
    assert (twin.identity, twin.started, twin.undos) == (game.identity, game.started, game.undos)
    assert [state.tobytes() for state in twin._history._before] == [
        state.tobytes() for state in game._history._before
    ]
    for gesture in more:
        do(game, *gesture)
        do(twin, *gesture)
        assert twin.view() == game.view()
    assert twin.actions == game.actions


def test_a_save_is_a_file_that_is_read_as_a_playthrough_too(tmp_path):
    path = tmp_path / "table.json"
    game = won_game()
    game.undo()
    game.write(path)
    assert read_playthrough(path).actions == game.actions
    assert Game.read(path).dumps() == game.dumps()
    won = won_game()
    won.write(path)
    assert Game.read(path).finished == won.finished


def save(**changes) -> str:
    """A save after 5 draws, 1 undone; a value of ... leaves the key out."""
    game = Game(21)
    for _ in range(5):
        game.tap("stock")
    game.undo()
    content = json.loads(game.dumps())
    for key, value in changes.items():
        place, _, last = key.rpartition("__")
        holder = content[place] if place else content
        holder[last] = value
        if value is ...:
            del holder[last]
    return json.dumps(content)


def test_the_untampered_save_is_read():
    assert Game.loads(save()).moves == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": [0, 0, 0]}, "moves is 5, but 3 actions"),
        ({"actions": [0, 0, 0, 11]}, r"step 4 \(w>f\) is refused"),
        ({"actions": [0, 0, 0, 192]}, r"actions\[3\] is an integer in 0\.\.191"),
        ({"score": 10}, "score is 10, but the actions lead to 0"),
        ({"won": True}, "won is true, but"),
        ({"deal": "FT1-N-AAAAAA1"}, "none of A..Z"),
        ({"player": "ppo"}, "player is 'human', not 'ppo'"),
        ({"version": 2}, "too new"),
        ({"format": "something else"}, "no playthrough"),
        ({"moves": 6}, "moves is 6, but 4 actions and 1 undone ones make 5"),
        ({"moves": "5"}, "moves is an integer"),
        ({"moves": ...}, "moves is an integer"),
        ({"undos": -1}, "undos is an integer"),
        ({"undos": True}, "undos is an integer"),
        ({"undos": 0}, "moves is 5"),
        ({"undos": ...}, "undos is an integer"),
        ({"game": "../../etc/passwd"}, "game is 16 hexadecimal digits"),
        ({"game": "0123456789ABCDEF"}, "game is 16"),
        ({"game": "0123456789abcdef\n"}, "game is 16"),
        ({"game": ...}, "game is 16"),
        ({"started": "yesterday"}, "started is a time"),
        ({"started": "2026-02-30T00:00:00Z"}, "started is a time"),
        ({"started": "../../2026-01-01T00:00:00Z"}, "started is a time"),
        ({"started": ...}, "started is a time"),
        ({"finished": "2026-01-01T00:00:00Z"}, "finished is the time when the game was won"),
        ({"table": ...}, "no saved game: the key 'table'"),
        ({"table": [1]}, "no saved game: the key 'table'"),
        ({"table__undoable": 5}, "undoable cannot be 5 after 4 actions"),
        ({"table__undoable": 3}, "undoable cannot be 3 after 4 actions"),
        ({"table__undoable": -1}, "undoable is an integer"),
        ({"table__undoable": 2.0}, "undoable is an integer"),
        ({"table__undoable": ...}, "undoable is an integer"),
        ({"table__automatic_placing": 1}, "automatic_placing is true or false"),
        ({"table__double_clicks": ...}, "double_clicks is true or false"),
    ],
)
def test_a_tampered_save_is_an_error_that_names_the_place(changes, message, tmp_path):
    with pytest.raises(PlaythroughError, match=f"^mine: .*{message}"):
        Game.loads(save(**changes), "mine")
    path = tmp_path / "table.json"
    path.write_text(save(**changes))
    with pytest.raises(PlaythroughError, match=f"^{re.escape(str(path))}: .*{message}"):
        Game.read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", save()[:-20], "\x00", '{"format": 1}'])
def test_what_is_no_save_at_all(text):
    with pytest.raises(PlaythroughError, match=r"^saved game: "):
        Game.loads(text)


def test_a_playthrough_is_no_save():
    with pytest.raises(PlaythroughError, match="no saved game"):
        Game.read(WON)


def test_moves_after_the_win_are_no_save():
    game = won_game()
    content = json.loads(game.dumps())
    extended = Playthrough.from_actions(
        [*game.actions, parse_action("f1>c1")],
        deal=game.deal,
        player="human",
        extra={key: content[key] for key in ("game", "started", "undos", "table")}
        | {"moves": content["moves"] + 1, "finished": None},
    )
    with pytest.raises(PlaythroughError, match=r"step \d+ comes after the game was won"):
        Game.restored(extended)


def test_how_far_an_undo_can_reach():
    solution = read_playthrough(WON)
    game = Game(solution.deal)
    for action in solution.actions[:120]:
        game.play(action)
    for _ in range(30):
        game.undo()
    content = json.loads(game.dumps())
    assert content["table"]["undoable"] == 70
    for undoable, possible in ((69, False), (70, True), (71, True), (90, True), (91, False)):
        content["table"]["undoable"] = undoable
        if possible:
            assert Game.loads(json.dumps(content)).undoable == undoable
        else:
            with pytest.raises(PlaythroughError, match=f"undoable cannot be {undoable}"):
                Game.loads(json.dumps(content))


# ---------------------------------------------------------------------------------- a terminal


def typed(*lines: str, game: Game | None = None, **options) -> tuple[Game, str]:
    out = io.StringIO()
    return play_in_terminal(game or Game(0), lines, out, **options), out.getvalue()


def test_playing_by_typed_commands():
    game, out = typed("draw", "tap stock", "", "undo", "where stock", "code", "help")
    assert game.actions == (0,)
    assert game.moves == 2
    for text in ("stock 62  waste 2: 9♣", "\nw\n", "FT1-N-AAAAAAA\n", "drop c3 c7"):
        assert text in out


def test_typed_gestures():
    game, out = typed("double C2", "drop c1 f3", "where c1", game=table("6D | 5D"))
    assert [ACTION_NAMES[action] for action in game.actions] == ["c2>c1"]
    assert f"refused: {FOUNDATION}\n" in out
    assert out.endswith("c2 c3 c4 c5 c6 c7 c8 c9 c10\n")
    game, out = typed("auto on", "drop c2 c9", "auto off", "drop c1 c1", game=table("6D | 5D"))
    assert [ACTION_NAMES[action] for action in game.actions] == ["c2>c1"]
    assert "automatic placing is on\n" in out
    _, out = typed("f1>c1", "tap c12", "nonsense", "drop c1", "new FT1-N-A", "auto maybe")
    assert f"refused: {NOTHING}\n" in out
    assert "there is no pile 'c12'" in out
    assert out.count("names no action") == 3
    assert "1 characters after" in out
    deck = Game(deck=deck_of(0))
    assert "an explicit deck has no code\n" in typed("code", game=deck)[1]


def test_games_of_the_terminal_are_kept(tmp_path):
    game, out = typed(
        "new", "draw", "new ft1-n-aaaaaav", "draw", "draw", "quit", "draw", folder=tmp_path
    )
    assert game.deal == "FT1-N-AAAAAAV"
    records = [read_playthrough(path) for path in tmp_path.iterdir()]
    assert sorted(len(record.actions) for record in records) == [1, 2]
    assert out.count("kept as ") == 2


def test_a_game_won_in_the_terminal():
    lines = [ACTION_NAMES[action] for action in read_playthrough(WON).actions]
    game, out = typed(*lines, game=Game(read_playthrough(WON).deal))
    assert game.won
    assert out.endswith("won\n")


def test_the_terminal_reads_stdin(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("draw\n"))
    assert play_in_terminal(Game(0)).moves == 1
    assert "stock 63" in capsys.readouterr().out


def test_the_terminal_finds_out_first_whether_games_can_be_kept(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "games"):
        out = io.StringIO()
        with pytest.raises((FileExistsError, NotADirectoryError)):
            play_in_terminal(Game(0), ["draw"], out, folder)
        assert out.getvalue() == ""
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / ".0123456789abcdef.tmp").touch()  # what a kill left
    game, _ = typed("draw", folder=tmp_path / "games")
    assert [path.name for path in (tmp_path / "games").iterdir()] == [game.file_name]


def test_states_stay_private():
    # No public attribute or method hands out the order of the stock.
    game = Game(deck=deck_of(3))
    public = [key for key in vars(game) if not key.startswith("_")]
    assert set(public) == {
        *("automatic_placing", "double_clicks", "deal", "deck"),
        *("identity", "started", "finished", "undos"),
    }
