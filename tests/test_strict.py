"""The readers of JSON and YAML that let nothing pass, and what is said of values."""

from __future__ import annotations

import gzip
import json
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from qv_env.strict_json import (
    FormatError,
    decoded,
    parse_json,
    read_bytes,
    read_json,
    shown,
    shown_key,
)
from qv_env.strict_yaml import MAX_DEPTH, MAX_SIZE, parse_yaml, read_yaml, yaml_text

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def tried(read, source):
    """What a reader returns, and None; or None and its message."""
    try:
        return read(source), None
    except FormatError as error:
        return None, str(error)


# ------------------------------------------------------------------------------------------ JSON


@given(PLAIN)
def test_json_comes_back(value):
    assert parse_json(json.dumps(value)) == value


@given(st.text())
def test_a_text_is_json_or_refused_and_pythons_reader_agrees(text):
    value, message = tried(parse_json, text)
    if message is None:
        assert json.loads(text) == value
    else:
        assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ('{"a": 1, "a": 1}', "the key 'a' stands there twice"),
        ('[{"x": {"": 0, "": 1}}]', "the key '' stands there twice"),
        ("[NaN]", "NaN stands there"),
        ("-Infinity", "-Infinity stands there"),
        ("9" * 5000, "the JSON cannot be read: Exceeds the limit"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": tru', r"the JSON is cut off \(line 1, column 7"),
        ("{'a': 1}", r"this is not JSON \(line 1, column 2"),
        ("\ufeff{}", "this is not JSON"),
    ],
)
def test_bad_json_is_refused(text, message):
    with pytest.raises(FormatError, match=message):
        parse_json(text)


def test_files_of_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, 2.5, "\u00e9", null, true]}', encoding="utf-8")
    assert read_json(path) == {"a": [1, 2.5, "\u00e9", None, True]}
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(FormatError, match=r"a\.json: byte 7 is not UTF-8"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(FormatError, match=r"a\.json: the JSON is cut off"):
        read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")


def test_text_is_utf8():
    assert decoded("\u2660".encode()) == "\u2660"
    with pytest.raises(FormatError, match="byte 2 is not UTF-8"):
        decoded(b"ab\xe9")


def test_every_damaged_byte_of_a_packed_file_is_an_error_or_harmless(tmp_path):
    content = b'{"index": 1}\n' * 50
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(packed)
    assert read_bytes(path) == content
    refused = 0
    for place in range(len(packed)):
        for data in (
            packed[:place],
            packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :],
        ):
            path.write_bytes(data)
            read, message = tried(read_bytes, path)
            if message is None:  # an empty file, or the time and the like in the header
                assert read in (content, b"")
            else:
                refused += 1
                assert message.startswith(f"{path}: damaged")
    assert refused > 1.5 * len(packed)


