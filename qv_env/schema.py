"""What files of ours may say: pydantic models, and what is said of a file that says otherwise.

A model is a subclass of :class:`Strict`. :func:`checked` makes one of what a reader
(``qv_env.strict_json``, ``qv_env.strict_yaml``) returned, or says in one line which key is wrong,
what it may be, and what it is::

    runs/a/config.yaml: ppo.gamma is a number in 0..1, not 1.5

Needs pydantic (extras ``evaluation`` and ``train``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import core_schema

from qv_env.strict_json import FormatError, decoded, parse_json, shown, shown_key

T = TypeVar("T")


class Strict(BaseModel):
    """A mapping of known keys: no others, no value of another kind than the key's, all finite."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# For ``pydantic.dataclasses.dataclass``: no other keys, all finite. It takes plain dicts only where
# it is not strict as a whole, so its numbers say ``Field(strict=True)`` themselves.
DATACLASS = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Whole:
    """Metadata of an integer as people write it, 2e6 included: ``Annotated[int, Whole(1, 9)]``.

    Attributes:
        low, high: The least and the largest.
    """

    low: int
    high: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        limited = core_schema.int_schema(ge=self.low, le=self.high, strict=True)
        return core_schema.no_info_before_validator_function(_whole, limited)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class OneOf:
    """Metadata of a text that is one of a few: ``Annotated[str, OneOf(NAMES)]``.

    Attributes:
        names: Which there are.
    """

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.literal_schema(list(self.names))


def checked(kind: type[T], value: Any, name: str = "") -> T:
    """Return what plain dicts, lists and values describe.

    Args:
        kind: A subclass of :class:`Strict`, or another type that pydantic knows.
        value: Of it.
        name: What the message begins with, such as a file's name.

    Raises:
        FormatError: A key is unknown, missing, or its value one that it cannot have; the message
            says which, and what it may be.
    """
    adapter: TypeAdapter[T] = _adapter(cast(Hashable, kind))
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        message = _error_text(adapter.json_schema(), error)
    raise FormatError(f"{name}: {message}" if name else message)


def checked_lines(kind: type[T], data: bytes, name: str) -> list[tuple[Any, T]]:
    """Return what lines hold, a JSON value each; empty ones are left out.

    Args:
        kind: As for :func:`checked`.
        data: The lines, in UTF-8.
        name: What they are called in messages, such as a file's name.

    Returns:
        Each value as JSON has it, and what was made of it.

    Raises:
        FormatError: A line is not what it should be; the message says which and why.
    """
    try:
        text = decoded(data)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None
    made = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            try:
                value = parse_json(line)
                made.append((value, checked(kind, value)))
            except FormatError as error:
                raise FormatError(f"{name}, line {number}: {error}") from None
    return made


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# ------------------------------------------------------------------------ what is said of errors


def _error_text(schema: dict[str, Any], error: ValidationError) -> str:
    """One line about the first thing that is wrong."""
    details = error.errors(include_url=False)
    places = [_place(schema, one["loc"]) for one in details]
    # Each alternative of a key has its own errors: what got furthest into the value was meant.
    same = [i for i, (key, _) in enumerate(places) if key.startswith(places[0][0])]
    worst = max(same, key=lambda i: len(places[i][0]))
    key, wanted = places[worst]
    what = details[worst]["type"]
    name = shown_key(key) or "this"
    if what == "value_error":  # of a check of ours: of a model's, it names the key itself
        message = str(details[worst]["ctx"]["error"])
        of_model = "properties" in _needed(schema, wanted)
        return message if of_model else f"{name}: {message}"
    if what in ("extra_forbidden", "unexpected_keyword_argument"):
        there = _needed(schema, _place(schema, details[worst]["loc"][:-1])[1])
        return f"unknown key {name}; there are {', '.join(there['properties'])}"
    if what == "invalid_key":
        return f"a key is text, not {shown(details[worst]['input'])}"
    if what == "missing":
        return f"the key {name} is missing"
    if what == "finite_number" and "type" not in wanted:
        wanted = {"type": "finite"}
    return f"{name} is {_described(schema, wanted)}, not {shown(details[worst]['input'])}"


def _place(schema: dict[str, Any], path: Sequence[int | str]) -> tuple[str, dict[str, Any]]:
    """The dotted key of an error's path, and the JSON schema of what stands there."""
    key, node = "", schema
    for step in path:
        node = _needed(schema, node)
        if not node and key:  # any JSON: pydantic's names of its kinds follow
            break
        if "anyOf" in node:  # the path names one of the alternatives
            lists = [one for one in node["anyOf"] if one.get("type") == "array"]
            node = lists[0] if str(step).startswith("list[") and lists else node
        elif isinstance(step, int):
            key += f"[{step}]"
            node = node.get("items", {})
        elif step != "[key]":
            key += f".{step}"
            other = node.get("additionalProperties")
            node = node.get("properties", {}).get(step, other if isinstance(other, dict) else {})
    return key.removeprefix("."), _resolved(schema, node)


def _needed(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """What stands there where it is not null."""
    node = _resolved(schema, node)
    kinds = [one for one in node.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(schema, kinds[0]) if len(kinds) == 1 else node


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref", "")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else node


_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "finite": "a finite number",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a mapping of keys",
    "string": "text",
}


def _described(schema: dict[str, Any], node: dict[str, Any]) -> str:
    """What a JSON schema allows, in words: ``an integer in 1..4096 or null``."""
    node = _resolved(schema, node)
    if "anyOf" in node:
        return " or ".join(_described(schema, one) for one in node["anyOf"])
    if "const" in node or "enum" in node:
        values = node.get("enum", [node.get("const")])
        texts = [one if isinstance(one, str) else shown(one) for one in values]
        return f"one of {', '.join(texts)}" if len(texts) > 1 else texts[0]
    words = _WORDS.get(node.get("type", ""), "a value of JSON")
    low, high = node.get("minimum"), node.get("maximum")
    above, below = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{words} in {_figure(low)}..{_figure(high)}"
    limits = [("above", above), ("at least", low), ("below", below), ("at most", high)]
    said = [f"{word} {_figure(limit)}" for word, limit in limits if limit is not None]
    for size, one, many in (("Items", "entry", "entries"), ("Length", "character", "characters")):
        for word, key in (("at least", f"min{size}"), ("at most", f"max{size}")):
            if key in node:
                said.append(f"of {word} {node[key]:,} {one if node[key] == 1 else many}")
    return " ".join([words, " and ".join(said)]) if said else words


def _figure(number: float) -> str:
    """A limit as people read it: ``65,536``."""
    return f"{int(number):,}" if abs(number) >= 10_000 else f"{number:g}"
