"""Intervals against hand-computed cases and against simulated data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agents.stats import (
    Interval,
    mean_interval,
    paired_difference,
    proportion_interval,
    sign_test,
)

Z = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_by_hand(successes: int, trials: int) -> tuple[float, float]:
    p = successes / trials
    middle = (p + Z**2 / (2 * trials)) / (1 + Z**2 / trials)
    half = Z * math.sqrt(p * (1 - p) / trials + Z**2 / (4 * trials**2)) / (1 + Z**2 / trials)
    return middle - half, middle + half


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 10), (5, 10), (10, 10), (1, 1), (0, 1), (127, 1000)]
)
def test_wilson_is_the_formula(successes, trials):
    low, high = wilson_by_hand(successes, trials)
    interval = proportion_interval(successes, trials)
    assert interval.estimate == successes / trials
    assert interval.low == pytest.approx(low, abs=1e-12)
    assert interval.high == pytest.approx(high, abs=1e-12)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


def test_wilson_cases_worked_out_on_paper():
    # 0 of n: the upper end is z^2 / (n + z^2); k of n and n - k of n mirror each other.
    assert proportion_interval(0, 10).high == pytest.approx(Z**2 / (10 + Z**2))
    assert proportion_interval(0, 10).low == 0
    half = proportion_interval(5, 10)
    assert half.low == pytest.approx(1 - half.high)
    assert (round(half.low, 4), round(half.high, 4)) == (0.2366, 0.7634)


def test_other_confidences_are_wider_or_narrower():
    narrow, wide = (proportion_interval(5, 10, confidence=c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    values = np.arange(20.0)
    narrow, wide = (mean_interval(values, confidence=c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(("successes", "trials"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ValueError, match="successes"):
        proportion_interval(successes, trials)


def test_equal_values_and_single_values_have_no_width():
    assert mean_interval([7]) == Interval(7, 7, 7)
    # 0.1 + 0.1 + 0.1 is not 0.3 in floats: the interval must hold the estimate all the same.
    assert mean_interval([0.1] * 3) == Interval(0.1, 0.1, 0.1)


def test_bootstrap_of_two_values_by_hand():
    # Resamples have the means 1, 2 (half of them) and 3; both ends are among the quarters.
    assert mean_interval([1, 3]) == Interval(2, 1, 3)


def test_bootstrap_agrees_with_the_normal_interval_where_it_must():
    values = np.random.default_rng(5).normal(300, 100, 2000)
    error = values.std(ddof=1) / math.sqrt(values.size)
    interval = mean_interval(values)
    assert interval.estimate == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - Z * error, abs=0.1 * error)
    assert interval.high == pytest.approx(values.mean() + Z * error, abs=0.1 * error)


def test_bootstrap_is_reproducible_and_seeded():
    values = np.random.default_rng(1).exponential(size=50)
    assert mean_interval(values, seed=3) == mean_interval(values, seed=3)
    assert mean_interval(values, seed=3) != mean_interval(values, seed=4)


def test_bootstrap_does_not_depend_on_how_it_is_cut_into_parts(monkeypatch):
    values = np.random.default_rng(1).exponential(size=50)
    whole = mean_interval(values)
    monkeypatch.setattr("agents.stats._BATCH_VALUES", 1000)
    parts = mean_interval(values)
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high))


def test_bootstrap_touches_no_global_randomness():
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002  (the state that must not move)
    mean_interval(np.arange(10))
    assert (np.random.get_state()[1] == legacy).all()  # noqa: NPY002


def test_intervals_cover_the_truth_as_often_as_they_say():
    # 400 simulated benchmarks of skewed scores: 95 % of the intervals should hold the true mean.
    # The binomial standard error is 1.1 %, the bootstrap's own shortfall at n = 60 about 1 %.
    rng = np.random.default_rng(11)
    covered = 0
    for repeat in range(400):
        interval = mean_interval(rng.gamma(4, 80, 60), resamples=799, seed=repeat)
        covered += interval.low <= 320 <= interval.high
    assert 0.91 <= covered / 400 <= 0.985


def test_wilson_covers_the_truth():
    wins = np.random.default_rng(12).binomial(200, 0.04, 2000)
    intervals = [proportion_interval(int(k), 200) for k in wins]
    covered = np.mean([interval.low <= 0.04 <= interval.high for interval in intervals])
    assert 0.93 <= covered <= 0.985


@pytest.mark.parametrize("values", [[], [[1, 2]], [1, math.nan], [math.inf]])
def test_bad_samples_are_refused(values):
    with pytest.raises(ValueError, match="sample"):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, math.nan])
def test_bad_confidences_are_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        mean_interval([1, 2], confidence=confidence)
    with pytest.raises(ValueError, match="confidence"):
        proportion_interval(1, 2, confidence=confidence)


def test_no_resamples_are_refused():
    with pytest.raises(ValueError, match="resamples"):
        mean_interval([1, 2], resamples=0)


def test_paired_difference_by_hand():
    first, second = [10, 20, 30, 40, 50], [5, 25, 30, 30, 30]
    result = paired_difference(first, second)
    assert result.difference == mean_interval([5, -5, 0, 10, 20])
    assert result.difference.estimate == 6
    assert (result.higher, result.lower, result.equal) == (3, 1, 1)
    # Of the 16 ways in which 4 pairs can fall, 10 are at least as uneven as 3 to 1.
    assert result.p_value == pytest.approx(10 / 16)


def test_pairing_takes_out_what_the_deals_have_in_common():
    rng = np.random.default_rng(2)
    deals = rng.normal(300, 100, 300)
    result = paired_difference(deals + 5 + rng.normal(0, 10, 300), deals)
    assert result.difference.low > 0
    assert mean_interval(deals).high - mean_interval(deals).low > 20  # alone neither tells


def test_swapping_the_players_turns_the_difference_round():
    rng = np.random.default_rng(3)
    first, second = rng.normal(1, 1, 100), rng.normal(0, 1, 100)
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert back.difference.estimate == pytest.approx(-there.difference.estimate)
    assert back.difference.low == pytest.approx(-there.difference.high, abs=0.02)
    assert (back.higher, back.lower, back.p_value) == (there.lower, there.higher, there.p_value)


def test_pairs_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="3 values cannot be paired with 2"):
        paired_difference([1, 2, 3], [1, 2])


def test_sign_test_by_hand():
    assert sign_test(0, 0) == 1
    assert sign_test(5, 5) == 1
    assert sign_test(10, 0) == pytest.approx(2 / 2**10)
    assert sign_test(8, 2) == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    with pytest.raises(ValueError, match="negative"):
        sign_test(-1, 2)