def test_a_file_that_is_not_packed_is_read_as_it_is(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\x1f\x8b")
    assert read_bytes(path) == b"\x1f\x8b"


# ------------------------------------------------------------------------------------------ YAML


@given(PLAIN)
def test_yaml_comes_back(value):
    assert parse_yaml(yaml_text(value)) == value


@pytest.mark.parametrize(
    "text", ["1e5", "2e6", "-3E+4", ".5e3", "010", "10:20", "2024-01-31", "yes", "~", "<<", "=", ""]
)
def test_texts_that_look_like_other_things_come_back(text):
    assert parse_yaml(yaml_text({"name": text})) == {"name": text}
    assert yaml.safe_load(yaml_text({"name": text})) == {"name": text}  # other readers, too


def test_written_yaml_has_no_aliases():
    shared = [1, 2]
    assert yaml_text({"a": shared, "b": shared}) == "a:\n- 1\n- 2\nb:\n- 1\n- 2\n"


@given(st.text() | st.text("{}[]:,-?&*!|>'\"%@`# \n\t01ae_.~<="))
def test_a_text_is_yaml_or_refused(text):
    _, message = tried(parse_yaml, text)
    assert message is None or ("\n" not in message and len(message) < 300)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("a: 3e-4", {"a": 3e-4}),
        ("a: 2e6", {"a": 2e6}),
        ("a: 1.5E3", {"a": 1500.0}),
        ("a: 1_000", {"a": 1000}),
        ("a: 0x10", {"a": 16}),
        ("a: 0", {"a": 0}),
        ("a: -0.5", {"a": -0.5}),
        ("a: 2024-13-45", {"a": "2024-13-45"}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: 08", {"a": "08"}),
        ("a: .inf", {"a": math.inf}),
        ("a: [yes, no, ~, '1', \"2\"]", {"a": [True, False, None, "1", "2"]}),
    ],
)
def test_what_yaml_means_here(text, value):
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 010", "^a: '010' is 8 to YAML, which reads it in base 8"),
        ("a: {b: [1, -007]}", r"^a\.b\[1\]: '-007' is -7 to YAML"),
        ("a: 10:20", "^a: '10:20' is 620 to YAML, .* write it in quotes"),
        ("a: 1:30.5", "^a: '1:30.5' is 90.5 to YAML"),
        ("a: 0b_", "^a: '0b_' is no int"),
        ("a: 0x_", "^a: '0x_' is no int"),
        ("a: !!int abc", "^a: 'abc' is no int"),
        ("a: !!int ''", "^a: '' is no int"),
        ("a: !!float x", "^a: 'x' is no float"),
        ("a: !!bool maybe", "^a: 'maybe' is no bool"),
        ("a: " + "1" * 5000, "^a: a number has at most 1000 characters"),
        ("a: 0x" + "f" * 5000, "^a: a number has at most 1000 characters"),
        ("[" * 5000, "not YAML: it is nested too deeply"),
        ("- " * 5000, "not YAML: it is nested too deeply"),
        ("{a: " * 5000, "not YAML: it is nested too deeply"),
        ("a: &x [1]\nb: *x", r"not YAML: there is an alias, '\*x'"),
        ("&x [*x]", "not YAML: there is an alias"),
        ("<<: {a: 1}", "a key is a text"),
        ("{a: 1, a: 1}", "^a: the key stands there twice"),
        ("a:\n  b: 1\n  c: 2\n  b: 3", r"^a\.b: the key stands there twice"),
        ("1: 2", "^line 1: a key is a text, not '1'"),
        ("a: {yes: 2}", "^a: a key is a text, not 'yes'"),
        ("? [1]\n: 2", "a key is a text"),
        ("a: !!set {b}", "^a: nothing of the kind '.*set' is read here"),
        ("a: !!python/object:os.system {}", "^a: nothing of the kind"),
        ("a: !!timestamp 2024-13-45", "^a: nothing of the kind"),
        ("a: !!binary x", "^a: nothing of the kind"),
        ("a: !x 1", "^a: nothing of the kind '!x'"),
        ('a: "\\ud800"', r"^a: '\\ud800' holds half a character"),
        ("a: [", r"^not YAML: .* \(line 1, column 5\)"),
        ("--- 1\n--- 2", "not YAML: but found another document"),
        ("a: \x00", "not YAML"),
        ("%YAML 3.0\n---\na: 1", "not YAML"),
    ],
)
def test_bad_yaml_is_refused(text, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse_yaml(text)
    assert len(str(caught.value)) < 300


def test_an_alias_bomb_is_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(FormatError, match=r"there is an alias, '\*a0'"):
        parse_yaml("\n".join(lines))


def test_nesting_has_a_limit():
    depth = MAX_DEPTH - 1
    value = parse_yaml("[" * depth + "1" + "]" * depth)
    for _ in range(depth):
        (value,) = value
    assert value == 1
    with pytest.raises(FormatError, match="nested too deeply"):
        parse_yaml("[" * (depth + 1) + "1" + "]" * (depth + 1))


def test_files_of_yaml(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("\ufeffa: \u2660", encoding="utf-8")
    assert read_yaml(path) == {"a": "\u2660"}
    path.write_bytes(b"a: \xff")
    with pytest.raises(FormatError, match=r"a\.yaml: not YAML: byte 3 is not UTF-8"):
        read_yaml(path)
    path.write_text("a: 010")
    with pytest.raises(FormatError, match=r"a\.yaml: a: '010' is 8"):
        read_yaml(path)
    path.write_bytes(b"#" * (MAX_SIZE + 1))
    with pytest.raises(FormatError, match=r"a\.yaml: the file has more than the 131,072 bytes"):
        read_yaml(path)
    path.write_bytes(b"#" * MAX_SIZE)
    assert read_yaml(path) is None


# ---------------------------------------------------------------------------------- for messages


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (0.5, "0.5"),
        ("a\x1b[2J\n", r"'a\x1b[2J\n'"),
        ("\ud800", r"'\ud800'"),
        ([1, {"a": None}], "[1, {'a': None}]"),
    ],
)
def test_values_in_messages(value, text):
    assert shown(value) == text


def test_an_integer_that_python_does_not_write_out():
    assert shown(1 << 20_000) == "an integer of 20001 bits"


@given(PLAIN)
def test_values_in_messages_are_short_and_on_one_line(value):
    for one in (value, [value] * 1000, {"a": [value] * 1000}, str(value) * 1000):
        text = shown(one)
        assert len(text) <= 60
        assert text.isprintable()


def test_keys_in_messages():
    assert shown_key("ppo.n_steps") == "ppo.n_steps"
    assert shown_key("a\nb") == r"a\nb"
    assert len(shown_key("k" * 10_000)) == 120
