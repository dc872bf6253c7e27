"""The sample player: legal, blind to the stock, better for its play-outs; its settings."""

from __future__ import annotations

import numpy as np
import pytest

from agents.players import make_player
from agents.players.sample import (
    DEFAULTS,
    SamplePlayer,
    SampleSettings,
    load_settings,
)
from agents.search.features import FEATURES, NUM_FEATURES
from agents.search.planner import find_candidates, new_candidates
from agents.search.rollouts import Rollouts, choose, play_stocks, posterior, sample_stocks
from agents.search.settings import PlanSettings
from agents.search.settings import load_settings as load_plan
from agents.search.stage import MAX_LINE, Effort, best_line, position_key
from qv_env import QuaranteVoleursEnv, deck_of
from qv_env.actions import DRAW, FOUNDATION_TO_COLUMN
from qv_env.evaluation.play import game_rng, play_deals
from qv_env.rules import (
    count_unseen,
    foundation_cards,
    is_won,
    new_game,
    play,
    refusal,
)

DEALS = range(300, 304)
EFFORT = Effort(20, 10, end_width=50, end_depth=80, ahead=4, ahead_width=4, ahead_depth=3)
QUICK = Rollouts(candidates=4, games=12, width=4, depth=4, end_width=10, end_depth=30)


def player(rollouts=QUICK):
    return SamplePlayer(SampleSettings(PlanSettings(load_plan().weights, EFFORT), rollouts))


def played(deals=DEALS, **options):
    return {e.deal: e for e in play_deals(player(), deals, record=True, **options)}


# ---------------------------------------------------------------------------------- whole games


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
        back = [action for action in episode.actions if action >= FOUNDATION_TO_COLUMN]
        assert not back or episode.truncated
    assert np.mean([episode.score for episode in episodes.values()]) > 450  # greedy: about 340


# -------------------------------------------------------------------------------- sampled stocks


def some_way_into(deal, draws, weights, effort=EFFORT):
    """A deal after some draws, as the plan player plays it."""
    game = new_game(deck_of(deal))
    searches = effort.searches(weights)
    line = np.zeros(MAX_LINE, dtype=np.uint8)
    for _ in range(draws):
        best_line(game, searches, line)
        play(game[0], DRAW)
    return game


@pytest.mark.parametrize("draws", [0, 30, 63])
def test_sampled_stocks_hold_the_unseen_cards_and_nothing_else(draws):
    game = some_way_into(7, draws, load_plan().weights)
    size = 64 - draws
    stocks = sample_stocks(game[0], 2 * size + 3, np.random.default_rng(0))
    assert stocks.shape == (2 * size + 3, size)
    unseen = np.empty(52, dtype=np.uint8)
    count_unseen(game[0], unseen)
    for stock in stocks:
        assert np.bincount(stock - 1, minlength=52).tolist() == unseen.tolist()
    for first in (0, size):  # each card comes first once in as many stocks as there are cards
        turned_up = stocks[first : first + size, -1]
        assert np.bincount(turned_up - 1, minlength=52).tolist() == unseen.tolist()
    blind = game.copy()
    blind["stock"] = 0
    again = sample_stocks(blind[0], 2 * size + 3, np.random.default_rng(0))
    assert (again == stocks).all()


def test_sampled_stocks_are_in_any_order():
    game = new_game(deck_of(8))
    stocks = sample_stocks(game[0], 6400, np.random.default_rng(1))
    unseen = np.empty(52, dtype=np.uint8)
    count_unseen(game[0], unseen)
    for place in range(64):  # 100 times a card and place, on average; the last place exactly
        counts = np.bincount(stocks[:, place] - 1, minlength=52)
        assert (np.abs(counts - 100.0 * unseen) < 75).all()
    assert len(np.unique(stocks, axis=0)) == 6400


# ----------------------------------------------------------------------- candidates and play-outs


def candidates(root, weights, effort=EFFORT, most=6):
    searches, made = effort.searches(weights), new_candidates(most)
    count = find_candidates(root, searches, made)
    return [
        (made.found[i : i + 1], made.worth[i], made.lines[i, : made.lengths[i]].tolist())
        for i in range(count)
    ], searches


def outcomes(found, stocks, weights, rollouts=QUICK, bonus=300.0):
    results = np.zeros((len(found), len(stocks)))
    searches = rollouts.searches(weights)
    draws = play_stocks(found, np.arange(len(found)), stocks, searches, bonus, results)
    return results, draws


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("draws", [0, 12, 40])
def test_the_first_candidate_is_the_plan_players_choice(draws, ahead):
    weights = load_plan().weights
    effort = Effort(20, 10, ahead=ahead, ahead_width=4, ahead_depth=3)
    for deal in range(4):
        root = some_way_into(deal, draws, weights)
        before = root.copy()
        choices, searches = candidates(root, weights, effort)
        assert root == before
        assert len(choices) <= ahead
        worths = [worth for _, worth, _ in choices]
        assert worths == sorted(worths, reverse=True)
        for found, _, line in choices:
            game = root.copy()
            for action in line:
                assert refusal(game[0], action) == 0
                play(game[0], action)
            assert game == found
        assert len({int(position_key(found[0])) for found, _, _ in choices}) == len(choices)
        line = np.zeros(MAX_LINE, dtype=np.uint8)
        length = best_line(root, searches, line)
        assert choices[0][2] == line[:length].tolist()


