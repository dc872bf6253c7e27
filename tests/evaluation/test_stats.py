"""Intervals against hand-computed cases and against simulated data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from qv_env.evaluation.stats import (
    Interval,
    all_paired_wins,
    clustered_proportion_interval,
    interquartile_mean,
    mean_interval,
    mean_intervals,
    paired_difference,
    paired_differences,
    paired_wins,
    proportion_interval,
    runs_summary,
    sign_test,
    stratified_iqm_interval,
    student_interval,
    two_way_iqm_interval,
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
    monkeypatch.setattr("qv_env.evaluation.stats._BATCH_VALUES", 1000)
    parts = mean_interval(values)
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high))


def test_samples_are_resampled_together_as_each_alone():
    rng = np.random.default_rng(5)
    samples = [rng.random(40), rng.integers(0, 1361, 40), [3.0], np.ones(40), rng.random(7)]
    together = mean_intervals(samples, resamples=500, seed=3)
    assert together == [mean_interval(sample, resamples=500, seed=3) for sample in samples]
    for place in (0, 1, 4):
        alone = scipy.stats.bootstrap(
            (samples[place],), np.mean, n_resamples=500, method="BCa", rng=np.random.default_rng(3)
        ).confidence_interval
        assert (together[place].low, together[place].high) == (alone.low, alone.high)
    pairs = [(samples[0], samples[1]), (samples[1], samples[3]), (samples[4], samples[4])]
    assert paired_differences(pairs, seed=1) == [paired_difference(*p, seed=1) for p in pairs]
    wins = [([0, 1, 1, 0], [0, 0, 1, 0]), ([0.5, 1, 0, 0], [0, 1, 1, 0]), ([1, 1], [0, 1])]
    assert all_paired_wins(wins, seed=1) == [paired_wins(*w, seed=1) for w in wins]
    assert mean_intervals([]) == paired_differences([]) == all_paired_wins([]) == []


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


def wins_of(both, first, second, neither):
    """Two players' wins, from how many deals both won, only the first, only the second, none."""
    one = [1] * (both + first) + [0] * (second + neither)
    other = [1] * both + [0] * first + [1] * second + [0] * neither
    return np.array(one), np.array(other)


def test_paired_wins_by_hand():
    # 2 won by both, 6 by the first alone, 1 by the second alone, 11 by none: 8 and 3 of 20.
    result = paired_wins(*wins_of(2, 6, 1, 11))
    assert (result.higher, result.equal, result.lower) == (6, 13, 1)
    assert result.p_value == pytest.approx(2 * (1 + 7) / 2**7)  # McNemar's exact test
    (l1, u1), (l2, u2) = wilson_by_hand(8, 20), wilson_by_hand(3, 20)
    phi = (2 * 11 - 6 * 1 - 20 / 2) / math.sqrt(8 * 12 * 3 * 17)
    assert result.difference.estimate == pytest.approx(0.25)
    below, above = (0.4 - l1, u2 - 0.15), (u1 - 0.4, 0.15 - l2)
    for end, (a, b), sign in (
        (result.difference.low, below, -1),
        (result.difference.high, above, 1),
    ):
        assert end == pytest.approx(0.25 + sign * math.sqrt(a * a - 2 * phi * a * b + b * b))


def test_paired_wins_have_a_width_where_nobody_wins():
    interval = paired_wins(np.zeros(40), np.zeros(40)).difference
    upper = proportion_interval(0, 40).high
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((-upper, 0, upper))


def test_paired_wins_of_several_games_are_bootstrapped():
    one, other = np.array([0, 0.5, 1, 0.5] * 10), np.array([0, 0, 0.5, 0.5] * 10)
    assert paired_wins(one, other) == paired_difference(one, other)
    with pytest.raises(ValueError, match="shares"):
        paired_wins([2.0], [1.0])


def test_paired_wins_cover_the_truth():
    rng = np.random.default_rng(31)
    covered = 0
    for counts in rng.multinomial(200, [0.03, 0.07, 0.03, 0.87], 300):
        interval = paired_wins(*wins_of(*counts)).difference
        covered += interval.low <= 0.04 <= interval.high
    assert 0.92 <= covered / 300 <= 0.985


# -------------------------------------------------------------------- deals played several times


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (127, 1000)])
def test_clusters_of_one_trial_are_wilson(successes, trials):
    cluster = [1.0] * successes + [0.0] * (trials - successes)
    assert clustered_proportion_interval(cluster, 1) == proportion_interval(successes, trials)


def test_clusters_that_agree_count_once():
    # Twenty deals, each won by every seed or by none: as much evidence as twenty games.
    agreeing = [1.0] * 5 + [0.0] * 15
    once, often = (clustered_proportion_interval(agreeing, trials) for trials in (1, 4))
    assert (often.estimate, often.low, often.high) == pytest.approx(
        (once.estimate, once.low, once.high)
    )
    assert clustered_proportion_interval([0.0] * 20, 4).high == proportion_interval(0, 20).high
    assert clustered_proportion_interval([1.0] * 20, 4).low == proportion_interval(20, 20).low


def test_clusters_by_hand():
    # Two trials each: shares 0, 1/2, 1/2, 1 have the mean 1/2 and the variance 1/8, so that the
    # effective number of trials is 1/4 / (1/8) * 4 = 8, which are all there are.
    low, high = wilson_by_hand(4, 8)
    interval = clustered_proportion_interval([0, 0.5, 0.5, 1], 2)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    # Shares that differ less than chance would have it do not count for more trials than there are.
    even = clustered_proportion_interval([0.5] * 4, 2)
    assert (even.low, even.high) == pytest.approx((low, high))


