"""The benchmarks run and report; how fast anything is, no test asks."""

import json
import sys

import numpy as np
import pytest

from benchmarks import batch, measure, peers, speed
from benchmarks.measure import Result, Row, Sizes, Target

TINY = Sizes(
    seconds=0.0,
    games=8,
    many_games=8,
    sb3_games=2,
    sb3_steps=3,
    iterations=1,
    memory_games=8,
    processes=1,
    training=("env.num_envs=2", "ppo.n_steps=4", "ppo.batch_size=4", "torch_threads=1"),
)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    monkeypatch.setattr(speed, "QUICK", TINY)


def _run(tmp_path, only):
    out = tmp_path / "speed.json"
    status = speed.main(["--quick", "--only", only, "--out", str(out)])
    return status, json.loads(out.read_text())


@pytest.mark.parametrize("name", [name for name in speed.BENCHMARKS if name != "peers"])
def test_each_benchmark_fills_its_rows(name, tmp_path, monkeypatch, capsys):
    if name in ("first-use", "memory"):  # in their own processes, nothing needs compiling here
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    status, report = _run(tmp_path, name)
    assert status == 0, report["results"][name].get("error")
    rows = report["results"][name]["rows"]
    assert rows
    for row in rows:
        assert isinstance(row["value"], (float, str))
        assert row["ratio"] is None or np.isfinite(row["ratio"])
        assert row["met"] in (True, False, None)
        assert (row["met"] is None) == (row["target"] is None)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(rows)
    assert {line.count("|") for line in lines} == {7}
    assert {"date", "machine", "packages", "git_commit", "git_dirty"} <= set(report)


def test_two_threads_hand_out_the_same(tmp_path):
    _, report = _run(tmp_path, "threads")
    first, second = report["results"]["threads"]["details"]["digests"]
    assert first == second


def test_a_digest_sees_other_games():
    assert batch.digest_of(4, 1, 10) == batch.digest_of(4, 1, 10)
    assert batch.digest_of(4, 1, 10) != batch.digest_of(4, 1, 12)


def test_copies_are_whole():
    env = batch.QuaranteVoleursVectorEnv(5)
    env.reset(seed=0)
    source = batch.handout(env.step(np.zeros(5, dtype=np.int64)))
    target = batch.Handout(*(np.full_like(array, 7) for array in source))
    batch.copy_games(source, target)
    for a, b in zip(source, target, strict=True):
        assert np.array_equal(a, b)
    block = np.arange(5 * 406, dtype=np.uint8).reshape(5, 406)
    other = np.zeros_like(block)
    batch.copy_blocks(block, other)
    assert np.array_equal(block, other)


def test_the_chooser_is_uniform_over_legal_actions():
    masks = np.zeros((30_000, 192), dtype=np.int8)
    masks[:, [3, 50, 191]] = 1
    masks[0] = 0
    actions = measure.RandomPlayer(len(masks)).act(masks)
    assert actions[0] == 0
    found, counts = np.unique(actions[1:], return_counts=True)
    assert found.tolist() == [3, 50, 191]
    assert abs(counts - 10_000).max() < 500


def test_a_stopwatch_counts_each_second_once():
    training = pytest.importorskip("benchmarks.training")
    watch = training.Stopwatch()
    inner = watch.timed("inner", lambda: sum(range(10_000)))
    outer = watch.timed("outer", lambda: [inner(), inner()])
    assert outer() == [sum(range(10_000))] * 2
    assert set(watch.seconds) == {"inner", "outer"}
    assert all(seconds > 0 for seconds in watch.seconds.values())


def test_the_peer_that_is_always_there():
    found = peers.measure_here("cartpole", 0.0, 4)
    assert found["steps_per_s"] > 0
    assert found["native_ratio"] > 0


def test_missing_peers_are_named(monkeypatch):
    missing = peers.Peer("Nobody's Game", ("no_such_module",), "no-such-package", peers._pgx)
    monkeypatch.setattr(peers, "PEERS", {"missing": missing})
    found = peers.measure_here("missing", 0.0, 4)
    assert found == {"installed": None}
    monkeypatch.setattr(peers, "run_python", lambda *_, **__: found)
    result = peers.measure_peers(TINY)
    assert [(row.what, row.value) for row in result.rows] == [("Nobody's Game", "not installed")]


def test_peers_run_in_a_process_of_their_own():
    found = measure.run_python(["-m", "benchmarks.peers", "cartpole", "0", "4"])
    assert found["installed"]
    with pytest.raises(RuntimeError, match="failed"):
        measure.run_python(["-m", "benchmarks.peers", "nobody", "0", "4"])


def test_a_benchmark_that_fails_leaves_the_others(monkeypatch, capsys):
    def fails(sizes):
        raise ValueError("no | luck")

    def works(sizes):
        target = Target("≥ 2", 2.0, at_least=True)
        return Result([Row("half", 0.25, "s", 1.5, "of all", target)])

    report = speed.measure(["bad", "good"], TINY, {"bad": fails, "good": works})
    text = speed.table(report)
    assert "failed: ValueError: no \\| luck" in text
    assert "| good | half | 0.25 s | 1.50 of all | ≥ 2 | **no** |" in text


def test_the_page_takes_the_table_of_an_earlier_run(tmp_path, capsys):
    out = tmp_path / "speed.json"
    report = speed.measure([], TINY, {})
    measure_row = Row("copying", 12_345.0, "games/s", target=Target("< 1", 1.0)).to_dict()
    report["results"]["x"] = {"rows": [measure_row], "details": {}, "load_before": None}
    out.write_text(json.dumps(report))
    page = tmp_path / "speed.md"
    page.write_text(f"before\n{speed.BEGIN}\nold\n{speed.END}\nafter\n")
    assert speed.main(["--from", str(out), "--markdown", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"before\n{speed.BEGIN}\n| ")
    assert text.endswith(f"{speed.END}\nafter\n")
    assert "| x | copying | 12,300 games/s |  | < 1 | **no** |" in text
    assert "old" not in text
    assert capsys.readouterr().out.strip() in text
    page.write_text("no markers")
    assert speed.main(["--from", str(out), "--markdown", str(page)]) == 2
    assert "speed.md has no" in capsys.readouterr().err
    out.write_text('{"results": []}')
    assert speed.main(["--from", str(out)]) == 2
    assert f"{out} holds no figures: " in capsys.readouterr().err


def test_an_unknown_name_is_refused(capsys):
    assert speed.main(["--only", "batch,nothing"]) == 2
    assert "there is no benchmark 'nothing'" in capsys.readouterr().err


def test_the_peers_interpreter_is_this_one_by_default(monkeypatch, capsys):
    seen = []

    def fake(sizes, python):
        seen.append(python)
        return Result([])

    monkeypatch.setattr(peers, "measure_peers", fake)
    assert speed.main(["--quick", "--only", "peers"]) == 0
    assert speed.main(["--quick", "--only", "peers", "--peers-python", "/x/python"]) == 0
    assert seen == [sys.executable, "/x/python"]
