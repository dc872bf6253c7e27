"""The players, by name.

A player is named ``NAME``, ``NAME:PATH`` or ``NAME:PATH,key=value,...``:

=====================  =====================================================================
``random``             a uniformly random legal action
``greedy``             the app's double-click order, then a draw
``plan``               a search over the visible moves between two draws; ``plan:FILE`` with the
                       weights of another settings file than ``configs/search/plan.yaml``; with
                       ``width=``, ``depth=``, ``end_width=``, ``end_depth=``: how far it looks
``human:FOLDER``       the games that people played: playthrough files of a folder
``ppo:PATH``           a trained policy: a run's folder, or its ``policy.safetensors``; with
                       ``play=`` sample (default), argmax or argmax-new (argmax that never
                       returns to a position of the episode), ``temperature=`` for sample
=====================  =====================================================================
"""

from __future__ import annotations

from agents.players.base import Player
from agents.players.greedy import GreedyPlayer
from agents.players.random import RandomPlayer

NAMES = ("random", "greedy", "plan", "ppo", "human")


def make_player(spec: str) -> Player:
    """Return the player that a text names.

    Raises:
        ValueError: There is no such player or setting; the message says what there is.
        OSError: A policy's file cannot be read.
    """
    head, *settings = spec.split(",")
    name, _, path = head.partition(":")
    options: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ValueError(f"player {spec!r}: {setting!r} is not key=value")
        options[key] = value
    if name == "human":
        if not path or options:
            raise ValueError(f"player {spec!r}: human takes a folder and no settings: human:FOLDER")
        from agents.players.human import HumanPlayer

        return HumanPlayer(path)
    if name == "ppo":
        if not path:
            raise ValueError(f"player {spec!r} names no policy: ppo:PATH")
        from agents.players.ppo import PPOPlayer  # torch only where it is needed

        return PPOPlayer.load(path, **options)
    if name == "plan":
        from agents.players.plan import PlanPlayer  # yaml and compiled code, likewise

        return PlanPlayer.load(path, **options)
    if name not in NAMES:
        raise ValueError(f"no player {name!r}; there are {', '.join(NAMES)}")
    if path or options:
        raise ValueError(f"player {name!r} takes no path and no settings")
    return RandomPlayer() if name == "random" else GreedyPlayer()


__all__ = ["NAMES", "Player", "make_player"]
