"""What planners get, and that nothing handed to a player shows the order of a hidden stock."""

from __future__ import annotations

import copy
import random

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import qv_env
from qv_env.rules import STATE, determinize, new_game, play
from qv_env.text import state_text

from . import reference
from .reference import Table
from .same import assert_same

VISIBLE = [name for name in STATE.names if name != "stock"]


def games(count: int = 6) -> np.ndarray:
    """Games at different stages: each has drawn 13 cards more than the one before."""
    states = []
    for number in range(count):
        rng = random.Random(number)
        game, table = new_game(qv_env.deck_of(number)), Table(reference.deck_of_number(number))
        while len(table.stock) > max(0, 64 - 13 * number):
            action = 0 if rng.random() < 0.6 else reference.choose(table, "eager", rng)
            table.play(action)
            play(game[0], action)
        states.append(game)
    return np.concatenate(states)


def test_the_games_looked_at_reach_from_a_full_stock_to_none():
    assert games()["stock_size"].tolist() == [64, 51, 38, 25, 12, 0]
    assert games()["foundations"].any(axis=1).sum() >= 3


def test_what_is_visible_stays_and_the_unseen_cards_are_the_same():
    states = games()
    before = states.tobytes()
    copies = determinize(states, np.random.default_rng(1))
    assert states.tobytes() == before
    for name in VISIBLE:
        assert (copies[name] == states[name]).all(), name
    for state, twin in zip(states, copies, strict=True):
        size = state["stock_size"]
        assert sorted(twin["stock"].tolist()) == sorted(state["stock"].tolist())
        assert not twin["stock"][size:].any()
        if size > 20:
            assert twin["stock"].tolist() != state["stock"].tolist()


def test_one_record_gives_a_batch_of_one():
    states = games(3)
    twin = determinize(states[1], np.random.default_rng(0))
    assert twin.shape == (1,)
    twin[0]["score"] = 999
    assert states[1]["score"] != 999


def test_the_copy_depends_on_what_is_seen_only():
    """Two games with the same past and different stocks give the same copies."""
    states = games()
    others = states.copy()
    for other in others:
        size = other["stock_size"]
        other["stock"][:size] = other["stock"][:size][::-1].copy()
    assert others.tobytes() != states.tobytes()
    for seed in range(3):
        left = determinize(states, np.random.default_rng(seed))
        right = determinize(others, np.random.default_rng(seed))
        assert left.tobytes() == right.tobytes()


def test_different_random_states_give_different_orders_and_every_card_comes_up_everywhere():
    states = games(1)
    rng = np.random.default_rng(5)
    tops = {int(determinize(states, rng)[0]["stock"][63]) for _ in range(1500)}
    unseen = {card + 1 for card in reference.deck_of_number(0)[40:]}
    assert tops == unseen


# ----------------------------------------------------------------------------- the environment's


def middle_of_a_game(**variant) -> qv_env.QuaranteVoleursEnv:
    env = qv_env.QuaranteVoleursEnv(**variant)
    _, info = env.reset(seed=3)
    for step in range(30):
        legal = np.flatnonzero(info["action_mask"])
        *_, info = env.step(legal[step % len(legal)])
    return env


def test_the_original_does_not_notice():
    env = middle_of_a_game()
    kept = copy.deepcopy(env)
    twin = env.determinize(np.random.default_rng(0))
    for _ in range(20):
        twin.step(int(np.flatnonzero(twin.action_masks())[0]))
    twin.reset()
    twin.reset(options={"deal": 4})
    twin.action_space.seed(1)
    assert env.np_random.bit_generator.state == kept.np_random.bit_generator.state
    assert env.action_masks().tolist() == kept.action_masks().tolist()
    for _ in range(20):
        action = int(np.flatnonzero(env.action_masks())[0])
        assert_same(env.step(action), kept.step(action))
    assert_same(env.reset(), kept.reset())


def test_the_copy_goes_on_from_the_same_table():
    env = middle_of_a_game(memory=True)
    twin = env.determinize(np.random.default_rng(0))
    assert state_text(twin._states[0]) == state_text(env._states[0])
    assert twin.action_masks().tolist() == env.action_masks().tolist()
    action = int(np.flatnonzero(env.action_masks()[1:])[0]) + 1  # no draw: all of it is visible
    left, right = env.step(action), twin.step(action)
    assert left[1:4] == right[1:4]
    for key, array in left[0].items():
        assert (array == right[0][key]).all(), key
    assert {**left[4], "deal": "", "action_mask": 0} == {**right[4], "action_mask": 0}


def test_the_copy_knows_neither_the_deal_nor_the_next_ones():
    env = middle_of_a_game()
    twin = env.determinize(np.random.default_rng(0))
    twins = env.determinize(np.random.default_rng(0))
    assert twin.step(0)[4]["deal"] == ""
    own = [env.reset()[1]["deal"] for _ in range(5)]
    other = [twin.reset()[1]["deal"] for _ in range(5)]
    assert set(own).isdisjoint(other)
    assert "" not in other
    # The copy's own stream follows from the planner's generator, so planning can be repeated.
    assert [twins.reset()[1]["deal"] for _ in range(5)] == other


