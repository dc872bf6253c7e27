"""Writes ``tests/data/golden_game.txt``: a game in readable text, reviewed like code.

``python -m tests.golden`` rewrites the file; a test replays it and compares.
"""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate
from pathlib import Path

import numpy as np

from qv_env.actions import COLUMN, FOUNDATION, MOVES, WASTE, action_name
from qv_env.deals import deal_code, deck_of
from qv_env.rules import legal_actions, new_game, play
from qv_env.text import state_text

PATH = Path(__file__).parent / "data" / "golden_game.txt"
DEAL = 265
SEED = 1  # a game that has every kind of move, a take-back at less than 15 points as well
MOVES_PLAYED = 100
MILESTONES = (0, 25, 50, 75, 100)

INTRODUCTION = """\
# A game of Quarante Voleurs, played at random with a taste for take-backs.
# After "deal", a line a move: step, action, points, score. Boards stand between the moves; the
# stock's order is left out. `python -m tests.golden` rewrites this file.
"""

# How often each kind of move is chosen against the others, by source and target.
WEIGHTS = {
    (WASTE, FOUNDATION): 12,
    (COLUMN, FOUNDATION): 12,
    (WASTE, COLUMN): 6,
    (COLUMN, COLUMN): 4,
    (FOUNDATION, COLUMN): 5,
}
DRAW_WEIGHT = 4


def chosen_actions(deal: int, seed: int, count: int) -> list[int]:
    """The actions of a game in which each legal one is as likely as its weight says."""
    rng = random.Random(seed)  # of which only random() is promised never to change
    states = new_game(deck_of(deal))
    mask = np.zeros(192, dtype=np.int8)
    actions = []
    for _ in range(count):
        legal_actions(states[0], mask)
        legal = np.flatnonzero(mask).tolist()
        if not legal:
            break
        weights = [WEIGHTS.get((MOVES[a].source, MOVES[a].target), DRAW_WEIGHT) for a in legal]
        action = legal[bisect(list(accumulate(weights)), rng.random() * sum(weights))]
        play(states[0], action)
        actions.append(action)
    return actions


def golden_text() -> str:
    """The whole file."""
    states = new_game(deck_of(DEAL))
    lines = [INTRODUCTION, f"deal {deal_code(DEAL)}\n"]
    for step, action in enumerate([None, *chosen_actions(DEAL, SEED, MOVES_PLAYED)]):
        if action is not None:
            points = play(states[0], action)
            lines.append(
                f"{step:>4}  {action_name(action):<6}  {points:>+4d}  {states[0]['score']:>4}\n"
            )
        if step in MILESTONES:
            board = "".join(f"  {line}\n" for line in state_text(states[0]).splitlines())
            lines.append(f"\nboard after step {step}\n{board}\n")
    return "".join(lines)


if __name__ == "__main__":
    PATH.write_text(golden_text(), encoding="utf-8")
    print(PATH)
