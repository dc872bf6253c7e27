"""Results compared: what is refused, the figures, the plots and the page."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from agents.compare import main
from agents.players import make_player
from qv_env.evaluation.benchmark import run_benchmark
from qv_env.evaluation.comparison import Comparison, differences, load_results
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.reports.benchmark import write_results
from qv_env.evaluation.reports.comparison import read_runs
from qv_env.evaluation.results import ResultsError, read_results, read_rows, write_rows
from qv_env.evaluation.stats import (
    clustered_proportion_interval,
    interquartile_mean,
    paired_difference,
    paired_wins,
    student_interval,
)
from tests.browser import wait_until


def played(folder, deals="0:12", seeds=(0,), steps=500, record=False, **players):
    """Results in a folder; players by label, each a name or a Player."""
    low, high = map(int, deals.split(":"))
    made = {
        label: make_player(player) if isinstance(player, str) else player
        for label, player in players.items()
    }
    made = run_benchmark(
        made, range(low, high), deals, seeds=seeds, max_episode_steps=steps, record=record
    )
    write_results(folder, made)
    return folder


class _NoTakeBack(GreedyPlayer):
    def __init__(self):
        super().__init__()
        self.env_kwargs = {"observation": "cards", "take_back": False}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    played(folder / "a", random="random", greedy="greedy", record=True)
    played(folder / "b", seeds=(1, 2), other="random")
    return folder


# --------------------------------------------------------------------------------- what compares


def test_results_of_the_same_deals_go_together(results):
    loaded = load_results([results / "a", results / "b"])
    frame = loaded.frame
    assert list(dict.fromkeys(frame["player"])) == ["random", "greedy", "other"]
    assert len(frame) == 48
    assert set(loaded.cpu_seconds) == {"random", "greedy", "other"}
    assert loaded.notes == ()


def test_a_player_in_two_files_is_told_apart(results, tmp_path):
    packed = tmp_path / "packed.jsonl.gz"
    write_rows(packed, read_results(results / "a").frame.to_dict("records"))
    frame = load_results([results / "a", packed]).frame
    names = [
        f"{name} ({path})" for path in (results / "a", packed) for name in ("random", "greedy")
    ]
    assert list(dict.fromkeys(frame["player"])) == names
    with pytest.raises(ResultsError, match="there twice"):
        load_results([packed, packed])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deals": "0:11"}, r"suite: 0:12 in .*/a, 0:11 in .*/c; deals: 1 of 12 only in .*/a \("),
        ({"deals": "1:13"}, r"1 of 12 only in .*/a \(FT1-N-AAAAAAA\), 1 of 12 only in .*/c \(F"),
        ({"steps": 50}, r"step limit: 500 in random of .*/a and 1 more, 50 in x of .*/c"),
        (
            {"x": _NoTakeBack()},
            r"take-backs: allowed in random of .*/a and 1 more, not allowed in x of .*/c",
        ),
    ],
)
def test_results_that_differ_are_refused_and_named(results, tmp_path, options, message):
    other = played(tmp_path / "c", **{"x": "greedy", **options})
    with pytest.raises(ResultsError, match="do not compare: .*" + message):
        load_results([results / "a", other])
    assert main([str(results / "a"), str(other)]) == 2


def test_other_versions_of_the_environment_are_refused(results):
    frame = read_results(results / "a").frame
    newer = frame.assign(environment=[{**e, "id": "QuaranteVoleurs-v1"} for e in frame.environment])
    assert differences({"a": frame, "b": newer})["environment"] == (
        "environment: QuaranteVoleurs-v0 in random of a and 1 more,"
        " QuaranteVoleurs-v1 in random of b and 1 more"
    )
    assert differences({"a": frame, "b": frame}) == {}


def test_what_is_allowed_may_differ_and_is_said(results, tmp_path, capsys):
    other = played(tmp_path / "c", steps=50, x="greedy")
    out = tmp_path / "out"
    arguments = [str(results / "a"), str(other), "--allow", "step-limit", "--out", str(out)]
    assert main(arguments) == 0
    assert "These results differ in step limit: 500" in (out / "report.md").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "greedy has 11 of 12 deals with seed 0; FT1-N-AAAAAAL is missing"),
        (lambda rows: [*rows, rows[0]], "random has 2 rows of deal FT1-N-AAAAAAA, seed 0"),
        (lambda rows: [*rows[:-1], {**rows[-1], "suite": "x"}], "several suites: 0:12, x"),
        (
            lambda rows: [*rows[:-1], {**rows[-1], "settings": {"a": 1}}],
            "greedy has rows of several settings",
        ),
        (lambda rows: [{**row, "suite": "dev-200"} for row in rows], "is not the 1th of dev-200"),
        (lambda rows: [], "there are no rows"),
        (
            lambda rows: [{**rows[0], "score": "9"}],
            "line 1: score is an integer in 0..1360, not '9'",
        ),
        (
            lambda rows: [{**rows[0], "score": 1361}],
            "line 1: score is an integer in 0..1360, not 1361",
        ),
        (lambda rows: [{**rows[0], "won": 1}], "line 1: won is true or false"),
        (lambda rows: [{**rows[0], "code": "FT1-N-AAAAAAB"}], "is not that of deal 0"),
        (lambda rows: [{**rows[0], "actions": "wg=="}], "actions are bytes below 192"),
        (lambda rows: [{**rows[0], "actions": "w"}], "actions are Base64"),
        (lambda rows: [{**rows[0], "actions": 5}], "line 1: actions is text or null, not 5"),
        (lambda rows: [rows[0], {**rows[0], "index": 1 << 35}], "line 2: index is an integer at l"),
        (lambda rows: [{**rows[0], "seed": 1 << 63}], "line 1: seed is an integer at least 0"),
        (lambda rows: [{**rows[0], "steps": 9e99}], "line 1: steps is an integer in 0.."),
        (lambda rows: [{**rows[0], "settings": [1]}], "line 1: settings is a mapping of keys, not"),
        (
            lambda rows: [{**rows[0], "code": "x" * 9999}],
            "line 1: code is text of at most 64 chara",
        ),
        (lambda rows: [{**rows[0], "player": None}], "line 1: player is text, not null"),
        (lambda rows: [{"player": "x"}], "line 1: the key settings is missing"),
        (lambda rows: [{**rows[0], "extra": 1}], "line 1: unknown key extra; there are"),
    ],
)
def test_files_that_are_not_whole_are_refused(results, tmp_path, change, message):
    path = tmp_path / "rows.jsonl"
    write_rows(path, change(read_results(results / "a").frame.to_dict("records")))
    with pytest.raises(ResultsError, match=re.escape(str(path))) as refused:
        read_results(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"score": ', '"score": 1, "score": ', "line 1: the key 'score' stands there twice"),
        ('"settings": {', '"settings": {"a": NaN, ', "line 1: NaN stands there"),
        ('"settings": {', '"settings": {"a": 1e999}, "x": {', "line 1: settings.a is a finite"),
        (
            '"settings": {',
            '"settings": {"a": ' + "[" * 9999,
            "line 1: the JSON is nested too deeply",
        ),
        ('"steps": ', '"steps": ' + "9" * 5000, "line 1: the JSON cannot be read: Exceeds"),
        ('"steps": ', '"steps": 0.', "line 1: steps is an integer in 0.."),
        ('"won": ', '"won": x', "line 1: this is not JSON (line 1, column "),
        ('{"player"', '[{"player"', "line 1: "),
        ("}\n", "", "line 1: "),
    ],
)
def test_lines_that_are_no_rows_are_refused(results, tmp_path, old, new, message):
    path = tmp_path / "rows.jsonl"
    text = (results / "a" / "results.jsonl").read_text("utf-8")
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ResultsError, match=re.escape(f"{path}, {message}")) as refused:
        read_results(path)
    assert len(str(refused.value)) < 400
    path.write_bytes(text.replace('"player": "', '"player": "\xff', 1).encode("latin-1"))
    with pytest.raises(ResultsError, match=r"rows\.jsonl: byte 12 is not UTF-8"):
        read_results(path)


def test_packed_rows_with_a_damaged_byte_are_refused_in_one_line(results, tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    write_rows(path, read_results(results / "a").frame.to_dict("records"))
    packed = path.read_bytes()
    whole, refused = read_rows(path), []
    for place in range(len(packed)):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 0x10]) + packed[place + 1 :])
        try:
            assert read_rows(path) == whole  # the time of writing, and bits that nothing reads
        except ResultsError as error:
            refused.append(str(error))
    assert len(refused) > 0.9 * len(packed)
    assert all(text.startswith(f"{path}: damaged") and "\n" not in text for text in refused)


def test_a_damaged_description_beside_rows_says_no_times(results, tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, read_results(results / "a").frame.to_dict("records"))
    beside = tmp_path / "rows.json"
    for text, times in (
        ('{"player": "random", "cpu_seconds_per_deal": 2, "more": []}', {"random": 2.0}),
        ('{"players": [{"player": "a", "cpu_seconds_per_deal": null}]}', {}),
        ('{"player": "random", "cpu_seconds_per_deal": NaN}', {}),
        ('{"player": "random", "cpu_seconds_per_deal": -1}', {}),
        ('{"player": ["random"], "cpu_seconds_per_deal": 1}', {}),
        ('{"players": 5}', {}),
        ("[]", {}),
        ("[" * 100_000, {}),
    ):
        beside.write_text(text)
        assert read_results(path).cpu_seconds == times


def test_what_is_no_results_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        read_results(tmp_path / "none")
    with pytest.raises(ResultsError, match=r"holds no results\.jsonl"):
        read_results(tmp_path)
    (tmp_path / "rows.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(ResultsError, match=r"rows\.jsonl\.gz"):
        read_results(tmp_path / "rows.jsonl.gz")


# ----------------------------------------------------------------------------------- the figures


def test_pairs_are_compared_deal_by_deal(results):
    comparison = Comparison(load_results([results / "a", results / "b"]))
    assert [(pair.first, pair.second) for pair in comparison.pairs] == [
        ("random", "greedy"),
        ("random", "other"),
        ("greedy", "other"),
    ]
    rows = dict(list(comparison.results.frame.groupby("player")))
    other = rows["other"].groupby("deal")["score"].mean()
    greedy = rows["greedy"].set_index("deal")["score"]
    pair = comparison.pairs[2]
    assert pair.score == paired_difference(greedy, other)
    assert pair.wins == paired_wins(
        rows["greedy"].set_index("deal")["won"], rows["other"].groupby("deal")["won"].mean()
    )


def test_a_baseline_is_all_that_is_compared_with(results):
    comparison = Comparison(load_results([results / "a", results / "b"]), baseline="greedy")
    assert [(pair.first, pair.second) for pair in comparison.pairs] == [
        ("random", "greedy"),
        ("other", "greedy"),
    ]
    with pytest.raises(ValueError, match="no player or group 'x'; there are random, greedy"):
        Comparison(comparison.results, baseline="x")


def test_groups_are_one_agent(results):
    loaded = load_results([results / "a", results / "b"])
    comparison = Comparison(loaded, {"both": ["ran*", "other"]})
    assert comparison.entries == {"both": ("random", "other"), "greedy": ("greedy",)}
    (pair,) = comparison.pairs
    rows = dict(list(loaded.frame.groupby("player")))
    first = rows["random"].sort_values("index")["score"].to_numpy()
    second = rows["other"].groupby("index")["score"].mean().to_numpy()
    group = comparison.groups["both"]
    assert group.runs.iqm.estimate == pytest.approx(interquartile_mean([first, second]) / 1360)
    assert group.mean_score == student_interval([first.mean(), second.mean()])
    assert pair.score.difference.estimate == pytest.approx(
        ((first + second) / 2 - rows["greedy"].sort_values("index")["score"].to_numpy()).mean()
    )
    # One game of each deal by the first, two by the second.
    games = comparison.games(("random", "other"), "score")
    assert games.shape == (12, 3)
    assert games.mean(axis=1) == pytest.approx((first + 2 * second) / 3)
    assert group.win_rate == clustered_proportion_interval(np.zeros(12), 3)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"g": ["greedy"]}, "group 'g' has one player"),
        ({"g": ["greedy", "x*"]}, "no player 'x\\*'; there are random, greedy, other"),
        ({"greedy": ["random", "other"]}, "'greedy' is the name of a player"),
    ],
)
def test_bad_groups_are_refused(results, groups, message):
    with pytest.raises(ValueError, match=message):
        Comparison(load_results([results / "a", results / "b"]), groups)


# ------------------------------------------------------------------------------------- the files


def curve(folder, offset=0.0, lines=3):
    folder.mkdir(parents=True)
    points = [
        {"steps": 1000 * k, "seconds": 60.0 * k, "mean_score": 100 * k + offset}
        for k in range(1, lines + 1)
    ]
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(p) + "\n" for p in points))
    return points


def test_the_report_has_all_it_should(results, tmp_path, capsys):
    one, two = curve(tmp_path / "runs" / "seed-0"), curve(tmp_path / "runs" / "seed-1", 20, 2)
    curve(tmp_path / "alone")
    assert read_runs([tmp_path / "runs"]) == [one, two]
    out = tmp_path / "out"
    inputs = [str(results / "a"), str(results / "b")]
    learning = ["--learning", "ppo", str(tmp_path / "runs"), "--learning", "x"]
    group = ["--group", "both", "random", "other"]
    assert main([*inputs, *group, *learning, str(tmp_path / "alone"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    names = {path.name for path in out.iterdir()}
    pictures = {"scores.png", "profile.png", "pair-1.png", "effort.png", "learning.png"}
    assert names == {"report.html", "report.md", "comparison.json", "games"} | pictures
    for name in pictures:
        assert (out / name).read_bytes().startswith(b"\x89PNG\r\n")
    figures = json.loads((out / "comparison.json").read_text())
    comparison = Comparison(load_results(inputs), {"both": ["random", "other"]})
    assert figures == json.loads(json.dumps(comparison.to_dict()))
    markdown = (out / "report.md").read_text()
    for text in ("both - greedy", "random sees what lies open.", "--group both random other"):
        assert text in markdown
    assert "both - greedy" in printed
    assert f"report: {out / 'report.html'}" in printed


def test_names_stay_texts(tmp_path):
    name = "<script>alert(1)</script>|$x$"
    played(tmp_path / "a", **{name: "greedy", "b": "random"}, record=True)
    assert main([str(tmp_path / "a"), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RESULTS"),
        (["none"], "none: no such file or folder"),
        (["a", "--group", "g"], "'g' stands alone"),
        (["a", "--learning", "g", "a"], "a holds no evaluations.jsonl"),
        (["a", "--baseline", "x"], "no player or group 'x'"),
        (["a", "--allow", "suite"], "invalid choice"),
    ],
)
def test_bad_requests_are_refused_in_one_line(results, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(results)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "the key steps is missing"),
        ("[]", "this is a mapping of keys, not []"),
        ("{", "the JSON is cut off"),
        ("[" * 100_000, "the JSON is nested too deeply"),
        ('{"steps": 1, "seconds": 2, "mean_score": NaN}', "NaN stands there"),
        ('{"steps": 1, "seconds": 2, "mean_score": 1e999}', "mean_score is a number in 0..1360"),
        ('{"steps": 1, "seconds": 2, "mean_score": "3"}', "mean_score is a number in 0..1360"),
        ('{"steps": 1, "seconds": 2, "mean_score": 1361}', "mean_score is a number in 0..1360"),
        ('{"steps": true, "seconds": 2, "mean_score": 3}', "steps is an integer at least 0"),
        ('{"steps": 1, "seconds": -2, "mean_score": 3}', "seconds is a number at least 0"),
        ('{"steps": 1, "steps": 2, "seconds": 2, "mean_score": 3}', "the key 'steps' stands ther"),
    ],
)
def test_bad_evaluations_are_refused(tmp_path, line, message):
    path = tmp_path / "evaluations.jsonl"
    path.write_text('{"steps": 1, "seconds": 2, "mean_score": 3}\n' + line + "\n")
    with pytest.raises(ResultsError, match=re.escape(f"{path}, line 2: {message}")):
        read_runs([tmp_path])


def test_a_run_without_evaluations_is_refused(tmp_path):
    (tmp_path / "evaluations.jsonl").write_text("")
    with pytest.raises(ResultsError, match=r"evaluations\.jsonl holds no evaluation yet"):
        read_runs([tmp_path])


def test_scores_lead_to_their_games(results, tmp_path, open_page):
    out = tmp_path / "out"
    assert main([str(results / "a"), "--out", str(out)]) == 0
    frame = pd.DataFrame(read_results(results / "a").frame)
    row = frame[(frame["player"] == "greedy") & (frame["index"] == 3)].iloc[0]
    page = open_page(out / "report.html", allowed=("file:", "data:", "blob:"))
    assert page.locator("#viewer").is_hidden()
    page.click(f"tr:has-text('{row['code']}') td:nth-child(4) a")
    frame = page.frame_locator("#viewer iframe")
    frame.locator("#deal").filter(has_text=row["code"]).wait_for()
    assert f"{row['score']} points, {row['steps']} moves" in frame.locator("body").inner_text()
    page.go_back()
    wait_until(page, "document.getElementById('viewer').hidden")
    # A link to a game opens it at once.
    page.goto((out / "report.html").as_uri() + "#game-1-3")
    page.reload()
    page.frame_locator("#viewer iframe").locator("#deal").wait_for()
