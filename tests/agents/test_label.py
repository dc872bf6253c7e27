"""Labelling suites: the committed labels again, killed runs, rows for a scoreboard."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.resources import files

import pytest

from agents.label import main
from agents.search import labels
from agents.search.labels import POSITIONS, effort_text, label_deal, label_suite, result_rows
from qv_env import suite
from qv_env.evaluation.results import parse_row, row_line, row_playthrough
from qv_env.files import InUseError
from qv_env.suites import LABELLED, difficulty, parse_records
from tests.helpers.kills import ROOT, forks, run_killed
from tests.marks import holds_folders

FEW = 3_000  # positions: a short look, and the first beam


def label(out, limit, positions=FEW, seed=0, jobs=1):
    return list(label_suite("dev-200", out, positions, seed, jobs, limit))


@pytest.mark.parametrize("verdict", ["won", "lost"])
def test_the_committed_labels_are_what_the_solver_finds(verdict):
    found = [(k, record) for k, record in enumerate(difficulty("dev-200"))
             if record.verdict == verdict]  # fmt: skip
    for place, record in sorted(found, key=lambda pair: pair[1].positions)[:2]:
        assert label_deal((place, record.deal), POSITIONS, 0).record == record


@pytest.mark.parametrize("name", LABELLED.values())
def test_the_data_files_say_what_they_were_made_with(name):
    first, *_ = (files("qv_env") / "data" / f"{name}.csv").read_text().splitlines()
    assert first == f"# {name}: {effort_text(POSITIONS, 0)}"


def test_a_killed_run_goes_on_to_the_same_file(tmp_path):
    whole, other = tmp_path / "whole.csv", tmp_path / "other.csv"
    found = label(whole, 4)
    assert [one.index for one in found] == [0, 1, 2, 3]
    records = parse_records(whole.read_text())
    assert [record.deal for record in records] == suite("dev-200")[:4].tolist()
    assert [record.verdict for record in records] == ["given up", "given up", "won", "won"]
    assert not list(tmp_path.glob("*.part"))

    running = label_suite("dev-200", other, FEW, 0, 1, 4)
    next(running)
    next(running)
    running.close()
    part = tmp_path / "other.csv.part"
    assert not other.exists()
    rows = part.read_bytes().split(b"\n")
    assert len(rows) == 4
    part.write_bytes(b"\n".join([rows[0], rows[2], rows[1][:40]]))  # out of order, and cut off
    again = label(other, 4)
    assert [one.index for one in again] == [1, 0, 2, 3]
    assert other.read_bytes() == whole.read_bytes()
    assert not part.exists()


def test_any_number_of_processes_writes_the_same_file(tmp_path):
    label(tmp_path / "one.csv", 2)
    label(tmp_path / "two.csv", 2, jobs=2)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_another_effort_does_not_go_on(tmp_path):
    out = tmp_path / "labels.csv"
    running = label_suite("dev-200", out, FEW, 0, 1, 3)
    next(running)
    running.close()
    part = tmp_path / "labels.csv.part"
    for positions, seed in ((FEW + 1, 0), (FEW, 1)):
        with pytest.raises(ValueError, match=r"labels\.csv\.part was made otherwise"):
            label(out, 3, positions, seed)
    content = part.read_text().splitlines()
    row = json.loads(content[1])
    del row["record"]["score"]
    part.write_text("\n".join([content[0], json.dumps(row), ""]))
    with pytest.raises(ValueError, match="line 2"):
        label(out, 3)


@holds_folders
def test_one_file_is_labelled_by_one_process(tmp_path):
    out = tmp_path / "labels.csv"
    running = label_suite("dev-200", out, FEW, 0, 1, 2)
    next(running)
    with pytest.raises(InUseError, match=r"labels\.csv\.part is in use by another process"):
        label(out, 2)
    label(tmp_path / "others.csv", 1)  # beside it there is room
    assert len(list(running)) == 1
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["labels.csv", "others.csv"]


def test_a_file_of_something_else_is_left_alone(tmp_path):
    part = tmp_path / "labels.csv.part"
    for content in (b"mine", b"mine\n", b"mine\nand mine"):
        part.write_bytes(content)
        with pytest.raises(ValueError, match="was made otherwise: 'mine'"):
            label(tmp_path / "labels.csv", 1)
        assert part.read_bytes() == content


LABELLING = """
import sys
from agents.search import labels
from tests.helpers.kills import MOMENT

