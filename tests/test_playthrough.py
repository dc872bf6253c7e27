"""Playthroughs: files, their errors, recording, and the golden game."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import qv_env
from qv_env.actions import COLUMN, FOUNDATION, MOVES, WASTE, action_name, parse_action
from qv_env.deals import deck_of, parse_code
from qv_env.playthroughs import playthrough as module
from qv_env.playthroughs.playthrough import (
    MAX_FILE_SIZE,
    Playthrough,
    PlaythroughError,
    Recorder,
    parse_playthrough,
    read_playthrough,
    states,
)
from qv_env.rules import REFUSALS, is_won, new_game, play, refusal
from qv_env.text import state_text
from tests import golden, reference

WON = Path(__file__).parent / "data" / "won.json"
ACTIONS = golden.chosen_actions(golden.DEAL, golden.SEED, 30)


def game(**changes) -> Playthrough:
    arguments = {"deal": golden.DEAL, "player": "random", **changes}
    return Playthrough.from_actions(ACTIONS, **arguments)


def content(**changes) -> dict:
    return {**json.loads(game().text()), **changes}


def full_game() -> Playthrough:
    return game(
        values=[k / 3 for k in range(len(ACTIONS))],
        likeliest=[[(action, 0.75), (0, 0.25)] for action in ACTIONS],
        extra={"seed": 7, "notes": {"z": [1, None, "é\n"], "a": 0.1}},
    )


# ------------------------------------------------------------------------------- what is written


def test_the_format_and_its_order_of_keys():
    text = full_game().text()
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert text.isascii()
    assert list(json.loads(text)) == [
        "format",
        "version",
        "deal",
        "deck",
        "player",
        "actions",
        "score",
        "won",
        "values",
        "likeliest",
        "notes",
        "seed",
    ]
    assert list(json.loads(game().text())) == list(json.loads(text))[:8]
    assert text.startswith(
        '{"format":"quarante-voleurs-playthrough","version":1,"deal":"FT1-N-AAAAAIJ","deck":null,'
    )


@pytest.mark.parametrize("made", [game, full_game, lambda: game(extra={"x": 1})])
def test_round_trip(made, tmp_path):
    played = made()
    path = tmp_path / "game.json"
    played.write(path)
    read = read_playthrough(path)
    assert read == played
    assert hash(read) == hash(played)
    assert read.text() == played.text() == path.read_text(encoding="utf-8")
    assert parse_playthrough(played.text()) == played


def test_an_explicit_deck():
    deck = deck_of(golden.DEAL)
    played = Playthrough.from_actions(np.array(ACTIONS), deck=deck)
    assert played.deal is None
    assert played.deck == tuple(deck.tolist())
    assert parse_playthrough(played.text()) == played
    assert np.array_equal(played.start(), new_game(deck))
    assert played.steps() == game().steps()


def test_a_deal_as_number_or_code_in_any_case():
    assert game(deal=265) == game(deal=" ft1-n-aaaaaij ") == game(deal=np.int64(265))
    assert parse_playthrough(json.dumps(content(deal="ft1-n-aaaaaij"))).deal == "FT1-N-AAAAAIJ"


def test_extra_is_a_copy_that_cannot_be_changed_from_outside():
    given = {"list": [1, 2], "tuple": (1, 2)}
    played = game(extra=given)
    given["list"].append(3)
    assert played.extra == {"list": [1, 2], "tuple": [1, 2]}


def test_unknown_keys_are_kept():
    text = json.dumps(content(agent={"name": "x"}, date=None))
    assert parse_playthrough(text).extra == {"agent": {"name": "x"}, "date": None}
    assert json.loads(parse_playthrough(text).text())["agent"] == {"name": "x"}


def test_equal_playthroughs_are_equal_bytes():
    one, other = (
        game(extra={"a": 1, "b": {"c": 2, "d": 3}}),
        game(extra={"b": {"d": 3, "c": 2}, "a": 1}),
    )
    assert one == other
    assert one.text() == other.text()


def test_a_game_without_moves():
    played = Playthrough.from_actions([], deal=21, values=[], likeliest=[])
    assert (played.score, played.won, played.values, played.likeliest) == (0, False, (), ())
    assert parse_playthrough(played.text()) == played
    assert len(list(states(played))) == 1


# -------------------------------------------------------------------------------- going through


def test_states_and_steps():
    played = game()
    before = list(states(played))
    assert len(before) == len(ACTIONS) + 1
    current = new_game(deck_of(golden.DEAL))
    for step, position in zip(played.steps(), before, strict=False):
        assert np.array_equal(position, current)
        assert step.points == play(current[0], step.action)
        assert step.score == current[0]["score"]
        assert step.name == action_name(step.action)
    assert np.array_equal(before[-1], current)
    assert [step.number for step in played.steps()] == list(range(1, len(ACTIONS) + 1))
    assert played.score == current[0]["score"]


def test_states_are_the_callers_own():
    played = game()
    for position in states(played):
        position[:] = 0
    assert list(states(played))[-1][0]["score"] == played.score


def test_the_game_that_was_won():
    played = read_playthrough(WON)
    moves = [MOVES[action] for action in played.actions]
    to_columns = sum(m.source == WASTE and m.target == COLUMN for m in moves)
    taken_back = sum(m.source == FOUNDATION for m in moves)
    cost = sum(-s.points for s in played.steps() if MOVES[s.action].source == FOUNDATION)
    to_foundations = sum(m.target == FOUNDATION for m in moves)
    assert played.deal == "FT1-N-AAAAABE"
    assert played.won
    assert len(moves) == 227
    assert played.score == 1210
    assert to_foundations == 104 + taken_back
    # Each card that was taken back also scored a second time on its way up.
    assert played.score == 1040 + 5 * to_columns - (cost - 10 * taken_back)
    assert is_won(list(states(played))[-1][0])
    assert not any(is_won(position[0]) for position in list(states(played))[:-1])
    assert WON.read_text(encoding="utf-8") == played.text()


def test_the_game_that_was_won_by_the_slow_rules_and_in_the_environment():
    played = read_playthrough(WON)
    table = reference.Table(reference.deck_of_number(parse_code(played.deal)))
    env = qv_env.QuaranteVoleursEnv()
    env.reset(options={"deal": played.deal})
    rewards, terminated = 0.0, False
    for action in played.actions:
        assert not terminated
        table.play(action)
        _, reward, terminated, _, info = env.step(action)
        rewards += reward
    assert terminated
    assert table.won()
    assert info["won"]
    assert table.score == rewards == played.score


# ------------------------------------------------------------------------------ the golden game


def golden_lines() -> list[str]:
    lines = golden.PATH.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_golden_game_is_what_the_rules_play():
    head, *lines = golden_lines()
    states_ = new_game(deck_of(parse_code(head.removeprefix("deal "))))
    table = reference.Table(reference.deck_of_number(parse_code(head.removeprefix("deal "))))
    current = states_[0]
    step, boards, backs = 0, 0, 0
    while lines:
        line = lines.pop(0)
        if line.startswith("board after step "):
            assert int(line.rsplit(" ", 1)[1]) == step
            size = len(state_text(current).splitlines())
            board, lines = lines[:size], lines[size:]
            assert [text.removeprefix("  ") for text in board] == state_text(current).splitlines()
            boards += 1
            continue
        number, name, points, score = line.split()
        action, step = parse_action(name), step + 1
        assert int(number) == step
        assert refusal(current, action) == 0, line
        assert play(current, action) == int(points) == table.play(action), line
        assert current["score"] == int(score) == table.score, line
        assert state_text(current, show_stock=True) == table.text(), line
        backs += name.startswith("f")
    assert step == golden.MOVES_PLAYED
    assert boards == len(golden.MILESTONES)
    assert backs > 5


def test_the_golden_game_is_up_to_date():
    assert golden.golden_text() == golden.PATH.read_text(encoding="utf-8"), (
        "python -m tests.golden rewrites it, if the change was meant"
    )


def test_the_golden_game_as_a_playthrough():
    actions = golden.chosen_actions(golden.DEAL, golden.SEED, golden.MOVES_PLAYED)
    played = Playthrough.from_actions(actions, deal=golden.DEAL)
    moves = [line.split() for line in golden_lines() if re.match(r" *\d+  [dwcf]", line)]
    assert [[str(s.number), s.name, f"{s.points:+d}", str(s.score)] for s in played.steps()] == (
        moves
    )


# ------------------------------------------------------------------------------------ recording


def test_recording_while_a_game_runs():
    recorder = Recorder("FT1-N-AAAAAIJ", player="random", extra={"run": 3})
    for k, action in enumerate(ACTIONS):
        assert len(recorder) == k
        recorder.append(np.int64(action), np.float32(k), [(action, 1.0)])
        assert recorder.playthrough().actions == tuple(ACTIONS[: k + 1])
    played = recorder.playthrough()
    assert played == game(
        values=np.arange(30.0), likeliest=[[(a, 1.0)] for a in ACTIONS], extra={"run": 3}
    )
    assert all(type(value) is float for value in played.values)
    assert parse_playthrough(played.text()) == played
    assert np.array_equal(recorder.states, list(states(played))[-1])


def test_recording_a_deck():
    recorder = Recorder(deck=deck_of(5).tolist())
    recorder.append(0)
    assert recorder.playthrough() == Playthrough.from_actions([0], deck=deck_of(5))


def test_what_a_recorder_refuses_changes_nothing():
    recorder = Recorder(golden.DEAL)
    recorder.append(ACTIONS[0], value=1.0)
    before = recorder.states.copy(), recorder.playthrough()
    for arguments, message in [
        ((112, 1.0), f"step 2 (f1>c1) is refused: {REFUSALS[2]}"),
        ((192, 1.0), "step 2: the action is an integer in 0..191, not 192"),
        ((True, 1.0), "step 2: the action is an integer in 0..191, not true"),
        ((0,), "step 2: value is given at every step or at none"),
        ((0, float("nan")), "step 2: value is a finite number, not nan"),
        ((0, 1.0, [(0, 0.5)]), "step 2: likeliest is given at every step or at none"),
    ]:
        with pytest.raises(PlaythroughError, match=re.escape(message)):
            recorder.append(*arguments)
        assert np.array_equal(recorder.states, before[0])
        assert recorder.playthrough() == before[1]
    recorder = Recorder(golden.DEAL)
    with pytest.raises(PlaythroughError, match=r"step 1: likeliest\[0\] is a pair"):
        recorder.append(0, likeliest=[0])
    assert len(recorder) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "there is neither a deal nor a deck"),
        ({"deal": 1, "deck": deck_of(1)}, "there are both a deal and a deck"),
        ({"deal": 2**35}, f"deal: deal number {2**35} is outside"),
        ({"deal": True}, "deal: a deal is a code or an integer, not True"),
        ({"deal": "21"}, "deal: deal code '21' does not start with FT1-N-"),
        ({"deal": 1, "player": 3}, "player is a text, not 3"),
        ({"deal": 1, "extra": {"score": 3}}, "extra has the key 'score'"),
        ({"deal": 1, "extra": {"x": np.zeros(2)}}, "extra holds what JSON cannot hold: "),
        ({"deal": 1, "extra": {"x": float("inf")}}, "extra holds what JSON cannot hold: "),
        ({"deal": 1, "extra": {1: 2}}, "extra is a mapping with texts as keys, not {1: 2}"),
    ],
)
def test_a_recorder_that_cannot_be(arguments, message):
    with pytest.raises(PlaythroughError, match=re.escape(message)):
        Recorder(**arguments)


# --------------------------------------------------------------------------------------- errors


def broken(tmp_path: Path, text: str | bytes) -> str:
    """What reading a file with this content says, without the file's name."""
    path = tmp_path / "broken.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PlaythroughError) as caught:
        read_playthrough(path)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < 1000
    return message.removeprefix(f"{path}: ")


