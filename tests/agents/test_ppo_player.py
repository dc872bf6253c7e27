"""Policies as files and as players."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import save, save_file
from scipy import stats
from torch import nn

from agents.networks.files import (
    POLICY_FILE,
    PolicyDescription,
    build_policy,
    load_policy,
    policy_outputs,
    save_policy,
)
from agents.players import make_player
from agents.players.ppo import PLAYS, PPOPlayer, position_key
from qv_env import QuaranteVoleursVectorEnv, deck_of, suite
from qv_env.actions import (
    COLUMN_TO_COLUMN,
    COLUMN_TO_FOUNDATION,
    FOUNDATION_TO_COLUMN,
    NUM_ACTIONS,
    WASTE_TO_COLUMN,
    WASTE_TO_FOUNDATION,
)
from qv_env.evaluation.play import game_rng, play_deals
from qv_env.rules import legal_actions, new_game, play

NETWORK = {"card": 4, "hidden": 8, "column": 6, "context": 8, "pair": 4}
NET_ARCH = [8]
PLAIN = {"observation": "cards", "memory": False, "stock_visible": False, "take_back": True}

KINDS = [
    ("table", {}),
    ("table", {"memory": True}),
    ("table", {"take_back": False}),
    ("table", {"stock_visible": True}),
    ("MultiInputPolicy", {}),
    ("MultiInputPolicy", {"memory": True, "take_back": False}),
    ("MlpPolicy", {"observation": "onehot"}),
    ("MlpPolicy", {"observation": "onehot", "memory": True, "take_back": False}),
]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def new_policy(kind="table", seed=0, **variant):
    """A policy with opinions: its weights are far from those it starts training with."""
    torch.manual_seed(seed)
    policy = build_policy(kind, NETWORK, NET_ARCH, {**PLAIN, **variant})
    for parameter in policy.parameters():
        nn.init.normal_(parameter, std=0.3)
    return policy


def saved(path, kind="table", value_scale=0.01, **variant):
    policy = new_policy(kind, **variant)
    save_policy(policy, path, kind, NETWORK, NET_ARCH, {**PLAIN, **variant}, value_scale)
    return policy


def rewrite(path, sign=True, weights=(), **changes):
    """Write a policy file again with changes to its weights and to what it says of itself."""
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["about"]) | changes
        tensors = {key: file.get_tensor(key) for key in file.keys()} | dict(weights)  # noqa: SIM118
    for key, value in changes.items():
        if value is None:
            del about[key]
    if sign:
        with contextlib.suppress(ValidationError):
            about["sha256"] = PolicyDescription(**about).digest(tensors)
    path.write_bytes(save(tensors, metadata={"about": json.dumps(about)}))


# ----------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(("kind", "variant"), KINDS)
def test_a_policy_comes_back_bit_for_bit(tmp_path, kind, variant):
    path = tmp_path / POLICY_FILE
    policy = saved(path, kind, **variant)
    again, about = load_policy(path)
    assert type(again) is type(policy)
    assert about["policy"] == kind
    assert about["env"] == {**PLAIN, **variant}
    assert about["value_scale"] == 0.01
    weights = policy.state_dict()
    assert list(again.state_dict()) == list(weights)
    for key, tensor in again.state_dict().items():
        assert tensor.dtype == weights[key].dtype
        assert torch.equal(tensor, weights[key])
    env = QuaranteVoleursVectorEnv(4, **variant)
    observation, _ = env.reset(seed=3)
    with torch.no_grad():
        for one, other in zip(
            policy_outputs(policy, observation), policy_outputs(again, observation), strict=True
        ):
            assert torch.equal(one, other)
    by_folder, _ = load_policy(tmp_path)
    assert torch.equal(next(by_folder.parameters()), next(policy.parameters()))
    # Written again, it is the same file.
    save_policy(again, tmp_path / "again", kind, NETWORK, NET_ARCH, about["env"], 0.01)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", POLICY_FILE]


class _Bomb:
    """Leaves a mark where unpickling it runs code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_file_cannot_run_code(tmp_path, writer):
    path, mark = tmp_path / "policy.safetensors", tmp_path / "mark"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(_Bomb(mark)))
    else:
        torch.save({"policy": _Bomb(mark)}, path)
    with pytest.raises(ValueError, match="not a policy file") as caught:
        load_policy(path)
    assert str(path) in str(caught.value)
    assert not mark.exists()
    if writer == "pickle":
        pickle.loads(path.read_bytes())
        assert mark.exists()  # the bomb was live