append = labels.append

def torn(file, data):
    for part in (data[:40], data[40:]):
        sys.audit(MOMENT, file.name)
        append(file, part)

labels.append = torn
labels.label_deal((0, 0), 100, 0)  # loads what is compiled, once for all sessions

def session(folder, k):
    sys.audit(MOMENT, folder)
    list(labels.label_suite("dev-200", folder / "labels.csv", 3_000, 0, 1, 4))
"""


@forks
def test_killed_labelling_ends_with_the_same_file(tmp_path):
    label(tmp_path / "whole.csv", 4)
    (tmp_path / "out").mkdir()
    run_killed(LABELLING, tmp_path / "out", 0, kills=10, moments=20)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["labels.csv"]
    same = (tmp_path / "out" / "labels.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert same


def worker_begins():
    os.write(1, b"a worker\n")  # in one piece, whatever the other one writes
    labels._end_with_parent()


WORKING = """
import sys
from pathlib import Path
from agents.search import labels
from tests.agents.test_label import worker_begins

labels._end_with_parent = worker_begins
if __name__ == "__main__":
    list(labels.label_suite("dev-200", Path(sys.argv[1]), 10**9, 0, 2))
"""


@holds_folders
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_program_whatever_ends_it(tmp_path, number):
    run = subprocess.Popen(
        [sys.executable, "-c", WORKING, str(tmp_path / "labels.csv")],
        cwd=ROOT,
        stdout=subprocess.PIPE,  # which the workers have as well: it ends with the last of them
        text=True,
    )
    assert [run.stdout.readline() for _ in range(2)] == ["a worker\n"] * 2
    run.send_signal(number)
    assert run.communicate() == ("", None)
    assert run.returncode == -number


def test_rows_for_a_scoreboard():
    rows = result_rows("dev-200")
    assert [row["deal"] for row in rows] == suite("dev-200").tolist()
    for row in rows[:20]:
        assert parse_row(row_line(row)) == row
        assert row_playthrough(row).won == row["won"]
    assert sum(row["won"] for row in rows) == sum(r.verdict == "won" for r in difficulty("dev-200"))


def test_the_program(tmp_path, capsys):
    out = tmp_path / "labels.csv"
    arguments = ["--suite", "dev-200", "--positions", str(FEW), "--limit", "2", "--out", str(out)]
    assert main(arguments) == 0
    assert "2  0 won, 0 lost, 2 given up" in capsys.readouterr().err
    assert len(parse_records(out.read_text())) == 2
    rows = tmp_path / "rows.jsonl.gz"
    assert main(["--suite", "test-easy", "--rows", str(rows)]) == 0
    assert rows.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "dev-2000"], "no suite 'dev-2000'"),
        (["--positions", "0"], "--positions: 0 is not at least 1"),
        (["--workers", "-1"], "--workers: -1 is not at least 0"),
        (["--jobs", "-1"], "--jobs: -1 is not at least 0"),  # what the option was called
        (["--seed", "-1"], "--seed: -1 is not at least 0"),
        (["--limit", "0"], "--limit: 0 is not at least 1"),
        (["--limit", "-1"], "--limit: -1 is not at least 1"),
        (["--out", "."], ".: Is a directory"),
        (["--out", "no/labels.csv"], "no/labels.csv: No such file or directory"),
        (["--suite", "test-10000", "--rows", "rows.jsonl"], "nothing is known about"),
    ],
)
def test_bad_arguments_are_refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
