"""The compiled rules against the slow reference game, and each decision of the rules by name."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qv_env
from qv_env import deck_of, parse_action
from qv_env.rules import (
    REFUSALS,
    STATE,
    foundation_cards,
    is_won,
    legal_actions,
    new_game,
    play,
    refusal,
)
from qv_env.text import parse_state

from . import reference, trajectories
from .reference import Table

ROOT = Path(__file__).resolve().parents[1]


# ----------------------------------------------------------------------- how games are compared


def mask_of(states: np.ndarray, size: int = 192) -> np.ndarray:
    """The compiled mask, written over garbage; the count that comes with it is checked."""
    mask = np.full(size, 7, dtype=np.int8)
    assert legal_actions(states[0], mask) == mask.sum()
    return mask


def objections(states: np.ndarray) -> list[str]:
    return [REFUSALS[refusal(states[0], action)] for action in range(192)]


def expected_state(table: Table) -> np.ndarray:
    """The record that a position should be, byte for byte: places without a card hold 0."""
    states = np.zeros(1, dtype=STATE)
    game = states[0]
    game["score"], game["moves"] = table.score, table.moves
    for c, column in enumerate(table.columns):
        game["heights"][c] = len(column)
        for k, card in enumerate(column):
            game["columns"][c, k] = reference.as_id(card)
    game["foundations"] = [len(pile) for pile in table.foundations]
    for name, pile in (("waste", table.waste), ("stock", table.stock)):
        game[f"{name}_size"] = len(pile)
        for k, card in enumerate(pile):
            game[name][k] = reference.as_id(card)
    return states


def compare(states: np.ndarray, table: Table, all_objections: bool = True) -> None:
    """See that a compiled game and a reference game are one and the same."""
    assert states.tobytes() == expected_state(table).tobytes()
    mask = mask_of(states)
    assert mask.tolist() == table.mask()
    assert mask_of(states, 112).tolist() == table.mask(take_back=False)
    assert foundation_cards(states[0]) == table.foundation_cards()
    assert is_won(states[0]) == table.won()
    if all_objections:
        texts = objections(states)
        assert texts == [table.objection(action) for action in range(192)]
        assert [not text for text in texts] == mask.astype(bool).tolist()
    assert table.score <= 10 * table.foundation_cards() + 5 * table.waste_to_column


def compare_observation(observation: dict, table: Table, **variant: bool) -> None:
    expected = table.observation(**variant)
    assert list(observation) == list(expected)
    for key, values in expected.items():
        assert observation[key].dtype == np.uint8
        assert observation[key].tolist() == values, key


def seated(text: str) -> np.ndarray:
    """A position in short notation: ``c1 = KS QS | w = AS | f = 3 0 0 0 0 0 0 0 | score = 7``.

    Piles that are not named are empty. Of the other cards, the stock holds as many as it can; the
    rest is not on the table, which no rule minds.
    """
    table = Table(deck_of(0).tolist())
    table.columns = [[] for _ in range(10)]
    table.stock, table.waste = [], []
    for part in text.split("|"):
        name, _, content = part.partition("=")
        name = name.strip()
        if name == "f":
            for slot, height in enumerate(content.split()):
                suit = reference.SLOT_SUITS[slot]
                table.foundations[slot] = [(suit, rank) for rank in range(int(height))]
        elif name == "score":
            table.score = int(content)
        else:
            cards = [reference.from_text(word) for word in content.split()]
            if name == "w":
                table.waste = cards
            else:
                table.columns[int(name[1:]) - 1] = cards
    shown = [card for pile in (*table.columns, table.waste, *table.foundations) for card in pile]
    left = [(suit, rank) for suit in range(4) for rank in range(13) for _ in range(2)]
    for card in shown:
        left.remove(card)  # no card thrice
    table.stock = left[: 64 - len(table.waste)]
    return expected_state(table)


# ---------------------------------------------------------------- whole games against reference


def follow(number: int, policy: str, seed: int, steps: int = 400) -> Table:
    """Play one game on both tables, comparing after every move; return the reference's."""
    rng = random.Random(seed)
    deck = deck_of(number)
    states, table = new_game(deck), Table(deck.tolist())
    compare(states, table)
    for step in range(steps):
        if table.won() or not any(table.mask()):
            break
        action = reference.choose(table, policy, rng)
        assert play(states[0], action) == table.play(action)
        compare(states, table, all_objections=step % 4 == 0)
    compare(states, table)
    return table


