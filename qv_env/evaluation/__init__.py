"""Comparing players: the protocol, the loop that plays deals, rows, statistics, reports.

It needs the extra ``evaluation`` (``pip install 'qv-env[evaluation]'``). Write your own player as a
subclass of :class:`Player`, and run it with ``python -m qv_env benchmark MODULE:NAME greedy``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qv_env.evaluation.benchmark import play_into, run_benchmark
    from qv_env.evaluation.checks import check_player
    from qv_env.evaluation.comparison import Comparison, load_results
    from qv_env.evaluation.play import game_rng, play_deals, watch
    from qv_env.evaluation.players import PLAYERS, Player, PlayerKind, PlayerNames
    from qv_env.evaluation.players.base import Episode, Uniforms, sample_rows
    from qv_env.evaluation.published import published_results
    from qv_env.evaluation.results import Results, ResultsError, read_results
    from qv_env.evaluation.schedule import Schedule
    from qv_env.evaluation.summary import PlayerSummary, summarize

# The module of each name; imported on first use, since worker processes need few of them.
_HOMES = {
    "Comparison": "qv_env.evaluation.comparison",
    "Episode": "qv_env.evaluation.players.base",
    "PLAYERS": "qv_env.evaluation.players",
    "Player": "qv_env.evaluation.players",
    "PlayerKind": "qv_env.evaluation.players",
    "PlayerNames": "qv_env.evaluation.players",
    "PlayerSummary": "qv_env.evaluation.summary",
    "Results": "qv_env.evaluation.results",
    "ResultsError": "qv_env.evaluation.results",
    "Schedule": "qv_env.evaluation.schedule",
    "Uniforms": "qv_env.evaluation.players.base",
    "check_player": "qv_env.evaluation.checks",
    "game_rng": "qv_env.evaluation.play",
    "load_results": "qv_env.evaluation.comparison",
    "play_deals": "qv_env.evaluation.play",
    "play_into": "qv_env.evaluation.benchmark",
    "published_results": "qv_env.evaluation.published",
    "read_results": "qv_env.evaluation.results",
    "run_benchmark": "qv_env.evaluation.benchmark",
    "sample_rows": "qv_env.evaluation.players.base",
    "summarize": "qv_env.evaluation.summary",
    "watch": "qv_env.evaluation.play",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "PLAYERS",
    "Comparison",
    "Episode",
    "Player",
    "PlayerKind",
    "PlayerNames",
    "PlayerSummary",
    "Results",
    "ResultsError",
    "Schedule",
    "Uniforms",
    "check_player",
    "game_rng",
    "load_results",
    "play_deals",
    "play_into",
    "published_results",
    "read_results",
    "run_benchmark",
    "sample_rows",
    "summarize",
    "watch",
]