@pytest.mark.parametrize("keep", [0, 1, 8, 100, 0.5, -1])
def test_truncated_files_are_refused(tmp_path, keep):
    path = tmp_path / "cut.safetensors"
    saved(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if keep == 0.5 else keep])
    with pytest.raises(ValueError, match=r"cut\.safetensors: not a policy file"):
        load_policy(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"foreign\.safetensors: not a policy file"):
        load_policy(path)
    for metadata in (None, {"format": "pt"}, {"about": "[1]"}, {"about": '{"format": "other"}'}):
        save_file({"a": torch.zeros(2)}, path, metadata=metadata)
        with pytest.raises(ValueError, match=r"foreign\.safetensors: not a policy of this project"):
            load_policy(path)
    save_file({"a": torch.zeros(2)}, path, metadata={"about": "{"})
    with pytest.raises(ValueError, match=r"foreign\.safetensors: not a policy file"):
        load_policy(path)
    for missing in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(FileNotFoundError, match="no such policy file"):
            load_policy(missing)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "policy format 3, this is 2"),
        ({"version": None}, "policy format null, this is 2"),
        ({"version": "1" * 9999}, r"policy format '11111.{0,60}, this is 2"),
        ({"version": True}, "its description: version is an integer in 1..2, not true"),
        ({"network": {**NETWORK, "card": 5}}, "do not fit"),
        ({"network": {**NETWORK, "card": -5}}, "network.card is an integer in 1..4096, not -5"),
        ({"network": {**NETWORK, "layers": 5}}, "unknown key network.layers; there are card, hid"),
        ({"network": None}, "the key network is missing"),
        ({"net_arch": None}, "the key net_arch is missing"),
        ({"net_arch": [10**9]}, r"net_arch\[0\] is an integer in 1..8192, not 1000000000"),
        ({"policy": "MultiInputPolicy"}, "do not fit"),
        ({"policy": "other"}, "policy is one of table, table-plain, .*, not 'other'"),
        ({"policy": ["table"]}, r"policy is one of .*, not \['table'\]"),
        ({"env": {**PLAIN, "memory": True}}, "do not fit"),
        ({"env": {**PLAIN, "observation": "pixels"}}, "env.observation is one of cards, onehot"),
        ({"env": {**PLAIN, "observation": "onehot"}}, "policy table needs env.observation: cards"),
        ({"env": {**PLAIN, "memory": 1}}, "env.memory is true or false, not 1"),
        ({"env": {"memory": True}}, "the key env.observation is missing"),
        ({"env": 5}, "env is a mapping of keys, not 5"),
        ({"value_scale": "much"}, "value_scale is a number above 0 and at most .*, not 'much'"),
        ({"value_scale": 0}, "value_scale is a number above 0 and at most .*, not 0"),
        ({"value_scale": float("nan")}, "not a policy file: NaN stands there"),
        ({"value_scale": None}, "the key value_scale is missing"),
        ({"whole_game": 5}, "whole_game is true or null, not 5"),
        ({"author": "me"}, "unknown key author; there are format, "),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, changes, message):
    path = tmp_path / "odd.safetensors"
    saved(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_policy(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("key", ["memory", "stock_visible", "take_back"])
def test_a_description_of_another_variant_is_refused(tmp_path, key):
    path = tmp_path / "odd.safetensors"
    saved(path)
    rewrite(path, sign=False, env={**PLAIN, key: not PLAIN[key]})
    with pytest.raises(ValueError, match=r"odd\.safetensors: .*not those that were written toge"):
        load_policy(path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, value):
    path = tmp_path / "odd.safetensors"
    policy = saved(path)
    rows = policy.state_dict()["network.rows"].clone()
    rows[3, 1] = value
    rewrite(path, weights={"network.rows": rows})
    with pytest.raises(ValueError, match=r"odd\.safetensors: 'network.rows' holds weights that"):
        load_policy(path)
    for spec in (f"ppo:{path}", f"ppo+plan:{path}"):
        with pytest.raises(ValueError, match=r"'network.rows' holds weights that are not finite"):
            make_player(spec)


def test_weights_that_were_changed_are_refused(tmp_path):
    path = tmp_path / "odd.safetensors"
    saved(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1  # one bit of one weight
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"odd\.safetensors: .*not those that were written toge"):
        load_policy(path)


def test_files_of_version_1_have_no_checksum_and_are_read(tmp_path):
    path = tmp_path / "old.safetensors"
    policy = saved(path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["about"]) | {"version": 1, "sha256": None}
    save_file(policy.state_dict(), path, metadata={"about": json.dumps(about)})
    assert torch.equal(next(load_policy(path)[0].parameters()), next(policy.parameters()))
    about["version"] = 2
    save_file(policy.state_dict(), path, metadata={"about": json.dumps(about)})
    with pytest.raises(ValueError, match="not those that were written together"):
        load_policy(path)


def test_a_description_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "deep.safetensors"
    save_file({"a": torch.zeros(2)}, path, metadata={"about": "[" * 100_000})
    with pytest.raises(ValueError, match=r"deep\.safetensors: not a policy file: .* too deeply"):
        load_policy(path)


def test_players_by_name(tmp_path):
    saved(tmp_path / POLICY_FILE, value_scale=0.5, take_back=False)
    player = make_player(f"ppo:{tmp_path}")
    assert player.settings == {"play": "sample", "temperature": 1.0}
    assert player.env_kwargs == {**PLAIN, "take_back": False}
    file = tmp_path / POLICY_FILE
    assert make_player(f"ppo:{file},temperature=0.5").settings["temperature"] == 0.5
    assert make_player(f"ppo:{file},play=argmax-new").settings == {"play": "argmax-new"}
    for spec, message in [
        ("play=best", "play is one of sample, argmax, argmax-new, not 'best'"),
        ("temperature=hot", "temperature is a number, not 'hot'"),
        ("temperature=0", "temperature is a positive number"),
        ("temperature=inf", "temperature is a positive number"),
        ("temperature=nan", "temperature is a positive number"),
        ("speed=1", "no setting 'speed'; there are play and temperature"),
        ("path=x", "no setting 'path'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_player(f"ppo:{file},{spec}")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        make_player("ppo:nowhere")


def test_argmax_new_needs_to_see_positions():
    policy = new_policy("MlpPolicy", observation="onehot")
    with pytest.raises(ValueError, match="argmax-new needs a policy of observation='cards'"):
        PPOPlayer(policy, {**PLAIN, "observation": "onehot"}, "argmax-new")


# --------------------------------------------------------------------------------------- playing


@pytest.mark.parametrize(
    ("kind", "variant", "play_by"),
    [
        (kind, variant, play_by)
        for kind, variant in KINDS
        for play_by in PLAYS
        if play_by != "argmax-new" or "observation" not in variant
    ],
)
def test_all_kinds_play_whole_games_alone_or_together(kind, variant, play_by):
    player = PPOPlayer(new_policy(kind, **variant), {**PLAIN, **variant}, play_by)
    games = [
        {e.deal: e.actions for e in play_deals(player, deals, 1, 60, seats, record=True)}
        for deals, seats in [(range(6), 6), (range(5, -1, -1), 4)]
    ]
    assert games[0] == games[1]
    assert sorted(games[0]) == list(range(6))


class _Fixed(nn.Module):
    """Gives the same logits whatever it sees, and the number of the game as its value."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.as_tensor(logits, dtype=torch.float32)

    def forward(self, observation):
        rows = len(observation["columns"])
        return self.logits.expand(rows, -1).clone(), torch.arange(rows, dtype=torch.float32)


def fixed_player(logits, *arguments):
    policy = new_policy()
    policy.network = _Fixed(logits)
    return PPOPlayer(policy, PLAIN, *arguments)


LEGAL = [0, 11, 60, 150]
ODDS = torch.tensor([1.0, 2.0, 0.0, -1.0])


def one_choice(player, seats=4000):
    """The choices of a player whose logits are ODDS on LEGAL, and higher where it is illegal."""
    mask = np.zeros((seats, NUM_ACTIONS), dtype=np.int8)
    mask[:, LEGAL] = 1
    player.prepare(seats)
    for seat in range(seats):
        player.start(seat, game_rng(5, seat))
    observation = {"columns": np.zeros((seats, 10, 16), dtype=np.uint8)}
    return player.act(np.arange(seats), observation, mask)


def odds_logits():
    logits = torch.full((NUM_ACTIONS,), 5.0)
    logits[LEGAL] = ODDS
    return logits


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_sampling_follows_the_tempered_probabilities(temperature):
    player = fixed_player(odds_logits(), "sample", temperature)
    chosen = one_choice(player)
    expected = torch.softmax(ODDS / temperature, dim=0).numpy()
    counts = np.bincount(chosen, minlength=NUM_ACTIONS)
    assert counts.sum() == counts[LEGAL].sum() == len(chosen)
    expected = expected.astype(float) / expected.sum(dtype=float)
    assert stats.chisquare(counts[LEGAL], expected * len(chosen)).pvalue > 0.001
    thought = player.insight()
    np.testing.assert_allclose(thought["probabilities"][7, LEGAL], expected, rtol=1e-5)
    assert (np.delete(thought["probabilities"], LEGAL, axis=1) == 0).all()


@pytest.mark.parametrize("temperature", [1e-2, 1e-7, 1e-40])
def test_next_to_no_temperature_is_argmax(temperature):
    player = fixed_player(odds_logits() - 30, "sample", temperature)
    assert set(one_choice(player, 200).tolist()) == {11}
    assert np.isfinite(player.insight()["probabilities"]).all()


def test_a_very_hot_player_is_a_random_one():
    counts = np.bincount(one_choice(fixed_player(odds_logits(), "sample", 1e6)))[LEGAL]
    assert stats.chisquare(counts).pvalue > 0.001


def test_argmax_takes_the_likeliest_legal_action():
    player = fixed_player(odds_logits(), "argmax")
    assert set(one_choice(player, 50).tolist()) == {11}
    np.testing.assert_allclose(
        player.insight()["probabilities"][0, LEGAL], torch.softmax(ODDS, dim=0).numpy(), rtol=1e-5
    )


def test_insight_is_in_points_of_score():
    policy = new_policy()
    policy.network = _Fixed(odds_logits())
    player = PPOPlayer(policy, PLAIN, "argmax", value_scale=0.01)
    one_choice(player, 5)
    thought = player.insight()
    np.testing.assert_allclose(thought["value"], 100 * np.arange(5))
    assert thought["value"].shape == (5,)
    assert thought["probabilities"].shape == (5, NUM_ACTIONS)
    np.testing.assert_allclose(thought["probabilities"].sum(axis=1), 1, rtol=1e-6)


# ---------------------------------------------------------------- never back where one has been


def position(game):
    """A position as people see it: which columns, foundations and piles there are."""
    columns = sorted(tuple(column[column > 0].tolist()) for column in game["columns"])
    heights = [sorted(game["foundations"][suit::4].tolist()) for suit in range(4)]
    return str((columns, heights, int(game["waste_size"]), int(game["stock_size"])))


def looping_logits(take_back):
    """Moving cards between columns comes first, a draw late, take-backs where they are told to."""
    logits = np.linspace(0.01, 0, NUM_ACTIONS)
    logits[WASTE_TO_COLUMN:WASTE_TO_FOUNDATION] += 1
    logits[WASTE_TO_FOUNDATION] += 2
    logits[COLUMN_TO_FOUNDATION:COLUMN_TO_COLUMN] += 2
    logits[COLUMN_TO_COLUMN:FOUNDATION_TO_COLUMN] += 5
    logits[FOUNDATION_TO_COLUMN:] += take_back
    return logits


def course(actions, deal):
    """Each position of a game with its legal actions and the positions that these lead to."""
    game = new_game(deck_of(deal))[0]
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    for action in actions:
        legal_actions(game, mask)
        after = {}
        for legal in np.flatnonzero(mask).tolist():
            successor = np.array([game])
            play(successor[0], legal)
            after[legal] = position(successor[0])
        yield position(game), action, after
        play(game, action)


@pytest.mark.parametrize("take_back", [-5, 4])
def test_argmax_goes_round_in_circles_and_argmax_new_does_not(take_back):
    deals, limit = range(12), 150
    logits = looping_logits(take_back)
    loops, new = (
        {e.deal: e for e in play_deals(fixed_player(logits, how), deals, 0, limit, record=True)}
        for how in ("argmax", "argmax-new")
    )
    between_columns = 0
    for episode in loops.values():
        steps = list(course(episode.actions, episode.deal))
        if len({before for before, _, _ in steps[-20:]}) == 2:
            assert episode.truncated
            last = [action for _, action, _ in steps[-20:]]
            between_columns += all(COLUMN_TO_COLUMN <= a < FOUNDATION_TO_COLUMN for a in last)
    assert between_columns > 3
    differs = 0
    for episode in new.values():
        visits = Counter()
        for before, action, after in course(episode.actions, episode.deal):
            visits[before] += 1
            # The likeliest of those that lead somewhere new; where none does, where it was least.
            assert action == min(after, key=lambda a: (visits[after[a]], -logits[a]))
            differs += action != max(after, key=lambda a: logits[a])
    assert differs > 100
    new_positions, old_positions = (
        [len({before for before, _, _ in course(e.actions, e.deal)}) for e in games.values()]
        for games in (new, loops)
    )
    assert np.mean(new_positions) > 1.5 * np.mean(old_positions)


def test_a_new_game_knows_nothing_of_the_last():
    player = fixed_player(looping_logits(-5), "argmax-new")
    first, second = play_deals(player, [4, 4], 0, 80, num_seats=1, record=True)
    assert first.actions == second.actions


def test_equal_positions_have_equal_keys():
    rng = np.random.default_rng(0)
    keys = {}
    for deal in suite("dev-200")[:6].tolist():
        game = new_game(deck_of(deal))[0]
        mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
        for _ in range(120):
            if not legal_actions(game, mask):
                break
            twin = np.array([game])
            order = rng.permutation(10)
            twin["columns"] = twin["columns"][:, order]
            twin["heights"] = twin["heights"][:, order]
            flip = rng.random(4) < 0.5
            slots = np.arange(8).reshape(2, 4)
            slots[:, flip] = slots[::-1][:, flip]
            twin["foundations"] = twin["foundations"][:, slots.ravel()]
            key = position_key(game)
            assert key == position_key(twin[0])
            # And one key never stands for two positions.
            assert keys.setdefault((deal, key), position(game)) == position(game)
            play(game, int(rng.choice(np.flatnonzero(mask))))
    assert len({text for (_, _), text in keys.items()}) == len(keys) > 300


@pytest.mark.parametrize("change", ["card", "foundation", "other suit", "waste", "stock"])
def test_different_positions_have_different_keys(change):
    game = new_game(deck_of(1))
    game["foundations"][0, :2] = 3
    other = game.copy()
    if change == "card":
        other["columns"][0, 2, 3] = 0
    elif change == "foundation":
        other["foundations"][0, 4] = 1
    elif change == "other suit":
        other["foundations"][0, 1:3] = 0, 3
    elif change == "waste":
        other["waste_size"] += 1
    else:
        other["stock_size"] -= 1
    assert position_key(game[0]) != position_key(other[0])
