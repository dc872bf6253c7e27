"""Published results included in the package, for comparisons by a player's name.

The rows are those of the project's scoreboard, whose program writes them, without the actions of
the games. Beside each file of rows, ``NAME.json`` describes how they were obtained.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from qv_env.evaluation.comparison import joined
from qv_env.evaluation.results import Results, ResultsError, check_frame, read_results

PUBLISHED_SUITES = ("dev-200", "test-1000")
FOLDER = Path(__file__).resolve().parents[1] / "data" / "published"


@cache
def published_results(suite: str) -> dict[str, Results]:
    """Return a suite's published results by players' names; empty for a suite without any.

    Raises:
        ResultsError: A file is damaged.
    """
    found = {}
    for path in sorted((FOLDER / suite).glob("*.jsonl.gz")) if suite in PUBLISHED_SUITES else []:
        results = read_results(path)
        (player,) = results.players
        found[player] = results
    return found


def with_published(results: Results, player: str, allowed: Iterable[str] = ()) -> Results:
    """Return results together with a published player's rows of the same deals.

    Args:
        results: Results on the deals of a suite, or on its first deals.
        player: The published player's name.
        allowed: As for :func:`qv_env.evaluation.comparison.joined`.

    Raises:
        ResultsError: There are no such rows, or they are not comparable; the message says why.
    """
    published = published_results(results.suite)
    if player not in published:
        there = f"; published are {', '.join(published)}" if published else ""
        raise ResultsError(
            f"no player or group {player!r}; there are {', '.join(results.players)}{there}"
        )
    rows = published[player].frame
    chosen = rows[rows["index"].isin(results.frame["index"])].reset_index(drop=True)
    check_frame(chosen)
    part = Results(chosen, published[player].cpu_seconds)
    return joined({"the results": results, "the published rows": part}, allowed)
