"""The benchmark from its command line to its files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from agents.benchmark import main
from agents.players import PLAYERS, Player, make_player
from qv_env import deal_code, suite
from qv_env.evaluation import benchmark, schedule
from qv_env.evaluation.benchmark import play_into, run_benchmark
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.players.names import PlayerNames
from qv_env.evaluation.reports.benchmark import write_results
from qv_env.evaluation.reports.tables import deals_text, interval_text, markdown_rows, markdown_text
from qv_env.evaluation.results import (
    ACTIONS,
    COLUMNS,
    RESULTS,
    SUMMARY,
    Results,
    ResultsError,
    read_results,
    row_line,
    row_playthrough,
)
from qv_env.evaluation.schedule import (
    DESCRIPTION,
    FILES,
    PLOT,
    TABLE,
    TIMES,
    Schedule,
    parse_deals,
    parse_player,
    parse_seeds,
)
from qv_env.evaluation.stats import Interval, mean_interval, paired_difference, proportion_interval
from qv_env.evaluation.summary import PlayerSummary, compare_scores, summarize
from qv_env.files import InUseError, held, temporary_file
from tests.marks import holds_folders

ROOT = Path(__file__).parents[2]
WRITTEN = sorted([RESULTS, SUMMARY, TABLE, PLOT])  # by run_benchmark and write_results


def both():
    return {"random": make_player("random"), "greedy": make_player("greedy")}


def bench(*arguments, workers=0):
    """The command line's exit status; the games are played here."""
    return main([*map(str, arguments), "--workers", str(workers)])


@pytest.fixture(scope="module")
def results():
    return run_benchmark(both(), suite("dev-200")[:24], "dev-200", seeds=[3])


@pytest.fixture(scope="module")
def frame(results):
    return results.frame


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------------------------------- rows


def test_rows_are_in_the_order_of_players_and_deals(results, frame):
    deals = suite("dev-200")[:24].tolist()
    assert tuple(frame.columns) == COLUMNS
    assert frame["player"].tolist() == ["random"] * 24 + ["greedy"] * 24
    assert frame["index"].tolist() == [*range(24)] * 2
    assert frame["deal"].tolist() == deals * 2
    assert frame["code"].tolist() == [deal_code(deal) for deal in deals] * 2
    assert set(frame["suite"]) == {"dev-200"}
    assert set(frame["seed"]) == {3}
    assert frame["environment"].iloc[0] == {
        "id": "QuaranteVoleurs-v0",
        "observation": "cards",
        "max_episode_steps": 500,
    }
    assert set(results.cpu_seconds) == {"random", "greedy"}


def test_rows_say_what_was_played(frame):
    rows = frame[frame["player"] == "random"]
    for episode in play_deals(make_player("random"), suite("dev-200")[:24], seed=3):
        row = rows.iloc[episode.index]
        for key in ("deal", "score", "won", "foundation_cards", "steps", "truncated"):
            assert row[key] == getattr(episode, key), key


@pytest.mark.parametrize("seats", [1, 7, 64])
def test_rows_do_not_depend_on_the_seats(frame, seats):
    deals = suite("dev-200")[:24]
    again = run_benchmark(both(), deals, "dev-200", seeds=[3], batch=seats).frame
    pd.testing.assert_frame_equal(again, frame)


def test_rows_do_not_depend_on_the_order_of_deals_and_players(frame):
    deals = suite("dev-200")[:24][::-1]
    players = dict(reversed(both().items()))
    again = run_benchmark(players, deals, "dev-200", seeds=[3], batch=9).frame
    keys = ["player", "deal"]
    columns = [column for column in COLUMNS if column != "index"]
    one, other = (f[columns].sort_values(keys, ignore_index=True) for f in (frame, again))
    pd.testing.assert_frame_equal(one, other)


def test_the_step_limit_is_kept():
    frame = run_benchmark(both(), range(5), "0:5", max_episode_steps=12).frame
    assert set(frame["steps"]) == {12}
    assert frame["truncated"].all()
    assert frame["environment"].iloc[0]["max_episode_steps"] == 12


@pytest.mark.parametrize(
    ("players", "deals", "message"),
    [
        ({}, [1], "at least one player"),
        ({"greedy": GreedyPlayer()}, [], "one deal"),
        ({"greedy": GreedyPlayer()}, [1, 21, 2, 21], "FT1-N-AAAAAAV is there twice"),
    ],
)
def test_nothing_to_play_is_refused(players, deals, message):
    with pytest.raises(ValueError, match=message):
        run_benchmark(players, deals, "list")


