"""Training: what the learner sees, what a run leaves behind, and how a stopped run goes on."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import agents.training.evaluation as evaluation_module
from agents.networks.files import load_policy
from agents.players import make_player
from agents.train import main
from agents.training.checkpoints import DamagedError, read_checkpoint
from agents.training.config import RunError, load_config, parse_config
from agents.training.learner import Learner
from agents.training.run import Interrupted, Run
from qv_env import suite
from qv_env.evaluation.play import play_deals
from qv_env.files import is_temporary
from tests.helpers.kills import forks, run_killed
from tests.marks import holds_folders
from tests.same import assert_same

ROOT = Path(__file__).resolve().parents[2]

# Episodes are cut off within a rollout, evaluations and checkpoints fall between its ends.
TINY = {
    "name": "tiny",
    "seed": 3,
    "total_steps": 300,  # five rollouts of 64 steps
    "torch_threads": 1,
    "network": {"card": 4, "hidden": 8, "column": 6, "context": 8, "pair": 4},
    "net_arch": [8],
    "env": {"num_envs": 4, "max_episode_steps": 11},
    "reward": {"scale": 0.1, "step_cost": 0.02},
    "ppo": {"n_steps": 16, "batch_size": 24, "n_epochs": 2, "final_learning_rate": 1e-4},
    "evaluation": {"suite": "dev-200", "limit": 3, "every": 100},
    "checkpoint": {"every": 128, "keep": 2},
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def settings(**changes):
    """TINY with changes; those to a section's keys are merged into it."""
    merged = dict(TINY)
    for key, value in changes.items():
        merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def tiny(**changes):
    return parse_config(settings(**changes))


def write_config(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings(**changes)))
    return str(path)


def train(folder, resume=False, **changes):
    lines = []
    run = Run(tiny(**changes), folder, resume, lines.append)
    results = run.train(progress=False)
    return run, results, lines


