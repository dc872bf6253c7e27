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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--deals", "0"], "--deals: 0 is not at least 1"),
        (["--deals", "-1"], "--deals: -1 is not at least 1"),
        (["--deals", "1000001"], "--deals: 1000001 is more than 1000000"),
        (["--population", "1"], "--population: 1 is not at least 2"),
        (["--population", "10001"], "--population: 10001 is more than 10000"),
        (["--sigma", "0"], "--sigma: '0' is not a number above 0"),
        (["--sigma", "nan"], "--sigma: 'nan' is not a number above 0"),
        (["--sigma", "1e40"], "--sigma: '1e40' is not a number above 0"),
        (["--width", "0"], "--width: 0 is not at least 1"),
        (["--width", "99999999999"], "--width: 99999999999 is more than 10000"),
        (["--depth", "0"], "--depth: 0 is not at least 1"),
        (["--depth", "1001"], "--depth: 1001 is more than 1000"),
        (["--seed", "-1"], "--seed: -1 is not at least 0"),
        (["--seed", str(2**32)], "--seed: 4294967296 is more than 4294967295"),
        (["--seconds", "nan"], "--seconds: 'nan' is not a number in 0.."),
        (["--seconds", "-1"], "--seconds: '-1' is not a number in 0.."),
        (["--start", "none.yaml"], "none.yaml: No such file or directory"),
        (["--out", "no/tuned.yaml"], "no/tuned.yaml: No such file or directory"),
        (["--out", "."], ".: Is a directory"),
        (["--out", "a\0b"], r"--out: 'a\x00b' is not a path"),
    ],
)
def test_bad_arguments_are_refused_before_the_work(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["--seconds", "0", "--deals", "1", "--width", "1", "--out", "x", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_the_program_writes_settings_that_are_read_back(tmp_path, capsys):
    for solver in ([], ["--solver"]):
        out = tmp_path / f"tuned{len(solver)}.yaml"
        arguments = ["--seconds", "0", "--deals", "2", "--population", "4", "--width", "4"]
        assert main([*solver, *arguments, "--depth", "3", "--out", str(out)]) == 0
        assert capsys.readouterr().out.count("\n") == 1
        assert load_settings(out).weights.any()
        assert out.read_text().startswith("# python -m agents.tune ")
