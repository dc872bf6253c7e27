"""Deals in the forms of other solvers."""

from __future__ import annotations

import json

import pytest

from agents.interchange import main
from qv_env import deck_of
from qv_env.interchange import (
    SOLVITAIRE_RULES,
    parse_pysol,
    parse_solvitaire,
    pysol_text,
    solvitaire_json,
)

FORMS = [(solvitaire_json, parse_solvitaire), (pysol_text, parse_pysol)]


@pytest.mark.parametrize(("write", "read"), FORMS)
def test_deals_are_read_back_as_they_are_written(write, read):
    for deal in (0, 21, 2**34):
        deck = deck_of(deal)
        assert read(write(deck)).tolist() == deck.tolist()


def test_a_deal_for_solvitaire():
    # Deal 0 starts 5S 9S 2D JC ..., its stock JD 9C 9H 2C ... AC.
    content = json.loads(solvitaire_json(deck_of(0)))
    assert set(content) == {"tableau piles", "stock"}
    assert [pile[0] for pile in content["tableau piles"]][:4] == ["5S", "9S", "2D", "JC"]
    assert [len(pile) for pile in content["tableau piles"]] == [4] * 10
    assert content["stock"][-4:] == ["2C", "9H", "9C", "JD"]  # the last is drawn first
    assert content["stock"][0] == "AC"
    assert "10H" in str(content)
    assert "TH" not in str(content)


def test_other_spellings_of_solvitaires_cards_are_read():
    text = solvitaire_json(deck_of(0))
    for rank, other in (("A", "1"), ("J", "11"), ("Q", "12"), ("K", "13")):
        for suit in "SHDC":
            text = text.replace(f'"{rank}{suit}"', f'"{other}{suit.lower()}"')
    assert parse_solvitaire(text).tolist() == deck_of(0).tolist()


def test_a_deal_for_pysol():
    lines = pysol_text(deck_of(0)).splitlines()
    assert lines[0].startswith("Talon: JD 9C 9H 2C ")
    assert lines[0].endswith(" AC")
    assert len(lines) == 11
    assert [line.split()[0] for line in lines[1:5]] == ["5S", "9S", "2D", "JC"]


def test_printed_positions_of_pysol_are_read():
    talon, *columns = pysol_text(deck_of(5)).replace("10", "T").splitlines()
    empty = "Foundations: H-0 S-0 D-0 C-0 H-0 S-0 D-0 C-0"
    text = "\n".join([empty, "", *(f": {column}" for column in columns), talon])
    assert parse_pysol(text).tolist() == deck_of(5).tolist()


def changed(**changes):
    return json.dumps({**json.loads(solvitaire_json(deck_of(0))), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "an object with"),
        ("{}", "an object with"),
        (changed(cells=[]), "no 'cells'"),
        (changed(waste=["AS"]), "no cards in the waste"),
        (changed(foundations=[["AS"], []]), "no cards in the waste and on foundations"),
        ("[" * 100_000, "no JSON: the JSON is nested too deeply"),
        (changed()[:-1] + ', "stock": []}', "no JSON: the key 'stock' stands there twice"),
        (changed(foundations=5), '"foundations" is a list of piles, not 5'),
        (changed(foundations=True), '"foundations" is a list of piles, not true'),
        (changed(foundations=[5]), "a pile is a list of cards as text, not 5"),
        (changed(foundations={}), '"foundations" is a list of piles'),
        (changed(waste=5), "a pile is a list of cards as text, not 5"),
        (changed(waste=None), "a pile is a list of cards as text, not null"),
        (changed(**{"tableau piles": 5}), '"tableau piles" is a list of piles, not 5'),
        (changed(stock=["\x1b[2J" * 1000]), r"^'\\x1b\[2J.{0,60} is no card"),
        (changed(stock=["AS"]), "stock has 64 cards, not 1"),
        (changed(stock="AS"), "a pile is a list"),
        (changed(stock=["1X"] * 64), "'1X' is no card"),
        (changed(stock=["14S"] * 64), "'14S' is no card"),
        (changed(stock=["AS"] * 64), "times, not 2"),
        (changed(**{"tableau piles": {}}), "a list of piles"),
        (changed(**{"tableau piles": [["AS"]]}), "10 columns of 4 cards"),
    ],
)
def test_bad_deals_of_solvitaire_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_solvitaire(text)


PYSOL = pysol_text(deck_of(0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line 'Talon:'"),
        (PYSOL + PYSOL, "line 12: the talon stands there twice"),
        (PYSOL.replace("Talon", "Freecells"), "line 1: there is no 'Freecells'"),
        ("Foundations: H-A S-0\n" + PYSOL, "line 1: a deal has no cards on foundations"),
        (PYSOL.replace("\n5S", "\n5X"), "line 2: card '5X'"),
        (PYSOL.replace("\n5S", "\n"), "columns of 4 cards"),
        (PYSOL.replace("\n5S", "\n6S"), "times, not 2"),
    ],
)
def test_bad_deals_of_pysol_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_pysol(text)


def test_the_program(capsys):
    assert main(["pysol", "--deal", "FT1-N-AAAAAAV"]) == 0
    assert parse_pysol(capsys.readouterr().out).tolist() == deck_of(21).tolist()
    assert main(["solvitaire", "--deal", "21"]) == 0
    assert parse_solvitaire(capsys.readouterr().out).tolist() == deck_of(21).tolist()
    assert main(["solvitaire-rules"]) == 0
    assert json.loads(capsys.readouterr().out) == SOLVITAIRE_RULES
    assert main(["pysol", "--deal", "FT1-N-"]) == 2
    assert "deal code" in capsys.readouterr().err
