"""Learning what positions are worth: the games, what is learnt of them, the program."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import yaml

from agents.networks.files import POLICY_FILE, build_policy, load_policy, save_policy
from agents.players import make_player
from agents.players.plan import PlanPlayer
from agents.training.config import ConfigError, RunError, load_configs
from agents.training.folder import CONFIG_FILE, VALUE_FILE, begin
from agents.training.value import (
    VARIANT,
    ValueConfig,
    ValueLearner,
    learn_values,
    play_games,
)
from agents.value import main
from qv_env import deck_of
from qv_env.actions import DRAW
from qv_env.deals import HELD_OUT_FROM
from qv_env.evaluation.play import play_deals
from qv_env.files import InUseError, held, is_temporary
from qv_env.rules import STOCK_CARDS, is_won, new_game, play, refusal
from tests.helpers.kills import forks, run_killed
from tests.marks import holds_folders

SIZES = {"card": 8, "hidden": 24, "column": 16, "context": 24, "pair": 12}
TINY = {
    "name": "tiny",
    "width": 4,
    "end_width": 10,
    "games": 60,
    "test_games": 10,
    "explore": 0.3,
    "candidates": 6,
    "batch_size": 64,
    "passes": 0.5,
    "report_every": 15,
    "network": SIZES,
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def config(tmp_path, *overrides):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    (only,) = load_configs(ValueConfig, path, overrides)
    return only


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run: its folder, and what it said."""
    place = tmp_path_factory.mktemp("value")
    said = []
    learn_values(config(place), place / "run", 1, said.append)
    return place / "run", said


def actions_of(games, i):
    return games.actions[games.starts[i] : games.starts[i + 1]].tolist()


# ---------------------------------------------------------------------------------------- games


def test_games_replay_by_the_rules_and_their_positions_are_those_before_draws(tmp_path):
    made = config(tmp_path)
    games = play_games(made, 1)
    assert len(games) == 60
    learner = ValueLearner(made, games)
    positions = games.positions(0, len(games))
    assert len(positions) == games.draws.sum()
    at = 0
    for i in range(len(games)):
        game = new_game(games.decks[i])[0]
        draws = 0
        for action in actions_of(games, i):
            assert refusal(game, action) == 0
            if action == DRAW:
                assert positions[at].tolist() == [i, draws]
                if draws % 16 == 0:  # some of them: the rules' own position, as it is seen
                    observation, outcome = learner._batch(positions[at : at + 1])
                    assert np.array_equal(observation["columns"][0], game["columns"])
                    waste = np.count_nonzero(observation["waste"])
                    assert waste == game["waste_size"]
                    ends = 0.5 * games.scores[i] / 1360 + 0.5 * games.wins[i]
                    assert outcome.item() == pytest.approx(ends)
                at += 1
                draws += 1
            play(game, action)
        assert (games.scores[i], games.wins[i]) == (game["score"], is_won(game))
        assert games.draws[i] == draws
        assert games.wins[i] or draws == STOCK_CARDS
    assert at == len(positions)


def test_without_exploration_the_games_are_the_plan_players(tmp_path):
    made = config(tmp_path, "explore=0", "games=8", "test_games=1")
    games = play_games(made, 1)
    deals = np.random.default_rng(made.seed).integers(0, HELD_OUT_FROM, 8).tolist()
    assert [deck_of(deal).tolist() for deal in deals] == games.decks.tolist()
    episodes = play_deals(PlanPlayer(made.settings()), deals, record=True)
    for episode in episodes:
        mine = actions_of(games, episode.index)
        assert mine == episode.actions[: len(mine)]  # what follows is of a game given up
        assert games.wins[episode.index] == episode.won


def test_games_do_not_depend_on_the_threads_but_on_the_seed(tmp_path):
    made = config(tmp_path, "games=150")
    one, three = play_games(made, 1), play_games(made, 3)
    assert one.actions.tolist() == three.actions.tolist()
    assert one.decks.tolist() == three.decks.tolist()
    other = play_games(config(tmp_path, "games=150", "seed=1"), 3)
    assert one.decks.tolist() != other.decks.tolist()


