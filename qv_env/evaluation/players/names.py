"""Players by name: creating players from texts such as ``human:FOLDER`` or ``MODULE:NAME``.

A player is named ``NAME``, ``NAME:PATH`` or ``NAME:PATH,key=value,...``. The package has the names
of :data:`qv_env.evaluation.players.PLAYERS`; a project adds its own with
:meth:`PlayerNames.extended`.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qv_env.evaluation.players.base import Player
from qv_env.strict_json import FormatError, parse_json

POLICY_FILE = "policy.safetensors"  # in the folder of a training run


@dataclass(frozen=True)
class PlayerSpec:
    """A parsed player name.

    Attributes:
        text: The whole text.
        name: The part before the first colon or comma.
        path: The part between that colon and the first comma, or "".
        options: The settings, as text.
    """

    text: str
    name: str
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> PlayerSpec:
        """Parse a player's name.

        Raises:
            ValueError: A setting is not ``key=value``.
        """
        head, *settings = text.split(",")
        name, _, path = head.partition(":")
        options: dict[str, str] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or not key:
                raise ValueError(f"player {text!r}: {setting!r} is not key=value")
            options[key] = value
        return cls(text, name, path, options)

    def files(self) -> dict[str, str]:
        """Return the files that the name refers to, with the SHA-256 of each.

        These are a policy's file or a settings file, on which the player depends besides the code.
        """
        found = {}
        for text in (self.path, *self.options.values()):
            for file in (Path(text), Path(text, POLICY_FILE)):
                if text and file.is_file():
                    found[file.as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found


@dataclass(frozen=True)
class PlayerKind:
    """The players of one name.

    Attributes:
        form: The form of the name, such as ``human:FOLDER``.
        make: Creates a player from the parsed name. It raises a ValueError or an OSError if the
            name is not valid, and imports modules that only these players need.
    """

    form: str
    make: Callable[[PlayerSpec], Player]


class PlayerNames:
    """Kinds of players by name.

    Args:
        where: ``MODULE:NAME`` from which another process can import this object.
        kinds: The kinds, by name.
    """

    def __init__(self, where: str, kinds: Mapping[str, PlayerKind]) -> None:
        self.where = where
        self._kinds = dict(kinds)

    def extended(self, where: str, kinds: Mapping[str, PlayerKind]) -> PlayerNames:
        """Return these kinds together with others; ``where`` as for the class."""
        return PlayerNames(where, {**self._kinds, **kinds})

    @staticmethod
    def at(where: str) -> PlayerNames:
        """Import the PlayerNames at ``MODULE:NAME``.

        Raises:
            ValueError: There is no such object.
        """
        module, _, name = where.partition(":")
        names = getattr(importlib.import_module(module), name, None)
        if not isinstance(names, PlayerNames):
            raise ValueError(f"{where} is no PlayerNames")
        return names

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._kinds)

    @property
    def forms(self) -> str:
        """The forms of players' names, for help texts."""
        forms = ", ".join(kind.form for kind in self._kinds.values())
        return f"{forms}, or MODULE:NAME for a player of yours"

    def make(self, text: str) -> Player:
        """Return the player that a text names.

        For ``MODULE:NAME``, ``NAME`` of an importable module is a subclass of
        :class:`qv_env.evaluation.Player`, or a function that returns a player. It is called with
        the settings as keywords; JSON's numbers, true, false and null are converted.

        Raises:
            ValueError: There is no such player or setting; the message lists the possible names.
            OSError: A file that the player needs cannot be read.
        """
        spec = PlayerSpec.parse(text)
        if spec.name in self._kinds:
            return self._kinds[spec.name].make(spec)
        if spec.path:
            return self._imported(spec)
        raise ValueError(f"no player {spec.name!r}; there are {self._listed()}")

    def _listed(self) -> str:
        return f"{', '.join(self._kinds)} and MODULE:NAME"

    def _imported(self, spec: PlayerSpec) -> Player:
        """Create a player with a class or function of an importable module."""
        try:
            made_by: Any = importlib.import_module(spec.name)
        except (ImportError, TypeError, ValueError) as error:  # the latter: names such as .x
            raise ValueError(f"player {spec.text!r}: {error}; there are {self._listed()}") from None
        for part in spec.path.split("."):
            if not hasattr(made_by, part):
                raise ValueError(f"player {spec.text!r}: {spec.name} has no {spec.path}")
            made_by = getattr(made_by, part)
        if not callable(made_by):
            raise ValueError(f"player {spec.text!r}: {spec.path} is no class and no function")
        try:
            player = made_by(**{key: setting_value(text) for key, text in spec.options.items()})
        except TypeError as error:
            raise ValueError(f"player {spec.text!r}: {error}") from error
        if not isinstance(player, Player):
            raise ValueError(
                f"player {spec.text!r}: a player is a qv_env.evaluation.Player, not"
                f" {type(player).__name__}"
            )
        player.name = player.name or spec.path
        return player


def plain(make: Callable[[], Player]) -> Callable[[PlayerSpec], Player]:
    """Return a ``make`` function for a player whose name takes no path and no settings."""

    def made(spec: PlayerSpec) -> Player:
        if spec.path or spec.options:
            raise ValueError(f"player {spec.name!r} takes no path and no settings")
        return make()

    return made


def setting_value(text: str) -> Any:
    """Return a setting's value: JSON's numbers, true, false and null, else the text."""
    try:
        value = parse_json(text)
    except FormatError:
        return text
    return text if isinstance(value, (dict, list, str)) else value
