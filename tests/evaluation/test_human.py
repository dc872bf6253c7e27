"""Games that people played, compared with players on the same deals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agents.benchmark import main
from agents.players import make_player
from qv_env import Playthrough, parse_action
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.play.game import Game

DEALS = [5, 36]


def keep(folder, deal, moves, started=None):
    """Play some draws of a deal at the table for people, and keep the game."""
    game = Game(deal)
    for _ in range(moves):
        assert game.tap("stock").moved
    if started:
        game.started = started
    game.keep(folder)


def test_games_of_the_table_are_compared_with_players(tmp_path, capsys):
    folder = tmp_path / "games"
    folder.mkdir()
    keep(folder, 5, 3)
    shutil.copy(Path(__file__).parents[1] / "data" / "won.json", folder)  # deal 36
    codes = "FT1-N-AAAAAAF,FT1-N-AAAAABE"
    out = tmp_path / "out"
    assert (
        main(
            [
                "human:" + str(folder),
                "greedy",
                "--deals",
                codes,
                "--workers",
                "1",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    human = {row["deal"]: row for row in rows if row["player"].startswith("human")}
    assert sorted(human) == DEALS
    assert (human[5]["score"], human[5]["steps"], human[5]["foundation_cards"]) == (0, 3, 0)
    won = human[36]
    assert (won["won"], won["score"], won["steps"]) == (True, 1210, 227)
    assert won["foundation_cards"] == 104
    greedy = {episode.deal: episode.score for episode in play_deals(GreedyPlayer(), DEALS)}
    assert {row["deal"]: row["score"] for row in rows if row["player"] == "greedy"} == greedy


def test_the_first_try_counts(tmp_path):
    keep(tmp_path, 5, 9, "2026-02-01T00:00:00Z")
    keep(tmp_path, 5, 2, "2026-01-01T00:00:00Z")
    (episode,) = play_deals(make_player(f"human:{tmp_path}"), [5])
    assert episode.actions == [parse_action("draw")] * 2


def test_deals_that_nobody_played_are_named(tmp_path):
    keep(tmp_path, 5, 1)
    with pytest.raises(ValueError, match="1 of the 2 deals; FT1-N-AAAAABE is missing"):
        list(play_deals(make_player(f"human:{tmp_path}"), DEALS))
    out = tmp_path / "out"
    assert main([f"human:{tmp_path}", "--deals", "FT1-N-AAAAABE", "--out", str(out)]) == 2
    assert not out.exists()


def test_bad_folders_and_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="human takes a folder"):
        make_player("human")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        make_player(f"human:{tmp_path / 'none'}")
    with pytest.raises(ValueError, match="no playthroughs of deals"):
        make_player(f"human:{tmp_path}")
    deck = [card for card in range(52) for _ in range(2)]
    Playthrough.from_actions([], deck=deck).write(tmp_path / "deck.json")
    with pytest.raises(ValueError, match="no playthroughs of deals"):
        make_player(f"human:{tmp_path}")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json"):
        make_player(f"human:{tmp_path}")


def test_hidden_and_temporary_files_are_no_games(tmp_path):
    keep(tmp_path, 5, 9, "2026-02-01T00:00:00Z")
    (whole,) = tmp_path.iterdir()
    early = json.loads(whole.read_text()) | {"started": "2026-01-01T00:00:00Z", "score": 0}
    for name in (".0123456789abcdef.tmp", f".{whole.stem}.0123abcd.tmp.json", f"._{whole.name}"):
        (tmp_path / name).write_text(json.dumps(early | {"actions": early["actions"][:3]}))
    (episode,) = play_deals(make_player(f"human:{tmp_path}"), [5])
    assert len(episode.actions) == 9