def test_exploring_leaves_the_plan_players_way_and_costs_something(tmp_path):
    means = []
    for explore in (0, 1):
        games = play_games(config(tmp_path, f"explore={explore}", "games=100"), 1)
        means.append(games.scores.mean())
    assert means[0] > means[1] + 30


# ------------------------------------------------------------------------------------- learning


def test_what_a_run_leaves_behind(folder):
    place, said = folder
    assert yaml.safe_load((place / CONFIG_FILE).read_text())["explore"] == 0.3
    rows = [json.loads(line) for line in (place / VALUE_FILE).read_text().splitlines()]
    assert [json.loads(line) for line in said] == rows
    assert rows[0]["games"] == 60
    assert 0 < rows[0]["positions"] <= 60 * STOCK_CARDS
    assert [row["minibatches"] for row in rows[1:]] == [15, int(0.5 * 50 * 64 / 64)]
    policy, about = load_policy(place)
    assert about["whole_game"] is True
    assert about["env"] == VARIANT
    assert about["network"] == SIZES
    assert all(torch.isfinite(parameter).all() for parameter in policy.parameters())
    assert "packages" in json.loads((place / "versions.json").read_text())
    assert make_player(f"ppo+plan:{place},width=5").settings["width"] == 5


def test_a_run_repeats_and_another_seed_gives_another(tmp_path, folder):
    place, _ = folder
    learn_values(config(tmp_path), tmp_path / "same", 2, str)
    learn_values(config(tmp_path, "seed=1"), tmp_path / "other", 1, str)
    first = (place / POLICY_FILE).read_bytes()
    assert (tmp_path / "same" / POLICY_FILE).read_bytes() == first
    assert (tmp_path / "other" / POLICY_FILE).read_bytes() != first


def test_it_learns_how_other_games_end(tmp_path):
    made = config(
        tmp_path,
        "games=500",
        "test_games=100",
        "batch_size=128",
        "passes=1",
        "learning_rate=1e-2",
        "won_share=0",
    )
    learner = ValueLearner(made, play_games(made, 1))
    untaught = learner.report()
    while learner.done < learner.minibatches:
        learner.learn()
    taught = learner.report()
    assert untaught["test_r2"] < 0.1
    assert taught["test_r2"] > 0.15
    assert taught["test_error"] < untaught["test_error"]


def test_it_begins_with_another_policys_weights(tmp_path, folder):
    place, _ = folder
    made = config(tmp_path, f"initial_policy={place}", "games=12")
    learner = ValueLearner(made, play_games(made, 1))
    theirs = load_policy(place)[0].state_dict()
    ours = learner.policy.state_dict()
    assert sum(not torch.equal(ours[key], theirs[key]) for key in theirs) == 1  # the value's bias


def test_a_policy_file_says_that_its_values_are_of_the_whole_game_only_where_they_are(tmp_path):
    policy = build_policy("table", SIZES, [], VARIANT)
    files = [tmp_path / name for name in ("plain", "whole", "again")]
    save_policy(policy, files[0], "table", SIZES, [], VARIANT, 0.01)
    save_policy(policy, files[1], "table", SIZES, [], VARIANT, 0.01, whole_game=True)
    save_policy(policy, files[2], "table", SIZES, [], VARIANT, 0.01, whole_game=False)
    assert "whole_game" not in load_policy(files[0])[1]
    assert load_policy(files[1])[1]["whole_game"] is True
    assert files[0].read_bytes() == files[2].read_bytes()


# ---------------------------------------------------------------------------------- the program


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=-1", "seed is an integer in 0..2,147,483,647, not -1"),
        ("width=0", "width is an integer in 1.."),
        ("end_width=0", "end_width is an integer in 1.."),
        ("batch_size=0", "batch_size is an integer in 1.."),
        ("candidates=1", "candidates is an integer in 2.."),
        ("explore=1.5", "explore is a number in 0..1, not 1.5"),
        ("test_games=0", "test_games is an integer in 1.."),
        ("games=10", "games is more than test_games"),
        ("won_share=2", "won_share is a number in 0..1, not 2"),
        ("passes=0", "passes is a number above 0 and"),
        ("learning_rate=0", "learning_rate is a number above 0 and"),
        ("matmul_precision=low", "matmul_precision is one of"),
        ("plan=nowhere.yaml", "plan: .*nowhere.yaml"),
        ("initial_policy=nowhere", "initial_policy: nowhere"),
        ("luck=1", "unknown key luck"),
    ],
)
def test_bad_values_are_refused_by_name(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, override)