def plain(value):
    """A state as plain containers and arrays, without the clock."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if key != "t"}
    if hasattr(value, "batch"):  # the environment
        codes = [info["deal"] for info in value._infos]
        return [plain(list(value.batch._arrays)), codes]
    if not isinstance(value, str) and hasattr(value, "__iter__") and not hasattr(value, "dtype"):
        return [plain(inner) for inner in value]
    if isinstance(value, np.ndarray) and value.dtype.fields:
        return value.tobytes()
    return value


def checkpoints(folder):
    return sorted(file.name for file in (folder / "checkpoints").iterdir())


def final_state(folder):
    newest = sorted((folder / "checkpoints").glob("checkpoint-*.pt"))[-1]
    checkpoint = torch.load(newest, weights_only=False)
    return plain(checkpoint["learner"])


def evaluations(folder):
    rows = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    for row in rows:
        assert row.pop("seconds") > 0
    return rows


def assert_same_end(folder, other):
    """Two runs ended alike: weights, optimizer, games, random streams, evaluations."""
    name = "policy.safetensors"
    assert (folder / name).read_bytes() == (other / name).read_bytes()
    assert_same(final_state(folder), final_state(other))
    assert evaluations(folder) == evaluations(other)
    ends = [json.loads((f / "results.json").read_text()) for f in (folder, other)]
    for end in ends:
        del end["seconds"], end["evaluation"]["seconds"]
    assert ends[0] == ends[1]
    assert curves(folder) == curves(other)


def curves(folder):
    """The points of TensorBoard's curves, those of the clock without their values."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    points = {}
    for tag in events.Tags()["scalars"]:
        values = [(e.step, tag.startswith("time/") or e.value) for e in events.Scalars(tag)]
        points[tag] = sorted(values)  # of runs begun within a second, files may change places
    return points


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "seed-3"
    train(folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of that folder, as it was before the run said that it was finished."""
    folder = tmp_path / "seed-3"
    shutil.copytree(whole, folder)
    (folder / "results.json").unlink()
    (folder / "policy.safetensors").unlink()
    return folder


# ------------------------------------------------------------------------------- learning at all

VARIANTS = {
    "table": {},
    "table, memory": {"env": {"memory": True}},
    "table, no take-backs": {"env": {"take_back": False}},
    "table-plain": {"policy": "table-plain", "env": {"memory": True}},
    "MultiInputPolicy": {"policy": "MultiInputPolicy"},
    "MlpPolicy": {"policy": "MlpPolicy", "env": {"observation": "onehot"}},
    "known stock": {"policy": "MultiInputPolicy", "env": {"stock_visible": True, "memory": True}},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_training_runs_end_to_end(tmp_path, changes):
    run, results, _ = train(tmp_path, total_steps=128, **changes)
    assert run.learner.steps == results["steps"] == 128
    player = make_player(f"ppo:{tmp_path},play=argmax")
    assert player.env_kwargs == run.config.env.variant()
    (episode,) = play_deals(player, [5], max_episode_steps=20)
    assert episode.steps == 20
    # The file holds what was trained, and what was trained has moved.
    policy, about = load_policy(tmp_path)
    assert about["value_scale"] == 0.1
    trained = run.learner.model.policy.state_dict()
    fresh = Learner(run.config).model.policy.state_dict()
    for key, tensor in policy.state_dict().items():
        assert torch.equal(tensor, trained[key])
        assert torch.isfinite(tensor).all()
    assert any(not torch.equal(fresh[key], trained[key]) for key in fresh)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_losses_are_finite(changes):
    learner = Learner(tiny(**changes))
    for iteration in range(1, 4):
        logged = learner.iterate()
        assert learner.steps == 64 * iteration
        assert all(math.isfinite(value) for value in logged.values()), logged
        assert {f"train/{name}" for name in ("value_loss", "policy_gradient_loss", "loss",
                "entropy_loss", "approx_kl", "learning_rate")} <= set(logged)  # fmt: skip
        assert logged["train/n_updates"] == 2 * iteration
        assert logged["rollout/length"] <= 11


def test_a_minibatch_that_is_left_over_is_no_trouble():
    learner = Learner(tiny(ppo={"batch_size": 62}))  # 64 = 62 + 2
    assert all(math.isfinite(value) for value in learner.iterate().values())


def test_it_learns():
    # Paid for each card that goes up or to a column within few steps, it soon draws less.
    config = tiny(
        network={"card": 8, "hidden": 16, "column": 12, "context": 16, "pair": 8},
        env={"num_envs": 32, "max_episode_steps": 20},
        ppo={"n_steps": 20, "batch_size": 320, "learning_rate": 5e-3, "final_learning_rate": None},
        reward={"scale": 0.1, "step_cost": 0},
        total_steps=10_000,
    )
    learner = Learner(config)
    scores = [learner.iterate()["rollout/score"] for _ in range(12)]
    assert scores[-1] > 1.3 * scores[0]


def test_one_seed_gives_one_run_and_another_seed_another(tmp_path, whole):
    train(tmp_path / "again")
    assert_same_end(tmp_path / "again", whole)
    train(tmp_path / "other", seed=4)
    weights = [final_state(folder)["policy"] for folder in (whole, tmp_path / "other")]
    assert all((weights[0][key] != weights[1][key]).any() for key in weights[0])


def test_seeds_next_to_each_other_share_no_deals():
    deals = [
        set(Learner(tiny(seed=seed))._games.venv.batch._arrays.deal.tolist()) for seed in (0, 1, 2)
    ]
    assert len(set.union(*deals)) == 12


def test_threads_that_step_games_change_nothing(tmp_path, whole):
    train(tmp_path, env={"num_threads": 2})
    name = "policy.safetensors"
    assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_evaluating_does_not_change_the_training(tmp_path, whole):
    train(tmp_path, evaluation={"every": 10**9, "play": "argmax"})
    assert [row["steps"] for row in evaluations(whole)] == [128, 256, 320]
    assert [row["steps"] for row in evaluations(tmp_path)] == [320]
    assert_same(final_state(tmp_path), final_state(whole))


def test_checkpoints_do_not_change_the_training(tmp_path, whole):
    train(tmp_path, checkpoint={"every": 1, "keep": 10})
    assert checkpoints(tmp_path) == [f"checkpoint-{64 * k:012d}.pt" for k in range(1, 6)]
    assert checkpoints(whole) == [f"checkpoint-{steps:012d}.pt" for steps in (256, 320)]
    assert_same(final_state(tmp_path), final_state(whole))


def test_the_learning_rate_goes_down_to_its_end_and_no_further():
    for total, rates in [(256, [0.775e-3, 0.55e-3, 0.325e-3, 1e-4]), (10, [1e-4])]:
        learner = Learner(tiny(total_steps=total))
        for rate in rates:
            assert learner.iterate()["train/learning_rate"] == pytest.approx(rate)
        assert learner.iterate()["train/learning_rate"] == pytest.approx(1e-4)
    constant = Learner(tiny(ppo={"final_learning_rate": None}))
    assert {constant.iterate()["train/learning_rate"] for _ in range(2)} == {1e-3}


def test_deals_come_from_the_configs_pool():
    pool = ["FT1-N-AAAAAAV", 3, 2**34 + 5]
    numbers = {21, 3, 2**34 + 5}
    for deals, allowed in [(pool, numbers), ("7:9", {7, 8}), ("dev-200", set(suite("dev-200")))]:
        learner = Learner(tiny(env={"deals": deals}))
        met = set()
        for _ in range(2):
            learner.iterate()
            met |= set(learner._games.venv.batch._arrays.deal.tolist())
        assert met <= allowed
        assert len(met) > 1
    training = Learner(tiny())
    assert (training._games.venv.batch._arrays.deal < 2**34).all()


# --------------------------------------------------------------------- what the learner is paid


@pytest.mark.parametrize(("scale", "cost"), [(1.0, 0.0), (0.01, 0.0), (0.5, 0.25)])
def test_the_learner_is_paid_by_the_config_and_reports_keep_the_score(scale, cost):
    learner = Learner(tiny(reward={"scale": scale, "step_cost": cost}, ppo={"gamma": 0.9}))
    model, games = learner.model, learner._games.venv
    steps, advance = [], games.advance

    def watched(actions):
        steps.append(advance(actions))
        return steps[-1]

    games.advance = watched
    with torch.no_grad():
        model.collect_rollouts(model.env, learner._callback, model.rollout_buffer, 16)
        truncated = scores = 0
        running = np.zeros(4)
        for k, (_, rewards, dones, infos) in enumerate(steps):
            expected = rewards * scale - cost
            running += rewards
            for i in np.flatnonzero(dones):
                assert infos[i]["episode"]["r"] == running[i] == infos[i]["score"]
                scores += infos[i]["score"] > 0
                running[i] = 0
                if infos[i]["TimeLimit.truncated"]:  # what was still to come is estimated
                    final = infos[i]["terminal_observation"]
                    assert model.policy.obs_to_tensor(final)[0]["columns"].shape == (1, 10, 16)
                    value = model.policy.predict_values(model.policy.obs_to_tensor(final)[0])
                    expected[i] += 0.9 * float(value)
                    truncated += 1
            np.testing.assert_allclose(model.rollout_buffer.rewards[k], expected, rtol=1e-5)
    assert truncated >= 4
    assert scores > 0
    told = [episode["r"] for episode in model.ep_info_buffer]
    assert told == [final["episode"]["r"] for *_, finals in steps for final in finals.values()]


def test_evaluations_report_the_score(tmp_path):
    # However the learner is paid, evaluation is play on held-out deals, counted by the rules.
    _, results, _ = train(tmp_path, reward={"scale": 100.0, "step_cost": 50.0}, total_steps=64)
    player = make_player(f"ppo:{tmp_path}")
    deals = suite("dev-200")[:3]
    episodes = list(play_deals(player, deals, seed=3, max_episode_steps=11))
    evaluation = results["evaluation"]
    assert evaluation["mean_score"] == pytest.approx(np.mean([e.score for e in episodes]))
    assert evaluation["low"] <= evaluation["mean_score"] <= evaluation["high"]
    assert evaluation["mean_steps"] == np.mean([e.steps for e in episodes])
    assert evaluation["deals"] == 3
    assert evaluation["suite"] == "dev-200"
    assert evaluation["play"] == "sample 1.0"


def test_training_without_a_step_limit_evaluates_with_one(tmp_path):
    # Argmax play goes round in circles: without a limit there would be no end.
    changes = {"env": {"max_episode_steps": -1}, "evaluation": {"play": "argmax"}}
    _, results, _ = train(tmp_path, total_steps=64, **changes)
    assert results["evaluation"]["mean_steps"] <= 500
    assert results["evaluation"]["play"] == "argmax"


# ------------------------------------------------------------------------------- the run's folder


def test_what_a_run_leaves_behind(whole):
    files = {file.name for file in whole.iterdir()}
    assert files == {
        "config.yaml", "versions.json", "evaluations.jsonl", "results.json", "policy.safetensors",
        "checkpoints", "tensorboard",
    }  # fmt: skip
    assert load_config(whole / "config.yaml") == [tiny()]
    versions = json.loads((whole / "versions.json").read_text())
    assert set(versions) == {"git_commit", "git_dirty", "packages"}
    assert versions["packages"]["numpy"] == np.__version__
    assert {"python", "numpy", "sb3-contrib", "qv-env"} <= set(versions["packages"])
    results = json.loads((whole / "results.json").read_text())
    assert (results["name"], results["seed"], results["steps"]) == ("tiny", 3, 320)
    assert 0 < results["evaluation"].pop("seconds") <= results["seconds"]
    assert results["evaluation"] == evaluations(whole)[-1]


def test_tensorboard_shows_the_run(whole):
    events = EventAccumulator(str(whole / "tensorboard"))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"train/loss", "rollout/score", "evaluation/score", "time/steps_per_second"} <= tags
    assert [event.step for event in events.Scalars("train/loss")] == [64, 128, 192, 256, 320]
    shown = [(e.step, e.value) for e in events.Scalars("evaluation/score")]
    noted = [(row["steps"], row["mean_score"]) for row in evaluations(whole)]
    assert shown == [(steps, pytest.approx(score)) for steps, score in noted]


def test_several_seeds_are_several_runs(tmp_path, capsys):
    config = write_config(tmp_path, total_steps=64)
    out = tmp_path / "out"
    arguments = [config, "seed=0..1", "--out", str(out)]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # no progress bar where there is no terminal
    assert "seed-0: {" in captured.out
    assert sorted(folder.name for folder in out.iterdir()) == ["seed-0", "seed-1"]
    weights = [(out / f"seed-{k}" / "policy.safetensors").read_bytes() for k in (0, 1)]
    assert weights[0] != weights[1]
    # One that has not begun when the rest is resumed begins then; a finished one is left alone.
    shutil.rmtree(out / "seed-1")
    before = {file: file.stat().st_mtime_ns for file in (out / "seed-0").rglob("*")}
    assert main([*arguments, "--resume"]) == 0
    assert f"{out / 'seed-0'} is finished" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in (out / "seed-0").rglob("*")} == before
    assert (out / "seed-1" / "policy.safetensors").read_bytes() == weights[1]


def test_the_default_folder_is_named_after_the_run(tmp_path, monkeypatch):
    config = write_config(tmp_path, total_steps=1)
    monkeypatch.chdir(tmp_path)
    assert main([config, "name=other", "--quiet"]) == 0
    assert (tmp_path / "runs" / "other" / "seed-3" / "results.json").exists()


def test_used_folders_are_refused(tmp_path, whole, capsys):
    with pytest.raises(RunError, match="holds files already; --resume goes on"):
        Run(tiny(), whole, resume=False)
    # Of several seeds, before the first one is trained.
    out = tmp_path / "out"
    (out / "seed-5").mkdir(parents=True)
    (out / "seed-5" / "mine.txt").write_text("mine")
    assert main([write_config(tmp_path), "seed=4..5", "--out", str(out)]) == 2
    assert "seed-5 holds files already" in capsys.readouterr().err
    assert [file.name for file in out.iterdir()] == ["seed-5"]
    # An empty folder is as good as a new one.
    (out / "seed-6").mkdir()
    Run(tiny(seed=6), out / "seed-6", resume=False)


def test_there_must_be_something_to_resume(tmp_path, capsys):
    assert main([write_config(tmp_path), "--out", str(tmp_path / "none"), "--resume"]) == 2
    assert "holds no run to resume" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_run_that_was_killed_in_its_first_moments_begins(tmp_path, whole, capsys):
    out = tmp_path / "out"
    run = out / "seed-3"
    (run / "checkpoints").mkdir(parents=True)  # no config yet: the folder is unused
    (run / "checkpoints" / ".0123456789abcdef.tmp").write_bytes(b"half")
    assert main([write_config(tmp_path), "--out", str(out)]) == 0
    assert not list(run.rglob("*.tmp"))
    assert_same_end(run, whole)
    # The config and nothing else: a run, which goes on from its beginning.
    shutil.rmtree(run)
    run.mkdir()
    shutil.copy(whole / "config.yaml", run)
    (run / ".0123456789abcdef.tmp").write_bytes(b"half")
    assert main([write_config(tmp_path), "--out", str(out)]) == 2
    assert "--resume goes on" in capsys.readouterr().err
    assert main([write_config(tmp_path), "--out", str(out), "--resume"]) == 0
    assert not list(run.rglob("*.tmp"))
    assert_same_end(run, whole)


def test_the_config_is_the_first_file_of_a_run(tmp_path, monkeypatch):
    order, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(Path(b).name), replace(a, b)))
    Run(tiny(), tmp_path, resume=False)
    assert order == ["config.yaml", "versions.json", "evaluations.jsonl"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is no config of a run"), ("- 1", "is no config of a run"), ("a: [", "not YAML"),
     ("seed: 3", "says checkpoint: null, this run"), ("1: 2", "a key is a text, not '1'"),
     ("a: &x 1\nb: *x", "there is an alias"), ("[" * 5000, "nested too deeply")],
)  # fmt: skip
def test_a_folder_with_a_spoilt_config_is_not_resumed(copy, content, message):
    (copy / "config.yaml").write_text(content)
    with pytest.raises(RunError, match=message):
        Run(tiny(), copy, resume=True)
    assert checkpoints(copy) == [f"checkpoint-{steps:012d}.pt" for steps in (256, 320)]


@pytest.mark.parametrize(
    ("override", "key"), [("ppo.gamma=0.5", "ppo"), ("total_steps=999", "total_steps")]
)
def test_a_run_does_not_resume_with_another_config(copy, tmp_path, capsys, override, key):
    arguments = [write_config(tmp_path), override, "--out", str(tmp_path), "--resume"]
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("*")}
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert f"says {key}: " in message
    assert "a run resumes with the config it began with" in message
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("*")} == before


def test_mistakes_are_told_in_a_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for arguments, message in [
        ([str(tmp_path / "none.yaml")], "none.yaml: No such file"),
        ([write_config(tmp_path), "ppo.lr=1"], "unknown key ppo.lr"),
        ([write_config(tmp_path), "--out", str(tmp_path / "file")], "Not a directory"),
    ]:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.startswith("python -m agents.train: ")
        assert message in error
        assert error.count("\n") == 1


# ------------------------------------------------------------------------------ stopped and resumed

# Trains, and sends itself a signal before the rollout that begins after a number of steps.
SELF_STOPPING = """
import os, sys
import agents.train as train
from agents.training.learner import Learner
number, steps = int(sys.argv[1]), int(sys.argv[2])
iterate = Learner.iterate
def stopping(learner):
    if learner.steps == steps:
        os.kill(os.getpid(), number)
    return iterate(learner)
Learner.iterate = stopping
sys.exit(train.main(sys.argv[3:]))
"""

# Signal and steps; the exit status and the checkpoints that it leaves.
STOPS = {
    "SIGKILL": (signal.SIGKILL, 192, -9, [128]),
    "SIGKILL before any checkpoint": (signal.SIGKILL, 64, -9, []),
    "SIGTERM": (signal.SIGTERM, 128, 143, [128, 192]),
    "SIGINT": (signal.SIGINT, 0, 130, [64]),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Runs that were stopped in processes of their own: exit status, output and folder of each."""
    processes = {}
    for name, (number, steps, *_) in STOPS.items():
        folder = tmp_path_factory.mktemp("stopped")
        config = write_config(folder)
        command = [sys.executable, "-c", SELF_STOPPING, str(int(number)), str(steps), config,
                   "--out", str(folder)]  # fmt: skip
        processes[name] = folder, subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    ends = {}
    for name, (folder, process) in processes.items():
        out, err = process.communicate(timeout=300)
        ends[name] = process.returncode, out, err, folder
    return ends


@pytest.mark.parametrize("name", STOPS)
def test_a_stopped_run_ends_as_if_it_had_not_been(stopped, whole, name):
    code, out, err, folder = stopped[name]
    number, _, expected, steps = STOPS[name]
    assert code == expected, err
    if number != signal.SIGKILL:
        assert "again to stop at once" in out
        assert err == f"python -m agents.train: stopped by {name}; --resume goes on\n"
    else:
        assert err == ""
    run = folder / "seed-3"
    assert checkpoints(run) == [f"checkpoint-{k:012d}.pt" for k in steps]
    assert not (run / "results.json").exists()
    # Random streams that this process used since do not matter.
    random.seed(9)
    torch.manual_seed(9)
    np.random.seed(9)  # noqa: NPY002
    assert main([str(folder / "tiny.yaml"), "--out", str(folder), "--resume"]) == 0
    assert_same_end(run, whole)


@pytest.fixture
def signals_at_evaluation(monkeypatch):
    """Sends signals when an evaluation begins: one a number in the list, at the nth evaluation."""

    def arm(nth, *numbers):
        calls = 0

        def stopping(*arguments, **options):
            nonlocal calls
            calls += 1
            for number in numbers * (calls == nth):
                os.kill(os.getpid(), number)
            return play_deals(*arguments, **options)

        monkeypatch.setattr(evaluation_module, "play_deals", stopping)

    return arm


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_signal_during_an_evaluation(tmp_path, whole, signals_at_evaluation, number, code, nth):
    config = write_config(tmp_path)
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    signals_at_evaluation(nth, number)
    assert main([config, "--out", str(tmp_path)]) == code
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    run = tmp_path / "seed-3"
    # At the last one there was nothing left to stop but the seeds that would have followed.
    assert (run / "results.json").exists() == (nth == 3)
    assert len(evaluations(run)) == nth
    assert main([config, "--out", str(tmp_path), "--resume"]) == 0
    assert_same_end(run, whole)


def test_a_signal_at_the_end_stops_the_seeds_that_would_follow(tmp_path, signals_at_evaluation):
    signals_at_evaluation(1, signal.SIGTERM)
    arguments = [write_config(tmp_path, total_steps=64), "seed=0..1", "--out", str(tmp_path)]
    assert main(arguments) == 143
    assert (tmp_path / "seed-0" / "results.json").exists()
    assert not (tmp_path / "seed-1").exists()
    assert main([*arguments, "--resume"]) == 0
    assert (tmp_path / "seed-1" / "results.json").exists()


@pytest.mark.parametrize("nth", [2, 3])
def test_a_second_signal_stops_at_once(tmp_path, whole, capsys, signals_at_evaluation, nth):
    config = write_config(tmp_path)
    signals_at_evaluation(nth, signal.SIGINT, signal.SIGINT)
    assert main([config, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == (
        "python -m agents.train: interrupted; --resume goes on from the newest checkpoint\n"
    )
    run = tmp_path / "seed-3"
    assert checkpoints(run)[-1] == f"checkpoint-{128 if nth == 2 else 320:012d}.pt"
    assert main([config, "--out", str(tmp_path), "--resume"]) == 0
    assert_same_end(run, whole)


def test_stopping_time_after_time(tmp_path, whole):
    """A run that is stopped after each of its rollouts, by a caller of the class."""
    folder = tmp_path / "seed-3"
    for k in range(5):
        run = Run(tiny(), folder, resume=k > 0)
        run._stop = signal.SIGTERM
        with pytest.raises(Interrupted, match="SIGTERM"):
            run.train()
        assert run.learner.steps == 64 * (k + 1)
    _, _, lines = train(folder, resume=True)
    assert lines[0] == "resumed at 320 steps"
    assert_same_end(folder, whole)


@holds_folders
def test_a_folder_in_which_a_run_works_is_refused_to_others(tmp_path, capsys):
    out = tmp_path / "out"
    run = Run(tiny(), out / "seed-3", resume=False)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main([write_config(tmp_path), "--out", str(out), "--resume"]) == 2
    error = capsys.readouterr().err
    assert error == f"python -m agents.train: {out / 'seed-3'} is in use by another process\n"
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    run.close()
    assert main([write_config(tmp_path), "--out", str(out), "--resume", "--quiet"]) == 0


# --------------------------------------------------------------------------- damaged checkpoints


def _halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path):
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:  # in the middle of the largest tensor
        tensors = [info for info in archive.infolist() if "/data/" in info.filename]
        largest = archive.read(max(tensors, key=lambda info: info.file_size))
    data[data.index(largest) + len(largest) // 2] ^= 1
    path.write_bytes(data)
    torch.load(path, weights_only=False)  # torch itself does not mind


def _cut_the_end(path):
    path.write_bytes(path.read_bytes()[:-10])


DAMAGES = {
    "half": _halve,
    "all but the end": _cut_the_end,
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(5000)),
    "one bit": _flip,
    "something else": lambda path: torch.save([1, 2], path),
    "another's": lambda path: torch.save({"policy": 1}, path),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(copy, whole, damage):
    newest = copy / "checkpoints" / "checkpoint-000000000320.pt"
    damage(newest)
    _, _, lines = train(copy, resume=True)
    assert lines[0].startswith("checkpoint-000000000320.pt cannot be read")
    assert lines[1] == "resumed at 256 steps"
    assert_same_end(copy, whole)


def test_a_damaged_checkpoint_does_not_push_out_new_ones(copy, whole):
    _flip(copy / "checkpoints" / "checkpoint-000000000320.pt")
    (copy / "checkpoints" / "checkpoint-000000000320.pt").rename(
        copy / "checkpoints" / "checkpoint-000000009999.pt"
    )
    train(copy, resume=True)
    assert checkpoints(copy) == [
        "checkpoint-000000000256.pt",
        "checkpoint-000000000320.pt",
        "checkpoint-000000009999.unreadable",
    ]
    assert_same_end(copy, whole)


def test_where_no_checkpoint_can_be_read_nothing_starts_anew(copy):
    for file in (copy / "checkpoints").iterdir():
        _halve(file)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for _ in range(3):
        with pytest.raises(RunError, match=r"no checkpoint of .*seed-3 can be read"):
            Run(tiny(), copy, resume=True)
        after = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        assert sorted(after.values()) == sorted(before.values())
        assert checkpoints(copy) == [f"checkpoint-{k:012d}.unreadable" for k in (256, 320)]


def _too_many_files(monkeypatch):
    read = Path.read_bytes

    def failing(path):
        if path.suffix == ".pt":
            raise OSError(24, "Too many open files", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)


def _raising(error):
    def load(*arguments, **options):
        raise error

    return lambda monkeypatch: monkeypatch.setattr(torch, "load", load)


SHORTAGES = {
    "files": (_too_many_files, ".pt: Too many open files"),
    "memory": (_raising(MemoryError()), "cannot be loaded: out of memory"),
    "memory of torch": (
        _raising(RuntimeError("DefaultCPUAllocator: can't allocate memory")),
        "is whole, but cannot be loaded: RuntimeError: DefaultCPUAllocator",
    ),
    "sources": (
        _raising(ModuleNotFoundError("No module named 'agents.old'")),
        "is whole, but cannot be loaded: ModuleNotFoundError: No module named 'agents.old'",
    ),
}


@pytest.mark.parametrize(("shortage", "message"), SHORTAGES.values(), ids=SHORTAGES)
def test_a_checkpoint_is_not_damaged_because_something_is_short(
    copy, whole, tmp_path, monkeypatch, capsys, shortage, message
):
    arguments = [write_config(tmp_path), "--out", str(tmp_path), "--resume"]
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    shortage(monkeypatch)
    assert main(arguments) == 2
    monkeypatch.undo()
    error = capsys.readouterr().err
    assert message in error
    assert "checkpoint-000000000320.pt" in error
    assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert main(arguments) == 0
    assert_same_end(copy, whole)


def test_every_damage_to_a_checkpoint_is_seen_or_harmless(copy):
    """Bytes that are changed, cut off or added: the state is refused, or what it was."""
    newest = copy / "checkpoints" / "checkpoint-000000000320.pt"
    content, right = newest.read_bytes(), final_state(copy)
    chance = random.Random(0)
    refused = 0
    # Half of the places in the archive's directory, at the end.
    places = [chance.randrange(len(content) - 4000 * (k % 2), len(content)) if k % 2
              else chance.randrange(len(content)) for k in range(60)]  # fmt: skip
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        newest.write_bytes(damaged)
        try:
            state = read_checkpoint(newest)
        except DamagedError:
            refused += 1
        else:
            assert_same(plain(state["learner"]), right)
    assert refused >= 30


def test_a_checkpoint_of_another_format_is_refused(copy):
    newest = copy / "checkpoints" / "checkpoint-000000000320.pt"
    torch.save({**torch.load(newest, weights_only=False), "version": 99}, newest)
    with pytest.raises(RunError, match="checkpoint format 99, this is 1"):
        Run(tiny(), copy, resume=True)
    assert newest.exists()


def test_a_full_disk_while_a_checkpoint_is_written_leaves_the_old_ones(
    tmp_path, whole, monkeypatch, capsys
):
    write_bytes, calls = Path.write_bytes, 0

    def filling(path, data):
        nonlocal calls
        calls += len(data) > 10_000  # a checkpoint, not one of the small files
        if calls == 2 and len(data) > 10_000:
            write_bytes(path, data[:5_000])
            raise OSError(28, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", filling)
    assert main([write_config(tmp_path), "--out", str(tmp_path)]) == 2
    run = tmp_path / "seed-3"
    named = run / "checkpoints" / "checkpoint-000000000256.pt"
    error = capsys.readouterr().err
    assert error == f"python -m agents.train: {named}: No space left on device\n"
    assert checkpoints(run) == ["checkpoint-000000000128.pt"]
    monkeypatch.undo()
    train(run, resume=True)
    assert_same_end(run, whole)


def test_resuming_forgets_evaluations_after_the_checkpoint(copy, whole):
    (copy / "checkpoints" / "checkpoint-000000000320.pt").unlink()
    run = Run(tiny(), copy, resume=True)
    assert [row["steps"] for row in run.evaluations] == [128, 256]
    assert [row["steps"] for row in evaluations(copy)] == [128, 256]
    run.train()
    assert_same_end(copy, whole)
    results = json.loads((copy / "results.json").read_text())
    assert results["seconds"] >= run.evaluations[1]["seconds"]  # the clock went on, too


# ----------------------------------------------------------------------------------------- kills

TRAINING = """
import torch
from agents.train import main

def session(folder, k):
    torch.set_num_threads(1)
    begun = (folder / "seed-3" / "config.yaml").exists()
    arguments = [str(folder / "tiny.yaml"), "--out", str(folder), "--quiet"]
    assert main([*arguments, "--resume"] if begun else arguments) == 0
"""


@forks
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_killed_training_ends_as_if_nothing_had_been(tmp_path, whole, seed):
    record = {"record": {"every": 128, "deals": 2}}
    train(tmp_path / "whole", **record)
    out = tmp_path / "out"
    write_config(out, record=record["record"])
    run_killed(TRAINING, out, seed, kills=4, moments=160)
    run = out / "seed-3"
    assert_same_end(run, tmp_path / "whole")
    names = [path.name for path in sorted((tmp_path / "whole" / "playthroughs").iterdir())]
    assert [path.name for path in sorted((run / "playthroughs").iterdir())] == names
    for name in names:
        one, other = (folder / "playthroughs" / name for folder in (run, tmp_path / "whole"))
        assert one.read_bytes() == other.read_bytes()
    assert not [path for path in out.rglob("*") if is_temporary(path.name)]
    assert checkpoints(run) == checkpoints(whole)