DECK = deck_of(golden.DEAL).tolist()
PAIRS = [[[0, 0.5]]] * len(ACTIONS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "chess"}, "this is no playthrough: format is 'quarante-voleurs-playthrough',"),
        ({"format": ["x"]}, "this is no playthrough: format is"),
        ({"version": 2}, "version 2 is too new: this program reads version 1"),
        ({"version": 0}, "there is no version 0: it is 1"),
        ({"version": True}, "version is an integer, not true"),
        ({"version": 1.0}, "version is an integer, not 1.0"),
        ({"version": None}, "version is an integer, not null"),
        ({"deal": None}, "there is neither a deal nor a deck"),
        ({"deck": DECK}, "there are both a deal and a deck"),
        ({"deal": 21}, "deal is a code, not 21"),
        ({"deal": "FT1-N-AAAAAA1"}, "deal: deal code 'FT1-N-AAAAAA1' has '1'"),
        ({"deal": "A" * 100_000}, "deal is a code, not 'AAAA"),
        ({"deal": None, "deck": DECK[1:]}, "deck has 103 cards, not 104"),
        ({"deal": None, "deck": {}}, "deck is a list, not {}"),
        ({"deal": None, "deck": [52, *DECK[1:]]}, "deck[0] is an integer in 0..51, not 52"),
        ({"deal": None, "deck": [True, *DECK[1:]]}, "deck[0] is an integer in 0..51, not true"),
        ({"deal": None, "deck": [1.0, *DECK[1:]]}, "deck[0] is an integer in 0..51, not 1.0"),
        ({"deal": None, "deck": [0] * 104}, "deck: the deck holds AS 104 times, not 2"),
        ({"player": None}, "player is a text, not null"),
        ({"actions": None}, "actions is a list, not null"),
        ({"actions": "000"}, "actions is a list, not '000'"),
        ({"actions": {"0": 1}}, "actions is a list, not {'0': 1}"),
        ({"actions": [0, 192]}, "actions[1] is an integer in 0..191, not 192"),
        ({"actions": [-1]}, "actions[0] is an integer in 0..191, not -1"),
        ({"actions": [10**30]}, "actions[0] is an integer in 0..191, not 1000"),
        ({"actions": [True]}, "actions[0] is an integer in 0..191, not true"),
        ({"actions": [0.0]}, "actions[0] is an integer in 0..191, not 0.0"),
        ({"actions": [None]}, "actions[0] is an integer in 0..191, not null"),
        ({"actions": ["draw"]}, "actions[0] is an integer in 0..191, not 'draw'"),
        ({"actions": [0] * 65}, f"step 65 (draw) is refused: {REFUSALS[1]}"),
        ({"actions": [0, 0, 12]}, f"step 3 (c1>f) is refused: {REFUSALS[3]}"),
        ({"actions": [112]}, f"step 1 (f1>c1) is refused: {REFUSALS[2]}"),
        ({"score": 61}, "score is 61, but the actions lead to "),
        ({"score": 10**40}, "score is 1000"),
        ({"score": True}, "score is an integer, not true"),
        ({"score": 60.0}, "score is an integer, not 60.0"),
        ({"score": None}, "score is an integer, not null"),
        ({"won": True}, "won is true, but the game is not won after step 30"),
        ({"won": 0}, "won is true or false, not 0"),
        ({"won": None}, "won is true or false, not null"),
        ({"values": [0.5]}, "values has 1 entries for 30 actions"),
        ({"values": 3}, "values is a list, not 3"),
        ({"values": [True] * 30}, "values[0] is a finite number, not true"),
        ({"values": [1, None] * 15}, "values[1] is a finite number, not null"),
        ({"values": [10**400] * 30}, "values[0] is a finite number, not 1000"),
        ({"likeliest": [[]]}, "likeliest has 1 entries for 30 actions"),
        ({"likeliest": [3] * 30}, "likeliest[0] is a list, not 3"),
        ({"likeliest": [[], [3]] * 15}, "likeliest[1][0] is a pair [action, probability], not 3"),
        ({"likeliest": [[[0, 1, 2]]] * 30}, "likeliest[0][0] is a pair [action, probability]"),
        ({"likeliest": [[[0, 1.5]]] * 30}, "likeliest[0][0][1] is a probability in 0..1, not 1.5"),
        (
            {"likeliest": [[[0, -0.1]]] * 30},
            "likeliest[0][0][1] is a probability in 0..1, not -",
        ),
        ({"likeliest": [[[0, "x"]]] * 30}, "likeliest[0][0][1] is a finite number, not 'x'"),
        ({"likeliest": [[[0, True]]] * 30}, "likeliest[0][0][1] is a finite number, not true"),
        ({"likeliest": [[[192, 0.5]]] * 30}, "likeliest[0][0][0] is an integer in 0..191, not 192"),
    ],
)
def test_wrong_content(changes, message, tmp_path):
    assert broken(tmp_path, json.dumps(content(**changes))).startswith(message)


