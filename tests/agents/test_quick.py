"""``make train`` in small: train, evaluate, report."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import agents.training.evaluation as evaluation_module
from agents.quick import main
from agents.train import main as train_main
from qv_env import suite
from qv_env.playthroughs.playthrough import read_playthrough

CONFIG = {
    "total_steps": 128,
    "torch_threads": 1,
    "network": {"card": 4, "hidden": 8, "column": 6, "context": 8, "pair": 4},
    "env": {"num_envs": 4},
    "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 1},
    "evaluation": {"limit": 2, "every": 64},
}
FILES = {
    "benchmark/plot.png", "benchmark/results.jsonl", "benchmark/summary.json",
    "benchmark/table.md", "playthrough.html", "playthrough.json", "report.html", "report.md",
    "scores.png", "learning.png", "seed-3/config.yaml", "seed-3/versions.json",
    "seed-3/evaluations.jsonl", "seed-3/policy.safetensors", "seed-3/results.json",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    return str(path)


@pytest.mark.parametrize("play", ["sample", "argmax-new"])
def test_quick_trains_evaluates_and_reports(tmp_path, config, capsys, play):
    out = tmp_path / "out"
    arguments = ["--config", config, "--suite", "test-1000", "--limit", "4", "--out", str(out)]
    assert main([*arguments, "seed=3", f"evaluation.play={play}"]) == 0
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files >= FILES, FILES - files

    frame = pd.read_json(out / "benchmark" / "results.jsonl", lines=True)
    assert list(dict.fromkeys(frame["player"])) == ["ppo", "greedy", "random"]
    deals = suite("test-1000")[:4].tolist()
    assert frame["deal"].tolist() == deals * 3
    ppo = frame[frame["player"] == "ppo"]
    assert all(settings["play"] == play for settings in ppo["settings"])
    assert set(frame["seed"]) == {3}

    game = read_playthrough(out / "playthrough.json")
    assert game.score == ppo["score"].max()
    assert game.player == "ppo"

    summary = json.loads((out / "benchmark" / "summary.json").read_text())
    means = frame.groupby("player")["score"].mean()
    told = capsys.readouterr().out
    table = (out / "benchmark" / "table.md").read_text()
    assert table in told
    for name, mean in means.items():
        assert f"{np.round(mean, 1):.1f}" in table, name
    assert "ppo" in json.dumps(summary)

    assert f"report:       {out / 'report.html'}" in told
    report = (out / "report.md").read_text()
    assert "PPO after 128 steps" in report
    assert f"qv_env show {out / 'playthrough.json'}" in told
    show = told.rpartition("look at it:")[2].split()
    assert Path(show[-1]).is_file()


def test_mistakes_come_before_any_work(tmp_path, config, capsys):
    out = tmp_path / "out"
    place = ["--config", config, "--out", str(out)]
    for wrong, message in [
        (["seed=0..1"], "one seed, not several"),
        (["ppo.lr=1"], "unknown key ppo.lr"),
        (["--config", str(tmp_path / "none.yaml")], "No such file"),
    ]:
        assert main([*place, *wrong]) == 2
        error = capsys.readouterr().err
        assert error.startswith("python -m agents.quick: ")
        assert message in error
    for wrong in (["--limit", "0"], ["--limit", "-5"], ["--suite", "test-1"]):
        assert main([*place, *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_a_used_folder_is_refused(tmp_path, config, capsys):
    out = tmp_path / "out"
    (out / "seed-0").mkdir(parents=True)
    (out / "seed-0" / "mine.txt").write_text("mine")
    assert main(["--config", config, "--out", str(out)]) == 2
    assert "holds files already" in capsys.readouterr().err


def test_what_it_says_when_it_is_stopped_does_go_on(tmp_path, config, capsys, monkeypatch):
    play_deals = evaluation_module.play_deals

    def stopping(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return play_deals(*arguments, **options)

    monkeypatch.setattr(evaluation_module, "play_deals", stopping)
    out = tmp_path / "an out"
    assert main(["--config", config, "--out", str(out), "seed=3", "net_arch=[8, 8]"]) == 143
    error = capsys.readouterr().err
    assert error.startswith("python -m agents.quick: stopped by SIGTERM\nto go on with")
    monkeypatch.undo()
    python, dash_m, module, *arguments = shlex.split(error.splitlines()[-1])
    assert (python, dash_m, module) == (".venv/bin/python", "-m", "agents.train")
    assert train_main(arguments) == 0
    assert (out / "seed-3" / "results.json").exists()
