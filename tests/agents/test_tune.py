"""Tuning: what is played, what is written."""

from __future__ import annotations

import numpy as np
import pytest

from agents.search.features import FEATURES
from agents.search.settings import load_settings
from agents.search.solver import WEIGHTS
from agents.search.stage import Effort
from agents.search.tuning import SCALES, PlanBench, solver_bench, tune
from agents.tune import main
from qv_env.deals import HELD_OUT_FROM


def test_every_weight_has_a_scale():
    assert set(SCALES) == set(FEATURES)


@pytest.mark.parametrize("solver", [False, True])
def test_benches_give_a_row_a_deal(solver):
    weights = load_settings(WEIGHTS).weights
    bench = solver_bench(20) if solver else PlanBench(Effort(5, 4, 10, 40))
    rows = bench(weights, range(8))
    assert rows.shape == (8, 2)
    assert ((rows[:, 0] == 104) == (rows[:, 1] == 1)).all()
    assert rows[:, 0].min() >= 0
    assert (bench(weights, [5]) == rows[5]).all()


def test_samples_of_a_generation_play_the_same_training_deals():
    played = []

    def bench(weights, deals):
        played.append(list(deals))
        return np.array([[weights[FEATURES.index("up")], 0.0]])

    generations = tune(np.zeros(len(FEATURES)), bench, 5, seed=1, population=4)
    found = [weights for weights, _ in (next(generations) for _ in range(12))]
    assert all(played[k] == played[0] for k in range(4))
    assert played[4] != played[0]
    assert 0 <= min(map(min, played)) <= max(map(max, played)) < HELD_OUT_FROM
    up = FEATURES.index("up")
    assert found[-1][up] > found[0][up] > -1  # it climbs


def test_the_program_writes_settings_that_are_read_back(tmp_path, capsys):
    for solver in ([], ["--solver"]):
        out = tmp_path / f"tuned{len(solver)}.yaml"
        arguments = ["--seconds", "0", "--deals", "2", "--population", "4", "--width", "4"]
        assert main([*solver, *arguments, "--depth", "3", "--out", str(out)]) == 0
        assert capsys.readouterr().out.count("\n") == 1
        assert load_settings(out).weights.any()
        assert out.read_text().startswith("# python -m agents.tune ")
