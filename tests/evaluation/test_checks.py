"""The checks of the player protocol: on every player of this repository, and on bad ones."""

import numpy as np
import pytest

from agents.networks.files import POLICY_FILE, build_policy, save_policy
from agents.players import make_player
from qv_env.__main__ import main
from qv_env.evaluation import Player, Uniforms, check_player, checks, sample_rows
from qv_env.evaluation.checks import ProtocolError
from qv_env.evaluation.players import RandomPlayer

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
        (_Forgetful(), "is played otherwise again"),
        (_Sociable(), "is played otherwise one at a time"),
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
    assert "greedy keeps the protocol" in capsys.readouterr().out
    assert main(["check-player", "nobody"]) == 2
    assert "no player 'nobody'" in capsys.readouterr().err