def test_a_won_game_that_says_it_was_not(tmp_path):
    text = WON.read_text(encoding="utf-8").replace('"won":true', '"won":false')
    assert broken(tmp_path, text) == "won is false, but the game is won after step 227"


@pytest.mark.parametrize("key", list(json.loads(game().text())))
def test_a_missing_key(key, tmp_path):
    shortened = content()
    del shortened[key]
    message = broken(tmp_path, json.dumps(shortened))
    assert message.endswith(f"the key {key!r} is missing")
    assert message.startswith("this is no playthrough") == (key == "format")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"[1]", "this is no playthrough: a JSON object is, not [1]"),
        (b"null", "this is no playthrough: a JSON object is, not null"),
        (b"NaN", "NaN stands there, which is no number in JSON"),
        (b'{"a": -Infinity}', "-Infinity stands there, which is no number in JSON"),
        (b"{}", "this is no playthrough: the key 'format' is missing"),
        (b'{"a": 1, "b": 2, "a": 1}', "the key 'a' stands there twice"),
        (b"{'a': 1}", "this is not JSON (line 1, column 2: "),
        (b'{"a": 1}\nmore', "this is not JSON (line 2, column 1: Extra data)"),
        (b"\x89PNG\r\n", "byte 0 is not UTF-8"),
        (b'{"player": "\xe9"}', "byte 12 is not UTF-8"),
        ("{}".encode("utf-16"), "byte 0 is not UTF-8"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "the JSON is nested too deeply"),
        (b"1" * 10_000, "the JSON cannot be read: "),
    ],
)
def test_what_is_no_playthrough_at_all(text, message, tmp_path):
    assert broken(tmp_path, text).startswith(message)