@pytest.mark.parametrize("policy", ["random", "take_back", "eager", "draw"])
@pytest.mark.parametrize("seed", range(4))
def test_games_are_the_reference_games(policy, seed):
    table = follow(random.Random(seed).randrange(2**35), policy, seed, steps=220)
    assert table.taken_back >= 10 or policy != "take_back"
    assert not table.stock or policy != "draw"


@pytest.mark.parametrize("seed", range(3))
def test_wins_are_the_reference_wins(seed):
    rng = random.Random(seed)
    deck = reference.easy_deck()
    states, table = new_game(np.array(deck, dtype=np.uint8)), Table(deck)
    while not table.won():
        back = [a for a in range(112, 192) if not table.objection(a)]
        if back and rng.random() < 0.2:
            action = rng.choice(back)
        else:
            action = reference.choose(table, "eager", rng)
        assert play(states[0], action) == table.play(action)
        compare(states, table, all_objections=table.moves % 8 == 0)
    assert is_won(states[0])
    assert foundation_cards(states[0]) == 104


@pytest.mark.parametrize("take_back", [True, False])
def test_steps_of_the_environment_are_the_reference_steps(take_back):
    """Rewards, observations, masks, ends and refusals, illegal actions among the legal ones."""
    kinds = set()
    for seed in range(8):
        rng = random.Random(seed)
        variant = {"memory": seed % 2 == 0, "stock_visible": seed % 3 == 0}
        env = qv_env.QuaranteVoleursEnv(take_back=take_back, **variant)
        deck = reference.deck_of_number(seed) if seed else reference.easy_deck()
        table, total = Table(deck), 0.0
        observation, info = env.reset(options={"deck": deck})
        terminated = False
        policy = ["eager", "draw", "take_back"][seed % 3]
        for _ in range(250):
            compare_observation(observation, table, **variant)
            legal = table.mask(take_back)
            assert info["action_mask"].tolist() == legal
            assert terminated == (table.won() or not any(legal))
            assert (info["score"], info["moves"]) == (table.score, table.moves)
            assert (info["foundation_cards"], info["won"]) == (
                table.foundation_cards(),
                table.won(),
            )
            if terminated:
                kinds.add("won" if table.won() else "stuck")
                break
            action = reference.choose(table, policy, rng)
            if rng.random() < 0.1 or action >= len(legal):
                action = rng.randrange(len(legal))
            refused = table.objection(action)
            gained = 0 if refused else table.play(action)
            observation, reward, terminated, truncated, info = env.step(action)
            assert reward == gained
            assert info["refusal"] == refused
            assert truncated is False
            total += reward
        assert total == table.score
    assert "won" in kinds
    assert "stuck" in kinds or take_back


# -------------------------------------------------------------------- positions made by machine


