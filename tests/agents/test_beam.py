"""The solver's nodes: keys and values that are brought up to date, against those counted anew."""

from __future__ import annotations

import numpy as np
import pytest

from agents.search.beam import (
    NODE,
    _is_fresh,
    _key_after,
    _make,
    begin,
    drawing_order,
    expand,
    new_layer,
    node_value,
)
from agents.search.features import NUM_FEATURES, known_promise, measure
from agents.search.stage import play_safe, position_key, safe_action
from qv_env import deck_of
from qv_env.actions import NUM_ACTIONS
from qv_env.compiling import compiled
from qv_env.rules import STATE, foundation_cards, legal_actions, new_game, play
from tests.agents.test_search import endgame


@compiled
def made(child, parent, action, places, drawable):
    return _make(child, parent, action, places, drawable)


@compiled
def key_after(nodes, action):
    return _key_after(nodes[0], action)


@compiled
def is_fresh(key, seen):
    return _is_fresh(key, seen)


def counted_anew(node, promise, weights):
    game = np.array([node["game"]], dtype=STATE)
    features, work = np.zeros(NUM_FEATURES), np.zeros(2 * 53, dtype=np.int64)
    measure(game[0], promise[int(game[0]["stock_size"])], work, features)
    return position_key(game[0]), features @ weights


def starts():
    for deal in range(6):
        yield new_game(deck_of(deal))
    for seed in range(6):
        yield endgame(seed, height=5, stock=8, column_cards=30)


def test_keys_and_values_follow_from_the_moves():
    rng = np.random.default_rng(0)
    depths = np.zeros(53, dtype=np.uint8)
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    safe = backs = 0
    for root in starts():
        play_safe(root[0])
        weights = rng.normal(size=NUM_FEATURES)
        promise = np.zeros((65, 53))
        known_promise(root[0], promise)
        places, drawable = drawing_order(root)
        assert drawable == (places < 64).sum()
        nodes, child = np.zeros(1, dtype=NODE), np.zeros(1, dtype=NODE)
        begin(nodes, root)
        for _ in range(150):
            game = np.array(nodes["game"])
            key, value = counted_anew(nodes[0], promise, weights)
            assert nodes[0]["key"] == key
            assert nodes[0]["up"] == foundation_cards(game[0])
            found = node_value(
                nodes[0], weights.astype(np.float32), promise.astype(np.float32), places, depths
            )
            assert found == pytest.approx(value, rel=1e-4, abs=1e-3)
            if not legal_actions(game[0], mask):
                break
            chances = np.where(np.arange(NUM_ACTIONS) < 112, mask, mask * 0.2)
            action = int(rng.choice(NUM_ACTIONS, p=chances / chances.sum()))
            play(game[0], action)
            assert key_after(nodes, action) == position_key(game[0])
            more = safe_action(game[0]) >= 0
            play_safe(game[0])
            before = nodes.copy()
            assert made(child, nodes, action, places, drawable) == more
            assert nodes == before
            assert child["game"][0] == game[0]
            nodes[:] = child
            safe += more
            backs += action >= 112
    assert safe > 50
    assert backs > 20


def test_places_are_in_the_order_of_drawing():
    root = new_game(deck_of(3))
    for _ in range(5):
        play(root[0], 0)
    places, size = drawing_order(root)
    assert places.shape == (2, 53)
    assert size == 64
    for place, card in enumerate(deck_of(3)[40:]):
        assert place in places[:, int(card) + 1]
    assert (places < 64).sum() == 64
    assert (places[0] <= places[1]).all()
    assert (places[:, 0] == 64).all()


def test_a_key_is_fresh_once_until_eight_others_pushed_it_out():
    seen = np.zeros(32, dtype=np.uint64)
    keys = (np.arange(1, 10, dtype=np.uint64)) << np.uint64(8)  # all of one bucket
    assert all(is_fresh(key, seen) for key in keys[:8])
    assert not any(is_fresh(key, seen) for key in keys[:8])
    assert is_fresh(np.uint64(1), seen)  # of another
    assert is_fresh(keys[8], seen)
    assert not is_fresh(keys[1], seen)
    assert is_fresh(keys[0], seen)


def test_a_layer_keeps_the_best():
    root = new_game(deck_of(11))
    play_safe(root[0])
    rng = np.random.default_rng(2)
    weights = rng.normal(size=NUM_FEATURES).astype(np.float32)
    promise = np.zeros((65, 53))
    known_promise(root[0], promise)
    promise = promise.astype(np.float32)
    order, depths = drawing_order(root), np.zeros(53, dtype=np.uint8)

    def layers(width, number):
        layer, following = new_layer(width), new_layer(width)
        child, seen = np.zeros(1, dtype=NODE), np.zeros(1 << 20, dtype=np.uint64)
        begin(layer.nodes, root)
        count = 1
        for _ in range(number):
            count, won, reached, _ = expand(
                layer.nodes[:count], following, seen, weights, promise, order, False
            )
            assert not won
            assert reached >= count
            for k in range(count):
                parent = following.parents[k]
                before = layer.nodes[parent : parent + 1]
                made(child, before, following.actions[k], order.places, 64)
                assert child[0] == following.nodes[k]
            layer, following = following, layer
        return layer.nodes[:count], reached

    everything, reached = layers(20000, 24)
    assert len(everything) == reached > 100
    assert len(np.unique(everything["key"])) == reached
    before, _ = layers(20000, 23)
    wide = len(before)
    kept, same = layers(wide, 24)  # the layers before are whole, the last is cut
    assert same == reached
    assert len(kept) == wide < reached
    values = {
        int(node["key"]): node_value(node, weights, promise, order.places, depths)
        for node in everything
    }
    worst = min(values[int(key)] for key in kept["key"])
    assert sum(value > worst for value in values.values()) < wide
