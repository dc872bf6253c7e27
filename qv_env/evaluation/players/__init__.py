"""Players that need only the environment, and their names.

================  ==========================================================================
``random``        a uniformly random legal action
``greedy``        the app's double-click order, then a draw
``human:FOLDER``  the games that people played: playthrough files of a folder
``MODULE:NAME``   your own player: ``NAME`` in an importable module is a subclass of
                  :class:`qv_env.evaluation.Player` or a function that returns a player; it is
                  called with the settings as keywords, with numbers, true and false converted
================  ==========================================================================
"""

from __future__ import annotations

from qv_env.evaluation.players.base import Player
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.players.human import HumanPlayer
from qv_env.evaluation.players.names import PlayerKind, PlayerNames, PlayerSpec, plain
from qv_env.evaluation.players.random import RandomPlayer


def _human(spec: PlayerSpec) -> Player:
    if not spec.path or spec.options:
        raise ValueError(
            f"player {spec.text!r}: human takes a folder and no settings: human:FOLDER"
        )
    return HumanPlayer(spec.path)


PLAYERS = PlayerNames(
    "qv_env.evaluation.players:PLAYERS",
    {
        "random": PlayerKind("random", plain(RandomPlayer)),
        "greedy": PlayerKind("greedy", plain(GreedyPlayer)),
        "human": PlayerKind("human:FOLDER", _human),
    },
)

__all__ = [
    "PLAYERS",
    "GreedyPlayer",
    "HumanPlayer",
    "Player",
    "PlayerKind",
    "PlayerNames",
    "PlayerSpec",
    "RandomPlayer",
    "plain",
]
