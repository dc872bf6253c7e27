"""Intervals: the uncertainty of figures that are estimated from a sample of deals.

The deals of a suite are a sample of all deals. An interval contains the values of the figure over
all deals that are compatible with the sample. It does not account for other sources of randomness,
such as the training seed of a policy that was trained once.

For an agent trained with several seeds there are also figures over a matrix of scores (training
seeds, deals), see ``Runs``: Agarwal et al.'s interquartile mean with the interval that they define,
which takes the deals as fixed and treats the games as independent, and intervals that treat a
training seed as one draw, common to all of its games. Only the latter tell how results vary with
the training seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 9_999
IQM_RESAMPLES = 2_000

# Resampled values held in memory at a time: 2 million numbers of 8 bytes.
_BATCH_VALUES = 2_000_000


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval, in the unit of the data.

    Attributes:
        estimate: The figure of the sample.
        low: The interval's lower end.
        high: The interval's upper end.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two players' values on the same deals.

    Attributes:
        difference: The mean of first minus second, with its bootstrap interval.
        higher: The number of deals on which the first has the higher value.
        lower: The number of deals on which the first has the lower value.
        equal: The number of deals on which both have the same value.
        p_value: The p-value of the two-sided sign test, 0..1: the probability of a split of the
            differing deals that is at least this uneven, if both players were equally likely to be
            ahead. It depends on how often a player is ahead, not on how far.
    """

    difference: Interval
    higher: int
    lower: int
    equal: int
    p_value: float


def _sample(values: npt.ArrayLike) -> np.ndarray:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not sample.size:
        raise ValueError(f"a sample is a row of at least one number, not of shape {sample.shape}")
    if not np.isfinite(sample).all():
        raise ValueError("a sample holds finite numbers only")
    return sample