# ------------------------------------------------------------------------------------- figures


def test_figures_are_those_of_the_rows(results, frame):
    summaries = summarize(results)
    assert list(summaries) == ["random", "greedy"]
    for name, summary in summaries.items():
        rows = frame[frame["player"] == name]
        assert summary.mean_score == mean_interval(rows["score"])
        assert summary.mean_foundation_cards == mean_interval(rows["foundation_cards"])
        assert summary.win_rate == proportion_interval(summary.wins, 24)
        assert summary.share_of_maximum == pytest.approx(rows["score"].mean() / 1360)
        assert summary.mean_steps == pytest.approx(rows["steps"].mean())
        assert summary.truncated == pytest.approx(rows["truncated"].mean())
        assert summary.deals == 24
        assert (summary.games, summary.seeds) == (24, (3,))
        assert summary.cpu_seconds_per_deal == results.cpu_seconds[name] > 0


def test_greedy_scores_more_than_random(frame):
    comparison = compare_scores(frame, "greedy", "random")
    assert comparison.difference.low > 0
    assert comparison.higher + comparison.lower + comparison.equal == 24


def test_scores_are_compared_deal_by_deal(frame):
    shuffled = frame.sample(frac=1, random_state=1)
    scores = {name: rows.set_index("deal")["score"] for name, rows in frame.groupby("player")}
    by_hand = paired_difference(scores["greedy"], scores["random"].loc[scores["greedy"].index])
    result = compare_scores(shuffled, "greedy", "random")
    assert (result.higher, result.lower, result.equal) == (
        by_hand.higher,
        by_hand.lower,
        by_hand.equal,
    )
    assert result.difference.estimate == pytest.approx(by_hand.difference.estimate)
    swapped = compare_scores(shuffled, "random", "greedy")
    assert swapped.difference.estimate == pytest.approx(-result.difference.estimate)


def test_different_deals_are_not_compared(frame):
    with pytest.raises(ValueError, match="did not play the same deals"):
        compare_scores(frame.iloc[1:], "greedy", "random")
    with pytest.raises(ValueError, match="no player 'ppo'"):
        compare_scores(frame, "ppo", "random")


def test_one_deal_has_figures_too():
    summary = summarize(run_benchmark(both(), [7], "list"))["greedy"]
    assert summary.mean_score.low == summary.mean_score.estimate == summary.mean_score.high


# --------------------------------------------------------------------------------------- texts


def test_texts_of_intervals():
    assert interval_text(Interval(345.06, 338.0, 352.25)) == "345.1 (338.0 to 352.2)"
    assert interval_text(Interval(0.1, 0.05, 0.2), 100, " %") == "10.0 (5.0 to 20.0) %"
    assert interval_text(Interval(0.0021, 0.0014, 0.0032), 100, " %", 2) == "0.21 (0.14 to 0.32) %"


@pytest.mark.parametrize(
    ("name", "count", "text"),
    [
        ("dev-200", 200, "the 200 deals of dev-200"),
        ("test-1000", 50, "the first 50 deals of test-1000"),
        ("4:24", 20, "the 20 deals of 4:24"),
        ("4:24", 1, "the first 1 deal of 4:24"),
        ("list", 3, "3 deals"),
        ("my own", 3, "the 3 deals of my own"),
    ],
)
def test_texts_of_deals(name, count, text):
    assert deals_text(pd.DataFrame({"suite": name, "index": range(count)})) == text


def test_rows_of_two_suites_do_not_go_together():
    with pytest.raises(ValueError, match="different suites"):
        deals_text(pd.DataFrame({"suite": ["a", "b"], "index": [0, 1]}))


def test_markdown_shows_texts_as_they_are():
    assert markdown_text("a|b\n<c> *d* `e`") == r"a\|b &lt;c&gt; \*d\* \`e\`"
    table = markdown_rows([["name", "n"], ["a|b", "1"], ["c", "22"]])
    assert table.splitlines() == [
        "| name |  n |",
        "|------|---:|",
        r"| a\|b |  1 |",
        "| c    | 22 |",
    ]


# --------------------------------------------------------------------------------------- files


