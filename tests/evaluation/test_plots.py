"""Plots: the curves that are drawn, and that odd input is drawn, too."""

from __future__ import annotations

import numpy as np
import pytest

from qv_env.evaluation.reports.plots import (
    _band,
    _curve,
    effort_plot,
    learning_curves_plot,
    pair_plot,
    profile_plot,
)
from qv_env.evaluation.stats import Interval

PNG = b"\x89PNG\r\n"


def run(*points):
    return [{"steps": steps, "seconds": steps / 10, "mean_score": score} for steps, score in points]


def test_a_band_is_where_all_seeds_have_values():
    one = _curve(run((0, 0), (100, 100)), "steps", 1.0)
    two = _curve(run((50, 10), (200, 40)), "steps", 1.0)
    across, mean, low, high = _band([one, two])
    assert across.tolist() == [50, 100]
    assert low.tolist() == [10, 20]  # the second, between its evaluations
    assert high.tolist() == [50, 100]  # the first
    assert mean.tolist() == [30, 60]


def test_one_seed_has_the_band_of_its_evaluations():
    points = [{"steps": 2, "mean_score": 5, "low": 4, "high": 7}, {"steps": 1, "mean_score": 3}]
    across, mean, low, high = _band([_curve(points, "steps", 2.0)])
    assert across.tolist() == [0.5, 1]
    assert (mean.tolist(), low.tolist(), high.tolist()) == ([3, 5], [3, 4], [3, 7])


@pytest.mark.parametrize("dark", [False, True])
def test_plots_are_pictures(dark):
    scores = np.random.default_rng(0).integers(0, 1360, (30, 2))
    for picture in (
        profile_plot({"_a$b$": scores, "won": np.full(4, 1360)}, "title", dark),
        pair_plot(scores[:, 0], scores[:, 1], ("one", "$two"), "t", dark),
        learning_curves_plot({"a": [run((0, 1), (5, 9)), run((1, 2), (4, 3))], "b": []}, "", dark),
        effort_plot(
            {"a": (0.5, Interval(0, 0, 0.1)), "a,x=1": (5.0, Interval(0.2, 0.1, 0.3))},
            {"a": "a", "a,x=1": "a"},
            "t",
            dark,
        ),
    ):
        assert picture.startswith(PNG)


def test_each_player_changes_a_profile():
    one = np.arange(0, 1300, 50)
    pictures = {
        profile_plot({"a": one}),
        profile_plot({"a": one + 40}),
        profile_plot({"a": np.stack([one, one], axis=1)[:13]}),
        profile_plot({"a": one, "b": one}),
    }
    assert len(pictures) == 4
