"""Imitation: a policy learns what another player would do, and PPO goes on from there."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import yaml

from agents.imitate import main
from agents.networks.files import POLICY_FILE, load_policy
from agents.networks.table import NetworkConfig
from agents.players import make_player
from agents.training.config import ConfigError, RunError, load_configs, parse_config
from agents.training.folder import CONFIG_FILE, IMITATION_FILE, begin
from agents.training.imitation import ImitationConfig, imitate
from agents.training.learner import Learner
from qv_env import QuaranteVoleursVectorEnv
from qv_env.deals import HELD_OUT_FROM
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.files import InUseError, held, is_temporary
from tests.helpers.kills import forks, run_killed
from tests.marks import holds_folders

SIZES = {"card": 8, "hidden": 24, "column": 16, "context": 24, "pair": 12}
TINY = {
    "name": "tiny",
    "expert": "greedy",
    "samples": 600,
    "buffer_size": 500,
    "batch_size": 64,
    "network": SIZES,
    "env": {"num_envs": 16, "max_episode_steps": 60},
    "evaluation": {"limit": 4, "every": 300},
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def config(tmp_path, *overrides, **changes):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump({**TINY, **changes}))
    (only,) = load_configs(ImitationConfig, path, overrides)
    return only


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run: its folder, and what it said."""
    place = tmp_path_factory.mktemp("imitation")
    said = []
    imitate(config(place), place / "run", said.append)
    return place / "run", said


def agreement(policy_folder, games=24, steps=60):
    """In which part of greedy's positions a policy's likeliest action is greedy's."""
    player, greedy = make_player(f"ppo:{policy_folder},play=argmax"), GreedyPlayer()
    env = QuaranteVoleursVectorEnv(games, max_episode_steps=-1)
    observation, _ = env.reset(options={"deals": list(range(5_000, 5_000 + games))})
    seats, same = np.arange(games), []
    player.prepare(games)
    greedy.prepare(games)
    for seat in seats.tolist():
        greedy.start(seat, np.random.default_rng(0))
        player.start(seat, np.random.default_rng(0))
    for _ in range(steps):
        masks = env.action_masks().astype(np.int8)
        right = greedy.act(seats, observation, masks)
        same.append(np.mean(player.act(seats, observation, masks) == right))
        observation, *_ = env.step(right)
    return float(np.mean(same))


def test_what_a_run_leaves_behind(folder):
    place, said = folder
    settings = yaml.safe_load((place / CONFIG_FILE).read_text())
    assert settings["expert"] == "greedy"
    assert settings["samples"] == 600
    rows = [json.loads(line) for line in (place / IMITATION_FILE).read_text().splitlines()]
    assert [json.loads(line) for line in said] == rows
    assert len(rows) == 2
    assert rows[0]["samples"] >= 300
    assert rows[1]["samples"] >= 600
    assert all(row["suite"] == "dev-200" and row["deals"] == 4 for row in rows)
    assert rows[0]["own_score"] is None  # half of the samples: the teacher's own games
    policy, about = load_policy(place / POLICY_FILE)
    assert about["network"] == SIZES
    assert about["env"]["memory"] is False
    assert all(torch.isfinite(parameter).all() for parameter in policy.parameters())
    assert "packages" in json.loads((place / "versions.json").read_text())


def test_it_comes_to_agree_with_its_teacher(tmp_path, folder):
    made = config(tmp_path, "samples=12_000", "buffer_size=12_000", "passes=4")
    imitate(made, tmp_path / "run", str)
    assert agreement(tmp_path / "run") > max(agreement(folder[0]), 0.5) + 0.1


