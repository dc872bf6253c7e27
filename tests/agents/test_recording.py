"""Playthroughs during training: the agent's play on the same deals, every so many steps."""

from __future__ import annotations

import pytest
import torch

from agents.players import make_player
from agents.training.config import ConfigError, parse_config
from agents.training.recording import record_deals
from agents.training.run import Interrupted, Run
from qv_env import deal_code, suite
from qv_env.evaluation.play import watch
from qv_env.playthroughs.playthrough import read_playthrough

DEALS = [int(deal) for deal in suite("dev-200")[:3]]
TINY = {
    "name": "tiny",
    "seed": 3,
    "total_steps": 300,  # five rollouts of 64 steps
    "torch_threads": 1,
    "network": {"card": 4, "hidden": 8, "column": 6, "context": 8, "pair": 4},
    "env": {"num_envs": 4, "max_episode_steps": 11},
    "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 1},
    "evaluation": {"limit": 2, "every": 1000},
    "checkpoint": {"every": 64},
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def test_each_deal_is_a_file(tmp_path):
    player = make_player("random")
    paths = record_deals(player, DEALS, tmp_path / "new" / "folder", 1200, 5, 40)
    assert [path.name for path in paths] == [
        f"000000001200-{deal_code(deal)}.json" for deal in DEALS
    ]
    for path, deal in zip(paths, DEALS, strict=True):
        game, wanted = read_playthrough(path), watch(player, deal, 5, 40)
        assert (game.deal, game.actions) == (deal_code(deal), wanted.actions)
        assert game.extra == dict(wanted.extra) | {"trained_steps": 1200}
    again = record_deals(player, DEALS, tmp_path / "new" / "folder", 1200, 5, 40)
    assert again == paths
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 3


def run(folder, resume=False, **record):
    run = Run(parse_config(TINY | {"record": record}), folder, resume, lambda line: None)
    run.train(progress=False)
    return sorted((folder / "playthroughs").glob("*"))


def test_a_run_records_every_so_many_steps(tmp_path):
    paths = run(tmp_path, every=128, deals=2)
    codes = [deal_code(deal) for deal in DEALS[:2]]
    assert [path.name for path in paths] == sorted(
        f"{steps:012d}-{code}.json" for steps in (128, 256) for code in codes
    )
    for path in paths:
        game = read_playthrough(path)
        assert len(game.actions) <= 11
        assert game.values is not None
        assert game.likeliest is not None
    first, last = (read_playthrough(paths[k]) for k in (0, -1))
    assert (first.extra["trained_steps"], last.extra["trained_steps"]) == (128, 256)
    assert last.values != first.values


def test_deals_by_name(tmp_path):
    paths = run(tmp_path, every=300, deals=["FT1-N-AAAAAAV", 5])
    assert {read_playthrough(path).deal for path in paths} == {"FT1-N-AAAAAAV", deal_code(5)}
    assert {path.name[:12] for path in paths} == {"000000000320"}


def test_without_recording_there_is_no_folder(tmp_path):
    assert run(tmp_path) == []
    assert not (tmp_path / "playthroughs").exists()


def test_recording_changes_nothing_else(tmp_path):
    run(tmp_path / "with", every=64)
    run(tmp_path / "without")
    for name in ("policy.safetensors",):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()


def test_a_resumed_run_goes_on_recording(tmp_path):
    whole = run(tmp_path / "whole", every=128)
    stopped = Run(
        parse_config(TINY | {"record": {"every": 128}}),
        tmp_path / "part",
        False,
        lambda line: None,
    )
    iterate = stopped.learner.iterate

    def stop_after_two():
        logged = iterate()
        if stopped.learner.steps == 128:
            stopped._stop = 2
        return logged

    stopped.learner.iterate = stop_after_two
    with pytest.raises(Interrupted):
        stopped.train(progress=False)
    part = run(tmp_path / "part", resume=True, every=128)
    assert [path.name for path in part] == [path.name for path in whole]
    for one, other in zip(part, whole, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"every": 0}, r"record\.every is an integer in 1\.\..* or null, not 0"),
        ({"deals": 0}, r"record\.deals is an integer in 1\.\..* or a list .*, not 0"),
        ({"deals": []}, r"record\.deals is .* a list of at least 1 entry, not \[\]"),
        ({"deals": ["FT1-N-1"]}, "record.deals: "),
        ({"deals": [2.5]}, r"record\.deals\[0\] is an integer .* or text .*, not 2\.5"),
        ({"deals": "dev-200"}, r"record\.deals is an integer .* or a list .*, not 'dev-200'"),
        ({"when": 3}, "unknown key record.when"),
    ],
)
def test_what_cannot_be_is_refused(record, message):
    with pytest.raises(ConfigError, match=message):
        parse_config({"record": record})
