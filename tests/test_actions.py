"""The 192 actions: ids, names, and the table that compiled code reads."""

from __future__ import annotations

import pytest

import qv_env
from qv_env.actions import MOVE_TABLE, MOVES, action_name, parse_action

from . import reference

KINDS = ["stock", "waste", "column", "foundation"]


def test_every_action_has_its_name_both_ways():
    names = [action_name(action) for action in range(192)]
    assert names == [reference.name_of_action(action) for action in range(192)]
    assert len(set(names)) == 192
    assert [parse_action(name) for name in names] == list(range(192))
    assert tuple(names) == qv_env.ACTION_NAMES
    assert qv_env.NUM_ACTIONS == 192


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (0, "draw"),
        (1, "w>c1"),
        (3, "w>c3"),
        (10, "w>c10"),
        (11, "w>f"),
        (12, "c1>f"),
        (14, "c3>f"),
        (21, "c10>f"),
        (22, "c1>c2"),
        (30, "c1>c10"),
        (31, "c2>c1"),
        (32, "c2>c3"),
        (45, "c3>c7"),  # 22 + 9 * 2 + 5
        (111, "c10>c9"),
        (112, "f1>c1"),
        (126, "f2>c5"),
        (191, "f8>c10"),
    ],
)
def test_names_that_people_know(action, name):
    assert action_name(action) == name
    assert parse_action(name) == action


def test_the_documented_formulas_give_the_ids():
    for c in range(10):
        assert parse_action(f"w>c{c + 1}") == 1 + c
        assert parse_action(f"c{c + 1}>f") == 12 + c
    for s in range(10):
        for d in range(10):
            if d != s:
                action = 22 + 9 * s + (d if d < s else d - 1)
                assert parse_action(f"c{s + 1}>c{d + 1}") == action
    for f in range(8):
        for d in range(10):
            assert parse_action(f"f{f + 1}>c{d + 1}") == 112 + 10 * f + d


def test_the_table_is_the_reference_decoding():
    assert len(MOVES) == len(MOVE_TABLE) == 192
    for action, (source, s, target, t) in enumerate(reference.MOVES):
        expected = (KINDS.index(source), s, KINDS.index(target), max(t, 0))
        assert tuple(MOVES[action]) == expected
        assert tuple(MOVE_TABLE[action].tolist()) == expected


@pytest.mark.parametrize("text", [" Draw ", "DRAW", "draw\n"])
def test_names_are_read_in_any_case_and_between_blanks(text):
    assert parse_action(text) == 0


@pytest.mark.parametrize(
    "name",
    ["", "c0>f", "c11>f", "w>c0", "w>c11", "c3>c3", "f9>c1", "f1>f2", "w>w", "f>c1", "w > f", "0"],
)
def test_a_name_of_no_action_is_refused(name):
    with pytest.raises(ValueError, match="names no action") as caught:
        parse_action(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("action", [-1, 192, 1000])
def test_a_number_of_no_action_is_refused(action):
    with pytest.raises(ValueError, match=str(action)):
        action_name(action)
