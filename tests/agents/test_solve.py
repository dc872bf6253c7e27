"""The solver against an exhaustive search, its solutions, its command line."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from agents import solve as module
from agents.search.settings import load_settings
from agents.search.solver import (
    WEIGHTS,
    Attempt,
    Solution,
    changed_attempts,
    search_all,
    solve_deal,
    solve_game,
    try_game,
)
from agents.solve import main
from qv_env import deal_code, deck_of, suite
from qv_env.actions import DRAW, FOUNDATION_TO_COLUMN, NUM_ACTIONS
from qv_env.playthroughs.playthrough import read_playthrough
from qv_env.rules import is_won, legal_actions, new_game, play, refusal
from qv_env.text import parse_state
from tests.agents.test_search import board, endgame, plain_closure

EASY = 5000  # a training deal that is won with little effort


def truth(states, most):
    """Whether a game can be won, by a search through all that the rules allow; None: too large.

    Nothing is forced and nothing is taken for safe. Only the order of columns, and of a suit's two
    foundations, is left out of account.
    """

    def key(game):
        columns = sorted(bytes(column) for column in game["columns"])
        foundations = [sorted((int(game["foundations"][s]), int(game["foundations"][s + 4])))
                       for s in range(4)]  # fmt: skip
        return b"".join(columns), str(foundations), bytes(game["waste"]), int(game["stock_size"])

    seen, todo = {key(states[0])}, [states]
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    while todo:
        here = todo.pop()
        if is_won(here[0]):
            return True
        if len(seen) > most:
            return None
        legal_actions(here[0], mask)
        # The search goes on from the last: up rather than anywhere else, and back last of all.
        for action in sorted(np.flatnonzero(mask), key=lambda a: 2 * (11 <= a < 22) - (a >= 112)):
            there = here.copy()
            play(there[0], int(action))
            if (found := key(there[0])) not in seen:
                seen.add(found)
                todo.append(there)
    return False


def check_win(states, actions):
    game = states.copy()
    for action in actions:
        assert refusal(game[0], action) == 0
        play(game[0], action)
    assert is_won(game[0])


def small_games():
    """Late positions, some of them lost, some not."""
    for seed in range(12):
        yield endgame(seed, height=4, column_cards=30)
    for seed in range(6):
        yield endgame(seed, height=9, stock=8)
    for seed in range(6):
        yield endgame(seed, height=5, column_cards=40)


def test_verdicts_agree_with_an_exhaustive_search():
    verdicts = []
    for states in small_games():
        expected = truth(states, 4000)
        before = states.copy()
        solution = solve_game(states, positions=1_000_000 if expected is not None else 100_000)
        assert states == before
        if solution.verdict == "won":
            check_win(states, solution.actions)
            assert expected is not False
        else:
            assert solution.actions == ()
        if expected is not None:
            assert solution.verdict == ("won" if expected else "lost")
            verdicts.append(solution.verdict)
    assert verdicts.count("won") >= 5
    assert verdicts.count("lost") >= 5


def test_symmetric_games_have_the_same_verdict():
    rng = np.random.default_rng(0)
    seen = set()
    for k, states in enumerate(small_games()):
        if k % 3:
            continue
        other = states.copy()
        order = rng.permutation(10)
        other["columns"], other["heights"] = (
            states["columns"][:, order],
            states["heights"][:, order],
        )
        suits = rng.permutation(4)
        ids = np.concatenate([[0], (suits[:, None] * 13 + np.arange(13)).ravel() + 1])
        ids = ids.astype(np.uint8)
        for pile in ("columns", "waste", "stock"):
            other[pile] = ids[other[pile]]
        foundations = np.zeros(8, dtype=np.uint8)
        for suit in range(4):
            foundations[[suits[suit], suits[suit] + 4]] = states[0]["foundations"][[suit + 4, suit]]
        other["foundations"] = foundations
        one, twin = (solve_game(s, positions=100_000) for s in (states, other))
        if "given up" not in (one.verdict, twin.verdict):
            assert one.verdict == twin.verdict
            seen.add(one.verdict)
    assert seen == {"won", "lost"}


def test_symmetric_deals_are_lost_alike():
    """Suits renamed, columns in another order: as many positions can be reached, none is won."""
    deck = deck_of(int(suite("dev-200")[32]))  # proven lost with little effort
    rng = np.random.default_rng(5)
    courses = []
    for renamed, moved in ((False, False), (True, False), (False, True), (True, True)):
        suits = rng.permutation(4) if renamed else np.arange(4)
        columns = rng.permutation(10) if moved else np.arange(10)
        other = suits[deck // 13] * 13 + deck % 13
        other[:40] = other[:40].reshape(4, 10)[:, columns].ravel()
        courses.append(search_all(new_game(other.astype(np.uint8)), 300_000))
    assert all(course.whole and course.actions is None for course in courses)
    assert courses[0].positions > 100_000
    assert {course.positions for course in courses} == {courses[0].positions}


NEEDS_A_TAKE_BACK = """\
foundations 6 8 9 8 3 7 3 9
stock
waste JH QD KS QS TH 4S 8S KC KD QC TC 6S QC 8H QD JH
column 1 7S QH 9H 5D
column 2 9S KS TS KH
column 3 9H 4D TC 8D
column 4 QS 7D JC
column 5 JD TS TD KD
column 6 9D JS 5S TD
column 7 6D 7S JC
column 8 KH 9C KC
column 9 JS TH JD
column 10 QH 9S 8S
"""


def test_a_game_that_only_a_take_back_wins_is_not_called_lost():
    states = parse_state(NEEDS_A_TAKE_BACK)
    weights = load_settings(WEIGHTS).weights
    without = try_game(states, Attempt(300, weights, take_backs=False))
    assert (without.actions, without.whole) == (None, False)
    assert without.positions == len(plain_closure(states, False, 100)) < 100
    solution = solve_game(states)
    assert solution.verdict == "won"
    assert max(solution.actions) >= FOUNDATION_TO_COLUMN
    check_win(states, solution.actions)


def test_nothing_is_lost_that_was_not_searched_whole():
    states = new_game(deck_of(1))
    course = search_all(states, 1000)
    assert (course.actions, course.whole, course.positions) == (None, False, 1000)
    assert not search_all(states, 10_000_000, deadline=0.0).whole
    assert solve_game(states, seconds=0.001).verdict == "given up"


def test_a_real_deal_that_is_proven_lost():
    deal = int(suite("dev-200")[32])
    solution, playthrough = solve_deal(deal, seconds=60.0)
    assert (solution.verdict, playthrough) == ("lost", None)


def test_a_win_by_that_search_leaves_out_its_detours():
    deal = int(suite("dev-200")[5])  # no beam that has been tried finds a win here
    states = new_game(deck_of(deal))
    course = search_all(states, 300_000)
    check_win(states, course.actions)
    assert len(course.actions) < 600
    assert max(course.actions) >= FOUNDATION_TO_COLUMN


def test_the_search_for_a_proof_sees_all_that_can_be_reached():
    tested = 0
    for seed in range(30):
        states = endgame(seed, height=4, stock=0, column_cards=30)
        expected = plain_closure(states, True, 300)
        if expected is not None:
            course = search_all(states, 1000)
            assert (course.actions, course.whole) == (None, True)
            assert course.positions == len(expected)
            tested += len(expected) > 20
    assert tested >= 3


def test_a_game_that_is_won_already():
    states = board([], "13 13 13 13 13 13 13 13", stock="")
    solution = solve_game(states)
    assert (solution.verdict, solution.actions) == ("won", ())
    states = board(["KS"], "12 13 13 13 13 13 13 13", stock="")
    solution = solve_game(states)
    assert solution.verdict == "won"
    check_win(states, solution.actions)


def test_solutions_replay_and_are_the_same_every_time():
    solution, playthrough = solve_deal(EASY, seconds=20.0)
    assert solution.verdict == "won"
    assert playthrough.won
    assert playthrough.deal == deal_code(EASY)
    assert playthrough.actions == solution.actions
    assert playthrough.actions.count(DRAW) == 64
    check_win(new_game(deck_of(EASY)), solution.actions)
    again, _ = solve_deal(EASY, seconds=40.0)
    assert (again.actions, again.positions) == (solution.actions, solution.positions)


def test_weights_are_changed_at_random_but_not_their_signs():
    weights = load_settings(WEIGHTS).weights
    one, other = (
        list(islice(changed_attempts(weights, ((30, True), (20, False)), 3), 6)) for _ in range(2)
    )
    assert [(attempt.width, attempt.take_backs) for attempt in one] == [(30, True), (20, False)] * 3
    for attempt, twin in zip(one, other, strict=True):
        assert (attempt.weights == twin.weights).all()
        assert (np.sign(attempt.weights) == np.sign(weights)).all()
    assert (one[0].weights != one[1].weights).any()


# --------------------------------------------------------------------------------- command line


def test_the_program_prints_and_saves_a_solution(tmp_path, capsys):
    path = tmp_path / "solution.json"
    assert main(["--deal", deal_code(EASY), "--out", str(path)]) == 0
    text = capsys.readouterr().out
    playthrough = read_playthrough(path)
    assert playthrough.won
    assert f"won in {len(playthrough.actions)} moves, score {playthrough.score}" in text
    assert " ".join(step.name for step in playthrough.steps()) in text


def test_the_program_says_what_it_does_not_know(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for verdict, status in (("lost", 0), ("given up", 1)):
        solution = Solution(verdict, (), (), 12, 1, 0.5)
        monkeypatch.setattr(module, "solve_deal", lambda *_, found=solution: (found, None))
        assert main(["--deal", "21"]) == status
        assert f"FT1-N-AAAAAAV: {verdict} (12 positions" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--deal", "FT1-N-1"], "deal code"),
        (["--deal", "21", "--seconds", "0"], "--seconds: '0' is not a number above 0"),
        (["--deal", "21", "--seed", "-1"], "--seed: -1 is not at least 0"),
        (["--deal", "21", "--seconds", "inf"], "--seconds: 'inf' is not a number above 0"),
        (["--deal", "21", "--seconds", "1e-3", "--out", "no/x.json"], "no/x.json: No such file"),
    ],
)
def test_bad_arguments_are_refused(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