def test_clustered_proportions_cover_the_truth():
    # Deals differ: each is won with its own probability, 0.2 on average.
    rng = np.random.default_rng(14)
    covered = naive = 0
    for _ in range(1000):
        chances = rng.beta(0.2, 0.8, 150)
        wins = rng.binomial(4, chances)
        interval = clustered_proportion_interval(wins / 4, 4)
        covered += interval.low <= 0.2 <= interval.high
        pooled = proportion_interval(int(wins.sum()), 600)
        naive += pooled.low <= 0.2 <= pooled.high
    assert 0.925 <= covered / 1000 <= 0.975
    assert naive / 1000 < 0.85  # games of one deal are no independent evidence


@pytest.mark.parametrize(("shares", "trials"), [([0.5], 0), ([1.5], 2), ([-0.5, 1], 2)])
def test_impossible_shares_are_refused(shares, trials):
    with pytest.raises(ValueError, match="proportions"):
        clustered_proportion_interval(shares, trials)


# ------------------------------------------------------------------------- several training seeds


def test_interquartile_mean_by_hand():
    assert interquartile_mean([100, 1, 2, 3, 4, 5, 6, -50]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean([[8, 1], [2, 3], [5, 4]]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean([7]) == 7
    assert interquartile_mean([0, 9, 3]) == 4  # a quarter of three is no whole score


def test_stratified_bootstrap_by_hand():
    # One task, two runs of 0 and 1: resamples are (0, 0), (0, 1), (1, 0), (1, 1).
    assert stratified_iqm_interval([[0.0], [1.0]]) == Interval(0.5, 0.0, 1.0)
    # Runs that agree on each task leave nothing to resample, however the tasks differ.
    agreed = np.tile(np.arange(8.0), (3, 1))
    assert stratified_iqm_interval(agreed) == Interval(3.5, 3.5, 3.5)
    # Drawing deals as well does see that they differ.
    assert two_way_iqm_interval(agreed).low < 3 < 4 < two_way_iqm_interval(agreed).high


def test_stratified_resamples_keep_each_task():
    # Two tasks far apart: a resample holds two scores of each, and one is cut off at each end.
    matrix = [[0.0, 10.0], [1.0, 11.0]]
    interval = stratified_iqm_interval(matrix)
    assert 5 <= interval.low <= interval.estimate == 5.5 <= interval.high <= 6
    assert two_way_iqm_interval(matrix).low == 0


def test_student_interval_by_hand():
    interval = student_interval([1.0, 2.0, 3.0])
    assert interval.estimate == 2
    assert interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3))
    assert interval.low == pytest.approx(2 - 4.302653 / math.sqrt(3))
    with pytest.raises(ValueError, match="at least two"):
        student_interval([1.0])


def test_the_stratified_interval_covers_luck_but_not_training_again():
    # The same deals in each repetition. Where training seeds do not differ (spread 0), games do,
    # and the interval knows; where they do, it does not.
    rng = np.random.default_rng(21)
    hard = rng.normal(0, 1, 60)
    share = {}
    for spread in (0.0, 0.3):
        truth = interquartile_mean(hard + rng.normal(0, math.hypot(spread, 0.5), (2000, 60)))
        covered = 0
        for repeat in range(150):
            scores = hard + rng.normal(0, spread, (4, 1)) + rng.normal(0, 0.5, (4, 60))
            interval = stratified_iqm_interval(scores, resamples=200, seed=repeat)
            covered += interval.low <= truth <= interval.high
        share[spread] = covered / 150
    assert 0.86 <= share[0.0] <= 0.99  # with four runs a bootstrap is a little short
    assert share[0.3] < 0.6


def test_the_two_way_interval_covers_training_again_on_other_deals():
    rng = np.random.default_rng(22)
    covered = 0
    for repeat in range(200):
        hard, good = rng.normal(0, 1, 60), rng.normal(0, 0.3, (5, 1))
        scores = hard + good + rng.normal(0, 0.5, (5, 60))
        interval = two_way_iqm_interval(scores, resamples=200, seed=repeat)
        covered += interval.low <= 0 <= interval.high
    assert 0.85 <= covered / 200 <= 0.99


def test_student_intervals_cover_the_truth_with_few_seeds():
    values = np.random.default_rng(23).normal(400, 20, (2000, 3))
    intervals = [student_interval(row) for row in values]
    covered = np.mean([interval.low <= 400 <= interval.high for interval in intervals])
    assert 0.935 <= covered <= 0.965


def test_runs_have_all_their_figures():
    scores = np.random.default_rng(1).random((3, 40))
    runs = runs_summary(scores)
    assert runs.seeds == 3
    assert runs.mean == student_interval(scores.mean(axis=1))
    assert runs.iqm == stratified_iqm_interval(scores)
    assert runs.iqm_trained_again == two_way_iqm_interval(scores)
    assert runs.iqm.estimate == runs.iqm_trained_again.estimate == interquartile_mean(scores)
    assert runs_summary(scores, seed=1) != runs


def test_resampling_does_not_depend_on_how_it_is_cut_into_parts(monkeypatch):
    scores = np.random.default_rng(1).random((3, 40))
    whole = stratified_iqm_interval(scores)
    monkeypatch.setattr("qv_env.evaluation.stats._BATCH_VALUES", 1000)
    parts = stratified_iqm_interval(scores)
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), abs=1e-12)


@pytest.mark.parametrize("scores", [[], [1.0, 2.0], [[1.0, 2.0]], [[], []], [[1.0], [math.nan]]])
def test_bad_matrices_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        runs_summary(scores)