def test_the_command_line_end_to_end(tmp_path, capsys):
    out = tmp_path / "a" / "b"
    arguments = ["random", "greedy", "--suite", "dev-200", "--limit", "12", "--seeds", "5,6"]
    assert bench(*arguments, "--out", out, workers=2) == 0
    printed = capsys.readouterr()
    assert names_in(out) == sorted(FILES)

    rows = pd.read_json(out / RESULTS, lines=True)
    expected = run_benchmark(both(), suite("dev-200")[:12], "dev-200", seeds=[5, 6]).frame
    pd.testing.assert_frame_equal(rows, expected, check_dtype=False)
    pd.testing.assert_frame_equal(read_results(out).frame, expected)

    summary = json.loads((out / SUMMARY).read_text("utf-8"))
    assert (summary["suite"], summary["deals"], summary["seeds"]) == ("dev-200", 12, [5, 6])
    assert "--limit 12" in summary["command"]
    assert {"date", "git_commit", "git_dirty"} <= set(summary)
    assert "numba" in summary["versions"]
    figures = summarize(Results(rows))
    for entry in summary["players"]:
        figure = figures[entry["player"]]
        assert entry["mean_score"] == vars(figure.mean_score)
        assert entry["win_rate"] == vars(figure.win_rate)
        assert (entry["wins"], entry["games"]) == (figure.wins, 24)
        assert entry["cpu_seconds_per_deal"] > 0

    table = (out / TABLE).read_text("utf-8")
    assert "the first 12 deals of dev-200, seeds 5, 6" in table
    for name, figure in figures.items():
        (line,) = (line for line in table.splitlines() if line.startswith(f"| {name}"))
        assert interval_text(figure.mean_score) in line
        assert line in printed.out
    assert str(out) in printed.out
    assert (out / PLOT).read_bytes().startswith(b"\x89PNG\r\n")
    lines = printed.err.splitlines()
    assert len(lines) == 2, "no bar where there is no terminal: a line a player"
    assert any(line.startswith("random: 24 games, mean score ") for line in lines)


def test_it_runs_as_a_program(tmp_path):
    program = [sys.executable, "-W", "error", "-m", "agents.benchmark"]
    run = subprocess.run(
        [*program, "greedy", "--deals", "0:3", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert names_in(tmp_path) == sorted(FILES)


def test_the_default_folder_names_the_deals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bench("greedy", "--deals", "4:6") == 0
    (folder,) = (tmp_path / "runs" / "benchmark").iterdir()
    assert folder.name.startswith("4-6-")
    assert names_in(folder) == sorted(FILES)


def test_deals_by_code_and_number(tmp_path):
    deals = "FT1-N-AAAAAAV, 5 ft1-n-aaaaaab"
    assert bench("greedy", "--deals", deals, "--out", tmp_path) == 0
    rows = pd.read_json(tmp_path / RESULTS, lines=True)
    assert rows["deal"].tolist() == [21, 5, 1]
    assert set(rows["suite"]) == {"list"}


def test_the_largest_seed_is_read_back(tmp_path):
    seed = str(2**63 - 1)
    assert bench("greedy", "--deals", "1", "--seed", seed, "--out", tmp_path) == 0
    assert str(pd.read_json(tmp_path / RESULTS, lines=True)["seed"][0]) == seed


def test_results_are_not_replaced_unasked(tmp_path, capsys):
    assert bench("greedy", "--deals", "1", "--out", tmp_path) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert bench("greedy", "--deals", "2", "--out", tmp_path) == 2
    assert "has results already" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert bench("greedy", "--deals", "2", "--out", tmp_path, "--overwrite") == 0
    assert pd.read_json(tmp_path / RESULTS, lines=True)["deal"].tolist() == [2]
    assert names_in(tmp_path) == sorted(FILES)


def test_other_files_in_the_folder_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert bench("greedy", "--deals", "1", "--out", tmp_path) == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_label_names_a_player_in_the_results(tmp_path):
    assert bench("a player=greedy", "random", "--deals", "1", "--out", tmp_path) == 0
    rows = pd.read_json(tmp_path / RESULTS, lines=True)
    assert rows["player"].tolist() == ["a player", "random"]
    plan = json.loads((tmp_path / DESCRIPTION).read_text("utf-8"))
    assert plan["players"] == {"a player": "greedy", "random": "random"}
    assert parse_player("plan,width=3") == ("plan,width=3", "plan,width=3")
    assert parse_player("ppo:a,play=argmax") == ("ppo:a,play=argmax", "ppo:a,play=argmax")
    assert parse_player("x=ppo:a,play=argmax") == ("x", "ppo:a,play=argmax")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (3,)), ("0,1,2", (0, 1, 2)), ("0..2", (0, 1, 2)), ("7,0..1", (7, 0, 1))],
)
def test_seeds_by_number_and_range(text, seeds):
    assert parse_seeds(text) == seeds