def test_play_outs_are_games_and_those_that_meet_end_alike():
    weights = load_plan().weights
    for deal, start in ((1, 10), (2, 40), (3, 60)):
        root = some_way_into(deal, start, weights)
        choices, _ = candidates(root, weights)
        found = np.concatenate([found for found, _, _ in choices])
        stocks = sample_stocks(root[0], 5, np.random.default_rng(deal))
        together, draws = outcomes(found, stocks, weights)
        alone = [outcomes(found[i : i + 1], stocks, weights) for i in range(len(found))]
        # A position that differs in the order of columns may be played on otherwise: ties.
        same = np.isclose(together, np.concatenate([result for result, _ in alone]))
        assert same.mean() > 0.8
        assert same[0].all()
        assert draws <= sum(drawn for _, drawn in alone)
        assert ((together >= found["score"][:, None]) & (together <= 1360 + 300)).all()


def test_a_won_game_counts_its_bonus():
    game = new_game(deck_of(0))
    game["columns"], game["heights"] = 0, 0
    game["foundations"] = 13
    game["foundations"][0, 0] = 12  # the other king of spades is the stock
    game["stock"], game["stock_size"] = 0, 1
    stocks = sample_stocks(game[0], 3, np.random.default_rng(0))
    assert stocks.tolist() == [[13]] * 3
    results, draws = outcomes(game, stocks, load_plan().weights, bonus=77.0)
    assert results.tolist() == [[92.0] * 3]  # 10 for the card, 5 for its way over a column
    assert draws == 3


# -------------------------------------------------------------------------------------- choices


def test_the_posterior_weighs_games_against_what_was_thought():
    differences = np.zeros((3, 400))
    differences[1] = 30 + 20 * np.resize([-1, 1], 400)
    differences[2] = -1
    means, deviations = posterior(differences, np.array([0.0, -2.0, 0.0]), slope=5.0, spread=20.0)
    # The noise of the second: (400 * 400 + 4 * 2500) / 404 / 400, about 1.05; before: -10, 400.
    noise = (400 * 400 + 4 * 2500) / 404 / 400
    assert means[1] == pytest.approx((30 / noise - 10 / 400) / (1 / noise + 1 / 400))
    assert deviations[1] == pytest.approx((1 / noise + 1 / 400) ** -0.5)
    few, wide = posterior(differences[:, :4], np.array([0.0, -8.0, 0.0]), slope=5.0, spread=20.0)
    assert few[1] < means[1]
    assert wide[1] > deviations[1]


def noisy(means, noise, rng):
    """Outcomes on common stocks, and a count of how many were asked for."""
    asked = [0]

    def played(places, stocks):
        asked[0] += places.size * stocks
        luck = rng.normal(0, 300, stocks)
        return means[places][:, None] + luck + rng.normal(0, noise, (places.size, stocks))

    return played, asked


def test_halving_finds_what_is_clearly_better_and_leaves_the_rest():
    rollouts = Rollouts(games=120)
    rng = np.random.default_rng(0)
    worth = -0.1 * np.arange(8)
    for best in (0, 3, 7):
        means = np.zeros(8)
        means[best] = 60.0
        wins = 0
        for _ in range(40):
            played, asked = noisy(means, 30.0, rng)
            wins += choose(worth, rollouts, played) == best
            assert asked[0] <= 120 + 3 * 8
        assert wins >= 36


def test_a_few_lucky_games_do_not_outweigh_what_the_plan_player_thinks():
    rng = np.random.default_rng(1)
    chosen = {}
    for slope in (0.0, 5.0):
        rollouts = Rollouts(games=8, slope=slope)
        chosen[slope] = sum(
            choose(np.array([0.0, -10.0]), rollouts, noisy(np.zeros(2), 60.0, rng)[0])
            for _ in range(60)
        )
    assert chosen[0.0] > 15
    assert chosen[5.0] <= 5


def test_where_nothing_makes_a_difference_the_first_is_chosen_at_once():
    played, asked = noisy(np.zeros(6), 0.0, np.random.default_rng(0))
    assert choose(np.zeros(6), Rollouts(games=60), played) == 0
    assert asked[0] == 24  # a third of the games: the first of three rounds, four stocks each
    assert choose(np.zeros(1), QUICK, played) == 0


