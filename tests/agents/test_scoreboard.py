"""The scoreboard: results taken in, the tables made of them, rows played again."""

from __future__ import annotations

import csv
import json
import shutil

import pandas as pd
import pytest

from agents.players import PLAYERS
from agents.publishing.entries import add_results, file_name, player_command, read_entries
from agents.publishing.tables import pages, readme_text_of
from agents.scoreboard import main
from qv_env import suite
from qv_env.evaluation.benchmark import play_into
from qv_env.evaluation.comparison import load_results
from qv_env.evaluation.reports.tables import interval_text
from qv_env.evaluation.results import ResultsError, read_results, read_rows, write_rows
from qv_env.evaluation.schedule import Schedule
from qv_env.evaluation.stats import mean_interval, proportion_interval

DEALS = tuple(suite("dev-200").tolist())
FILES = {"greedy.json", "greedy.jsonl.gz", "a-player.json", "a-player.jsonl.gz"}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark") / "out"
    schedule = Schedule({"greedy": "greedy", "a player": "random"}, "dev-200", DEALS, record=True)
    play_into(folder, schedule, names=PLAYERS, workers=0, command="python -m agents.benchmark …")
    return folder


@pytest.fixture(scope="module")
def filled(benchmark, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    add_results(benchmark, root)
    return root


@pytest.fixture
def root(filled, tmp_path):
    """A checkout that has two results, to change."""
    shutil.copytree(filled / "results", tmp_path / "results")
    return tmp_path


def sheet(root):
    with open(root / "docs" / "scoreboard.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_results_are_taken_in_and_shown(benchmark, tmp_path, capsys):
    assert main(["--add", str(benchmark), "--root", str(tmp_path)]) == 0
    folder = tmp_path / "results" / "dev-200"
    assert {path.name for path in folder.iterdir()} == FILES
    told = capsys.readouterr().out
    assert f"wrote {folder / 'greedy.jsonl.gz'}" in told

    rows = read_results(benchmark)
    for name, file in (("greedy", "greedy"), ("a player", "a-player")):
        taken = read_results(folder / f"{file}.jsonl.gz")
        same = rows.frame[rows.frame["player"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(taken.frame, same)
        assert taken.cpu_seconds == {name: rows.cpu_seconds[name]}
        line = next(line for line in sheet(tmp_path) if line["player"] == name)
        mean, rate = mean_interval(same["score"]), proportion_interval(same["won"].sum(), 200)
        for column, value in (
            ("mean_score", mean.estimate),
            ("mean_score_low", mean.low),
            ("mean_score_high", mean.high),
            ("win_rate_high", rate.high),
            ("share_of_maximum", mean.estimate / 1360),
            ("cpu_seconds_per_deal", rows.cpu_seconds[name]),
        ):
            assert float(line[column]) == pytest.approx(value, rel=1e-5)
        assert (line["deals"], line["games"], line["suite"]) == ("200", "200", "dev-200")
        assert line["version"]
        assert line["date"]
        page = (tmp_path / "docs" / "scoreboard.md").read_text(encoding="utf-8")
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {name}"))
        assert interval_text(mean) in row
        assert "what lies open" in row
    assert "\npython -m agents.benchmark 'a player=random' --suite dev-200 --record\n" in page
    assert page.index("| greedy") < page.index("| a player")  # the better one first


def test_commands_say_all_that_decides_the_rows():
    schedule = Schedule({"a": "plan,ahead=1"}, "dev-200", DEALS, (0, 1), 300, 7)
    assert player_command(schedule, "a") == (
        "python -m agents.benchmark a=plan,ahead=1 --suite dev-200 --seeds 0,1"
        " --max-episode-steps 300 --batch 7"
    )
    assert file_name("ppo:runs/a b/seed-0,play=sample") == "ppo-runs-a-b-seed-0-play=sample"


def test_results_are_replaced_only_when_asked(benchmark, root):
    with pytest.raises(FileExistsError, match=r"greedy\.jsonl\.gz is there already: --replace"):
        add_results(benchmark, root)
    path = root / "results" / "dev-200" / "greedy.jsonl.gz"
    before = path.read_bytes()
    assert add_results(benchmark, root, players=["greedy"], replace=True, note="again") == [path]
    assert path.read_bytes() == before  # the same rows, the same bytes
    notes = {entry.summary.player: entry.about["note"] for entry in read_entries(root)}
    assert notes == {"greedy": "again", "a player": ""}


def test_bounds_come_from_files_and_are_marked(root, tmp_path):
    rows = read_rows(root / "results" / "dev-200" / "greedy.jsonl.gz")
    for row in rows:
        row |= {"player": "solver", "score": 1000}
        row["environment"] = {**row["environment"], "stock_visible": True}
        del row["actions"]
    path = tmp_path / "labels.jsonl"
    write_rows(path, rows)
    with pytest.raises(ResultsError, match="does not say what made it: --command"):
        add_results(path, root, bound=True)
    arguments = ["--add", str(path), "--bound", "--command", "python -m x", "--root", str(root)]
    assert main(arguments) == 0
    first, *others = sheet(root)
    assert (first["player"], first["kind"], first["mean_score"]) == ("solver", "bound", "1000")
    assert first["sees"] == "the stock's order, too"
    assert [line["kind"] for line in others] == ["player", "player"]
    assert "| solver (bound)" in (root / "docs" / "scoreboard.md").read_text(encoding="utf-8")


def test_training_seeds_of_one_agent_stand_together(benchmark, root):
    for name in ("greedy", "a player"):
        add_results(benchmark, root, players=[name], group="agent", replace=True)
    (page, *_) = pages(read_entries(root), root).values()
    (line,) = (line for line in page.splitlines() if line.startswith("| agent |  "))
    assert "|              2 |" in line


def test_a_table_that_is_out_of_date_is_found(root, capsys):
    arguments = ["--root", str(root)]
    assert main(["--check", *arguments]) == 1
    assert "scoreboard.csv is out of date" in capsys.readouterr().out
    (root / "README.md").write_text(
        "# A\n\n<!-- scoreboard dev-200 -->\nold\n<!-- end of scoreboard -->\n\nB\n"
    )
    assert main(arguments) == 0
    assert main(["--check", *arguments]) == 0
    readme = (root / "README.md").read_text()
    assert "old" not in readme
    assert "| greedy" in readme
    assert readme.endswith("<!-- end of scoreboard -->\n\nB\n")
    (root / "README.md").write_text(readme.replace("| greedy", "| GREEDY"))
    assert main(["--check", *arguments]) == 1


def test_scoreboards_without_end_or_results_are_refused():
    with pytest.raises(ResultsError, match="has no <!-- end"):
        readme_text_of("<!-- scoreboard dev-200 -->\n", [])
    with pytest.raises(ResultsError, match="no results of dev-200"):
        readme_text_of("<!-- scoreboard dev-200 -->\n<!-- end of scoreboard -->", [])
    assert readme_text_of("nothing", []) == "nothing"


def change_about(root, **changes):
    path = root / "results" / "dev-200" / "greedy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_rows_are_played_again(root, capsys):
    assert main(["--verify", "3", "--root", str(root)]) == 0
    assert capsys.readouterr().out == "greedy on dev-200: the same\na player on dev-200: the same\n"

    path = root / "results" / "dev-200" / "greedy.jsonl.gz"
    rows = read_rows(path)
    rows[1]["steps"] += 1
    write_rows(path, rows)
    assert main(["--verify", "3", "--player", "greedy", "--root", str(root)]) == 1
    steps = rows[1]["steps"]
    said = f"greedy on dev-200: {rows[1]['code']}: steps was {steps} and is {steps - 1}\n"
    assert capsys.readouterr().out == said

    change_about(root, files={"policy.safetensors": "0" * 64})
    assert main(["--verify", "3", "--player", "greedy", "--root", str(root)]) == 1
    assert "policy.safetensors is not the file" in capsys.readouterr().out
    change_about(root, spec=None)
    assert main(["--verify", "3", "--player", "greedy", "--root", str(root)]) == 0
    assert "not played" in capsys.readouterr().out


def test_results_that_are_not_whole_are_refused(benchmark, root, tmp_path):
    with pytest.raises(ResultsError, match="no player 'x'; it has greedy, a player"):
        add_results(benchmark, root, players=["x"])
    rows = [row for row in read_rows(benchmark / "results.jsonl") if row["index"] < 50]
    part = tmp_path / "part.jsonl"
    write_rows(part, rows)
    with pytest.raises(ResultsError, match="has 50 of the 200 deals of dev-200"):
        add_results(part, root, command="c")
    write_rows(part, [{**row, "suite": "list"} for row in rows])
    with pytest.raises(ResultsError, match="list is no suite"):
        add_results(part, root, command="c")

    folder = root / "results" / "dev-200"
    change_about(root, date=7)
    with pytest.raises(ResultsError, match=r"greedy\.json: date is text, not 7"):
        read_entries(root)
    (folder / "greedy.json").unlink()
    with pytest.raises(ResultsError, match=r"has no greedy\.json beside it"):
        read_entries(root)


def test_results_that_do_not_compare_are_refused(root):
    path = root / "results" / "dev-200" / "greedy.jsonl.gz"
    rows = read_rows(path)
    for row in rows:
        row["environment"]["max_episode_steps"] = 300
    write_rows(path, rows)
    with pytest.raises(ResultsError, match="results of dev-200 do not compare: step limit: "):
        read_entries(root)


def test_committed_files_go_into_comparisons(root):
    folder = root / "results" / "dev-200"
    frame = load_results([folder / "greedy.jsonl.gz", folder / "a-player.jsonl.gz"])
    assert set(frame.cpu_seconds) == {"greedy", "a player"}


def test_bad_requests_are_refused_in_one_line(root, capsys):
    for arguments, message in (
        (["--bound"], "go with --add"),
        (["--verify", "0"], "--verify: 0 is not at least 1"),
        (["--verify", "1", "--player", "x"], "no player 'x'"),
        (["--add", "none"], "none: no such file or folder"),
        (["--root", str(root / "none")], f"--root: there is no folder {root / 'none'}"),
    ):
        assert main(["--root", str(root), *arguments]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
    assert not (root / "none").exists()


def test_without_results_there_is_a_page(tmp_path):
    assert main(["--root", str(tmp_path)]) == 0
    assert "no results yet" in (tmp_path / "docs" / "scoreboard.md").read_text()


def test_the_committed_tables_are_those_of_the_results(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().out