def test_recorded_games_are_in_the_rows(tmp_path):
    out = tmp_path / "out"
    assert bench("random", "--deals", "0:3", "--record", "--out", out) == 0
    frame = read_results(out).frame
    plain = run_benchmark({"random": make_player("random")}, range(3), "0:3").frame
    pd.testing.assert_frame_equal(frame.drop(columns=ACTIONS), plain)
    episodes = {e.deal: e for e in play_deals(make_player("random"), range(3), record=True)}
    for row in frame.to_dict("records"):
        assert list(row_playthrough(row).actions) == episodes[row["deal"]].actions
    row["score"] += 5
    with pytest.raises(ResultsError, match=f"leads to score {row['score'] - 5}"):
        row_playthrough(row)
    with pytest.raises(ResultsError, match="was not recorded"):
        row_playthrough(plain.to_dict("records")[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "PLAYER"),
        (["nobody"], "no player 'nobody'"),
        (["greedy", "greedy"], "player 'greedy' is named twice"),
        (["greedy", "a=greedy", "a=random"], "player 'a' is named twice"),
        (["greedy,play=argmax"], "no settings"),
        (["greedy", "--suite", "dev-100"], "no suite 'dev-100'; there are dev-200"),
        (["greedy", "--suite", "dev-200", "--deals", "0:4"], "not allowed with"),
        (["greedy", "--deals", "4:4"], "--deals: deals '4:4' needs 0 <= lo < hi"),
        (["greedy", "--deals", "a:b"], "not two integers"),
        (["greedy", "--deals", " "], "--deals: names no deal"),
        (["greedy", "--deals", "FT1-N-AAAAAA1"], "has '1'"),
        (["greedy", "--deals", str(2**35)], "outside 0.."),
        (["greedy", "--deals", "-5"], "--deals"),
        (["greedy", "--deals", "3,FT1-N-AAAAAAD"], "FT1-N-AAAAAAD is there twice"),
        (["greedy", "--deals", f"0:{2**34}"], "more than 1,000,000: --limit"),
        (["greedy", "random", "--deals", "0:600000"], "1,200,000 games are more than 1,000,000"),
        (["greedy", "--limit", "0"], "--limit: 0 is not at least 1"),
        (["greedy", "--limit", "many"], "--limit: 'many' is not an integer"),
        (["greedy", "--seed", "-1"], "-1 is not between 0"),
        (["greedy", "--seeds", str(2**63)], "--seed"),
        (["greedy", "--seeds", "2..0"], "2..0 is not between"),
        (["greedy", "--seeds", "1,a"], "'a' is no integer"),
        (["greedy", "--seeds", "0..1000"], "more than 1,000 seeds"),
        (["greedy", "--seeds", "3,1,3"], "seed 3 is there twice"),
        (["greedy", "--max-episode-steps", "-1"], "--max-episode-steps: -1 is not at least 1"),
        (["greedy", "--batch", "0"], "--batch: 0 is not at least 1"),
        (["greedy", "--sweets", "1"], "unrecognized"),
        (["--resume"], "--resume needs --out DIR"),
        (["--resume", "--out", "none"], "none holds no benchmark to resume"),
        (["--resume", "--overwrite", "--out", "none"], "exclude each other"),
    ],
)
def test_bad_requests_are_refused_in_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert bench(*arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_folders_place_is_refused(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine")
    for out in (path, path / "below"):
        assert bench("greedy", "--deals", "1", "--out", out) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert path.read_text() == "mine"


@holds_folders
def test_what_a_kill_left_of_temporary_files_goes(tmp_path):
    with temporary_file(tmp_path) as temporary:
        name = temporary.name
    (tmp_path / name).write_bytes(b"half a summary")
    assert bench("greedy", "--deals", "1", "--out", tmp_path) == 0
    assert names_in(tmp_path) == sorted(FILES)


def test_a_full_disk_is_an_error_in_one_line(tmp_path, monkeypatch, capsys):
    def full(path, value):
        raise OSError("no space left")

    monkeypatch.setattr(benchmark, "write_json", full)
    assert bench("greedy", "--deals", "1", "--out", tmp_path) == 2
    assert "no space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------- stopped and resumed


class _Interrupted(Player):
    """Somebody presses Ctrl-C when it has played some games."""

    name = "interrupted"

    def act(self, seats, observation, mask):
        raise KeyboardInterrupt


def made_here(monkeypatch, **players):
    monkeypatch.setattr(
        PlayerNames, "make", lambda self, name: players.get(name) or make_player(name)
    )


def test_an_interrupted_benchmark_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    made_here(monkeypatch, person=_Interrupted())
    out = tmp_path / "my out"
    assert bench("greedy", "person", "--deals", "0:3", "--out", out) == 130
    told = capsys.readouterr().err
    assert f"to go on: python -m agents.benchmark --resume --out '{out}' --workers 0" in told
    assert names_in(out) == sorted([DESCRIPTION, RESULTS, TIMES])
    before = (out / RESULTS).read_text()
    assert before.count("\n") == 3  # greedy's games
    with pytest.raises(ResultsError, match="is not finished"):
        read_results(out)

    made_here(monkeypatch, person=GreedyPlayer())
    assert bench("--resume", "--out", out) == 0
    assert (out / RESULTS).read_text().splitlines()[:3] == sorted(before.splitlines())
    assert read_results(out).frame["player"].tolist() == ["greedy"] * 3 + ["person"] * 3
    assert "greedy person" in json.loads((out / SUMMARY).read_text())["command"]
    capsys.readouterr()
    assert bench("--resume", "--out", out) == 0
    assert capsys.readouterr().out == f"{out} is finished\n"


def torn(path, whole, half):
    """Leave what a kill may leave: some whole lines and the half of another one."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:whole]) + lines[whole][:half])
    (path.parent / SUMMARY).unlink()


@pytest.mark.parametrize(("whole", "half"), [(0, 0), (0, 7), (1, 100), (5, 0), (6, 1), (9, 50)])
def test_torn_lines_are_dropped_and_nothing_is_counted_twice(tmp_path, whole, half):
    out = tmp_path / "out"
    arguments = ["random", "greedy", "--deals", "0:5", "--batch", "2", "--record", "--out", out]
    assert bench(*arguments) == 0
    complete = (out / RESULTS).read_bytes()
    torn(out / RESULTS, whole, half)
    (out / TIMES).write_bytes((out / TIMES).read_bytes()[:-9])
    assert bench("--resume", "--out", out) == 0
    assert (out / RESULTS).read_bytes() == complete
    (entry, _) = json.loads((out / SUMMARY).read_text())["players"]
    assert entry["games"] == 5


def test_lines_torn_elsewhere_are_refused(tmp_path, capsys):
    assert bench("random", "--deals", "0:4", "--out", tmp_path) == 0
    lines = (tmp_path / RESULTS).read_bytes().splitlines(keepends=True)
    (tmp_path / SUMMARY).unlink()
    for spoilt, message in (
        ([lines[0], b"\x00\x00\n", lines[1]], "results.jsonl, line 2: "),
        ([lines[0].replace(b'"random"', b'"other"')], "a row of another benchmark"),
        ([lines[0].replace(b'"steps": ', b'"steps": 1')], "does not play FT1-N-AAAAAAA as it did"),
    ):
        (tmp_path / RESULTS).write_bytes(b"".join(spoilt))
        assert bench("--resume", "--out", tmp_path) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["greedy"], "says players"),
        (["--seeds", "1"], "says seeds [0], not [1]"),
        (["--limit", "3"], "says deals 4, not 3"),
        (["--limit", "9"], "says 4 deals"),
        (["--deals", "1:5"], "says suite '0:4', not '1:5'"),
        (["--max-episode-steps", "9"], "says max_episode_steps 500, not 9"),
        (["--record"], "says record False, not True"),
        (["--batch", "3"], "says batch None, not 3"),
    ],
)
def test_another_benchmark_does_not_go_on(tmp_path, capsys, arguments, message):
    assert bench("random", "--deals", "0:4", "--out", tmp_path) == 0
    (tmp_path / SUMMARY).unlink()
    before = (tmp_path / RESULTS).read_bytes()
    assert bench("--resume", *arguments, "--out", tmp_path) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / RESULTS).read_bytes() == before
    assert bench("random", "--deals", "0:4", "--resume", "--out", tmp_path) == 0
    assert (tmp_path / RESULTS).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (DESCRIPTION, '"players": {', '"players": {"a": 5, ', "players.a is text, not 5"),
        (DESCRIPTION, '"players": {', '"players": 5, "x": {', "players is a mapping of keys"),
        (DESCRIPTION, '"version": 2', '"version": 3', "version is 2, not 3"),
        (DESCRIPTION, '"format": "', '"format": "x', "format is quarante-voleurs-benchmark, n"),
        (DESCRIPTION, '"deals": 4', '"deals": -4', "deals is an integer in 1..1,000,000 or a list"),
        (DESCRIPTION, '"deals": 4', '"deals": [1, "2"]', "deals[1] is an integer, not '2'"),
        (DESCRIPTION, '"suite": "0:4"', '"suite": "none"', "no suite 'none'"),
        (DESCRIPTION, '"seeds": [', '"seeds": [-1, ', "seeds[0] is an integer"),
        (DESCRIPTION, '"record": ', '"record": 0, "a": ', "record is true or false, not 0"),
        (DESCRIPTION, '"batch": null', '"batch": 1e99', "batch is an integer in 1..1,000,000"),
        (DESCRIPTION, '"batch": null', '"batch": 1, "batch": 2', "the key 'batch' stands there tw"),
        (DESCRIPTION, '"batch": null', '"batch": NaN', "NaN stands there"),
        (DESCRIPTION, '"batch": null', '"batch": ' + "[" * 9999, "nested too deeply"),
        (DESCRIPTION, '"max_episode_steps": ', '"max_episode_steps": 0.', "max_episode_steps is a"),
        (DESCRIPTION, "{", "{{", "this is not JSON"),
        (TIMES, "{", "[]\n{", "line 1: this is a mapping of keys, not []"),
        (TIMES, '"deals": 4', '"deals": 0', "line 1: deals is an integer at least 1, not 0"),
        (TIMES, '"cpu_seconds": ', '"cpu_seconds": -', "line 1: cpu_seconds is a number at"),
        (TIMES, '"cpu_seconds": ', '"cpu_seconds": 1e999, "x": ', "line 1: cpu_seconds is a num"),
        (TIMES, '"player": ', '"player": [], "x": ', "line 1: player is text, not []"),
        (TIMES, '"player": "', '"player": "x", "player": "', "line 1: the key 'player' stands"),
        (RESULTS, "{", "5\n{", "line 1: this is a mapping of keys, not 5"),
        (RESULTS, "{", "[" * 9999 + "\n{", "line 1: the JSON is nested too deeply"),
    ],
)  # fmt: skip
def test_a_folder_edited_by_hand_is_refused_in_one_line(tmp_path, capsys, name, old, new, message):
    assert bench("greedy", "--deals", "0:4", "--max-episode-steps", 3, "--out", tmp_path) == 0
    (tmp_path / SUMMARY).unlink()
    text = (tmp_path / name).read_text("utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), "utf-8")
    capsys.readouterr()
    assert bench("--resume", "--out", tmp_path) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"{tmp_path / name}" in told
    assert message in told


def test_a_benchmark_that_goes_on_with_other_sources_says_so(tmp_path, monkeypatch, capsys):
    for number, arguments in enumerate((["random", "--deals", "0:4"], ["--resume"], ["--resume"])):
        commit = "0" * 40 if number < 2 else "1" * 40
        for module in (benchmark, schedule):
            monkeypatch.setattr(module, "git_state", lambda commit=commit: (commit, False))
        (tmp_path / SUMMARY).unlink(missing_ok=True)
        assert bench(*arguments, "--out", tmp_path) == 0
        said = "the sources have changed since" in capsys.readouterr().err
        assert said == (number == 2)


def test_a_changed_settings_file_does_not_go_on(tmp_path, capsys):
    settings = tmp_path / "plan.yaml"
    settings.write_text("weights: {up: 1.0}\n")
    out = tmp_path / "out"
    played = Schedule({"plan": f"plan:{settings}"}, "list", (1,), max_episode_steps=2)
    play_into(out, played, names=PLAYERS, workers=0)
    (out / SUMMARY).unlink()
    settings.write_text("weights: {up: 1.5}\n")
    with pytest.raises(ResultsError, match="says files"):
        play_into(out, played, names=PLAYERS, workers=0, resume=True)


def test_networks_play_the_same_on_any_number_of_workers(tmp_path):
    from tests.agents.test_ppo_player import NET_ARCH, NETWORK, PLAIN, new_policy, save_policy

    path = tmp_path / "policy.safetensors"
    save_policy(new_policy(), path, "table", NETWORK, NET_ARCH, PLAIN, 1.0)
    files = []
    for workers in (0, 2):
        out = tmp_path / str(workers)
        arguments = [f"ppo=ppo:{path}", "--deals", "0:20", "--max-episode-steps", 60]
        assert bench(*arguments, "--batch", 8, "--out", out, workers=workers) == 0
        files.append((out / RESULTS).read_bytes())
    assert files[0] == files[1]
    # Stopped in the midst of a batch, which is then played again as a whole.
    torn(out / RESULTS, 11, 30)
    assert bench("--resume", "--out", out) == 0
    assert (out / RESULTS).read_bytes() == files[0]
    assert list(json.loads((out / DESCRIPTION).read_text())["files"]) == [path.as_posix()]


@holds_folders
def test_two_processes_do_not_play_into_one_folder(tmp_path):
    played = Schedule({"greedy": "greedy"}, "list", (1,))
    with held(tmp_path), pytest.raises(InUseError, match="is in use"):
        play_into(tmp_path, played, names=PLAYERS, workers=0)
    assert names_in(tmp_path) == []


MODULES = """
import os, sys, time
from qv_env.evaluation.players.random import RandomPlayer

class Waiting(RandomPlayer):
    "Plays at random; from its second batch on it waits in the midst of games while HOLD exists."
    batch = 4
    started = 0

    def start(self, seat, rng):
        print("starts", seat)  # which nobody takes for an answer
        self.started += 1
        super().start(seat, rng)

    def act(self, seats, observation, mask):
        while self.started > 5 and len(seats) < 4 and os.path.exists(os.environ["HOLD"]):
            time.sleep(0.01)
        return super().act(seats, observation, mask)

class Dying(RandomPlayer):
    def start(self, seat, rng):
        os._exit(7)

def failing(reason="", times=1):
    class Failing(RandomPlayer):
        def act(self, seats, observation, mask):
            raise RuntimeError(reason * times)
    return Failing()

def odd():
    return 7
"""


@pytest.fixture
def players(tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "waiting_players.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "modules"), str(ROOT)]))
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    yield "waiting_players"
    sys.modules.pop("waiting_players", None)


def wait_for(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_benchmark_resumes_to_the_same_file(tmp_path, players, number):
    arguments = ["greedy", f"w={players}:Waiting", "--deals", "0:22", "--seeds", "0..1", "--record"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert bench(*arguments, "--out", whole) == 0

    (tmp_path / "hold").touch()
    program = [sys.executable, "-m", "agents.benchmark", *arguments, "--workers", "2"]
    run = subprocess.Popen(
        [*program, "--out", str(out)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    # Greedy's 44 games; two batches of the other's and at least one game of a third.
    wait_for(lambda: (out / RESULTS).exists() and (out / RESULTS).read_bytes().count(b"\n") >= 53)
    run.send_signal(number)
    _, told = run.communicate(timeout=60)
    assert run.returncode == (-9 if number == signal.SIGKILL else 130)
    assert ("to go on:" in told) == (number == signal.SIGINT)
    rows = [json.loads(line) for line in (out / RESULTS).read_bytes().splitlines()]
    batches = {
        (row["player"], row["seed"], row["index"] // 4) for row in rows if row["player"] == "w"
    }
    assert len(rows) - 44 < 4 * len(batches), "no batch was interrupted"
    assert not (out / SUMMARY).exists()

    (tmp_path / "hold").unlink()
    with open(out / RESULTS, "ab") as file:
        file.write(row_line(rows[0])[:60].encode())  # what a kill in the midst of a line leaves
    assert bench("--resume", "--out", out, workers=3) == 0
    assert (out / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()


def test_workers_end_when_nobody_gives_them_tasks(tmp_path, players):
    (tmp_path / "hold").touch()
    out = tmp_path / "out"
    program = [sys.executable, "-m", "agents.benchmark", f"w={players}:Waiting", "--workers", "1"]
    run = subprocess.Popen(
        [*program, "--deals", "0:8", "--out", str(out)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,  # which the worker has as well: it ends with the last of them
    )
    wait_for(lambda: (out / RESULTS).exists() and (out / RESULTS).read_bytes().count(b"\n") >= 4)
    run.kill()
    run.communicate(timeout=60)  # the worker waits for HOLD, and would for ever


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dying", "a worker died (exit status 7) while x played 2 deals from place 0 on"),
        ("failing,reason=tired,times=2", "x: RuntimeError: tiredtired"),
    ],
)
def test_a_player_that_fails_ends_the_benchmark(tmp_path, players, capfd, name, message):
    arguments = ["greedy", f"x={players}:{name}", "--deals", "0:2", "--out", tmp_path / "out"]
    assert bench(*arguments, workers=2) == 2
    told = capfd.readouterr().err
    assert message in told
    assert "the games so far are kept: python -m agents.benchmark --resume" in told


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_module:Player", "No module named 'no_such_module'; there are random"),
        ("waiting_players:Nobody", "waiting_players has no Nobody"),
        ("waiting_players:PLAYERS", "has no PLAYERS"),
        ("waiting_players:os", "os is no class and no function"),
        ("waiting_players:odd", "not int"),
        ("waiting_players:Dying,speed=3", "unexpected keyword argument 'speed'"),
    ],
)
def test_players_of_other_modules_are_checked(players, spec, message):
    with pytest.raises(ValueError, match=message):
        make_player(spec)


def test_settings_reach_players_of_other_modules(players):
    player = make_player(f"{players}:failing,reason=tired,times=3")
    assert player.name == "random"
    with pytest.raises(RuntimeError, match=r"^tiredtiredtired$"):
        player.act(np.array([0]), {}, np.ones((1, 192), dtype=np.int8))


def test_the_documented_player_plays(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "new-player.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n# mypackage/mymodule.py\n(.*?)```", text, re.DOTALL)
    (tmp_path / "documented_player.py").write_text(code[1])
    monkeypatch.syspath_prepend(tmp_path)
    specs = ["documented_player:MyPlayer", "mine-2=documented_player:MyPlayer,last=true"]
    out = tmp_path / "out"
    assert bench(*specs, "--deals", "0:20", "--out", out, workers=1) == 0
    rows = read_results(out).frame
    assert [settings["last"] for settings in rows["settings"]] == [False] * 20 + [True] * 20
    scores = rows.groupby("player")["score"].apply(list)
    assert scores["mine-2"] != scores["documented_player:MyPlayer"]


def test_an_interrupt_while_files_are_written_leaves_no_half_file(tmp_path, monkeypatch, results):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("qv_env.evaluation.reports.benchmark.score_plot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_results(tmp_path, results)
    assert names_in(tmp_path) == [RESULTS]  # whole; no summary vouches for the folder
    assert len(pd.read_json(tmp_path / RESULTS, lines=True)) == len(results.frame)


def test_settings_and_odd_names_go_through_the_files(tmp_path):
    player = GreedyPlayer()
    player.settings = {"play": "sample", "temperature": 0.5}
    name = "ppo:a|b,<i>$x$ é"
    results = run_benchmark({name: player, "_greedy": GreedyPlayer()}, [1, 2], "list")
    summaries = write_results(tmp_path, results, command="python -m agents.benchmark …")
    assert isinstance(summaries[name], PlayerSummary)
    assert names_in(tmp_path) == WRITTEN
    rows = read_results(tmp_path).frame
    pd.testing.assert_frame_equal(rows, results.frame)
    assert rows["player"][0] == name
    assert rows["settings"][0] == {"play": "sample", "temperature": 0.5}
    assert rows["settings"][2] == {}
    table = (tmp_path / TABLE).read_text("utf-8")
    assert r"ppo:a\|b,&lt;i&gt;\$x\$ é" in table


def test_ranges_stay_ranges_until_they_are_cut():
    name, deals = parse_deals(f"0:{2**34}")
    assert (name, len(deals), deals[:3]) == (f"0:{2**34}", 2**34, range(3))
    assert parse_deals("7, 8")[1] == [7, 8]


def test_numbers_of_numpy_are_deals_too():
    frame = run_benchmark({"greedy": GreedyPlayer()}, np.array([3, 4]), "list").frame
    assert frame["deal"].tolist() == [3, 4]
