"""The checks of the player protocol: on every player of this repository, and on bad ones."""

import numpy as np
import pytest

from agents.networks.files import POLICY_FILE, build_policy, save_policy
from agents.players import make_player
from qv_env.__main__ import main
from qv_env.evaluation import Player, Uniforms, check_player, checks, play_deals, sample_rows
from qv_env.evaluation.checks import ProtocolError
from qv_env.evaluation.players import GreedyPlayer, RandomPlayer

SIZES = {"card": 4, "hidden": 8, "column": 8, "context": 8, "pair": 4}
TABLE = {"observation": "cards", "memory": True, "stock_visible": False, "take_back": True}


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A table network with random weights, as a run's folder."""
    folder = tmp_path_factory.mktemp("policy")
    network = build_policy("table", SIZES, [], TABLE)
    save_policy(network, folder / POLICY_FILE, "table", SIZES, [], TABLE, 0.01)
    return folder


@pytest.mark.parametrize(
    ("spec", "deals", "steps"),
    [
        ("random", 6, 500),
        ("greedy", 6, 500),
        ("plan,width=8,depth=6,end_width=12,end_depth=12", 4, 500),
        ("plan,width=8,depth=6,end_width=12,end_depth=12,ahead=3", 3, 500),
        ("sample,games=6,candidates=3,width=3,depth=4,end_width=5,end_depth=5", 2, 60),
        ("ppo:{policy},play=sample", 4, 120),
        ("ppo:{policy},play=argmax", 4, 120),
        ("ppo:{policy},play=argmax-new", 4, 120),
        ("ppo+plan:{policy},width=8,depth=6,end_width=12,end_depth=12,candidates=4", 3, 500),
    ],
)
def test_our_players_keep_the_protocol(spec, deals, steps, policy):
    check_player(make_player(spec.format(policy=policy)), range(70, 70 + deals), 3, steps)


@pytest.mark.parametrize(
    ("spec", "chance"),
    [
        ("random", True),
        ("greedy", False),
        ("plan,width=8,depth=6,end_width=12,end_depth=12", False),
        ("sample,games=6,candidates=3,width=3,depth=4,end_width=5,end_depth=5", True),
        ("ppo:{policy},play=sample", True),
        ("ppo:{policy},play=argmax", False),
        ("ppo+plan:{policy},width=8,depth=6,end_width=12,end_depth=12,candidates=4", False),
    ],
)
def test_the_seed_decides_what_is_left_to_chance_and_nothing_else(spec, chance, policy):
    player = make_player(spec.format(policy=policy))
    one, other = (
        [
            episode.actions
            for episode in play_deals(player, [70, 71], seed, 60, num_seats=1, record=True)
        ]
        for seed in (0, 1)
    )
    assert (one != other) == chance


def test_every_hidden_card_is_in_another_place_in_some_twin(monkeypatch):
    """The check reaches the draws that it is about, and its twins do differ there."""
    decks = []
    reset = checks.QuaranteVoleursEnv.reset

    def noted(env, *, seed=None, options=None):
        decks.append(list(options["deck"]))
        return reset(env, seed=seed, options=options)

    monkeypatch.setattr(checks.QuaranteVoleursEnv, "reset", noted)
    check_player(GreedyPlayer(), range(70, 72))
    assert len(decks) == 2 * 2 * len(checks.KNOWN_DRAWS)
    for deck, twin, known in zip(decks[::2], decks[1::2], checks.KNOWN_DRAWS * 2, strict=True):
        assert sorted(deck) == sorted(twin)
        assert deck != twin
        assert deck[: 40 + known] == twin[: 40 + known]


class _Forgetful(RandomPlayer):
    """Draws numbers of its own, so that no game repeats."""

    def start(self, seat, rng):
        super().start(seat, np.random.default_rng())


class _Sociable(Player):
    """Looks at how many games are played beside its own."""

    def prepare(self, num_seats):
        self._uniforms = Uniforms(num_seats)

    def start(self, seat, rng):
        self._uniforms.start(seat, rng)

    def act(self, seats, observation, mask):
        uniforms = self._uniforms.draw(seats)
        return sample_rows(mask, uniforms if len(seats) > 1 else 1 - uniforms - 1e-9)


class _Told(Player):
    """Chooses by a number that somebody who knows the hidden cards sets."""

    hidden = 0

    def act(self, seats, observation, mask):
        return np.array([np.flatnonzero(row)[self.hidden % (row != 0).sum()] for row in mask])


@pytest.mark.parametrize(
    ("player", "message"),
    [
        (_Forgetful(), "is played differently in a second run"),
        (_Sociable(), "is played differently with one game at a time"),
    ],
)
def test_other_players_are_told_what_they_break(player, message):
    with pytest.raises(ProtocolError, match=message):
        check_player(player, range(70, 74), max_episode_steps=40)


def test_a_player_that_knows_the_hidden_order_is_found(monkeypatch):
    player = _Told()
    reset = checks.QuaranteVoleursEnv.reset

    def told(env, *, seed=None, options=None):
        player.hidden = int(np.sum(np.asarray(options["deck"][49:60]) * np.arange(11)))
        return reset(env, seed=seed, options=options)

    monkeypatch.setattr(checks.QuaranteVoleursEnv, "reset", told)
    with pytest.raises(ProtocolError, match="depends on the order of hidden cards"):
        check_player(player, range(70, 74), max_episode_steps=40)


def test_the_command_line(capsys):
    assert main(["check-player", "greedy"]) == 0
    assert "greedy follows the protocol" in capsys.readouterr().out
    assert main(["check-player", "nobody"]) == 2
    assert "no player 'nobody'" in capsys.readouterr().err
