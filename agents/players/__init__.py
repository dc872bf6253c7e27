"""The players, by name.

A player is named ``NAME``, ``NAME:PATH`` or ``NAME:PATH,key=value,...``:

=====================  =====================================================================
``random``             a uniformly random legal action
``greedy``             the app's double-click order, then a draw
``plan``               a search over the visible moves between two draws; ``plan:FILE`` with the
                       weights of another settings file than ``configs/search/plan.yaml``; with
                       ``width=``, ``depth=``, ``end_width=``, ``end_depth=``: how far it looks
``sample``             plays the ``plan`` player's best positions out on sampled stocks;
                       ``sample:FILE`` likewise (``configs/search/sample.yaml``); with ``games=``,
                       ``candidates=``, ``width=`` and so on: how much it plays
``human:FOLDER``       the games that people played: playthrough files of a folder
``ppo:PATH``           a trained policy: a run's folder, or its ``policy.safetensors``; with
                       ``play=`` sample (default), argmax or argmax-new (argmax that never
                       returns to a position of the episode), ``temperature=`` for sample
``ppo+plan:PATH``      the ``plan`` player, which asks a policy's value network about its best
                       positions; with ``weight=``, ``candidates=`` and the ``plan`` player's
                       numbers (best with the network of ``agents.value``)
``MODULE:NAME``        a player of yours: what ``NAME`` of an importable module makes, a subclass
                       of ``qv_env.evaluation.players.base.Player`` or a function that
                       returns one; called with the settings as keywords, numbers, true and
                       false as such
=====================  =====================================================================
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qv_env.evaluation.players.base import Player
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.players.random import RandomPlayer

_FORMS = {
    "random": "random",
    "greedy": "greedy",
    "plan": "plan[:FILE][,key=value...]",
    "ppo": "ppo:PATH[,play=...][,temperature=T]",
    "human": "human:FOLDER",
    "sample": "sample[:FILE][,key=value...]",
    "ppo+plan": "ppo+plan:PATH[,key=value...]",
}
NAMES = tuple(_FORMS)
FORMS = f"{', '.join(_FORMS.values())}, or MODULE:NAME for a player of yours (docs/players.md)"


def make_player(spec: str) -> Player:
    """Return the player that a text names.

    Raises:
        ValueError: There is no such player or setting; the message says what there is.
        OSError: A policy's file cannot be read.
    """
    name, path, options = _parsed(spec)
    if name == "human":
        if not path or options:
            raise ValueError(f"player {spec!r}: human takes a folder and no settings: human:FOLDER")
        from qv_env.evaluation.players.human import HumanPlayer

        return HumanPlayer(path)
    if name == "ppo":
        if not path:
            raise ValueError(f"player {spec!r} names no policy: ppo:PATH")
        from agents.players.ppo import PPOPlayer  # torch only where it is needed

        return PPOPlayer.load(path, **options)
    if name == "plan":
        from agents.players.plan import PlanPlayer  # yaml and compiled code, likewise

        return PlanPlayer.load(path, **options)
    if name == "ppo+plan":
        from agents.players.ppo_plan import PPOPlanPlayer

        return PPOPlanPlayer.load(path, **options)
    if name == "sample":
        from agents.players.sample import SamplePlayer

        return SamplePlayer.load(path, **options)
    if name not in NAMES:
        if path:
            return _imported(spec, name, path, options)
        raise ValueError(f"no player {name!r}; there are {', '.join(NAMES)} and MODULE:NAME")
    if path or options:
        raise ValueError(f"player {name!r} takes no path and no settings")
    return RandomPlayer() if name == "random" else GreedyPlayer()


def _parsed(spec: str) -> tuple[str, str, dict[str, str]]:
    """A player's name, path and settings."""
    head, *settings = spec.split(",")
    name, _, path = head.partition(":")
    options: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ValueError(f"player {spec!r}: {setting!r} is not key=value")
        options[key] = value
    return name, path, options


def _imported(spec: str, module: str, name: str, options: Mapping[str, str]) -> Player:
    """The player that something in an importable module makes."""
    try:
        made_by: Any = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"player {spec!r}: {error}; there are {', '.join(NAMES)} and MODULE:NAME"
        ) from None
    for part in name.split("."):
        if not hasattr(made_by, part):
            raise ValueError(f"player {spec!r}: {module} has no {name}")
        made_by = getattr(made_by, part)
    if not callable(made_by):
        raise ValueError(f"player {spec!r}: {name} is no class and no function")
    try:
        player = made_by(**{key: _value(text) for key, text in options.items()})
    except TypeError as error:
        raise ValueError(f"player {spec!r}: {error}") from error
    if not isinstance(player, Player):
        raise ValueError(
            f"player {spec!r}: a player is a qv_env.evaluation.players.base.Player, not"
            f" {type(player).__name__}"
        )
    player.name = player.name or name
    return player


def _value(text: str) -> Any:
    """A setting's value: a number, true, false or null of JSON, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (dict, list, str)) else value


def player_files(spec: str) -> dict[str, str]:
    """Return the files that a player's name names, and the SHA-256 of each.

    A policy's file or a settings file: what decides, beside the code, how the player plays.
    """
    _, path, options = _parsed(spec)
    found = {}
    for text in (path, *options.values()):
        for file in (Path(text), Path(text, "policy.safetensors")):
            if text and file.is_file():
                found[file.as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


__all__ = ["FORMS", "NAMES", "Player", "make_player", "player_files"]
