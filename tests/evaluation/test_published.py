"""The published rows that come with the package, and comparisons with them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from qv_env import suite
from qv_env.__main__ import main
from qv_env.evaluation import Results, ResultsError, published_results, run_benchmark
from qv_env.evaluation.players import GreedyPlayer
from qv_env.evaluation.published import FOLDER, PUBLISHED_SUITES, with_published
from qv_env.evaluation.reports.benchmark import write_results
from qv_env.evaluation.results import ACTIONS, read_results

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PUBLISHED_SUITES)
def test_published_rows_are_the_results_without_actions(name):
    published = published_results(name)
    files = sorted((ROOT / "results" / name).glob("*.jsonl.gz"))
    assert len(published) == len(files) > 2
    for file in files:
        results = read_results(file)
        (player,) = results.players
        rows = results.frame.drop(columns=ACTIONS, errors="ignore")
        pd.testing.assert_frame_equal(published[player].frame, rows)
        assert published[player].cpu_seconds == results.cpu_seconds
        beside = file.name.removesuffix(".jsonl.gz") + ".json"
        assert (FOLDER / name / beside).read_bytes() == file.with_name(beside).read_bytes()


def test_no_other_suite_has_published_rows():
    assert published_results("test-10000") == {}
    assert published_results("../published/dev-200") == {}


@pytest.fixture(scope="module")
def first_deals() -> Results:
    return run_benchmark({"mine": GreedyPlayer()}, suite("test-1000")[:6], "test-1000")


def test_the_same_deals_are_compared(first_deals):
    both = with_published(first_deals, "greedy")
    assert both.players == ["mine", "greedy"]
    mine, greedy = (rows for _, rows in both.frame.groupby("player", sort=False))
    assert mine["deal"].tolist() == greedy["deal"].tolist() == suite("test-1000")[:6].tolist()
    assert mine["score"].tolist() == greedy["score"].tolist()  # the same player, the same scores


def test_what_is_not_published_is_named(first_deals):
    with pytest.raises(
        ResultsError, match=r"no player or group 'x'; there are mine; published are"
    ):
        with_published(first_deals, "x")
    frame = first_deals.frame.assign(
        environment=[{"id": "QuaranteVoleurs-v0", "max_episode_steps": 9}] * 6
    )
    with pytest.raises(ResultsError, match="do not compare: step limit: 9 in mine"):
        with_published(Results(frame), "greedy")
    assert "step limit" in with_published(Results(frame), "greedy", ["step limit"]).notes[0]


def test_the_command_line_takes_a_published_baseline(first_deals, tmp_path, capsys):
    write_results(tmp_path / "mine", first_deals)
    arguments = ["compare", str(tmp_path / "mine"), "--baseline", "plan", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "mine - plan" in capsys.readouterr().out
    figures = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert [pair["second"] for pair in figures["pairs"]] == ["plan"]
    assert figures["deals"] == 6