def test_a_value_beyond_every_float(tmp_path):
    text = json.dumps(content(values=[7.5] * 30)).replace("7.5", "1e999")
    assert broken(tmp_path, text) == "values[0] is a finite number, not inf"


def test_a_file_that_was_cut_off_anywhere(tmp_path):
    text = full_game().text().strip()
    for length in range(1, len(text)):
        with pytest.raises(PlaythroughError, match=r"^cut: the JSON is cut off \(line 1, column"):
            parse_playthrough(text[:length], "cut")
    assert broken(tmp_path, text[:200]).startswith("the JSON is cut off (line 1, column ")


def test_a_huge_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "parse_json", lambda text: pytest.fail("it was parsed"))
    message = "the file has more than the 8388608 bytes that a playthrough may have"
    assert broken(tmp_path, b" " * (MAX_FILE_SIZE + 1)) == message
    with pytest.raises(PlaythroughError, match=r"^x: the file has 8388609 bytes, more than"):
        parse_playthrough(" " * (MAX_FILE_SIZE + 1), "x")


def test_a_file_that_starts_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "game.json"
    path.write_bytes(b"\xef\xbb\xbf" + game().text().encode())
    assert read_playthrough(path) == game()


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_playthrough(tmp_path / "none.json")


def test_wrong_arguments():
    with pytest.raises(PlaythroughError, match=r"^step 1 \(f1>c1\) is refused"):
        Playthrough.from_actions([112], deal=0)
    with pytest.raises(PlaythroughError, match=r"^actions\[0\] is an integer in 0\.\."):
        Playthrough.from_actions(np.zeros(1), deal=0)
    with pytest.raises(PlaythroughError, match=r"^score is 5, but the actions lead to 0"):
        Playthrough(deal="FT1-N-AAAAAAA", deck=None, player="", actions=(), score=5, won=False)
    with pytest.raises(PlaythroughError, match=r"^values has 30 entries for 29 actions"):
        dataclasses.replace(game(values=[0.0] * 30), actions=tuple(ACTIONS[:29]))
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(PlaythroughError, match=r"^extra is nested too deeply"):
        game(extra={"x": nested})
    while nested:  # freed level by level: some Pythons free it recursively
        nested = nested[0]


