"""YAML read strictly, and written so that it is read back: needs PyYAML (extra ``train``).

Read are mappings with texts as keys, lists, texts, numbers, true, false and null. Refused, each
with its key: a key that stands there twice, aliases (a few lines of them unfold to gigabytes),
tags of other kinds, and numbers that mean to YAML something else than to people (``010`` is 8,
``10:20`` is 620). ``3e-4`` and ``2e6`` are numbers, which YAML 1.1 takes for texts, and dates are
the texts as which they are written.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml

from qv_env.strict_json import FormatError, decoded, shown, shown_key

MAX_DEPTH = 50  # mappings and lists in one another
MAX_SIZE = 1 << 17  # bytes, of a file: PyYAML takes seconds for as many
_MAX_NUMBER = 1000  # characters

_FLOAT = "tag:yaml.org,2002:float"
_EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)[eE][-+]?[0-9]+\Z")
_BASE_8 = re.compile(r"[-+]?0[0-9_]+\Z")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z")


def parse_yaml(text: str, key: str = "") -> Any:
    """Return the value of a YAML text; None where it is empty.

    Args:
        text: The text.
        key: The dotted key that the value is of, for messages.

    Raises:
        FormatError: It is no YAML of the kind that is read here; the message names line and
            column, or the key.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _value(loader, node, key)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise FormatError(f"not YAML: {_said(error)}") from None


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """Return the value that a YAML file holds; None where it is empty.

    Raises:
        FormatError: As :func:`parse_yaml`, or the file is larger than any such; the message names
            the file.
        OSError: It cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SIZE + 1)
        if len(data) > MAX_SIZE:
            raise FormatError(f"the file has more than the {MAX_SIZE:,} bytes that are read")
        try:
            text = decoded(data)
        except FormatError as error:
            raise FormatError(f"not YAML: {error}") from None
        return parse_yaml(text)
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def yaml_text(value: Any) -> str:
    """Return the YAML of plain dicts, lists and values, keys in their order; it is read back."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False)


class _Loader(yaml.SafeLoader):
    """Composes nodes of the kinds that are read."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise self._stopped(f"there is an alias, {shown(f'*{event.anchor}')}: write its value")
        if self._depth >= MAX_DEPTH:
            raise self._stopped("it is nested too deeply")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _stopped(self, problem: str) -> yaml.YAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())


class _Dumper(yaml.SafeDumper):
    """Puts in quotes what the loader takes for a number; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver(_FLOAT, _EXPONENT, list("-+.0123456789"))
# Dates are texts (written in quotes all the same, for other readers).
_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if not pair[0].endswith(":timestamp")]
    for first, pairs in _Loader.yaml_implicit_resolvers.items()
}


def _value(loader: _Loader, node: yaml.Node, place: str) -> Any:
    """The value of a node; ``place`` is its dotted key."""
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if isinstance(node, yaml.MappingNode) and kind == "map":
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                raise _refused(key_node, place, "a key is a text, not " + shown(key))
            inner = f"{place}.{key}" if place else key
            if key in content:
                raise _refused(key_node, inner, "the key stands there twice")
            content[key] = _value(loader, value_node, inner)
        return content
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_value(loader, item, f"{place}[{i}]") for i, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
        return _scalar(loader, node, kind, place)
    raise _refused(node, place, f"nothing of the kind {shown(node.tag)} is read here")


_SCALARS = ("null", "bool", "int", "float", "str")


def _scalar(loader: _Loader, node: yaml.ScalarNode, kind: str, place: str) -> Any:
    text = node.value
    if len(text) > _MAX_NUMBER and kind != "str":
        raise _refused(node, place, f"a number has at most {_MAX_NUMBER} characters")
    try:
        value = loader.construct_object(node)
        text.encode()
    except UnicodeEncodeError:
        raise _refused(node, place, f"{shown(text)} holds half a character") from None
    except (ValueError, LookupError):  # !!int abc, 0b_
        raise _refused(node, place, f"{shown(text)} is no {kind}") from None
    if kind in ("int", "float") and _BASE_60.match(text):
        message = f"{text!r} is {value} to YAML, which reads it in base 60: write it in quotes"
        raise _refused(node, place, message)
    if kind == "int" and _BASE_8.match(text):
        message = f"{text!r} is {value} to YAML, which reads it in base 8: write no leading 0"
        raise _refused(node, place, message)
    return value


def _refused(node: yaml.Node, place: str, message: str) -> FormatError:
    where = shown_key(place) or f"line {node.start_mark.line + 1}"
    return FormatError(f"{where}: {message}")


def _said(error: yaml.YAMLError) -> str:
    """What PyYAML says of an error, on one line, never long."""
    text = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    short = " ".join(text.split())
    return f"{short if len(short) <= 200 else short[:197] + '...'}{place}"