def mean_interval(
    values: npt.ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return a mean with its bootstrap interval (bias-corrected and accelerated).

    If all values are equal, or there is a single value, all resamples are the same: the interval is
    the value itself, and does not estimate the spread.

    Args:
        values: Finite numbers, (n,), n >= 1.
        confidence: The interval's confidence, between 0 and 1.
        resamples: How many resamples are drawn, at least 1.
        seed: Seeds the resampling: the same values and seed give the same interval.

    Raises:
        ValueError: There is no value, or one is not finite, or a setting is out of range.

    Source:
        Efron (1987), "Better Bootstrap Confidence Intervals"; ``scipy.stats.bootstrap``.
    """
    return mean_intervals([values], confidence=confidence, resamples=resamples, seed=seed)[0]


def mean_intervals(
    samples: Sequence[npt.ArrayLike],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Interval]:
    """Return the interval of :func:`mean_interval` for each of several samples.

    Samples of equal size are resampled with the same random indices, which takes much less time
    than resampling one after another.

    Args:
        samples: Rows of finite numbers, each with at least one.
        confidence: The intervals' confidence, between 0 and 1.
        resamples: How many resamples are drawn, at least 1.
        seed: Seeds the resampling of each sample.

    Raises:
        ValueError: As for :func:`mean_interval`.
    """
    _check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"resamples is at least 1, not {resamples!r}")
    rows = [_sample(values) for values in samples]
    places: dict[int, list[int]] = {}  # indices, by size, of samples whose values are not all equal
    for place, row in enumerate(rows):
        if np.ptp(row) > 0:
            places.setdefault(row.size, []).append(place)
    means: dict[int, np.ndarray] = {}
    for alike in places.values():
        resampled = _resampled_means([rows[place] for place in alike], resamples, seed)
        means |= zip(alike, resampled, strict=True)
    return [_mean_interval(row, means.get(place), confidence) for place, row in enumerate(rows)]


def _resampled_means(samples: Sequence[np.ndarray], resamples: int, seed: int) -> np.ndarray:
    """Return the means of resamples of samples of one size: float64 (samples, resamples).

    The indices drawn are those that ``scipy.stats.bootstrap`` draws for each sample alone.
    """
    size = samples[0].size
    rng = np.random.default_rng(seed)
    batch = max(1, _BATCH_VALUES // size)
    means = np.empty((len(samples), resamples))
    for done in range(0, resamples, batch):
        drawn = rng.integers(size, size=(min(batch, resamples - done), size))
        for row, sample in zip(means, samples, strict=True):
            row[done : done + len(drawn)] = sample.take(drawn).mean(axis=1)
    return means


def _mean_interval(sample: np.ndarray, means: np.ndarray | None, confidence: float) -> Interval:
    """Return a mean with its interval from the means of resamples (None: all values are equal)."""
    mean = float(sample.mean())
    if means is None:
        value = float(sample[0])  # a mean of equal numbers may differ from them in the last digit
        return Interval(value, value, value)
    drawn: Any = SimpleNamespace(bootstrap_distribution=means)  # all that scipy reads from a result
    result = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=0,
        vectorized=True,
        confidence_level=confidence,
        method="BCa",
        bootstrap_result=drawn,
    )
    low, high = (float(end) for end in result.confidence_interval)
    return Interval(mean, low, high)


def proportion_interval(successes: int, trials: int, *, confidence: float = CONFIDENCE) -> Interval:
    """Return a proportion with its Wilson interval, all within 0..1.

    Args:
        successes: 0..trials.
        trials: At least 1.
        confidence: The interval's confidence, between 0 and 1.

    Raises:
        ValueError: The counts or the confidence are out of range.

    Source:
        Wilson (1927), "Probable Inference, the Law of Succession, and Statistical Inference";
        ``scipy.stats.binomtest(...).proportion_ci``.
    """
    _check_confidence(confidence)
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"there are no {successes} successes in {trials} trials")
    return _wilson(int(successes), int(trials), confidence)


@lru_cache(maxsize=4096)  # a performance profile needs few different intervals, many times
def _wilson(successes: int, trials: int, confidence: float) -> Interval:
    interval = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(successes / trials, float(interval.low), float(interval.high))


def clustered_proportion_interval(
    proportions: npt.ArrayLike, trials: int, *, confidence: float = CONFIDENCE
) -> Interval:
    """Return a proportion over clusters of equal size, such as deals played with several seeds.

    It is Wilson's interval with an effective number of trials: the number of independent trials
    that would have the variance observed between clusters. It is limited to the range from the
    number of clusters to the number of trials; if no trial or every trial succeeded, it is the
    number of clusters. With one trial per cluster this is the ordinary Wilson interval.

    Args:
        proportions: Each cluster's share of successes, (m,), m >= 1, multiples of 1 / trials.
        trials: Trials in each cluster, at least 1.
        confidence: The interval's confidence, between 0 and 1.

    Raises:
        ValueError: A proportion is not in 0..1, or as for ``proportion_interval``.

    Source:
        Korn and Graubard (1998), "Confidence Intervals for Proportions with Small Expected Number
        of Positive Counts Estimated from Survey Data"; Dean and Pagano (2015), "Evaluating
        Confidence Interval Methods for Binomial Proportions in Clustered Surveys".
    """
    _check_confidence(confidence)
    sample = _sample(proportions)
    if trials < 1 or sample.min() < 0 or sample.max() > 1:
        raise ValueError(f"proportions lie in 0..1, of at least one trial, not of {trials}")
    clusters = sample.size
    successes = round(float(sample.sum()) * trials)
    if trials == 1 or successes in (0, clusters * trials):
        low_high = proportion_interval(round(successes / trials), clusters, confidence=confidence)
        return Interval(successes / (clusters * trials), low_high.low, low_high.high)
    share = successes / (clusters * trials)
    spread = float(sample.var())
    effective = share * (1 - share) / spread * clusters if spread else math.inf
    effective = min(max(effective, clusters), clusters * trials)
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    middle = (share + z**2 / (2 * effective)) / (1 + z**2 / effective)
    half = z * math.sqrt(share * (1 - share) / effective + z**2 / (4 * effective**2))
    half /= 1 + z**2 / effective
    return Interval(share, middle - half, middle + half)


# ------------------------------------------------------------------------- several training seeds


@dataclass(frozen=True)
class Runs:
    """The figures of an agent that was trained with several seeds.

    Attributes:
        seeds: The number of training seeds, at least 2.
        mean: The mean over seeds of the mean score, with Student's interval over seeds: the
            uncertainty due to the training seed, on the same deals.
        iqm: The interquartile mean of all scores, with Agarwal et al.'s stratified bootstrap.
        iqm_trained_again: The same, with the interval of a bootstrap that draws training seeds,
            each with all its games, and deals. With few seeds it is too short, see
            :func:`two_way_iqm_interval`.
    """

    seeds: int
    mean: Interval
    iqm: Interval
    iqm_trained_again: Interval


def runs_summary(scores: npt.ArrayLike, *, seed: int = 0) -> Runs:
    """Return the figures of an agent that was trained with several seeds.

    Args:
        scores: Scores divided by 1,360, the maximum: (training seeds, deals), 0..1, at least 2
            seeds. All seeds played the same deals.
        seed: Seeds the resampling.

    Raises:
        ValueError: There are fewer than two seeds, no deals, or a score is not finite.
    """
    matrix = _matrix(scores)
    return Runs(
        seeds=len(matrix),
        mean=student_interval(matrix.mean(axis=1)),
        iqm=stratified_iqm_interval(matrix, seed=seed),
        iqm_trained_again=two_way_iqm_interval(matrix, seed=seed),
    )


def interquartile_mean(scores: npt.ArrayLike) -> float:
    """Return the mean of the middle half of all scores.

    Of n scores, n / 4 (rounded down) are removed at each end.

    Args:
        scores: Finite numbers of any shape, at least one.

    Source:
        Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical
        Precipice"; ``scipy.stats.trim_mean``.
    """
    return float(stats.trim_mean(_sample(np.ravel(scores)), 0.25))


def stratified_iqm_interval(
    scores: npt.ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = IQM_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the interquartile mean with the stratified bootstrap of Agarwal et al.

    The deals are the tasks and the training seeds the runs: for each deal, runs are drawn with
    replacement, independently of the other deals; the interval consists of percentiles of the
    interquartile mean over these resamples. So the deals are taken as fixed, and the games of one
    training seed on different deals as independent, which they are if a separate agent is trained
    for each task. Here one policy plays all deals, so the interval reflects the randomness within
    games, and is far too short as an interval over training seeds.

    Args:
        scores: (runs, tasks), finite, at least 2 runs.
        confidence: The interval's confidence, between 0 and 1.
        resamples: How many resamples are drawn, at least 1.
        seed: Seeds the resampling.

    Raises:
        ValueError: The matrix has fewer than 2 runs or no tasks, or a setting is out of range.
    """
    matrix = _matrix(scores)
    runs, tasks = matrix.shape

    def resample(rng: np.random.Generator, count: int) -> np.ndarray:
        return matrix[rng.integers(runs, size=(count, runs, tasks)), np.arange(tasks)]

    return _iqm_percentiles(matrix, resample, confidence, resamples, seed)


def two_way_iqm_interval(
    scores: npt.ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = IQM_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the interquartile mean with a bootstrap over training seeds and deals.

    Training seeds are drawn with replacement, each with all its games, and so are deals, each with
    the games of all seeds (the pigeonhole bootstrap). The interval covers the choice of the deals
    *and* of the training seeds. With few seeds it is too short: in simulations (200 deals; a spread
    between training seeds of 0.3 times that between deals) it contained the true value 86 % of the
    time with three seeds, 91 % with five and 94 % with ten. Student's interval
    (:func:`student_interval`) does not have this flaw.

    Args:
        scores: (training seeds, deals), finite, at least 2 seeds.
        confidence: The interval's confidence, between 0 and 1.
        resamples: How many resamples are drawn, at least 1.
        seed: Seeds the resampling.

    Raises:
        ValueError: As for :func:`stratified_iqm_interval`.

    Source:
        Owen (2007), "The Pigeonhole Bootstrap".
    """
    matrix = _matrix(scores)
    runs, tasks = matrix.shape

    def resample(rng: np.random.Generator, count: int) -> np.ndarray:
        drawn_runs = rng.integers(runs, size=(count, runs, 1))
        drawn_tasks = rng.integers(tasks, size=(count, 1, tasks))
        return matrix[drawn_runs, drawn_tasks]

    return _iqm_percentiles(matrix, resample, confidence, resamples, seed)


def student_interval(values: npt.ArrayLike, *, confidence: float = CONFIDENCE) -> Interval:
    """Return a mean with Student's interval, for a few values such as means of training seeds.

    Args:
        values: Finite numbers, (n,), n >= 2.
        confidence: The interval's confidence, between 0 and 1.

    Raises:
        ValueError: There are fewer than two values, or one is not finite.
    """
    _check_confidence(confidence)
    sample = _sample(values)
    if sample.size < 2:
        raise ValueError("an interval over training seeds needs at least two")
    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(sample.size)
    half = float(stats.t.ppf(0.5 + confidence / 2, sample.size - 1)) * error
    return Interval(mean, mean - half, mean + half)


def _matrix(scores: npt.ArrayLike) -> np.ndarray:
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) < 2 or not matrix.size:
        raise ValueError(
            "scores are a matrix of at least two training seeds and one deal, not of shape"
            f" {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("scores are finite numbers")
    return matrix


def _iqm_percentiles(
    matrix: np.ndarray,
    resample: Callable[[np.random.Generator, int], np.ndarray],
    confidence: float,
    resamples: int,
    seed: int,
) -> Interval:
    """Return the interquartile mean, with the percentiles of its resamples as the interval."""
    _check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"resamples is at least 1, not {resamples!r}")
    rng = np.random.default_rng(seed)
    batch = max(1, _BATCH_VALUES // matrix.size)
    means = np.concatenate(
        [
            stats.trim_mean(
                resample(rng, min(batch, resamples - done)).reshape(-1, matrix.size), 0.25, axis=1
            )
            for done in range(0, resamples, batch)
        ]
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(interquartile_mean(matrix), float(low), float(high))


def paired_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Compare two players' values on the same deals.

    Pairing removes what makes a deal easy or hard for both, so the difference is known more
    precisely than either mean. The interval is that of the mean difference, from ``mean_interval``;
    a sign test is added.

    Args:
        first: Finite numbers, (n,), n >= 1.
        second: Likewise; entry k of both belongs to the same deal.
        confidence: The interval's confidence, between 0 and 1.
        resamples: How many resamples are drawn.
        seed: Seeds the resampling.

    Raises:
        ValueError: The two have different lengths, or as for ``mean_interval``.
    """
    pairs = [(first, second)]
    return paired_differences(pairs, confidence=confidence, resamples=resamples, seed=seed)[0]


def paired_differences(
    pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[PairedDifference]:
    """Return the result of :func:`paired_difference` for each of several pairs.

    They are resampled together, see :func:`mean_intervals`.

    Args:
        pairs: The values of two players each.
        confidence: The intervals' confidence, between 0 and 1.
        resamples: How many resamples are drawn.
        seed: Seeds the resampling of each pair.

    Raises:
        ValueError: As for :func:`paired_difference`.
    """
    rows = []
    for first, second in pairs:
        one, other = _sample(first), _sample(second)
        if one.size != other.size:
            raise ValueError(f"{one.size} values cannot be paired with {other.size}")
        rows.append(one - other)
    intervals = mean_intervals(rows, confidence=confidence, resamples=resamples, seed=seed)
    return [
        _paired(interval, int((row > 0).sum()), int((row < 0).sum()), row.size)
        for row, interval in zip(rows, intervals, strict=True)
    ]


def _paired(difference: Interval, higher: int, lower: int, count: int) -> PairedDifference:
    """Return a difference of ``count`` pairs with its sign test."""
    return PairedDifference(
        difference, higher, lower, count - higher - lower, sign_test(higher, lower)
    )


def paired_wins(
    first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> PairedDifference:
    """Compare how often two players win the same deals.

    The sign test is McNemar's exact test, which considers the deals that one of the two won more
    often than the other. If each deal was played once, the interval of the difference is
    Newcombe's, which has a width even if no deal or every deal is won; otherwise it is the
    bootstrap's.

    Args:
        first: For each deal, the share of games that the first player won, (n,), 0..1.
        second: The same for the second player, in the same order of deals.
        confidence: The interval's confidence, between 0 and 1.
        seed: Seeds the resampling.

    Raises:
        ValueError: A share is not in 0..1, or as for :func:`paired_difference`.

    Source:
        Newcombe (1998), "Improved Confidence Intervals for the Difference Between Binomial
        Proportions Based on Paired Data", method 10.
    """
    return all_paired_wins([(first, second)], confidence=confidence, seed=seed)[0]


def all_paired_wins(
    pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> list[PairedDifference]:
    """Return the result of :func:`paired_wins` for each of several pairs.

    Args:
        pairs: For each pair, two players' shares of games won.
        confidence: The intervals' confidence, between 0 and 1.
        seed: Seeds the resampling of each pair.

    Raises:
        ValueError: As for :func:`paired_wins`.
    """
    samples = [(_sample(first), _sample(second)) for first, second in pairs]
    resampled = []  # indices of the pairs with deals that were played several times
    for place, (one, other) in enumerate(samples):
        both = np.concatenate([one, other])
        if both.min() < 0 or both.max() > 1:
            raise ValueError("shares of games won lie in 0..1")
        if one.size != other.size or not np.isin(both, (0.0, 1.0)).all():
            resampled.append(place)
    differences = dict(
        zip(
            resampled,
            paired_differences(
                [samples[place] for place in resampled], confidence=confidence, seed=seed
            ),
            strict=True,
        )
    )
    return [
        differences[place] if place in differences else _newcombe(one, other, confidence)
        for place, (one, other) in enumerate(samples)
    ]


def _newcombe(one: np.ndarray, other: np.ndarray, confidence: float) -> PairedDifference:
    """Return the difference of two players' wins (each 0 or 1), with Newcombe's interval."""
    higher, lower = int((one > other).sum()), int((one < other).sum())
    n, both = one.size, int((one * other).sum())
    left, right = int(one.sum()), int(other.sum())
    neither = n - left - right + both
    # The correlation phi of the two, with a correction for small numbers of deals.
    covariance = float(both * neither - higher * lower)
    if covariance > 0:
        covariance = max(covariance - n / 2, 0.0)
    scale = math.sqrt(left * (n - left) * right * (n - right))
    phi = covariance / scale if scale else 0.0
    p = proportion_interval(left, n, confidence=confidence)
    q = proportion_interval(right, n, confidence=confidence)

    def distance(a: float, b: float) -> float:
        return math.sqrt(max(a**2 - 2 * phi * a * b + b**2, 0.0))

    difference = p.estimate - q.estimate
    interval = Interval(
        difference,
        difference - distance(p.estimate - p.low, q.high - q.estimate),
        difference + distance(p.high - p.estimate, q.estimate - q.low),
    )
    return _paired(interval, higher, lower, n)


def sign_test(higher: int, lower: int) -> float:
    """Return the p-value of the two-sided sign test, 0..1; 1 if no pair differs.

    Args:
        higher: The number of pairs whose first value is higher, >= 0.
        lower: The number of pairs whose second value is higher; equal pairs do not count.

    Raises:
        ValueError: A count is negative.
    """
    if min(higher, lower) < 0:
        raise ValueError(f"counts are not negative: {higher}, {lower}")
    if higher + lower == 0:
        return 1.0
    return float(stats.binomtest(higher, higher + lower, 0.5).pvalue)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence lies between 0 and 1, not at {confidence!r}")
