"""The plan player: legal, deterministic, blind to the stock; its settings."""

from __future__ import annotations

import numpy as np
import pytest

from agents.players import make_player
from agents.players.plan import PlanPlayer
from agents.search.features import FEATURES, NUM_FEATURES
from agents.search.settings import DEFAULTS, PlanSettings, load_settings, settings_text
from agents.search.stage import MAX_LINE, Effort, play_game
from qv_env import deck_of
from qv_env.actions import DRAW, FOUNDATION_TO_COLUMN
from qv_env.evaluation.play import play_deals
from qv_env.rules import foundation_cards, is_won, new_game, play, refusal

DEALS = range(200, 216)
QUICK = Effort(width=20, depth=10, end_width=50, end_depth=80)


def player(**changes):
    effort = Effort(**{**{"width": 20, "depth": 10, "end_width": 50, "end_depth": 80}, **changes})
    return PlanPlayer(PlanSettings(load_settings().weights, effort))


def played(deals=DEALS, who=None, **options):
    return {e.deal: e for e in play_deals(who or player(), deals, record=True, **options)}


def test_games_replay_by_the_rules_and_go_well():
    episodes = played()
    for episode in episodes.values():
        game = new_game(deck_of(episode.deal))[0]
        for action in episode.actions:
            assert refusal(game, action) == 0
            play(game, action)
        assert (episode.score, episode.won) == (game["score"], is_won(game))
        assert episode.foundation_cards == foundation_cards(game)
        assert episode.won or episode.actions.count(DRAW) == 64
    assert np.mean([episode.score for episode in episodes.values()]) > 450  # greedy: about 340


def test_no_card_comes_back_while_anything_else_is_left():
    for episode in played().values():
        back = [action for action in episode.actions if action >= FOUNDATION_TO_COLUMN]
        assert not back or episode.truncated


@pytest.mark.parametrize("ahead", [1, 4])
def test_games_are_those_of_the_compiled_loop(ahead):
    who = player(ahead=ahead)
    searches = Effort(20, 10, 50, 80, ahead).searches(load_settings().weights)
    line = np.zeros(MAX_LINE, dtype=np.uint8)
    for deal, episode in played(DEALS[:6], who).items():
        game = new_game(deck_of(deal))
        play_game(game, searches, line)
        # What the player does after it has given up is not worth anything.
        assert foundation_cards(game[0]) == episode.foundation_cards
        assert is_won(game[0]) == episode.won


# -------------------------------------------------------------------------------------- settings


def test_the_player_by_name_and_with_settings(tmp_path):
    assert isinstance(make_player("plan"), PlanPlayer)
    assert make_player("plan,width=7,end_depth=9").settings["width"] == 7
    file = tmp_path / "other.yaml"
    file.write_text("weights: {up: 3}\neffort: {depth: 5}\n")
    settings = make_player(f"plan:{file},width=9").settings
    assert (settings["width"], settings["depth"], settings["weights"]["up"]) == (9, 5, 3.0)
    assert settings["weights"]["links"] == 0.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("plan,speed=3", "plan: unknown key speed; there are width, depth, end_width"),
        ("plan,width=many", "plan: width is an integer in 1..100,000, not 'many'"),
        ("plan,width=0", "plan: width is an integer in 1..100,000, not 0"),
        ("plan,width=99999999999", "plan: width is an integer in 1..100,000, not 99999999999"),
        ("plan,width=1e30", "plan: width is an integer in 1..100,000"),
        ("plan,width=7.0", "plan: width is an integer in 1..100,000, not 7.0"),
        ("plan,width=true", "plan: width is an integer in 1..100,000, not true"),
        ("plan,width=010", "plan: width is an integer in 1..100,000, not '010'"),
        ("plan,width=" + "[" * 9999, "plan: width is an integer in 1..100,000"),
        ("plan,end_depth=" + "9" * 9999, "plan: end_depth is an integer in 1..10,000"),
        ("plan,width=100000,depth=51", "plan: width x depth is at most 5,000,000, not 5,100,000"),
        ("plan,ahead_width=50000,ahead_depth=101", "ahead_width x ahead_depth is at most"),
        ("plan,end_width=50000,end_depth=101", "end_width x end_depth is at most"),
    ],
)
def test_bad_options_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        make_player(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weights: {luck: 1}", "unknown key weights.luck; there are up, "),
        ("weights: {up: much}", "weights.up is a number in -1,000,000..1,000,000, not 'much'"),
        ("weights: {up: .nan}", "weights.up is a number in .*, not nan"),
        ("weights: [1, 2]", r"weights is a mapping of keys or null, not \[1, 2\]"),
        ("effort: {speed: 1}", "unknown key effort.speed; there are width, depth"),
        ("effort: {width: 1.5}", "effort.width is an integer in 1..100,000, not 1.5"),
        ("effort: {width: 0}", "effort.width is an integer in 1..100,000, not 0"),
        ("effort: {width: 010}", "effort.width: '010' is 8 to YAML"),
        ("effort: {width: 1, width: 2}", "effort.width: the key stands there twice"),
        ("effort: {width: 90000, depth: 90}", "width x depth is at most 5,000,000, not 8,100,000"),
        ("weights: &w {up: 1}\neffort: *w", "there is an alias"),
        ("weights: " + "[" * 5000, "nested too deeply"),
        ("other: 1", "unknown key other; there are weights, effort"),
        ("weights: {", "other.yaml"),
        ("3", "this is a mapping of keys, not 3"),
    ],
)
def test_bad_settings_files_are_refused_by_name(tmp_path, text, message):
    file = tmp_path / "other.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        load_settings(file)
    assert str(error.value).startswith(str(file))


def test_settings_are_read_back_as_they_are_written(tmp_path):
    file = tmp_path / "other.yaml"
    weights = np.random.default_rng(0).normal(size=NUM_FEATURES).round(4)
    file.write_text(settings_text(weights, QUICK, ["made by hand"]))
    settings = load_settings(file)
    assert settings.weights.tolist() == weights.tolist()
    assert settings.effort == QUICK
    assert file.read_text().startswith("# made by hand\n")


def test_the_committed_settings_name_every_feature():
    text = DEFAULTS.read_text()
    assert all(f"  {name}: " in text for name in FEATURES)
