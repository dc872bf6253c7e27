"""What the solver found about the deals of two suites, and the suites that are cut by it."""

from __future__ import annotations

import hashlib

import gymnasium as gym
import numpy as np
import pytest

from qv_env import Playthrough, deal_code, suite
from qv_env.cards import NUM_CARDS
from qv_env.suites import (
    EASY_ATTEMPTS,
    LABELLED,
    SUITE_SIZES,
    VERDICTS,
    DealRecord,
    difficulty,
    parse_records,
    records_text,
)

LEVELS = ("easy", "hard", "unsolved")

# SHA-256 of the codes of a suite's deals, one a line: no suite ever changes under its name.
DIGESTS = {
    "dev-easy": "8d9e2e7cc68e220e0458d87476c8bfce17efc8cb7441f690a2a6cce0903620f7",
    "dev-hard": "3741eb0f90072f50d2fab9ff9569315141d47f9adfabaa5e28f70c9a9e728467",
    "dev-unsolved": "09c2e00869253b2e6ce34eeae108558bc4d198370cd00d44505d5bbc47719f44",
    "test-easy": "ab3e5f6c666e40d2b7e8418db8100c495c614b16954e3992e2e2e8700d11eb16",
    "test-hard": "916c0e8f7f2a41d328c6b254d0db90206995bcdc6adb3dd3765f28ac58e42ab3",
    "test-unsolved": "659f48fed4fa987a51d060a281001422d310d550a11c2900853ebb54a5492162",
}


@pytest.mark.parametrize("name", LABELLED.values())
def test_every_game_leads_where_its_record_says(name):
    records = difficulty(name)
    assert [record.deal for record in records] == suite(name).tolist()
    for record in records:
        game = Playthrough.from_actions(record.actions, deal=record.deal)
        assert game.score == record.score
        assert game.won == (record.verdict == "won") == (record.cards == NUM_CARDS)
        ups = sum(step.name.endswith(">f") - step.name.startswith("f") for step in game.steps())
        assert ups == record.cards
        assert record.verdict in VERDICTS
        assert record.attempts >= 1
        assert record.positions >= 1


@pytest.mark.parametrize("name", [f"{part}-{level}" for part in LABELLED for level in LEVELS])
def test_a_cut_never_changes(name):
    codes = "".join(deal_code(int(deal)) + "\n" for deal in suite(name))
    assert hashlib.sha256(codes.encode()).hexdigest() == DIGESTS[name]
    assert len(suite(name)) == SUITE_SIZES[name]


@pytest.mark.parametrize("part", LABELLED)
def test_cuts_are_parts_of_their_suite_in_its_order(part):
    records = {record.deal: record for record in difficulty(LABELLED[part])}
    cuts = [suite(f"{part}-{level}").tolist() for level in LEVELS]
    assert sorted(deal for cut in cuts for deal in cut) == sorted(records)
    place = {deal: k for k, deal in enumerate(records)}
    for level, cut in zip(LEVELS, cuts, strict=True):
        assert cut == sorted(cut, key=place.__getitem__)
        assert [record.deal for record in difficulty(f"{part}-{level}")] == cut
        assert all((records[deal].verdict == "won") == (level != "unsolved") for deal in cut)
    assert all(records[deal].attempts <= EASY_ATTEMPTS for deal in cuts[0])
    assert all(records[deal].attempts > EASY_ATTEMPTS for deal in cuts[1])


def test_cuts_are_suites_like_others():
    hard = suite("dev-hard")
    assert hard.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        hard[0] = 1
    env = gym.make("qv_env:QuaranteVoleurs-v0", deals="dev-hard")
    for seed in range(3):
        _, info = env.reset(seed=seed)
        assert info["deal"] in {deal_code(int(deal)) for deal in hard}


def test_suites_without_records():
    with pytest.raises(ValueError, match=r"nothing is known .* 'test-10000', only of dev-200, "):
        difficulty("test-10000")


def test_records_are_read_as_they_were_written():
    records = [
        DealRecord(21, "won", 3, 1000, 1200, 104, (0, 1, 191)),
        DealRecord(22, "given up", 9, 60_000, 0, 0, ()),
    ]
    text = records_text(records, "a note")
    assert text.startswith("# a note\ncode,")
    assert parse_records(text) == records


@pytest.mark.parametrize(
    "line",
    [
        "FT1-N-AAAAAAV,won,3,1000,1200,104",
        "FT1-N-AAAAAAV,tied,3,1000,1200,104,AAE=",
        "FT1-N-AAAAAAV,won,x,1000,1200,104,AAE=",
        "FT1-N-AAAAAAV,won,3,1000,1200,104,wP8=",
        "FT1-N-AAAAAAV,won,3,1000,1200,104,A",
        "FT1-N-1,won,3,1000,1200,104,AAE=",
    ],
)
def test_lines_that_are_no_record(line):
    text = records_text([], "a note") + line + "\n"
    with pytest.raises(ValueError, match="line 3: "):
        parse_records(text)
