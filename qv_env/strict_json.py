"""JSON read strictly, with messages that say where a text is wrong.

What Python's own reader lets pass is refused: a key that stands there twice (one reader takes the
first, another the last), ``NaN``, ``Infinity``. What it raises other errors for is a
:class:`FormatError`, too: integers of thousands of digits, nesting without end, bytes that are no
UTF-8. (``1e999`` is a number to JSON, and infinite here: who checks the values refuses it.)
"""

from __future__ import annotations

import gzip
import json
import os
import re
import reprlib
import zlib
from pathlib import Path
from typing import Any

MAX_SHOWN = 60  # characters of a value in a message


class FormatError(ValueError):
    """A text or a file is not what it should be; the message says where and why."""


def shown(value: Any) -> str:
    """Return a value for a message: on one line, escaped, at most some 60 characters long."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    try:
        text = _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"an integer of {value.bit_length()} bits"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def shown_key(key: str) -> str:
    """Return a dotted key for a message: as it is, but escaped and shortened where need be."""
    text = key if key.isprintable() else ascii(key)[1:-1]
    return text if len(text) <= 2 * MAX_SHOWN else f"{text[: 2 * MAX_SHOWN - 3]}..."


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 40


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        FormatError: It is no JSON; the message names line and column where there are any.
    """
    if not text.strip():
        raise FormatError("the file is empty")
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        if _stops_in_the_middle(text, error):
            raise FormatError(f"the JSON is cut off ({place}: {error.msg})") from None
        raise FormatError(f"this is not JSON ({place}: {error.msg})") from None
    except RecursionError:
        raise FormatError("the JSON is nested too deeply") from None
    except FormatError:
        raise
    except ValueError as error:  # an integer of too many digits
        raise FormatError(f"the JSON cannot be read: {error}") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the value that a JSON file holds.

    Raises:
        FormatError: It is no JSON; the message names the file.
        OSError: It cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        return parse_json(decoded(data))
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds, unpacked where its name ends in ``.gz``.

    Raises:
        FormatError: It is damaged; the message names the file.
        OSError: It cannot be read.
    """
    data = Path(path).read_bytes()
    if Path(path).suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{os.fspath(path)}: damaged, not whole gzip: {error}") from None


def decoded(data: bytes) -> str:
    """Return bytes as text.

    Raises:
        FormatError: They are no UTF-8; the message names the first byte that is none.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is not UTF-8") from None


# What may be left over where a word or a number was cut in two.
_CUT = re.compile(r"(n|nu|nul|t|tr|tru|f|fa|fal|fals|-|\.|[eE][+-]?)?\s*")


def _stops_in_the_middle(text: str, error: json.JSONDecodeError) -> bool:
    if error.msg.startswith("Unterminated string"):  # reported at the string's start
        return True
    rest = text[error.pos :]
    if error.msg.startswith("Invalid \\uXXXX escape"):
        return len(rest) < len("\\uXXXX")
    return bool(_CUT.fullmatch(rest))


def _no_number(text: str) -> Any:
    raise FormatError(f"{text} stands there, which is no number in JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FormatError(f"the key {shown(key)} stands there twice")
            seen.add(key)
    return content