@pytest.mark.parametrize(
    ("kind", "network", "variant", "message"),
    [
        ("table", SIZES, {**VARIANT, "memory": False}, "has env: .*'memory': False"),
        ("table", {**SIZES, "pair": 8}, VARIANT, "has network: .*'pair': 8"),
        ("MultiInputPolicy", {}, VARIANT, "has policy: 'MultiInputPolicy'"),
    ],
)
def test_an_initial_policy_of_another_make_is_refused(tmp_path, kind, network, variant, message):
    policy = build_policy(kind, network, [8], variant)
    save_policy(policy, tmp_path / POLICY_FILE, kind, network, [8], variant, 1.0)
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, f"initial_policy={tmp_path}")


def test_the_program(tmp_path, capsys):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump({**TINY, "games": 12}))
    assert main([str(path), "seed=3", "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert (tmp_path / "out" / "seed-3" / POLICY_FILE).is_file()
    assert '"test_r2"' in capsys.readouterr().out
    assert main([str(path), "seed=3", "--out", str(tmp_path / "out")]) == 2
    assert "holds files already" in capsys.readouterr().err
    assert main([str(path), "--workers", "0"]) == 2
    assert "--workers: 0 is not at least 1" in capsys.readouterr().err
    assert main([str(path), "--threads", "0"]) == 2  # what the option was called
    assert "--threads: 0 is not at least 1" in capsys.readouterr().err


def test_the_committed_config_is_one():
    (only,) = load_configs(ValueConfig, "configs/value/plan.yaml", ["initial_policy=null"])
    assert only.name == "value"


# ----------------------------------------------------------------------------------------- kills

LEARNING = """
import torch
from agents.value import main

def session(folder, k):
    torch.set_num_threads(1)
    status = main([str(folder / "tiny.yaml"), "--out", str(folder), "--threads", "1"])
    print(f"status {status}", flush=True)
"""


@holds_folders
def test_a_run_begins_where_no_other_does_nor_has(tmp_path):
    made = config(tmp_path)
    run = tmp_path / "run"
    said = []
    run.mkdir()
    with held(run), pytest.raises(InUseError, match="run is in use by another process"):
        learn_values(made, run, 1, said.append)
    assert list(run.iterdir()) == []
    begin(run, made.to_dict())  # as far as a run that was killed soon
    (run / "versions.json").unlink()
    learn_values(made, run, 1, said.append)
    files = {path: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(RunError, match="run holds files already; --out names another"):
        learn_values(made, run, 1, said.append)
    assert {path: path.read_bytes() for path in run.iterdir()} == files


def test_only_the_same_run_begins_anew(tmp_path):
    run = tmp_path / "run"
    begin(run, config(tmp_path, "seed=1").to_dict())
    before = (run / CONFIG_FILE).read_bytes()
    with pytest.raises(RunError, match="holds files already"):
        learn_values(config(tmp_path), run, 1, str)
    assert (run / CONFIG_FILE).read_bytes() == before


@forks
@pytest.mark.parametrize(("seed", "moments"), [(0, 12), (1, 60)])
def test_a_killed_run_begins_anew_or_is_kept(tmp_path, seed, moments):
    """Until there is a first report a run can begin again; after it, what was learnt stays."""
    policies, whole, out = [], tmp_path / "whole", tmp_path / "out"

    def keep(line):
        if (whole / POLICY_FILE).exists():
            policies.append((whole / POLICY_FILE).read_bytes())

    learn_values(config(tmp_path), whole, 1, keep)
    keep("")
    out.mkdir()
    (tmp_path / "tiny.yaml").rename(out / "tiny.yaml")
    told = run_killed(LEARNING, out, seed, kills=3, moments=moments)
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
    rows = [json.loads(line) for line in (folder / VALUE_FILE).read_text().splitlines()]
    for row in rows:
        del row["seconds"]
    return rows