# -------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_nothing_half_written(failing, tmp_path, monkeypatch):
    path = tmp_path / "game.json"
    path.write_text("what stood there")

    def fail(*_):
        raise OSError("no more space")

    monkeypatch.setattr(module.os, failing, fail)
    with pytest.raises(OSError, match="no more space"):
        game().write(path)
    assert os.listdir(tmp_path) == ["game.json"]
    assert path.read_text() == "what stood there"


def test_writing_replaces_a_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "game.json"
    game().write(path)
    full_game().write(str(path))
    assert os.listdir(tmp_path) == ["game.json"]
    assert read_playthrough(path) == full_game()


def test_writing_into_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        game().write(tmp_path / "none" / "game.json")
    with pytest.raises(IsADirectoryError):
        game().write(tmp_path)
    assert os.listdir(tmp_path) == []


def test_writing_more_than_is_read(tmp_path):
    with pytest.raises(PlaythroughError, match=r"game\.json: the file has \d+ bytes, more than"):
        game(extra={"x": "y" * MAX_FILE_SIZE}).write(tmp_path / "game.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
def test_a_written_file_has_the_usual_permissions_and_links_stay(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    path = tmp_path / "game.json"
    game().write(path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    link = tmp_path / "link.json"
    link.symlink_to("game.json")
    full_game().write(link)
    assert link.is_symlink()
    assert read_playthrough(path) == full_game()
