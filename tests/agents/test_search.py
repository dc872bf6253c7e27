"""The search between draws: features, positions that are one, safe cards, layers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from agents.search.features import (
    FEATURES,
    MEASURE_WORK,
    NUM_FEATURES,
    PATIENCE,
    expected_promise,
    known_promise,
    measure,
)
from agents.search.stage import (
    MAX_LINE,
    NO_ACTION,
    Beam,
    Effort,
    best_line,
    new_search,
    play_out,
    play_safe,
    position_key,
    safe_action,
    search_stage,
    worth_ahead,
)
from qv_env import action_name, cards_text, deck_of, parse_cards
from qv_env.actions import DRAW, NUM_ACTIONS
from qv_env.rules import STATE, is_won, legal_actions, new_game, play, refusal


def board(columns, foundations="0 0 0 0 0 0 0 0", waste="", stock=None):
    """A position of the cards that are named; the stock holds 64 others where it is not named."""
    states = np.zeros(1, dtype=STATE)
    game = states[0]
    named = Counter(parse_cards(" ".join([*columns, waste])))
    if stock is None:
        rest = [card for card in range(52) for _ in range(2 - named[card])]
        stock = cards_text(rest[:64])
    game["foundations"] = [int(height) for height in foundations.split()]
    for c, text in enumerate(columns):
        cards = np.array(parse_cards(text), dtype=np.uint8) + 1
        game["columns"][c, : len(cards)] = cards
        game["heights"][c] = len(cards)
    for pile, text in (("waste", waste), ("stock", " ".join(reversed(stock.split())))):
        cards = np.array(parse_cards(text), dtype=np.uint8) + 1
        game[pile][: len(cards)] = cards
        game[f"{pile}_size"] = len(cards)
    return states


def features(states, promise=None):
    out = np.full(NUM_FEATURES, np.nan)
    work = np.full(MEASURE_WORK, 77)
    measure(states[0], np.zeros(53) if promise is None else promise, work, out)
    return dict(zip(FEATURES, out.tolist(), strict=True))


def played(deal, moves, seed=0):
    """A game of a deal after random moves, safe cards up."""
    rng = np.random.default_rng([deal, seed])
    states = new_game(deck_of(deal))
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    for _ in range(moves):
        if legal_actions(states[0], mask) == 0:
            break
        play(states[0], int(rng.choice(np.flatnonzero(mask[:112]))))
    play_safe(states[0])
    return states


def endgame(seed, height=9, stock=4, column_cards=20):
    """A position: foundations at one height, the other cards in random places, safe ones up."""
    rng = np.random.default_rng([seed, height, stock])
    cards = [suit * 13 + rank for suit in range(4) for rank in range(height, 13)] * 2
    rng.shuffle(cards)
    columns = [[] for _ in range(10)]
    for k in range(min(column_cards, len(cards) - stock)):
        columns[k % 10].append(cards.pop())
    states = board(
        [cards_text(column) for column in columns],
        " ".join([str(height)] * 8),
        waste=cards_text(cards[stock:]),
        stock=cards_text(cards[:stock]),
    )
    play_safe(states[0])
    return states


# ------------------------------------------------------------------------------------ features


def slow_features(game):
    """The features that are counts, in plain words."""
    columns = [
        [int(card) - 1 for card in game["columns"][c, : game["heights"][c]]] for c in range(10)
    ]
    waste = [int(card) - 1 for card in game["waste"][: game["waste_size"]]]
    heights = [int(height) for height in game["foundations"]]
    lower = [min(heights[s], heights[s + 4]) for s in range(4)]
    held = [column for column in columns if column]

    def lies_above(pile, i, near):
        suit, rank = divmod(pile[i], 13)
        below = [c % 13 for c in pile[:i] if c // 13 == suit and c % 13 < rank]
        return any(not near or r <= lower[suit] + 1 for r in below)

    def above(piles, card):
        return min(
            (len(p) - 1 - i for p in piles for i, c in enumerate(p) if c == card), default=None
        )

    needed = {f % 4 * 13 + h for f, h in enumerate(heights) if h < 13}
    in_columns = {card: above(columns, card) for card in needed}
    in_waste = {card: above([waste], card) for card in needed}
    depth = waste_depth = in_stock = 0
    for card in needed:
        places = [(d, k) for k, d in enumerate((in_columns[card], in_waste[card])) if d is not None]
        if not places:
            in_stock += 1
            continue
        least, kind = min(places)
        depth += least * (kind == 0)
        waste_depth += least * (kind == 1)

    def linked(column):
        return [b == a + 1 and b % 13 != 0 for b, a in pairwise(column)]

    empty = 10 - len(held)
    everywhere = [(pile, i) for pile in columns for i in range(len(pile))]
    expected = {
        "up": sum(heights),
        "even": sum(lower),
        "empty": min(empty, 1),
        "more_empty": max(empty - 1, 0),
        "links": sum(sum(linked(column)) for column in held),
        "over": sum(lies_above(pile, i, False) for pile, i in everywhere),
        "over_near": sum(lies_above(pile, i, True) for pile, i in everywhere),
        "waste_over": sum(lies_above(waste, i, False) for i in range(len(waste))),
        "waste_over_near": sum(lies_above(waste, i, True) for i in range(len(waste))),
        "depth": depth,
        "waste_depth": waste_depth,
        "in_stock": in_stock,
        "promise_up": 0,
        "promise_columns": 0,
        "waste": len(waste),
        "clean": sum(all(linked(column)) for column in held),
        "shortest": min(map(len, held), default=0),
        "waste_links": sum(a == b + 1 and a % 13 != 0 for b, a in pairwise(waste)),
        "kings": sum(card % 13 == 12 for column in held for card in column[1:]),
    }
    early = int(game["stock_size"]) / 64
    for name in ("empty", "over", "up"):
        expected[f"{name}_early"] = expected[name] * early
    return expected


@pytest.mark.parametrize("moves", [0, 30, 100, 200])
def test_features_are_what_their_names_say(moves):
    for deal in range(25):
        states = played(deal, moves)
        assert features(states) == pytest.approx(slow_features(states[0]))


def test_promises_of_needed_and_awaited_cards():
    states = board(["KS", "QH 3D"], stock="QS 2D")
    promise = np.zeros(53)
    for card, worth in (("QS", 1.0), ("2D", 0.5), ("AS", 0.25), ("KH", 9.0)):
        promise[parse_cards(card)[0] + 1] = worth
    found = features(states, promise)
    assert found["promise_columns"] == 1.5  # on the KS and on the 3D
    assert found["promise_up"] == 0.25  # the ace is needed, once for both foundations


def test_an_unknown_stock_promises_what_known_ones_do_on_average():
    states = played(3, 60)
    size = int(states[0]["stock_size"])
    expected, known, total = np.zeros(53), np.zeros((65, 53)), np.zeros(53)
    expected_promise(states[0], expected)
    rng = np.random.default_rng(0)
    samples = 4000
    for _ in range(samples):
        rng.shuffle(states[0]["stock"][:size])
        known_promise(states[0], known)
        total += known[size]
    assert total / samples == pytest.approx(expected, abs=0.03)
    order = states[0]["stock"][:size][::-1]
    by_hand = np.zeros(53)
    for k, card in enumerate(order):
        by_hand[card] += PATIENCE**k
    assert known[size] == pytest.approx(by_hand)
    assert known[0].tolist() == [0.0] * 53


# ----------------------------------------------------------------------- positions that are one


def test_the_key_ignores_what_does_not_matter():
    rng = np.random.default_rng(0)
    for deal in range(20):
        states = played(deal, 80)
        key = position_key(states[0])
        other = states.copy()
        order = rng.permutation(10)
        other["columns"], other["heights"] = (
            states["columns"][:, order],
            states["heights"][:, order],
        )
        other["foundations"] = np.roll(states["foundations"], 4, axis=1)
        other["score"] += 5
        other["moves"] += 7
        rng.shuffle(other[0]["stock"][: other[0]["stock_size"]])
        assert position_key(other[0]) == key


def test_the_key_tells_other_positions_apart():
    keys = set()
    for deal in range(30):
        states = new_game(deck_of(deal))
        mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
        rng = np.random.default_rng(deal)
        for _ in range(60):
            keys.add((deal, int(position_key(states[0]))))
            legal_actions(states[0], mask)
            choices = list(np.flatnonzero(mask[:12])) or [DRAW]
            play(states[0], int(rng.choice(choices)))
    assert len(keys) == 30 * 60
    assert len({key for _, key in keys}) == 30 * 60


def test_columns_differ_by_the_order_of_their_cards():
    one, other = board(["KS QS"], stock=""), board(["QS KS"], stock="")
    assert position_key(one[0]) != position_key(other[0])


# ------------------------------------------------------------------------------------ safe cards


def test_a_card_is_safe_on_the_lower_foundation_only():
    # Spades stand at 2 and 0: the ace is safe, the three is not.
    columns = ["KH 3S", "KD AS"]
    states = board(columns, "2 0 0 0 0 0 0 0")
    assert action_name(int(safe_action(states[0]))) == "c2>f"
    assert safe_action(board(columns[:1], "2 0 0 0 0 0 0 0")[0]) == -1
    assert safe_action(board(columns[:1], "2 0 0 0 2 0 0 0")[0]) >= 0


def test_safe_cards_go_up_one_after_the_other():
    states = board(["KH 2S AS", "KD 3S 2S AS"], waste="3S")
    play_safe(states[0])
    assert states[0]["foundations"].tolist() == [3, 0, 0, 0, 3, 0, 0, 0]
    again = states.copy()
    play_safe(again[0])
    assert again == states


def test_a_waste_card_takes_the_way_over_a_column_for_its_points():
    line = np.zeros(MAX_LINE, dtype=np.uint8)
    for score, names, points in ((False, ["w>f"], 10), (True, ["w>c2", "c2>f"], 15)):
        states = board(["KH", "2S"], waste="AS")
        length = play_out(states[0], NO_ACTION, line, 0, score)
        assert [action_name(int(a)) for a in line[:length]] == names
        assert states[0]["score"] == points  # the 2S is not safe
    states = board([f"K{s} 3{s}" for s in "SHDC"] + ["KS"] * 1 + ["KH", "KD", "KC", "QS", "QH"],
                   waste="AS")  # fmt: skip
    length = play_out(states[0], NO_ACTION, line, 0, True)
    assert action_name(int(line[0])) == "w>f"  # no column takes it


# ---------------------------------------------------------------------------------------- layers


def searched(states, width, depth, weights=None, take_backs=False):
    search = new_search(Beam(width, depth), np.zeros(NUM_FEATURES) if weights is None else weights)
    search.workspace.states[0] = states[0]
    found = search_stage(search, np.zeros(53), take_backs)
    return search.workspace, found


def plain_closure(states, take_backs, most):
    """The keys of all positions that can be reached without a draw, by a plain search.

    None where a won one is among them, or where there are more than ``most``.
    """
    keys, todo = {int(position_key(states[0]))}, [states]
    mask = np.zeros(NUM_ACTIONS if take_backs else 112, dtype=np.int8)
    while todo:
        here = todo.pop()
        legal_actions(here[0], mask)
        for action in np.flatnonzero(mask):
            if action == DRAW:
                continue
            there = here.copy()
            play(there[0], int(action))
            play_safe(there[0])
            key = int(position_key(there[0]))
            if key not in keys:
                keys.add(key)
                todo.append(there)
        if is_won(here[0]) or len(keys) > most:
            return None
    return keys


@pytest.mark.parametrize("take_backs", [False, True])
def test_a_wide_beam_sees_everything_once(take_backs):
    tested = 0
    for seed in range(40):
        states = endgame(seed, height=4, column_cards=30)
        expected = plain_closure(states, take_backs, 300)
        if expected is None:
            continue
        memory, (count, won, left_out, reached, end) = searched(
            states, 300, 60, take_backs=take_backs
        )
        keys = [int(position_key(memory.states[i])) for i in range(count)]
        assert (won, left_out, end) == (-1, False, count)
        assert reached == count - 1
        assert len(keys) == len(set(keys))
        assert set(keys) == expected
        tested += len(expected) > 20
    assert tested >= 5


def test_parents_and_actions_lead_to_the_positions():
    states = endgame(0)
    memory, (count, *_) = searched(states, 30, 8)
    assert count > 20
    for i in range(1, count):
        before = memory.states[memory.parents[i] : memory.parents[i] + 1].copy()
        assert memory.parents[i] < i
        assert refusal(before[0], memory.actions[i]) == 0
        play(before[0], memory.actions[i])
        play_safe(before[0])
        assert before[0] == memory.states[i]


def test_a_narrow_beam_keeps_the_best_of_each_layer_and_says_so():
    weights = np.random.default_rng(0).normal(size=NUM_FEATURES)
    tested = 0
    for seed in range(40):
        states = endgame(seed)
        wide, (many, won, left_out, _, _) = searched(states, 1000, 1, weights)
        assert not left_out
        if many < 6 or won >= 0:
            continue
        narrow, (few, _, left_out, _, first) = searched(states, 3, 1, weights)
        assert (few, left_out, first) == (4, True, 1)
        best = np.sort(wide.values[1:many])[::-1][:3]
        assert np.sort(narrow.values[1:few])[::-1].tolist() == best.tolist()
        tested += 1
    assert tested >= 10


# ----------------------------------------------------------------------------------------- lines


def line_of(states, weights, effort=None):
    effort = effort or Effort(width=40, depth=10, end_width=40, end_depth=10)
    line = np.zeros(MAX_LINE, dtype=np.uint8)
    length = best_line(states, effort.searches(weights), line)
    return line[:length].tolist()


def test_a_line_leads_to_the_best_position_and_may_be_empty():
    weights = np.zeros(NUM_FEATURES)
    weights[FEATURES.index("links")] = 1.0
    columns = ["9S", "TS", "KH 8S", "4H", "4D", "4C", "KS", "KD", "KC", "JH"]
    states = board(columns)
    assert [action_name(a) for a in line_of(states, weights)] == ["c1>c2", "c3>c2"]
    assert line_of(board(columns), -weights) == []


def test_lines_replay_by_the_rules():
    rng = np.random.default_rng(1)
    for deal in range(20):
        states = played(deal, 60)
        before = states.copy()
        for action in line_of(states, rng.normal(size=NUM_FEATURES)):
            assert refusal(before[0], action) == 0
            play(before[0], action)
        assert before == states


def test_without_a_stock_the_score_decides():
    # Nothing can be won; the waste's queen on a king is 5 points, an empty column for it too.
    states = board(["KH", "KS", "4H 3C", "4D 5H", "4C", "JH", "JD", "JC 5S", "KD 5D", "KC"],
                   waste="QH", stock="")  # fmt: skip
    after = states.copy()
    for action in line_of(states, np.zeros(NUM_FEATURES)):
        play(after[0], action)
    assert after[0]["score"] >= 5


def test_what_a_position_is_worth_after_the_next_draw():
    weights = np.zeros(NUM_FEATURES)
    weights[FEATURES.index("up")] = 1.0
    columns = ["KS", "KH", "KD", "KC", "KS", "KH", "KD", "KC", "3D", "4C"]
    states = board(columns)
    search = new_search(Beam(5, 4), weights)
    size = int(states[0]["stock_size"])
    before = states.copy()
    worth = worth_ahead(states, search)
    # What is not in sight counts as unseen: eight aces, which go up; nothing else does.
    assert worth == pytest.approx(8 / size)
    assert states == before
    # The order of the stock plays no part.
    states[0]["stock"][:size] = states[0]["stock"][:size][::-1].copy()
    assert worth == worth_ahead(states, search)


def test_efforts_are_positive():
    with pytest.raises(ValueError, match="depth\n  Input should be greater than or equal to 1"):
        Effort(depth=0)