def test_a_seed_gives_one_policy_and_another_seed_another(tmp_path, folder):
    place, _ = folder
    imitate(config(tmp_path), tmp_path / "same", str)
    imitate(config(tmp_path, "seed=1"), tmp_path / "other", str)
    first = (place / POLICY_FILE).read_bytes()
    assert (tmp_path / "same" / POLICY_FILE).read_bytes() == first
    assert (tmp_path / "other" / POLICY_FILE).read_bytes() != first


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_the_teacher_is_asked_in_its_own_games_first_and_then_in_a_part_of_the_policys(
    tmp_path, monkeypatch, part
):
    asked, deals = [], []
    act, reset = GreedyPlayer.act, QuaranteVoleursVectorEnv.reset

    def counted(self, seats, observation, mask):
        asked.append(len(seats))
        return act(self, seats, observation, mask)

    def noted(self, *, seed=None, options=None):
        if self.num_envs == 16:  # not an evaluation's
            deals.extend(deal for deal in options["deals"] if deal is not None)
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(GreedyPlayer, "act", counted)
    monkeypatch.setattr(QuaranteVoleursVectorEnv, "reset", noted)
    changes = ("samples=3000", "query_probability=0.25", "buffer_size=400")
    made = config(tmp_path, f"expert_fraction={part}", *changes)
    imitate(made, tmp_path / "run", str)
    assert sum(asked) >= 3000 > sum(asked[:-1])
    taught = [count == 16 for count in asked]
    if part == 1.0:
        assert all(taught)
    else:
        assert np.mean(asked[-100:]) == pytest.approx(4, abs=1)
        assert taught[0] == (part > 0)
    # Half of the answers; each teacher's game that has begun then is played to its end.
    if part == 0.5:
        first = taught.index(False)
        assert 1500 <= sum(asked[:first]) <= 1500 + 16 * 60
    assert max(deals) < HELD_OUT_FROM


def test_training_goes_on_from_the_policy_and_learns_values_first(folder):
    place, _ = folder
    run = parse_config(
        {
            "network": SIZES,
            "torch_threads": 1,
            "env": {"num_envs": 4, "max_episode_steps": 60},
            "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 1},
            "initial_policy": str(place),
            "critic_warmup_steps": 64,
        }
    )
    learner = Learner(run)
    before = {key: value.clone() for key, value in learner.model.policy.state_dict().items()}
    stored = load_policy(place)[0].state_dict()
    assert all(torch.equal(before[key], stored[key]) for key in stored)

    def changed():
        now = learner.model.policy.state_dict()
        return {key for key in now if not torch.equal(now[key], before[key])}

    learner.iterate()
    assert changed() == {key for key in before if ".value." in key}
    learner.iterate()
    assert changed() == set(before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": {**SIZES, "card": 9}}, "network: .*'card': 8.*this run .*'card': 9"),
        ({"env": {"memory": True}}, "env: .*'memory': False.*this run .*'memory': True"),
        ({"policy": "MultiInputPolicy"}, "policy: 'table', this run 'MultiInputPolicy'"),
        ({"initial_policy": "no/such"}, "no/such/?.*: no such policy file"),
    ],
)
def test_a_run_refuses_a_policy_of_another_make(folder, changes, message):
    data = {"network": SIZES, "initial_policy": str(folder[0]), **changes}
    with pytest.raises(RunError, match=f"initial_policy: .*{message}"):
        Learner(parse_config(data))


WRONG = [
    ("seed=-1", "seed is an integer in 0..2,147,483,647, not -1"),
    ("expert=nobody", "expert: no player 'nobody'"),
    ("expert=plan", "env.memory is False, but plan needs True"),
    ("samples=0", "samples is an integer in 1.."),
    ("expert_fraction=1.1", "expert_fraction is a number in 0..1, not 1.1"),
    ("query_probability=0", "query_probability is a number above 0 and at most 1, not 0"),
    ("buffer_size=63", "buffer_size is at least batch_size"),
    ("batch_size=0", "batch_size is an integer in 1..1,000,000, not 0"),
    ("passes=0", "passes is a number above 0 and"),
    ("learning_rate=0", "learning_rate is a number above 0 and"),
    ("torch_threads=0", "torch_threads is an integer in 1..1024, not 0"),
    ("matmul_precision=fast", "matmul_precision is one of highest"),
    ("env.deals=dev-200", "env.deals cannot be chosen"),
    ("network.card=0", "network.card is an integer"),
    ("nonsense=1", "unknown key nonsense"),
]