@pytest.mark.parametrize("deals", [[7], ["FT1-N-AAAAAAH"], "7:8"])
@pytest.mark.parametrize("stock_visible", [False, True])
def test_the_copy_keeps_nothing_of_a_pool_that_tells_the_deal(deals, stock_visible):
    env = gym.make("qv_env:QuaranteVoleurs-v0", deals=deals, stock_visible=stock_visible)
    assert env.reset(seed=0)[1]["deal"] == "FT1-N-AAAAAAH"
    twin = env.unwrapped.determinize(np.random.default_rng(0))
    assert twin.spec.kwargs == {"stock_visible": stock_visible}
    assert env.unwrapped.spec.kwargs == {"stock_visible": stock_visible, "deals": deals}
    plain = qv_env.QuaranteVoleursEnv()
    assert [twin.reset(seed=seed)[1]["deal"] for seed in range(3)] == [
        plain.reset(seed=seed)[1]["deal"] for seed in range(3)
    ]
    assert env.reset()[1]["deal"] == "FT1-N-AAAAAAH"  # as before


def test_the_copy_of_an_environment_without_a_spec_has_none():
    assert middle_of_a_game().determinize(np.random.default_rng(0)).spec is None


def test_asking_for_the_copys_seed_does_not_reseed_it():
    """Gymnasium draws a new generator where a seed is asked for that is None."""
    twin = middle_of_a_game().determinize(np.random.default_rng(0))
    before = twin.np_random.bit_generator.state
    assert twin.np_random_seed != 3  # the original's
    assert twin.np_random.bit_generator.state == before


def test_the_copy_of_the_environment_depends_on_what_is_seen_only():
    env = middle_of_a_game()
    other = copy.deepcopy(env)
    size = other._states[0]["stock_size"]
    other._states[0]["stock"][:size] = other._states[0]["stock"][:size][::-1].copy()
    left = env.determinize(np.random.default_rng(9))
    right = other.determinize(np.random.default_rng(9))
    assert left._states.tobytes() == right._states.tobytes()


def test_it_is_found_through_wrappers():
    env = gym.make("qv_env:QuaranteVoleurs-v0")
    env.reset(seed=0)
    twin = env.get_wrapper_attr("determinize")(np.random.default_rng(0))
    assert isinstance(twin, qv_env.QuaranteVoleursEnv)


# ---------------------------------------------------------------------------- nothing leaks out


def buffers(thing: object) -> list[bytes]:
    """All bytes that can be reached from what a player is handed, arrays' bases included."""
    found: list[bytes] = []
    pending, seen = [thing], set()
    while pending:
        item = pending.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple)):
            pending += item
        elif isinstance(item, np.ndarray):
            if item.dtype == object:
                pending += item.ravel().tolist()
            else:
                found.append(item.tobytes())
            pending.append(item.base)
        elif isinstance(item, (str, bytes, bool, int, float, np.generic)):
            found.append(str(item).encode())
        else:
            raise AssertionError(f"an unexpected {type(item)} is handed out")
    return found


def orders(numbers: list[int], drawn: int) -> list[bytes]:
    """What a stock's next ten cards look like in memory, by id or by card, in either direction."""
    looks = []
    for number in numbers:
        following = reference.deck_of_number(number)[40 + drawn : 50 + drawn]
        for shift in (0, 1):
            row = bytes(card + shift for card in following)
            looks += [row, row[::-1]]
    return looks


VARIANTS = [
    {"observation": kind, "memory": memory} for kind in ("cards", "onehot") for memory in (0, 1)
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_array_of_the_environment_leads_to_the_stock(variant):
    env = gym.make("qv_env:QuaranteVoleurs-v0", **{**variant, "memory": bool(variant["memory"])})
    observation, info = env.reset(options={"deal": 12})
    secret = [deck for drawn in range(4) for deck in orders([12], drawn)]
    handed = buffers((observation, info))
    for _ in range(3):
        handed += buffers(env.step(0))
    handed += buffers(env.get_wrapper_attr("action_masks")())
    assert not [look for look in secret for row in handed if look in row]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_no_array_of_the_batch_leads_to_the_stock(variant, copied, mode):
    numbers = [12, 13, 14]
    batch = qv_env.QuaranteVoleursVectorEnv(
        3,
        copy=copied,
        autoreset_mode=mode,
        max_episode_steps=3,
        **{**variant, "memory": bool(variant["memory"])},
    )
    handed = buffers(batch.reset(options={"deals": numbers}))
    for _ in range(3):
        handed += buffers(batch.step([0, 0, 0]))
    handed += buffers(batch.action_masks())
    secret = [deck for drawn in range(4) for deck in orders(numbers, drawn)]
    assert not [look for look in secret for row in handed if look in row]


def test_the_search_for_leaks_would_find_one():
    env = qv_env.QuaranteVoleursEnv(stock_visible=True)
    handed = buffers(env.reset(options={"deal": 12}))
    assert [look for look in orders([12], 0) for row in handed if look in row]
    state = env._states[0]["stock"][60:]  # a view whose base holds it all
    assert [look for look in orders([12], 0) for row in buffers(state) if look in row]


def test_observations_are_the_same_whatever_the_hidden_order():
    """Two games that differ in the stock only: no observation or info tells them apart."""
    deck = reference.deck_of_number(5)
    other = deck[:44] + deck[44:][::-1]
    for variant in ({"memory": True}, {"observation": "onehot", "memory": True}):
        left, right = (qv_env.QuaranteVoleursEnv(**variant) for _ in range(2))
        outcomes = [(left.reset(options={"deck": deck}), right.reset(options={"deck": other}))]
        outcomes += [(left.step(0), right.step(0)) for _ in range(4)]
        for one, two in outcomes:
            assert buffers(one) == buffers(two)


def test_there_is_nothing_to_determinize_before_the_first_reset():
    env = qv_env.QuaranteVoleursEnv()
    with pytest.raises(gym.error.ResetNeeded):
        env.determinize(np.random.default_rng(0))
    env.reset(seed=0)
    with pytest.raises(TypeError, match="Generator"):
        env.determinize(0)