def test_a_choice_that_is_clearly_worse_than_another_is_corrected():
    # Weights that leave much to be found, and a position where it was.
    naive = np.zeros(NUM_FEATURES)
    for name, weight in (("up", 1.0), ("empty", 1.0), ("over", -0.1)):
        naive[FEATURES.index(name)] = weight
    root = some_way_into(308, 24, naive)
    rollouts = Rollouts(candidates=4, games=200, width=6, depth=6, end_width=20, end_depth=60)
    choices, _ = candidates(root, naive, most=4)
    found = np.concatenate([found for found, _, _ in choices])
    worth = np.array([worth for _, worth, _ in choices])
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def played(places, stocks, rng=rng):
            return outcomes(found[places], sample_stocks(root[0], stocks, rng), naive, rollouts)[0]

        best = choose(worth, rollouts, played)
        fresh = played(np.array([0, best]), 100)
        gain = fresh[1] - fresh[0]
        assert best != 0
        assert gain.mean() > 10 + 2 * gain.std() / 10


def test_the_player_goes_where_play_outs_say(monkeypatch):
    observation, info = QuaranteVoleursEnv(**player().env_kwargs).reset(options={"deal": 5})
    batch = {key: array[None] for key, array in observation.items()}
    mask = info["action_mask"][None]
    choices, _ = candidates(new_game(deck_of(5)), load_plan().weights, most=QUICK.candidates)
    assert len(choices) > 1
    for k, (_, _, line) in enumerate(choices):
        monkeypatch.setattr("agents.search.rollouts.choose", lambda *_, k=k: k)
        who = player()
        who.prepare(1)
        who.start(0, game_rng(0, 0))
        actions = [int(who.act(np.array([0]), batch, mask)[0]) for _ in range(len(line) + 1)]
        assert actions == [*line, DRAW]


# ------------------------------------------------------------------------------------- settings


def test_the_player_by_name_and_with_settings(tmp_path):
    assert isinstance(make_player("sample"), SamplePlayer)
    settings = make_player("sample,games=7,bonus=12.5,slope=3").settings
    assert (settings["games"], settings["bonus"], settings["slope"]) == (7, 12.5, 3.0)
    (tmp_path / "p.yaml").write_text("weights: {up: 3}\neffort: {width: 5}\n")
    (tmp_path / "other.yaml").write_text("plan: p.yaml\nrollouts: {candidates: 3, bonus: 5}\n")
    settings = make_player(f"sample:{tmp_path / 'other.yaml'},width=9").settings
    assert (settings["candidates"], settings["bonus"], settings["width"]) == (3, 5.0, 9)
    assert (settings["plan"]["width"], settings["plan"]["weights"]["up"]) == (5, 3.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sample,speed=3", "sample: unknown key speed; there are candidates, games"),
        ("sample,games=many", "games is an integer in 1..1,000,000, not 'many'"),
        ("sample,games=1.5", "games is an integer in 1..1,000,000, not 1.5"),
        ("sample,games=0", "games is an integer in 1..1,000,000, not 0"),
        ("sample,games=10000000000000000", "games is an integer in 1..1,000,000, not 1000"),
        ("sample,candidates=10001", "candidates is an integer in 1..10,000, not 10001"),
        ("sample,width=100000,depth=51", "sample: width x depth is at most 5,000,000"),
        ("sample,bonus=-1", "bonus is a number in 0..1,000,000, not -1"),
        ("sample,bonus=nan", "bonus is a number in 0..1,000,000, not 'nan'"),
        ("sample,spread=0", "spread is a number above 0 and at most 1,000,000, not 0"),
    ],
)
def test_bad_options_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        make_player(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rollouts: {luck: 1}", "unknown key rollouts.luck; there are candidates, games"),
        ("rollouts: {games: 1.5}", "rollouts.games is an integer in 1..1,000,000, not 1.5"),
        ("rollouts: {bonus: true}", "rollouts.bonus is a number in 0..1,000,000, not true"),
        ("rollouts: {width: 0}", "rollouts.width is an integer in 1..100,000, not 0"),
        ("rollouts: [1]", "rollouts is a mapping of keys or null"),
        ("plan: 3", "plan is text or null, not 3"),
        ("other: 1", "unknown key other; there are plan, rollouts"),
        ("rollouts: {", "other.yaml"),
        ("3", "this is a mapping of keys, not 3"),
    ],
)
def test_bad_settings_files_are_refused_by_name(tmp_path, text, message):
    file = tmp_path / "other.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        load_settings(file)
    assert str(error.value).startswith(str(file))


def test_the_committed_settings_are_the_plan_players_and_say_everything():
    settings, plan = load_settings(), load_plan()
    assert settings.plan.weights.tolist() == plan.weights.tolist()
    assert settings.plan.effort == plan.effort
    text = DEFAULTS.read_text()
    assert all(f"  {name}: " in text for name in settings.rollouts.__dict__)
