"""A player's game of one deal, as a file: the game that the benchmark counts."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from agents.networks.files import build_policy, save_policy
from agents.players import make_player
from agents.watch import main
from qv_env import deal_code, suite
from qv_env.__main__ import main as qv_env_main
from qv_env.evaluation.benchmark import run_benchmark
from qv_env.evaluation.play import LIKELIEST, watch
from qv_env.playthroughs.playthrough import read_playthrough

DEALS = suite("dev-200")[:6]
NETWORK = {"card": 4, "hidden": 8, "column": 6, "context": 8, "pair": 4}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    for kind, observation in (("table", "cards"), ("MlpPolicy", "onehot")):
        variant = {
            "observation": observation, "memory": False, "stock_visible": False, "take_back": True,
        }  # fmt: skip
        torch.manual_seed(1)
        policy = build_policy(kind, NETWORK, [8], variant)
        for parameter in policy.parameters():
            nn.init.normal_(parameter, std=0.3)
        file = path if kind == "table" else path.with_name("mlp.safetensors")
        save_policy(policy, file, kind, NETWORK, [8], variant, 0.01)
    return path


PLAYERS = [
    "random",
    "greedy",
    "ppo:{}",
    "ppo:{},temperature=0.7",
    "ppo:{},play=argmax",
    "ppo:{},play=argmax-new",
]


@pytest.mark.parametrize("spec", PLAYERS)
def test_the_file_is_the_benchmarks_game(policy_file, tmp_path, capsys, spec):
    spec = spec.format(policy_file)
    player = make_player(spec)
    frame = run_benchmark({"it": player}, DEALS, "dev-200", seeds=[7], max_episode_steps=90).frame
    for row in frame.to_dict("records"):
        path = tmp_path / "game.json"
        arguments = [spec, "--deal", row["code"], "--seed", "7", "--max-episode-steps", "90"]
        assert main([*arguments, "--out", str(path)]) == 0
        game = read_playthrough(path)
        assert game.deal == row["code"]
        assert game.score == row["score"]
        assert game.won == row["won"]
        assert len(game.actions) == row["steps"]
        content = json.loads(path.read_text())
        assert content["player"] == player.name
        assert content["settings"] == player.settings == row["settings"]
        assert (content["seed"], content["truncated"]) == (7, row["truncated"])
        out = capsys.readouterr().out
        assert f"{player.name} on {row['code']}: score {row['score']}, {row['steps']} moves" in out
        assert f"python -m qv_env show {path}" in out


def test_the_file_shows_what_the_player_thought(policy_file):
    game = watch(make_player(f"ppo:{policy_file}"), int(DEALS[1]), max_episode_steps=40)
    assert len(game.values) == len(game.likeliest) == len(game.actions) == 40
    for pairs in game.likeliest:
        shares = [share for _, share in pairs]
        assert 1 <= len(pairs) <= LIKELIEST
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + 1e-5
    argmax = watch(make_player(f"ppo:{policy_file},play=argmax"), int(DEALS[1]), 0, 40)
    assert [pairs[0][0] for pairs in argmax.likeliest] == list(argmax.actions)
    assert watch(make_player("greedy"), int(DEALS[1])).values is None


def test_a_policy_of_flat_observations_is_watched_too(policy_file):
    player = make_player(f"ppo:{policy_file.with_name('mlp.safetensors')}")
    assert len(watch(player, 5, max_episode_steps=30).actions) == 30


def test_the_default_file_is_shown_by_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["greedy"]) == 0
    code = deal_code(int(DEALS[0]))
    (path,) = tmp_path.iterdir()
    assert path.name == f"greedy-{code}.json"
    capsys.readouterr()
    assert qv_env_main(["show", str(path)]) == 0
    assert code in capsys.readouterr().out


def test_deals_by_number_and_by_code(tmp_path):
    for k, deal in enumerate(("21", "FT1-N-AAAAAAV", "ft1-n-aaaaaav")):
        assert main(["greedy", "--deal", deal, "--out", str(tmp_path / f"{k}.json")]) == 0
    assert len({file.read_bytes() for file in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "no player 'nobody'"),
        (["ppo:nowhere"], "nowhere: no such policy file"),
        (["greedy", "--deal", "FT1-N-1"], "FT1-N-1"),
        (["greedy", "--deal", str(2**35)], "outside 0.."),
        (["greedy", "--max-episode-steps", "0"], "--max-episode-steps: 0 is not at least 1"),
        (["greedy", "--max-episode-steps", "1" + 30 * "0"], "is not an integer in 1..1000000"),
        (["greedy", "--max-episode-steps", "1000001"], "1000001 is more than 1000000"),
        (["random", "--seed", "-1"], "--seed: -1 is not at least 0"),
        (["random", "--seed", str(2**63)], "is more than"),
        (["random", "--out", "a\0b"], "--out: 'a\\x00b' is not a path"),
        (["random", "--out", "."], ".: Is a directory"),
        (["greedy", "--out", "no/such/folder/game.json"], "no/such/folder"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("python -m agents.watch: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
