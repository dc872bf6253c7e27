"""The benchmark from its command line to its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from agents import benchmark
from agents.benchmark import (
    COLUMNS,
    PLOT,
    RESULTS,
    SUMMARY,
    TABLE,
    PlayerSummary,
    compare_scores,
    deals_text,
    interval_text,
    main,
    markdown_rows,
    markdown_text,
    parse_deals,
    run_benchmark,
    summarize,
    write_results,
)
from agents.evaluation import play_deals
from agents.players import Player, make_player
from agents.players.greedy import GreedyPlayer
from agents.stats import Interval, mean_interval, paired_difference, proportion_interval
from qv_env import deal_code, suite

ROOT = Path(__file__).parents[2]
FILES = sorted([RESULTS, SUMMARY, TABLE, PLOT])


def both():
    return {"random": make_player("random"), "greedy": make_player("greedy")}


@pytest.fixture(scope="module")
def frame():
    return run_benchmark(both(), suite("dev-200")[:24], "dev-200", seed=3)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------------------------------- rows


def test_rows_are_in_the_order_of_players_and_deals(frame):
    deals = suite("dev-200")[:24].tolist()
    assert tuple(frame.columns) == COLUMNS
    assert frame["player"].tolist() == ["random"] * 24 + ["greedy"] * 24
    assert frame["index"].tolist() == [*range(24)] * 2
    assert frame["deal"].tolist() == deals * 2
    assert frame["code"].tolist() == [deal_code(deal) for deal in deals] * 2
    assert set(frame["suite"]) == {"dev-200"}
    assert set(frame["seed"]) == {3}
    assert frame["environment"].iloc[0] == {"observation": "cards", "max_episode_steps": 500}
    assert set(frame.attrs["seconds"]) == {"random", "greedy"}


def test_rows_say_what_was_played(frame):
    rows = frame[frame["player"] == "random"]
    for episode in play_deals(make_player("random"), suite("dev-200")[:24], seed=3):
        row = rows.iloc[episode.index]
        for key in ("deal", "score", "won", "foundation_cards", "steps", "truncated"):
            assert row[key] == getattr(episode, key), key


@pytest.mark.parametrize("seats", [1, 7, 64])
def test_rows_do_not_depend_on_the_seats(frame, seats):
    deals = suite("dev-200")[:24]
    again = run_benchmark(both(), deals, "dev-200", seed=3, num_seats=seats)
    pd.testing.assert_frame_equal(again, frame)


def test_rows_do_not_depend_on_the_order_of_deals_and_players(frame):
    deals = suite("dev-200")[:24][::-1]
    players = dict(reversed(both().items()))
    again = run_benchmark(players, deals, "dev-200", seed=3, num_seats=9)
    keys = ["player", "deal"]
    columns = [column for column in COLUMNS if column != "index"]
    one, other = (f[columns].sort_values(keys, ignore_index=True) for f in (frame, again))
    pd.testing.assert_frame_equal(one, other)


def test_the_step_limit_is_kept():
    frame = run_benchmark(both(), range(5), "0:5", max_episode_steps=12)
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


def test_figures_are_those_of_the_rows(frame):
    summaries = summarize(frame)
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
        assert summary.deals_per_second == pytest.approx(24 / summary.seconds)


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
    arguments = ["random", "greedy", "--suite", "dev-200", "--limit", "12", "--seed", "5"]
    assert main([*arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert names_in(out) == FILES

    rows = pd.read_json(out / RESULTS, lines=True)
    expected = run_benchmark(both(), suite("dev-200")[:12], "dev-200", seed=5)
    pd.testing.assert_frame_equal(rows, expected, check_dtype=False)

    summary = json.loads((out / SUMMARY).read_text("utf-8"))
    assert (summary["suite"], summary["deals"], summary["seed"]) == ("dev-200", 12, 5)
    assert "--limit 12" in summary["command"]
    assert {"date", "git_commit", "git_dirty"} <= set(summary)
    assert "numba" in summary["versions"]
    figures = summarize(rows)
    for entry in summary["players"]:
        figure = figures[entry["player"]]
        assert entry["mean_score"] == vars(figure.mean_score)
        assert entry["win_rate"] == vars(figure.win_rate)
        assert entry["wins"] == figure.wins
        assert entry["seconds"] > 0

    table = (out / TABLE).read_text("utf-8")
    for name, figure in figures.items():
        (line,) = (line for line in table.splitlines() if line.startswith(f"| {name}"))
        assert interval_text(figure.mean_score) in line
        assert line in printed.out
    assert str(out) in printed.out
    assert (out / PLOT).read_bytes().startswith(b"\x89PNG\r\n")
    lines = printed.err.splitlines()
    assert len(lines) == 2, "no bar where there is no terminal: a line a player"
    assert lines[0].startswith("random: 12 deals")


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
    assert names_in(tmp_path) == FILES


def test_the_default_folder_names_the_deals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["greedy", "--deals", "4:6"]) == 0
    (folder,) = (tmp_path / "runs" / "benchmark").iterdir()
    assert folder.name.startswith("4-6-")
    assert names_in(folder) == FILES


def test_deals_by_code_and_number(tmp_path):
    deals = "FT1-N-AAAAAAV, 5 ft1-n-aaaaaab"
    assert main(["greedy", "--deals", deals, "--out", str(tmp_path)]) == 0
    rows = pd.read_json(tmp_path / RESULTS, lines=True)
    assert rows["deal"].tolist() == [21, 5, 1]
    assert set(rows["suite"]) == {"list"}


def test_the_largest_seed_is_read_back(tmp_path):
    seed = str(2**63 - 1)
    assert main(["greedy", "--deals", "1", "--seed", seed, "--out", str(tmp_path)]) == 0
    assert str(pd.read_json(tmp_path / RESULTS, lines=True)["seed"][0]) == seed


def test_results_are_not_replaced_unasked(tmp_path, capsys):
    out = str(tmp_path)
    assert main(["greedy", "--deals", "1", "--out", out]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SystemExit) as stopped:
        main(["greedy", "--deals", "2", "--out", out])
    assert stopped.value.code == 2
    assert "has results already" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert main(["greedy", "--deals", "2", "--out", out, "--overwrite"]) == 0
    assert pd.read_json(tmp_path / RESULTS, lines=True)["deal"].tolist() == [2]
    assert names_in(tmp_path) == FILES


def test_other_files_in_the_folder_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["greedy", "--deals", "1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "PLAYER"),
        (["nobody"], "no player 'nobody'"),
        (["greedy", "greedy"], "player 'greedy' is named twice"),
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
        (["greedy", "--limit", "0"], "--limit: 0 is not at least 1"),
        (["greedy", "--limit", "many"], "--limit: 'many' is no integer"),
        (["greedy", "--seed", "-1"], "--seed: -1 is not between 0"),
        (["greedy", "--seed", str(2**63)], "--seed"),
        (["greedy", "--max-episode-steps", "-1"], "--max-episode-steps: -1 is not at least 1"),
        (["greedy", "--seats", "0"], "--seats: 0 is not at least 1"),
        (["greedy", "--sweets", "1"], "unrecognized"),
    ],
)
def test_bad_requests_are_refused_in_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_folders_place_is_refused(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine")
    for out in (path, path / "below"):
        with pytest.raises(SystemExit) as stopped:
            main(["greedy", "--deals", "1", "--out", str(out)])
        assert stopped.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert path.read_text() == "mine"


def test_a_full_disk_is_an_error_in_one_line(tmp_path, monkeypatch, capsys):
    def full(path, text):
        raise OSError("no space left")

    monkeypatch.setattr(benchmark, "write_text", full)
    with pytest.raises(SystemExit) as stopped:
        main(["greedy", "--deals", "1", "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "no space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class _Interrupted(Player):
    """Somebody presses Ctrl-C while it thinks."""

    name = "interrupted"

    def act(self, seats, observation, mask):
        raise KeyboardInterrupt


def test_an_interrupted_benchmark_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        benchmark,
        "make_player",
        lambda name: _Interrupted() if name == "interrupted" else make_player(name),
    )
    out = tmp_path / "out"
    assert main(["greedy", "interrupted", "--deals", "0:3", "--out", str(out)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not out.exists()
    # What stood there before stays, with --overwrite as well.
    out.mkdir()
    (out / SUMMARY).write_text("old")
    arguments = ["interrupted", "--deals", "0:3", "--out", str(out), "--overwrite"]
    assert main(arguments) == 130
    assert (out / SUMMARY).read_text() == "old"
    assert names_in(out) == [SUMMARY]


def test_an_interrupt_while_files_are_written_leaves_no_half_file(tmp_path, monkeypatch, frame):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "score_plot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_results(tmp_path, frame)
    assert names_in(tmp_path) == [RESULTS]  # whole; no summary vouches for the folder
    assert len(pd.read_json(tmp_path / RESULTS, lines=True)) == len(frame)


def test_settings_and_odd_names_go_through_the_files(tmp_path):
    player = GreedyPlayer()
    player.settings = {"play": "sample", "temperature": 0.5}
    name = "ppo:a|b,<i>$x$ é"
    frame = run_benchmark({name: player, "_greedy": GreedyPlayer()}, [1, 2], "list")
    summaries = write_results(tmp_path, frame, command="python -m agents.benchmark …")
    assert isinstance(summaries[name], PlayerSummary)
    rows = pd.read_json(tmp_path / RESULTS, lines=True)
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
    frame = run_benchmark({"greedy": GreedyPlayer()}, np.array([3, 4]), "list")
    assert frame["deal"].tolist() == [3, 4]
