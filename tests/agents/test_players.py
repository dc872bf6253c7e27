"""The random and greedy players, and the loop in which players meet the environment."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agents.players import make_player
from qv_env import action_name, parse_cards
from qv_env.actions import NUM_ACTIONS
from qv_env.evaluation.play import game_rng, play_deals
from qv_env.evaluation.players.base import Player, Uniforms, sample_rows
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.players.random import RandomPlayer
from qv_env.observation import Encoding, encode
from qv_env.rules import (
    STATE,
    STOCK_CARDS,
    legal_actions,
)

DEALS = range(100, 130)


def episodes_by_deal(player, deals, **options):
    return {e.deal: e for e in play_deals(player, deals, record=True, **options)}


# ---------------------------------------------------------------------------------- by name


def test_players_by_name():
    assert isinstance(make_player("random"), RandomPlayer)
    assert isinstance(make_player("greedy"), GreedyPlayer)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "no player 'nobody'; there are random, greedy, human, plan, ppo"),
        ("", "no player ''"),
        ("random,play=argmax", "no path and no settings"),
        ("greedy:file", "no path and no settings"),
        ("ppo", "names no policy"),
        ("ppo:x,argmax", "'argmax' is not key=value"),
        ("ppo:x,=argmax", "'=argmax' is not key=value"),
    ],
)
def test_unknown_players_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        make_player(name)


# ------------------------------------------------------------------------ games from end to end


def test_the_step_limit_is_told_apart_from_an_end():
    for episode in play_deals(RandomPlayer(), DEALS[:5], max_episode_steps=20):
        assert (episode.steps, episode.truncated, episode.won) == (20, True, False)


def test_no_deals_are_no_episodes():
    assert list(play_deals(RandomPlayer(), [])) == []


def test_a_deal_may_be_played_twice():
    first, second = play_deals(RandomPlayer(), [5, 5], record=True)
    assert (first.actions, {first.index, second.index}) == (second.actions, {0, 1})


class _Cheat(Player):
    """Draws, whether it may or not."""

    name = "cheat"

    def act(self, seats, observation, mask):
        return np.zeros(len(seats), dtype=int)


def test_an_illegal_choice_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="player cheat chose action 0 in deal 77"):
        list(play_deals(_Cheat(), [77]))


class _Thinker(GreedyPlayer):
    """A greedy player that claims to have thought."""

    def act(self, seats, observation, mask):
        actions = super().act(seats, observation, mask)
        self.thought = np.zeros(mask.shape)
        self.thought[np.arange(len(seats)), actions] = 0.75
        self.thought[:, 3] += 0.25
        return actions

    def insight(self):
        return {"value": np.full(len(self.thought), 12.5), "probabilities": self.thought}


def test_what_a_player_thought_is_recorded():
    (episode,) = play_deals(_Thinker(), [8], record=True)
    assert episode.values == [12.5] * episode.steps
    assert len(episode.likeliest) == episode.steps
    for action, likeliest in zip(episode.actions, episode.likeliest, strict=True):
        if action != 3:
            assert likeliest == [(action, 0.75), (3, 0.25)]


# ------------------------------------------------------------------------- nothing hidden is used


# ------------------------------------------------------------------------------ the random player


def test_the_random_player_is_uniform_over_legal_actions():
    seats, rounds = 50, 400
    player = RandomPlayer()
    player.prepare(seats)
    for seat in range(seats):
        player.start(seat, game_rng(0, seat))
    legal = np.array([0, 3, 11, 12, 50, 111, 191])
    mask = np.zeros((seats, NUM_ACTIONS), dtype=np.int8)
    mask[:, legal] = 1
    counts = np.zeros(NUM_ACTIONS, dtype=int)
    for _ in range(rounds):
        counts += np.bincount(player.act(np.arange(seats), {}, mask), minlength=NUM_ACTIONS)
    assert counts.sum() == counts[legal].sum() == seats * rounds
    assert stats.chisquare(counts[legal]).pvalue > 0.001


def test_sampling_follows_the_weights_and_never_takes_a_zero():
    weights = np.array([[0, 1, 0, 3, 0]] * 4)
    assert sample_rows(weights, np.array([0.0, 0.2499, 0.25, 1 - 2**-53])).tolist() == [1, 1, 3, 3]
    # Sums that floats do not hold exactly: the largest number below 1 still finds a place.
    rng = np.random.default_rng(0)
    weights = rng.random((1000, 192)) * (rng.random((1000, 192)) < 0.05)
    weights[:, 7] = 1e-3
    for uniform in (0.0, 1 - 2**-53):
        chosen = sample_rows(weights, np.full(1000, uniform))
        assert (weights[np.arange(1000), chosen] > 0).all()


def test_each_seat_draws_its_own_numbers_in_order():
    uniforms = Uniforms(3)
    for seat in range(3):
        uniforms.start(seat, np.random.default_rng(seat))
    drawn = {seat: [] for seat in range(3)}
    which = np.random.default_rng(7)
    for _ in range(600):  # more than one block each
        seats = np.flatnonzero(which.random(3) < 0.7)
        for seat, number in zip(seats.tolist(), uniforms.draw(seats), strict=True):
            drawn[seat].append(number)
    for seat, numbers in drawn.items():
        assert numbers == np.random.default_rng(seat).random(len(numbers)).tolist()
        assert len(numbers) > 256
    uniforms.start(1, np.random.default_rng(1))
    assert uniforms.draw(np.array([1]))[0] == drawn[1][0]  # a new game begins its stream anew


# ------------------------------------------------------------------------------ the greedy player


def position(columns, foundations="0 0 0 0 0 0 0 0", waste="", stock=0):
    """A position as observation and mask, of one game; cards that are not named are left out.

    Args:
        columns: Texts of cards, from the first column on; missing ones are empty.
        foundations: Heights.
        waste: The waste, top card last.
        stock: Cards in the stock.
    """
    game = np.zeros(1, dtype=STATE)[0]
    for c, text in enumerate(columns):
        cards = parse_cards(text)
        game["columns"][c, : len(cards)] = np.array(cards, dtype=np.uint8) + 1
        game["heights"][c] = len(cards)
    game["foundations"] = [int(height) for height in foundations.split()]
    cards = parse_cards(waste)
    game["waste"][: len(cards)] = np.array(cards, dtype=np.uint8) + 1
    game["waste_size"] = len(cards)
    game["stock_size"] = stock
    encoding = Encoding("cards", memory=False, stock_visible=False)
    row = np.zeros((1, encoding.size), dtype=np.uint8)
    encode(game, encoding.flags, row[0])
    mask = np.zeros((1, NUM_ACTIONS), dtype=np.int8)
    legal_actions(game, mask[0])
    return encoding.views(row), mask


def greedy(*arguments, **options):
    observation, mask = position(*arguments, **options)
    (action,) = GreedyPlayer().act(np.array([0]), observation, mask)
    assert mask[0, action]
    return action_name(int(action))


# Ten columns of which no card can go anywhere: no two of one suit are neighbours in rank.
STILL = ["KS", "TS", "7S", "4S", "KH", "TH", "7H", "4H", "KD", "TD"]


def still(**changes):
    """STILL with some columns replaced: ``c3="AS"``."""
    columns = list(STILL)
    for name, cards in changes.items():
        columns[int(name[1:]) - 1] = cards
    return columns


def test_the_still_position_is_still():
    assert greedy(STILL, waste="2C", stock=STOCK_CARDS) == "draw"


def test_a_foundation_comes_first_and_the_leftmost_column_before_the_others():
    # Also there: the 9S from column 2 could join the TS, the waste's ace could go up.
    columns = still(c1="TS", c2="9S", c5="AS", c7="AH")
    assert greedy(columns, waste="AC", stock=50) == "c5>f"


def test_the_waste_goes_to_a_foundation_before_columns_are_joined():
    columns = still(c1="TS", c2="9S")
    assert greedy(columns, waste="AC", stock=50) == "w>f"


def test_a_column_joins_in_suit_before_the_waste_is_placed():
    columns = still(c2="9S", c3="TS")
    assert greedy(columns, waste="3H", stock=50) == "c2>c3"


def test_the_shortest_column_joins_first():
    assert greedy(still(c1="KC QD 9S", c2="JC 9S", c3="TS"), waste="2C", stock=50) == "c2>c3"
    assert greedy(still(c1="JC 9S", c2="KC QD 9S", c3="TS"), waste="2C", stock=50) == "c1>c3"


def test_of_two_targets_the_longest_is_joined():
    assert greedy(still(c2="9S", c3="TS", c5="5C 2D TS"), waste="2C", stock=50) == "c2>c5"
    assert greedy(still(c2="9S", c3="5C 2D TS", c5="TS"), waste="2C", stock=50) == "c2>c3"


def test_cards_that_lie_in_suit_stay():
    assert greedy(still(c2="TS 9S", c3="KC TS"), waste="2C", stock=50) == "draw"


def test_a_card_in_suit_still_goes_to_a_foundation():
    columns = still(c2="3S 2S")
    assert greedy(columns, foundations="1 0 0 0 0 0 0 0", waste="2C", stock=50) == "c2>f"


def test_the_waste_goes_to_the_longest_column_that_takes_it():
    assert greedy(still(c2="TS", c3="5C TS", c5=""), waste="9S", stock=50) == "w>c3"
    assert greedy(still(c2="5C TS", c3="TS", c1=""), waste="9S", stock=50) == "w>c2"


def test_else_the_waste_goes_to_the_leftmost_empty_column():
    assert greedy(still(c4="", c8=""), waste="2C", stock=50) == "w>c4"


def test_cards_do_not_wander_to_empty_columns_while_there_is_a_stock():
    columns = ["4S KS", "4S TS", "4H 7S", "", "4H KH", "4D TH", "4D 7H", "4C KD", "4C TD", ""]
    assert greedy(columns, foundations="3 3 3 3 3 3 3 3", stock=STOCK_CARDS) == "draw"


def test_where_there_is_nothing_else_the_smallest_action_is_taken():
    # What can move lies in suit already (9S, 9H); nothing is left to draw.
    columns = ["KS", "TS 9S", "KC TS", "QH", "JD", "TH 9H", "QC TH", "KD", "8C", "JC"]
    foundations = "6 6 6 6 6 6 6 6"
    _, mask = position(columns, foundations, waste="8D")
    assert [action_name(int(a)) for a in np.flatnonzero(mask[0])] == ["c2>c3", "c6>c7"]
    assert greedy(columns, foundations, waste="8D") == "c2>c3"


def test_a_batch_is_played_as_each_game_alone():
    positions = [
        position(still(c1="TS", c2="9S", c5="AS", c7="AH"), waste="AC", stock=50),
        position(still(c2="9S", c3="TS"), waste="3H", stock=50),
        position(still(c4="", c8=""), waste="2C", stock=50),
    ]
    observation = {
        key: np.concatenate([seen[key] for seen, _ in positions]) for key in positions[0][0]
    }
    mask = np.concatenate([mask for _, mask in positions])
    names = [action_name(int(a)) for a in GreedyPlayer().act(np.arange(3), observation, mask)]
    assert names == ["c5>f", "c2>c3", "w>c4"]


def test_the_greedy_player_needs_no_generator():
    episodes = [e.actions for e in play_deals(GreedyPlayer(), [1, 2], seed=5, record=True)]
    assert episodes == [e.actions for e in play_deals(GreedyPlayer(), [1, 2], record=True)]