@st.composite
def positions(draw) -> Table:
    """Any position in which the 104 cards can stand, reachable or not."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    table = Table(deck_of(0).tolist())
    # Mostly low or mostly high foundations, so that full and empty tables are both common.
    top = draw(st.integers(0, 13))
    heights = [draw(st.integers(0, top)) for _ in range(8)]
    if draw(st.booleans()):
        heights = [max(0, min(13, 13 - h)) for h in heights]
    table.foundations = [
        [(suit, rank) for rank in range(height)]
        for suit, height in zip(reference.SLOT_SUITS, heights, strict=True)
    ]
    left = [(suit, rank) for suit in range(4) for rank in range(13) for _ in range(2)]
    for pile in table.foundations:
        for card in pile:
            left.remove(card)
    rng.shuffle(left)
    table.columns = [[] for _ in range(10)]
    for column in table.columns:
        for _ in range(min(draw(st.integers(0, 4)), len(left))):
            column.append(left.pop())
    # No more than 64 cards fit into stock and waste.
    for column in table.columns:
        while len(left) > 64 and len(column) < 4:
            column.append(left.pop())
    # From the fifth card on, a column runs down in suit.
    for column in table.columns:
        while len(column) >= 4 and rng.random() < 0.8:
            suit, rank = column[-1]
            if (suit, rank - 1) not in left:
                break
            left.remove((suit, rank - 1))
            column.append((suit, rank - 1))
    cut = draw(st.integers(0, len(left)))
    table.waste, table.stock = left[:cut], left[cut:]
    table.score = draw(st.sampled_from([0, 5, 10, 15, 20, 500]))
    table.moves = draw(st.integers(0, 999))
    return table


def no_bound(states: np.ndarray, table: Table, all_objections: bool) -> None:
    """Compare without the bound on the score, which a made-up score need not keep."""
    table.waste_to_column = 10**6
    compare(states, table, all_objections)


@given(positions(), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_any_position_is_the_reference_position(table, seed):
    rng = random.Random(seed)
    states = parse_state(table.text())
    no_bound(states, table, all_objections=True)
    for step in range(12):
        if table.won() or not any(table.mask()):
            break
        action = reference.choose(table, rng.choice(["random", "take_back"]), rng)
        assert play(states[0], action) == table.play(action)
        no_bound(states, table, all_objections=step % 4 == 3)


@given(
    st.integers(0, 2**35 - 1),
    st.lists(st.integers(0, 191), max_size=120),
)
@settings(max_examples=40)
def test_any_list_of_choices_is_the_reference_game(number, choices):
    deck = deck_of(number)
    states, table = new_game(deck), Table(deck.tolist())
    for choice in choices:
        legal = np.flatnonzero(mask_of(states)).tolist()
        if not legal:
            break
        action = legal[choice % len(legal)]
        assert play(states[0], action) == table.play(action)
        compare(states, table, all_objections=False)


# -------------------------------------------------------------------------- decisions, one by one


def move(states: np.ndarray, name: str) -> int:
    """Make a move that must be legal; return its points."""
    action = parse_action(name)
    assert mask_of(states)[action] == 1
    assert refusal(states[0], action) == 0
    return play(states[0], action)


def column(states: np.ndarray, number: int) -> str:
    game = states[0]
    cards = game["columns"][number - 1, : game["heights"][number - 1]]
    return " ".join(reference.as_text(reference.from_number(int(card) - 1)) for card in cards)


def heights(states: np.ndarray) -> list[int]:
    return states[0]["foundations"].tolist()


def refused(states: np.ndarray, name: str) -> str:
    """The rule that refuses a move that must be illegal."""
    action = parse_action(name)
    assert mask_of(states)[action] == 0
    text = REFUSALS[refusal(states[0], action)]
    assert text
    return text


def test_points_of_each_kind_of_move():
    states = seated("c1 = KS | c2 = KH QH | c3 = AD | w = 5C AC QS | f = 3 0 0 0 0 0 0 0 | c4 = 4S")
    assert move(states, "w>c1") == 5
    assert move(states, "w>f") == 10
    assert move(states, "c3>f") == 10
    assert move(states, "c2>c3") == 0
    assert move(states, "draw") == 0
    assert states[0]["score"] == 25
    assert move(states, "f1>c4") == -15
    assert states[0]["score"] == 10
    assert states[0]["moves"] == 6


@pytest.mark.parametrize(
    ("score", "change"), [(0, 0), (5, -5), (10, -10), (14, -14), (15, -15), (16, -15), (40, -15)]
)
def test_a_take_back_costs_15_but_the_score_never_falls_below_0(score, change):
    states = seated(f"c1 = 4S | f = 3 0 0 0 0 0 0 0 | score = {score}")
    assert move(states, "f1>c1") == change
    assert states[0]["score"] == score + change >= 0


def test_a_take_back_at_10_points_in_a_game_costs_10():
    env = qv_env.QuaranteVoleursEnv()
    env.reset(options={"deck": deck_with(tops="AS 2S 9H 9D 9C KH KD KC JH JD", last="5D")})
    _, reward, *_, info = env.step(parse_action("c1>f"))
    assert (reward, info["score"]) == (10.0, 10)
    _, reward, *_, info = env.step(parse_action("f1>c2"))
    assert (reward, info["score"], info["moves"]) == (-10.0, 0, 2)


def test_of_two_equal_slots_the_left_one_gets_the_card():
    states = seated("c1 = AS | c2 = AS | c3 = 2S | c4 = AC")
    move(states, "c1>f")
    assert heights(states) == [1, 0, 0, 0, 0, 0, 0, 0]
    move(states, "c2>f")
    assert heights(states) == [1, 0, 0, 0, 1, 0, 0, 0]
    move(states, "c3>f")
    assert heights(states) == [2, 0, 0, 0, 1, 0, 0, 0]
    move(states, "c4>f")
    assert heights(states) == [2, 0, 0, 1, 1, 0, 0, 0]


def test_the_right_slot_gets_the_card_that_the_left_one_does_not_take():
    states = seated("w = 3H | c1 = 3H | f = 0 1 0 0 0 2 0 0")
    move(states, "w>f")
    assert heights(states) == [0, 1, 0, 0, 0, 3, 0, 0]
    assert "next card of its suit" in refused(states, "c1>f")


@pytest.mark.parametrize("slot", [1, 2, 3, 4, 5, 6, 7, 8])
def test_slots_have_fixed_suits(slot):
    suit = "SHDC"[(slot - 1) % 4]
    before = [0] * 8
    before[slot - 1] = 5
    states = seated(f"c1 = 6{suit} | f = {' '.join(map(str, before))}")
    move(states, "c1>f")
    assert heights(states)[slot - 1] == 6
    assert sum(heights(states)) == 6


def test_nothing_goes_on_an_ace_in_a_column():
    states = seated("c1 = AS | c2 = KS | c3 = 2S | w = KH | f = 0 0 3 0 0 0 0 0")
    for name in ("c2>c1", "c3>c1", "w>c1", "f3>c1"):
        assert refused(states, name) == "nothing can be put on an ace in a column"


def test_a_column_takes_its_own_suit_one_rank_lower_only():
    states = seated("c1 = 9S | c2 = 8S | c3 = 8C | c4 = 7S | c5 = TS | c6 = 9S")
    move(states, "c2>c1")
    assert column(states, 1) == "9S 8S"
    move(states, "c4>c1")
    for name in ("c3>c6", "c5>c6", "c1>c6"):
        assert "one rank lower" in refused(states, name)
    move(states, "c6>c5")


def test_a_king_goes_on_no_card():
    states = seated("c1 = KS | c2 = AS | c3 = KS | c4 = KH | c5 = 2H")
    for target in (2, 3, 4, 5):
        refused(states, f"c1>c{target}")
    move(states, "c1>c6")


def test_an_empty_column_takes_any_card():
    for card in ("AS", "7D", "KC"):
        states = seated(f"c1 = 9H {card} | w = {card}")
        assert move(states, "w>c2") == 5
        assert move(states, "c1>c3") == 0
        assert column(states, 2) == column(states, 3) == card


def test_an_empty_column_takes_a_card_back_from_a_foundation():
    states = seated("f = 0 0 0 13 0 0 0 0 | score = 200")
    assert move(states, "f4>c2") == -15
    assert column(states, 2) == "KC"
    assert heights(states)[3] == 12


def test_a_columns_only_card_may_move_to_another_empty_column():
    states = seated("c1 = 7D")
    assert move(states, "c1>c2") == 0
    assert column(states, 1) == ""
    assert column(states, 2) == "7D"


def test_runs_do_not_move_together():
    states = seated("c1 = 9S 8S 7S | c2 = TS | c3 = 8S")
    refused(states, "c1>c2")
    move(states, "c1>c3")
    assert column(states, 1) == "9S 8S"


def test_an_empty_stock_is_not_dealt_again():
    env = qv_env.QuaranteVoleursEnv(memory=True)
    env.reset(options={"deal": 0})
    for _ in range(64):
        observation, *_, info = env.step(0)
    assert info["moves"] == 64
    waste = observation["waste"].tolist()
    observation, reward, _, _, info = env.step(0)
    assert info["refusal"] == "the stock is empty and is not dealt again"
    assert (reward, info["moves"]) == (0.0, 64)
    assert observation["waste"].tolist() == waste == [c + 1 for c in deck_of(0)[40:]]


def test_only_the_wastes_top_card_can_be_played():
    states = seated("w = AS 7D | c1 = 8H")
    refused(states, "w>f")
    move(states, "w>c2")
    move(states, "w>f")


def test_foundation_to_foundation_is_no_move():
    pairs = {(source, target) for source, _, target, _ in reference.MOVES}
    assert ("foundation", "foundation") not in pairs
    assert not [name for name in qv_env.ACTION_NAMES if name[0] == "f" and name.endswith("f")]


def test_a_win_has_no_bonus_and_ends_the_episode():
    env = qv_env.QuaranteVoleursEnv()
    observation, info = env.reset(options={"deck": reference.easy_deck()})
    total, steps = 0.0, 0
    terminated = False
    while not terminated:
        ready = [a for a in range(11, 22) if info["action_mask"][a]]
        observation, reward, terminated, _, info = env.step(ready[0] if ready else 0)
        total += reward
        steps += 1
    assert reward == 10.0
    assert total == info["score"] == 1040
    assert info["won"] is True
    assert steps == info["moves"] == 64 + 104
    assert observation["foundations"].tolist() == [13] * 8
    assert not observation["columns"].any()


def test_a_game_with_103_cards_up_is_not_won():
    states = seated("w = KC | f = 13 13 13 13 13 13 13 12 | score = 50")
    assert not is_won(states[0])
    assert move(states, "w>f") == 10
    assert is_won(states[0])
    assert states[0]["score"] == 60


def deck_with(tops: str, last: str) -> list[int]:
    """A deck with the given column tops and last stock card."""
    top_cards = [reference.as_number(reference.from_text(word)) for word in tops.split()]
    last_card = reference.as_number(reference.from_text(last))
    others = 2 * list(range(52))
    for card in [*top_cards, last_card]:
        others.remove(card)
    return [*others[:30], *top_cards, *others[30:], last_card]


@pytest.mark.parametrize("take_back", [True, False])
def test_a_game_without_a_legal_move_ends_stuck(take_back):
    env = qv_env.QuaranteVoleursEnv(take_back=take_back)
    env.reset(options={"deck": deck_with(tops="KS KS KH KH KD KD KC KC 9S 9H", last="5D")})
    for _ in range(64):
        _, _, terminated, _, info = env.step(0)
        assert terminated == (not info["action_mask"].any())
    assert terminated is True
    assert (info["score"], info["moves"], info["won"]) == (0, 64, False)


def test_real_deals_end_stuck_without_take_backs():
    env = qv_env.QuaranteVoleursEnv(take_back=False)
    ends = 0
    for number in range(6):
        rng = random.Random(number)
        _, info = env.reset(options={"deal": number})
        terminated = False
        for _ in range(500):
            assert info["action_mask"].any()
            legal = np.flatnonzero(info["action_mask"]).tolist()
            *_, terminated, _, info = env.step(0 if 0 in legal else rng.choice(legal))
            if terminated:
                break
        if terminated and not info["won"]:
            ends += 1
            assert not info["action_mask"].any()
    assert ends


def test_the_highest_column_fits():
    """King down to ace on three other cards: sixteen, and nothing can be put on top."""
    run = " ".join(rank + "S" for rank in "KQJT98765432A")
    states = seated(f"c1 = 2H 3H 4H {run} | c2 = 2S")
    assert states[0]["heights"][0] == 16
    refused(states, "c2>c1")
    move(states, "c1>c2")
    move(states, "c2>c1")
    assert states[0]["heights"][0] == 16


def test_each_refusal_is_reached_and_names_its_rule():
    states = seated("c1 = AS | c2 = 9H | c3 = 5D | f = 0 4 0 0 0 3 0 0 | w = 2C")
    stock = int(states[0]["stock_size"])
    for _ in range(stock):
        move(states, "draw")
    assert "not dealt again" in refused(states, "draw")
    assert "pile is empty" in refused(states, "f3>c1")
    assert "pile is empty" in refused(states, "c10>f")
    assert "pile is empty" in refused(seated("c1 = 2S"), "w>c1")
    assert "from the ace up to the king" in refused(states, "c3>f")
    assert "exactly one rank lower" in refused(states, "c3>c2")
    assert "an ace" in refused(states, "c3>c1")
    assert len(set(REFUSALS)) == 6


# ------------------------------------------------------------------------------- without numba


def test_plain_python_plays_the_same_games_as_compiled_code():
    def run(**variables: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.trajectories"],
            cwd=ROOT,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert run(NUMBA_DISABLE_JIT="1") == ["plain", trajectories.digest()]
    assert run(NUMBA_DISABLE_JIT="0") == ["compiled", trajectories.digest()]
