"""Published results that come with the package, to compare with by a player's name anywhere.

The rows are those of the project's scoreboard, without the games' actions; the scoreboard's
program writes them. Beside each file of rows, ``NAME.json`` tells how they were made.
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
    """Return the published results of a suite, by the players' names; none for another suite.

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
    """Return results with a published player's rows of the same deals beside them.

    Args:
        results: Results of a suite's deals, or of its first ones.
        player: The published player's name.
        allowed: As for :func:`qv_env.evaluation.comparison.joined`.

    Raises:
        ResultsError: There are no such rows, or they do not compare; the message says why.
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