@pytest.mark.parametrize(("override", "message"), WRONG)
def test_bad_values_are_refused_by_name(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message) as caught:
        config(tmp_path, override)
    assert "tiny.yaml" in str(caught.value)


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    command = [str(path), "samples=200", "seed=0..1", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    for seed in (0, 1):
        assert (tmp_path / "out" / f"seed-{seed}" / POLICY_FILE).is_file()
    assert main(command) == 2
    assert "seed-0 holds files already" in capsys.readouterr().err
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


def test_the_projects_config_is_one():
    from tests.agents.test_config import ROOT

    for path in sorted((ROOT / "configs" / "imitation").glob("*.yaml")):
        (only,) = load_configs(ImitationConfig, path, [])
        assert only.env.memory
        assert isinstance(only.network, NetworkConfig)


# ----------------------------------------------------------------------------------------- kills

IMITATING = """
import torch
from agents.imitate import main

def session(folder, k):
    torch.set_num_threads(1)
    status = main([str(folder / "tiny.yaml"), "--out", str(folder)])
    print(f"status {status}", flush=True)
"""


@holds_folders
def test_a_run_begins_where_no_other_does_nor_has(tmp_path):
    made = config(tmp_path)
    run = tmp_path / "run"
    said = []
    run.mkdir()
    with held(run), pytest.raises(InUseError, match="run is in use by another process"):
        imitate(made, run, said.append)
    assert list(run.iterdir()) == []
    begin(run, made.to_dict())  # as far as a run that was killed soon
    (run / "versions.json").unlink()
    imitate(made, run, said.append)
    files = {path: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(RunError, match="run holds files already; --out names another"):
        imitate(made, run, said.append)
    assert {path: path.read_bytes() for path in run.iterdir()} == files


def test_only_the_same_run_begins_anew(tmp_path):
    run = tmp_path / "run"
    begin(run, config(tmp_path, "seed=1").to_dict())
    before = (run / CONFIG_FILE).read_bytes()
    with pytest.raises(RunError, match="holds files already"):
        imitate(config(tmp_path), run, str)
    assert (run / CONFIG_FILE).read_bytes() == before


@forks
@pytest.mark.parametrize(("seed", "moments"), [(0, 12), (1, 60)])
def test_a_killed_run_begins_anew_or_is_kept(tmp_path, seed, moments):
    """Until there is a first report a run can begin again; after it, what was learnt stays."""
    policies, whole, out = [], tmp_path / "whole", tmp_path / "out"

    def keep(line):
        if (whole / POLICY_FILE).exists():
            policies.append((whole / POLICY_FILE).read_bytes())

    imitate(config(tmp_path), whole, keep)
    keep("")
    out.mkdir()
    (tmp_path / "tiny.yaml").rename(out / "tiny.yaml")
    told = run_killed(IMITATING, out, seed, kills=3, moments=moments)
    run = out / "seed-0"
    last, rows = told[-1], logged(run)
    assert rows == logged(whole)[: len(rows)]
    if last == "status 0":
        assert rows == logged(whole)
        assert (run / POLICY_FILE).read_bytes() == policies[-1]
    else:
        assert last == "status 2"
        assert rows
        if (run / POLICY_FILE).exists():
            assert (run / POLICY_FILE).read_bytes() in policies
    assert not [path for path in out.rglob("*") if is_temporary(path.name)]
    assert last == ("status 0" if moments < 20 else "status 2")


def logged(folder):
    """The rows of a run's log, without the clock."""
    rows = [json.loads(line) for line in (folder / IMITATION_FILE).read_text().splitlines()]
    for row in rows:
        del row["seconds"]
    return rows
