"""The plan player with a value network: legal, blind to the stock, what the network changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from agents.networks.files import POLICY_FILE, build_policy, save_policy
from agents.players import make_player
from agents.players.plan import PlanPlayer
from agents.players.ppo_plan import PPOPlanPlayer
from agents.search.settings import PlanSettings, load_settings
from agents.search.stage import Effort
from qv_env import deck_of
from qv_env.actions import DRAW, FOUNDATION_TO_COLUMN
from qv_env.evaluation.play import play_deals
from qv_env.rules import foundation_cards, is_won, new_game, play, refusal

WEIGHTS = Path(__file__).resolve().parents[2] / "weights" / "ppo-plan"
SIZES = {"card": 8, "hidden": 24, "column": 16, "context": 24, "pair": 12}
VARIANT = {"observation": "cards", "memory": True, "stock_visible": False, "take_back": True}
DEALS = range(400, 410)
EFFORT = {"width": 12, "depth": 8, "end_width": 30, "end_depth": 60}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def policy(seed=0):
    torch.manual_seed(seed)
    return build_policy("table", SIZES, [], VARIANT)


def settings(**changes):
    return PlanSettings(load_settings().weights, Effort(**{**EFFORT, **changes}))


def player(weight=30.0, candidates=6, scale=0.0, network=None, **changes):
    network = policy() if network is None else network
    return PPOPlanPlayer(network, scale, settings(**changes), weight, candidates)


def played(who, deals=DEALS, **options):
    return {e.deal: e for e in play_deals(who, deals, record=True, **options)}


def actions_of(episodes):
    return {deal: episode.actions for deal, episode in episodes.items()}


@pytest.mark.parametrize("ahead", [1, 4])
def test_games_replay_by_the_rules(ahead):
    episodes = played(player(ahead=ahead))
    assert len(episodes) == len(DEALS)
    for episode in episodes.values():
        game = new_game(deck_of(episode.deal))[0]
        for action in episode.actions:
            assert refusal(game, action) == 0
            play(game, action)
        assert (episode.score, episode.won) == (game["score"], is_won(game))
        assert episode.foundation_cards == foundation_cards(game)
        assert episode.won or episode.actions.count(DRAW) == 64
        back = [action for action in episode.actions if action >= FOUNDATION_TO_COLUMN]
        assert not back or episode.truncated


@pytest.mark.parametrize("ahead", [1, 4])
def test_with_weight_0_it_is_the_plan_player(ahead):
    plan = actions_of(played(PlanPlayer(settings(ahead=ahead))))
    assert actions_of(played(player(0.0, ahead=ahead))) == plan
    assert actions_of(played(player(30.0, candidates=1, ahead=ahead))) == plan
    assert actions_of(played(player(30.0, ahead=ahead))) != plan


def test_the_network_decides_where_the_search_sees_no_difference():
    one, other = (actions_of(played(player(1e6, network=policy(seed)))) for seed in (0, 1))
    assert one != other


def test_values_of_what_is_still_to_come_are_counted_from_the_score_on():
    network = policy()
    with torch.no_grad():
        for parameter in network.network.value[-1].parameters():
            parameter.zero_()  # it expects nothing anywhere
    plan = actions_of(played(PlanPlayer(settings())))
    assert actions_of(played(player(1e6, scale=0.0, network=network))) == plan
    greedy = played(player(1e6, scale=1.0, network=network))
    assert actions_of(greedy) != plan
    # Points at once are all that counts then: of them there are more before the first draws.
    early = {}
    for name, games in (("plan", plan), ("greedy", actions_of(greedy))):
        scores = []
        for deal, actions in games.items():
            game = new_game(deck_of(deal))[0]
            for action in actions:
                if action == DRAW:
                    break
                play(game, action)
            scores.append(game["score"])
        early[name] = np.mean(scores)
    assert early["greedy"] >= early["plan"]


# ------------------------------------------------------------------------------ by name, errors


def test_the_player_by_name(tmp_path):
    network = policy()
    for name, whole in (("whole", True), ("part", False)):
        (tmp_path / name).mkdir()
        file = tmp_path / name / POLICY_FILE
        save_policy(network, file, "table", SIZES, [], VARIANT, 0.01, whole_game=whole)
    text = "weight=30,candidates=6," + ",".join(f"{key}={value}" for key, value in EFFORT.items())
    for name, scale in (("whole", 0.0), ("part", 0.01)):
        named = make_player(f"ppo+plan:{tmp_path / name},ahead=1,{text}")
        assert isinstance(named, PPOPlanPlayer)
        assert (named.settings["weight"], named.settings["candidates"]) == (30.0, 6)
        mine = played(player(scale=scale, network=network))
        assert actions_of(played(named)) == actions_of(mine)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ppo+plan", "names no policy"),
        ("ppo+plan:{},luck=1", "no setting 'luck'; there are weight, candidates, width"),
        ("ppo+plan:{},weight=much", "weight is a number in 0..1,000,000, not 'much'"),
        ("ppo+plan:{},weight=nan", "weight is a number in 0..1,000,000, not 'nan'"),
        ("ppo+plan:{},weight=1e999", "weight is a number in 0..1,000,000, not inf"),
        ("ppo+plan:{},weight=-1", "weight is a number in 0..1,000,000, not -1"),
        ("ppo+plan:{},candidates=1.5", "candidates is an integer"),
        ("ppo+plan:{},candidates=0", "candidates is an integer in 1..10,000, not 0"),
        ("ppo+plan:{},candidates=10000000000000000", "candidates is an integer in 1..10,000"),
        ("ppo+plan:{},width=wide", "width is an integer"),
    ],
)
def test_bad_names_are_refused(tmp_path, spec, message):
    save_policy(policy(), tmp_path / POLICY_FILE, "table", SIZES, [], VARIANT, 0.01)
    with pytest.raises(ValueError, match=message):
        make_player(spec.format(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        make_player(f"ppo+plan:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("MultiInputPolicy", VARIANT), ("table", {**VARIANT, "memory": False})],
)
def test_other_policies_are_refused(tmp_path, kind, variant):
    other = build_policy(kind, SIZES, [8], variant)
    save_policy(other, tmp_path / POLICY_FILE, kind, SIZES, [8], variant, 0.01)
    with pytest.raises(ValueError, match=r"needs a policy: table of env\.memory: true"):
        make_player(f"ppo+plan:{tmp_path}")


def test_the_committed_weights_play():
    episodes = played(make_player(f"ppo+plan:{WEIGHTS},ahead=1,width=30"))
    assert np.mean([episode.score for episode in episodes.values()]) > 450  # greedy: about 340
