"""The table network's symmetries, and the policy on top of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableCategorical
from torch import nn

from agents.networks.accelerator import CompiledTableNetwork
from agents.networks.files import build_policy, load_policy, policy_outputs
from agents.networks.layout import pair_table
from agents.networks.policy import (
    TablePolicy,
    legal_actions,
    masked_log_probs,
    value_parameters,
)
from agents.networks.table import NetworkConfig, TableNetwork, observation_tensors
from qv_env import QuaranteVoleursVectorEnv, action_name, deck_of, parse_action
from qv_env.actions import (
    COLUMN,
    FOUNDATION,
    MOVES,
    NUM_ACTIONS,
    NUM_COLUMNS,
    NUM_FOUNDATIONS,
    Move,
)
from qv_env.cards import NUM_SUITS
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.observation import Encoding, encode
from qv_env.rules import new_game, play
from qv_env.schema import checked

ROOT = Path(__file__).resolve().parents[2]
SMALL = NetworkConfig(card=6, hidden=12, column=10, context=14, pair=8)
IDS = {move: action for action, move in enumerate(MOVES)}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def network(num_actions=NUM_ACTIONS, memory=False, seed=0, kind=CompiledTableNetwork):
    """A small network in double precision, none of whose weights is next to nothing."""
    torch.manual_seed(seed)
    net = kind(num_actions, memory, SMALL)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.4)
    return net.double()


def positions(memory=False, games=40):
    """Observations of games that a player who puts cards up has played for a while."""
    encoding = Encoding("cards", memory, stock_visible=False)
    rows = np.zeros((games, encoding.size), dtype=np.uint8)
    for episode in play_deals(GreedyPlayer(), range(games), record=True):
        game = new_game(deck_of(episode.deal))[0]
        for action in episode.actions[:-1][: 40 + 2 * episode.deal]:
            play(game, action)
        encode(game, encoding.flags, rows[episode.deal])
    return encoding.views(rows)


def plain_twin(net):
    """The plain network with the same weights."""
    twin = TableNetwork(net.num_actions, net.memory, SMALL).double()
    twin.load_state_dict(net.state_dict())
    return twin


@pytest.fixture(
    scope="module",
    params=[
        (kind, memory) for kind in (TableNetwork, CompiledTableNetwork) for memory in (False, True)
    ],
    ids=lambda param: f"{param[0].__name__}-{'memory' if param[1] else 'no memory'}",
)
def case(request):
    """A network, positions as tensors, and its outputs for them."""
    kind, memory = request.param
    net = network(memory=memory, kind=kind)
    observation = observation_tensors(positions(memory))
    with torch.no_grad():
        return net, observation, *net(observation)


def close(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------------------------- symmetry


def test_the_positions_are_worth_looking_at():
    rows = positions()
    heights = (rows["columns"] != 0).sum(axis=2)
    low, high = np.sort(rows["foundations"].reshape(-1, 2, 4), axis=1).transpose(1, 0, 2)
    assert heights.min() == 0
    assert heights.max() > 6
    assert ((low > 0) & (low < high)).sum() > 5
    assert (rows["waste_size"] > 5).sum() > 10


@pytest.mark.parametrize("seed", range(4))
def test_permuting_columns_permutes_the_moves(case, seed):
    net, observation, logits, values = case
    order = np.random.default_rng(seed).permutation(NUM_COLUMNS)  # new column c is old order[c]
    permuted = {**observation, "columns": observation["columns"][:, order]}
    with torch.no_grad():
        new_logits, new_values = net(permuted)

    def old(kind, index):
        return int(order[index]) if kind == COLUMN else index

    before = [
        IDS[Move(m.source, old(m.source, m.source_index), m.target, old(m.target, m.target_index))]
        for m in MOVES
    ]
    assert sorted(before) == list(range(NUM_ACTIONS))
    for unmoved in ("draw", "w>f"):
        assert before[parse_action(unmoved)] == parse_action(unmoved)
    close(new_logits, logits[:, before])
    close(new_values, values)
    # Where columns differ, the moves do: it is not that all are scored alike.
    assert (new_logits - logits).abs().max() > 0.1


@pytest.mark.parametrize("suit", range(NUM_SUITS))
def test_swapping_a_suits_foundations_swaps_their_take_backs(case, suit):
    net, observation, logits, values = case
    order = np.arange(NUM_FOUNDATIONS)
    order[[suit, suit + NUM_SUITS]] = suit + NUM_SUITS, suit
    swapped = {**observation, "foundations": observation["foundations"][:, order]}
    with torch.no_grad():
        new_logits, new_values = net(swapped)
    before = [
        IDS[m._replace(source_index=int(order[m.source_index]))] if m.source == FOUNDATION else a
        for a, m in enumerate(MOVES)
    ]
    assert sum(a != b for a, b in enumerate(before)) == 2 * NUM_COLUMNS
    close(new_logits, logits[:, before])
    close(new_values, values)
    differ = observation["foundations"][:, suit] != observation["foundations"][:, suit + NUM_SUITS]
    assert differ.any()
    assert ((new_logits - logits)[differ].abs().amax(dim=1) > 1e-4).all()


def test_identical_columns_are_scored_alike():
    observation = positions(games=20)
    observation["columns"][:, 7] = observation["columns"][:, 2]
    with torch.no_grad():
        logits, _ = network()(observation_tensors(observation))
    for one, other in [("w>c3", "w>c8"), ("c3>f", "c8>f"), ("c3>c1", "c8>c1"), ("c5>c3", "c5>c8"),
                       ("f2>c3", "f2>c8"), ("c3>c8", "c8>c3")]:  # fmt: skip
        close(logits[:, parse_action(one)], logits[:, parse_action(other)])


def test_each_row_is_scored_on_its_own(case):
    net, observation, logits, values = case
    some = [5, 0, 33]
    with torch.no_grad():
        new_logits, new_values = net({key: rows[some] for key, rows in observation.items()})
    close(new_logits, logits[some])
    close(new_values, values[some])


# ------------------------------------------------------------------- compiled code, and plain torch


def masks_of(observation, num_actions, seed=0):
    """Masks of a few actions each; one with a single action, one with all."""
    rng = np.random.default_rng(seed)
    n = len(observation["columns"])
    masks = rng.random((n, num_actions)) < 0.06
    masks[np.arange(n), rng.integers(0, num_actions, n)] = True
    masks[0] = np.arange(num_actions) == 0
    masks[1] = True
    return masks


def gradients(net, loss):
    net.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters()}


def tied_positions(memory):
    """Positions some of which have equal columns: those share the gradient of the maximum."""
    rows = positions(memory)
    rows["columns"][::2, 3] = 0
    rows["columns"][::2, 7] = 0
    rows["columns"][::3, 5] = rows["columns"][::3, 6]
    return observation_tensors(rows)


@pytest.mark.parametrize("num_actions", [112, NUM_ACTIONS])
@pytest.mark.parametrize("memory", [False, True])
def test_compiled_and_plain_passes_agree(memory, num_actions):
    compiled = network(num_actions, memory)
    observation = tied_positions(memory)
    found = []
    for net in (compiled, plain_twin(compiled)):
        logits, values = net(observation)
        rng = np.random.default_rng(1)
        weights = torch.from_numpy(rng.normal(size=logits.shape))
        weights[:, 1::3] = 0  # as illegal actions have it
        loss = (logits * weights).sum() + (values * weights[:, 0]).sum()
        found.append((logits, values, gradients(net, loss)))
    for one, other in zip(*found, strict=True):
        if isinstance(one, dict):
            for name in one:
                close(one[name], other[name])
                assert one[name].abs().max() > 0
        else:
            close(one, other)


@pytest.mark.parametrize("part", ["log_probs", "entropies", "values", "all"])
@pytest.mark.parametrize("memory", [False, True])
def test_evaluations_of_legal_actions_agree_with_the_plain_pass(memory, part):
    net = network(memory=memory)
    observation = tied_positions(memory)
    masks = masks_of(observation, NUM_ACTIONS)
    actions = masks.argmax(axis=1)
    rng = np.random.default_rng(2)
    weights = {
        name: torch.from_numpy(rng.normal(size=len(masks))) * (part in (name, "all"))
        for name in ("log_probs", "entropies", "values")
    }

    def loss(log_probs, entropies, values):
        parts = zip((log_probs, entropies, values), weights.values(), strict=True)
        return sum((tensor * weight).sum() for tensor, weight in parts)

    found = net.evaluate(observation, masks, actions)
    found_gradients = gradients(net, loss(*found))
    plain = plain_twin(net)
    logits, values = plain(observation)
    log_probs = masked_log_probs(logits, masks)
    chosen = log_probs.gather(1, torch.from_numpy(actions)[:, None])[:, 0]
    expected = chosen, -(log_probs.exp() * log_probs).sum(dim=1), values
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    for name, gradient in gradients(plain, loss(*expected)).items():
        close(found_gradients[name], gradient)


@pytest.mark.parametrize("name", ["seed-0", "seed-1", "seed-2"])
def test_published_weights_mean_the_same_to_the_plain_network(name):
    compiled, about = load_policy(ROOT / "weights/ppo" / name)
    config, memory = NetworkConfig(**about["network"]), about["env"]["memory"]
    plain = TableNetwork(compiled.network.num_actions, memory, config)
    plain.load_state_dict(compiled.network.state_dict())
    observation = observation_tensors(positions(memory))
    masks = masks_of(observation, plain.num_actions)
    actions, log_probs, values = compiled.network.choose(observation, masks, np.empty(0))
    _, entropies, _ = compiled.network.evaluate(observation, masks, actions.numpy())
    with torch.no_grad():
        logits, plain_values = plain(observation)
    expected = masked_log_probs(logits, masks)
    torch.testing.assert_close(values, plain_values, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_probs, expected.amax(dim=1), rtol=1e-4, atol=1e-4)
    chosen = expected.gather(1, actions[:, None])[:, 0]
    torch.testing.assert_close(log_probs, chosen, rtol=1e-4, atol=1e-4)
    plain_entropies = -(expected.exp() * expected).sum(dim=1)
    torch.testing.assert_close(entropies.detach(), plain_entropies, rtol=1e-3, atol=1e-4)


def test_where_nothing_is_legal_all_actions_are_as_likely():
    net = network()
    observation = observation_tensors(positions(games=2))
    masks = np.zeros((2, NUM_ACTIONS), dtype=bool)
    uniforms = np.array([0.0, 0.999999])
    actions, log_probs, _ = net.choose(observation, masks, uniforms)
    assert actions.tolist() == [0, NUM_ACTIONS - 1]
    again, entropies, _ = net.evaluate(observation, masks, actions.numpy())
    uniform = torch.full((2,), float(np.log(NUM_ACTIONS)), dtype=torch.float64)
    for tensor in (-log_probs, -again, entropies):
        close(tensor, uniform)


def test_actions_are_drawn_by_their_cumulative_probabilities():
    net = network()
    observation = observation_tensors(positions())
    masks = masks_of(observation, NUM_ACTIONS)
    with torch.no_grad():
        logits, values = plain_twin(net)(observation)
    probabilities = masked_log_probs(logits, masks).exp().numpy()
    for seed in range(20):
        uniforms = np.random.default_rng(seed).random(len(masks))
        actions, log_probs, found = net.choose(observation, masks, uniforms)
        expected = (probabilities.cumsum(axis=1) > uniforms[:, None]).argmax(axis=1)
        assert actions.tolist() == expected.tolist()
        close(found, values)
        close(log_probs.exp(), torch.from_numpy(probabilities[np.arange(len(masks)), expected]))
    actions, log_probs, _ = net.choose(observation, masks, np.empty(0))
    assert actions.tolist() == probabilities.argmax(axis=1).tolist()
    close(log_probs.exp(), torch.from_numpy(probabilities.max(axis=1)))


def test_choosing_complains_about_scores_that_are_no_numbers():
    net = network()
    observation = observation_tensors(positions())
    net.draw.bias.data[:] = torch.nan
    with pytest.raises(ValueError, match="diverged"):
        net.choose(observation, masks_of(observation, NUM_ACTIONS), np.zeros(40))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, torch.float32])
def test_observations_may_have_any_dtype(case, dtype):
    net, observation, logits, _ = case
    with torch.no_grad():
        same, _ = net({key: tensor.to(dtype) for key, tensor in observation.items()})
    close(same, logits)


# -------------------------------------------------------------------------- what it is made from


def test_each_action_has_a_place_of_its_own():
    places = pair_table()
    assert len(set(places.tolist())) == len(places) == NUM_ACTIONS
    targets = NUM_COLUMNS + 1
    sources = ["w", *(f"c{k}" for k in range(1, 11)), *(f"f{k}" for k in range(1, 9))]
    for action, place in enumerate(places.tolist()):
        if place == 0:
            assert action_name(action) == "draw"
            continue
        source, target = divmod(place - 1, targets)
        name = "f" if target == NUM_COLUMNS else f"c{target + 1}"
        assert action_name(action) == f"{sources[source]}>{name}"


def test_without_take_backs_the_other_moves_are_scored_the_same(case):
    net, observation, logits, values = case
    fewer = type(net)(112, net.memory, SMALL).double()
    fewer.load_state_dict(net.state_dict())
    with torch.no_grad():
        new_logits, new_values = fewer(observation)
    assert new_logits.shape == (len(logits), 112)
    close(new_logits, logits[:, :112])
    close(new_values, values)


@pytest.mark.parametrize(
    ("key", "reach"),
    [("columns", None), ("foundations", None), ("waste_top", None), ("waste_size", None),
     ("stock_size", None), ("unseen", None), ("waste", 2), ("waste", 5)],
)  # fmt: skip
def test_all_that_is_seen_matters(key, reach):
    memory = key in ("waste", "unseen")
    net = network(memory=memory)
    rows = positions(memory)
    deep = rows["waste_size"][:, 0] >= 6
    rows = {name: array[deep] for name, array in rows.items()}
    changed = {name: array.copy() for name, array in rows.items()}
    if reach is not None:  # a card under the waste's top
        places = np.arange(deep.sum()), rows["waste_size"][:, 0] - reach
        changed["waste"][places] = changed["waste"][places] % 52 + 1
    elif key == "unseen":
        changed["unseen"][:, 20] ^= 1
    elif key in ("waste_size", "stock_size"):
        changed[key] ^= 1
    else:
        first = changed[key].reshape(len(changed[key]), -1)[:, 0]
        first[:] = first % 12 + 1
    with torch.no_grad():
        logits, values = net(observation_tensors(rows))
        new_logits, new_values = net(observation_tensors(changed))
    assert ((logits - new_logits).abs().amax(dim=1) > 1e-6).all()
    assert ((values - new_values).abs() > 1e-7).all()


def test_cards_are_seen_by_their_distance_to_the_foundations():
    # The same card in a column is scored otherwise once its suit's foundations have grown.
    net = network()
    for name, parameter in net.named_parameters():  # nothing but the cards' distances is left
        if name == "cards.weight":
            parameter.data[:53] = 0
    rows = positions(games=20)
    grown = {**rows, "foundations": rows["foundations"].copy()}
    grown["foundations"][:, 0] += 1
    with torch.no_grad():
        one, _ = net(observation_tensors(rows))
        other, _ = net(observation_tensors(grown))
    assert ((one - other)[:, 12:112].abs().amax(dim=1) > 1e-6).all()


@pytest.mark.parametrize("name", ["card", "hidden", "column", "context", "pair"])
@pytest.mark.parametrize("size", [0, -1, 4097, 2.0, True, "8"])
def test_sizes_are_checked(name, size):
    with pytest.raises(ValueError, match=rf"^network: {name} is an integer in 1\.\.4096, not"):
        checked(NetworkConfig, {name: size}, "network")
    with pytest.raises(ValueError, match=name):
        NetworkConfig(**{name: size})


def test_observations_are_copied_into_tensors():
    array = np.arange(4, dtype=np.uint8)
    array.flags.writeable = False
    tensors = observation_tensors({"a": array})
    tensors["a"][0] = 9
    assert array[0] == 0


# ---------------------------------------------------------------------------------- probabilities


def random_logits(seed, rows=64, spread=8.0):
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(0, spread, (rows, NUM_ACTIONS)).astype(np.float32))
    mask = rng.random((rows, NUM_ACTIONS)) < rng.random((rows, 1)) * 0.5
    mask[np.arange(rows), rng.integers(0, NUM_ACTIONS, rows)] = True
    mask[0] = np.arange(NUM_ACTIONS) == 5  # one action only
    mask[1] = True
    return logits, mask


@pytest.mark.parametrize("kind", ["bool", "int8", "read-only", "tensor", "floats"])
def test_masked_probabilities(kind):
    logits, mask = random_logits(1)
    given = mask
    if kind == "int8":
        given = mask.astype(np.int8)
    elif kind == "read-only":
        given = mask.view()
        given.flags.writeable = False
    elif kind == "tensor":
        given = torch.from_numpy(mask)
    elif kind == "floats":  # as rollout buffers hold them
        given = torch.from_numpy(mask.astype(np.float32))
    log_probs = masked_log_probs(logits, given)
    probabilities = log_probs.exp()
    legal = torch.from_numpy(mask)
    assert (probabilities[~legal] == 0).all()
    expected = torch.softmax(logits.masked_fill(~legal, -torch.inf), dim=1)
    torch.testing.assert_close(probabilities, expected)
    assert torch.isfinite(log_probs).all()
    assert probabilities[0, 5] == 1


def test_without_a_mask_all_actions_are_possible():
    logits, _ = random_logits(2)
    torch.testing.assert_close(masked_log_probs(logits, None), torch.log_softmax(logits, dim=1))


class _Fixed(nn.Module):
    """Gives logits of its own, whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, observation):
        rows = len(observation["columns"])
        return self.logits[:rows], torch.arange(rows, dtype=torch.float32)


def policy(compiled=True):
    env = QuaranteVoleursVectorEnv(1)
    space, actions = env.single_observation_space, env.single_action_space
    return TablePolicy(space, actions, lambda _: 1e-3, network=vars(SMALL), compiled=compiled)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("spread", [0.1, 8.0, 60.0])
def test_the_policy_agrees_with_sb3s_distribution(masked, spread):
    made = policy()
    logits, mask = random_logits(3, spread=spread)
    given = mask if masked else None
    made.network = _Fixed(logits)
    observation = {"columns": torch.zeros(len(logits), 10, 16)}
    theirs = made.get_distribution(observation, given)
    plain = MaskableCategorical(logits=logits, masks=given)
    torch.manual_seed(0)
    actions, values, log_probs = made(observation, action_masks=given)
    assert actions.shape == (len(logits),)
    assert values.shape == (len(logits), 1)
    legal = torch.from_numpy(mask) if masked else torch.ones_like(logits, dtype=torch.bool)
    assert legal.gather(1, actions.unsqueeze(1)).all()
    for distribution in (theirs.distribution, plain):
        torch.testing.assert_close(log_probs, distribution.log_prob(actions))
    as_tensor = None if given is None else torch.from_numpy(mask.astype(np.float32))
    again, log_probs_2, entropy = made.evaluate_actions(observation, actions.float(), as_tensor)
    torch.testing.assert_close(again, values)
    torch.testing.assert_close(log_probs_2, log_probs)
    torch.testing.assert_close(entropy, theirs.entropy(), rtol=1e-4, atol=1e-5)
    best, _, _ = made(observation, deterministic=True, action_masks=given)
    assert torch.equal(best, theirs.mode())
    torch.testing.assert_close(made.predict_values(observation), values)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("std", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_the_policys_network_agrees_with_sb3s_distribution(masked, std, compiled):
    made = policy(compiled)
    for parameter in made.network.parameters():
        nn.init.normal_(parameter, std=std)
    assert made.compiled_network() is (made.network if compiled else None)
    observation = observation_tensors(positions())
    mask = masks_of(observation, NUM_ACTIONS)
    given = mask if masked else None
    theirs = made.get_distribution(observation, given)
    torch.manual_seed(0)
    actions, values, log_probs = made(observation, action_masks=given)
    assert values.shape == (len(mask), 1)
    assert mask[np.arange(len(mask)), actions].all() or not masked
    expected = theirs.log_prob(actions)
    torch.testing.assert_close(log_probs, expected, rtol=1e-4, atol=1e-4)
    as_tensor = None if given is None else torch.from_numpy(mask.astype(np.float32))
    again, log_probs_2, entropy = made.evaluate_actions(observation, actions.float(), as_tensor)
    torch.testing.assert_close(again, values)
    torch.testing.assert_close(log_probs_2, log_probs)
    torch.testing.assert_close(entropy, theirs.entropy(), rtol=1e-4, atol=1e-4)
    best, _, _ = made(observation, deterministic=True, action_masks=given)
    torch.testing.assert_close(theirs.log_prob(best), theirs.log_prob(theirs.mode()))
    torch.testing.assert_close(made.predict_values(observation), values)
    torch.manual_seed(0)
    same, _, _ = made(observation, action_masks=given)
    assert torch.equal(same, actions)


@pytest.mark.parametrize("kind", ["bool", "int8", "read-only", "tensor", "floats", "none"])
def test_masks_as_compiled_code_takes_them(kind):
    _, mask = random_logits(1)
    given = {
        "bool": mask,
        "int8": mask.astype(np.int8),
        "read-only": mask.view(),
        "tensor": torch.from_numpy(mask),
        "floats": torch.from_numpy(mask.astype(np.float32)).flatten(),
        "none": None,
    }[kind]
    if kind == "read-only":
        given.flags.writeable = False
    found = legal_actions(given, *mask.shape)
    assert found.dtype == np.bool_
    assert found.flags.writeable
    assert found.flags.c_contiguous
    assert (found == (True if kind == "none" else mask)).all()
    assert (found is mask) <= (kind == "bool")


@pytest.mark.parametrize("kind", ["table", "table-plain", "MultiInputPolicy", "MlpPolicy"])
def test_value_parameters_move_the_values_and_nothing_else(kind):
    observed = "onehot" if kind == "MlpPolicy" else "cards"
    variant = {
        "observation": observed, "memory": True, "stock_visible": False, "take_back": True
    }  # fmt: skip
    made = build_policy(kind, vars(SMALL), [8], variant)
    env = QuaranteVoleursVectorEnv(5, observation=observed, memory=True)
    observation, _ = env.reset(seed=0)
    value = value_parameters(made)
    names = {
        name for name, parameter in made.named_parameters() if any(parameter is p for p in value)
    }
    assert names == {name for name, _ in made.named_parameters() if "value" in name}
    outputs = []
    for _ in range(2):
        with torch.no_grad():
            outputs.append(policy_outputs(made, observation))
            for parameter in value:
                parameter += 0.1
    (logits, values), (new_logits, new_values) = outputs
    assert torch.equal(logits, new_logits)
    assert (values != new_values).all()


def test_gradients_are_finite_and_illegal_actions_get_none():
    made = policy()
    logits, mask = random_logits(4)
    made.network = _Fixed(logits)
    observation = {"columns": torch.zeros(len(logits), 10, 16)}
    actions = torch.from_numpy(mask.argmax(axis=1))
    _, log_probs, entropy = made.evaluate_actions(observation, actions, torch.from_numpy(mask))
    (log_probs.sum() + entropy.sum()).backward()
    gradient = made.network.logits.grad
    assert torch.isfinite(gradient).all()
    assert (gradient[~torch.from_numpy(mask)] == 0).all()
    assert (gradient[2:] != 0).any()


def test_actions_are_drawn_as_often_as_they_are_likely():
    made = policy()
    rows = 20_000
    logits = torch.zeros(NUM_ACTIONS)
    logits[[3, 50, 191]] = torch.tensor([0.0, 1.0, 2.0])
    mask = np.zeros((rows, NUM_ACTIONS), dtype=bool)
    mask[:, [3, 50, 191]] = True
    made.network = _Fixed(logits.expand(rows, -1).clone())
    torch.manual_seed(0)
    actions, _, _ = made({"columns": torch.zeros(rows, 10, 16)}, action_masks=mask)
    shares = torch.bincount(actions, minlength=NUM_ACTIONS) / rows
    expected = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), dim=0)
    torch.testing.assert_close(shares[[3, 50, 191]], expected, rtol=0, atol=0.015)


def test_a_new_policy_plays_nearly_at_random_and_expects_nothing():
    torch.manual_seed(0)
    env = QuaranteVoleursVectorEnv(1)
    made = TablePolicy(env.single_observation_space, env.single_action_space, lambda _: 1e-3)
    rows = positions(games=20)
    with torch.no_grad():
        logits, values = made.network(observation_tensors(rows))
    assert logits.std() < 1
    assert values.abs().max() < 0.1
    assert sum(p.numel() for p in made.parameters()) == sum(
        p.numel() for group in made.optimizer.param_groups for p in group["params"]
    )


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("take_back", [False, True])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_policy_fits_its_variant_and_survives_sb3s_own_files(
    tmp_path, memory, take_back, compiled
):
    env = QuaranteVoleursVectorEnv(3, memory=memory, take_back=take_back)
    space, actions = env.single_observation_space, env.single_action_space
    assert isinstance(space, spaces.Dict)
    made = TablePolicy(space, actions, lambda _: 1e-3, network=vars(SMALL), compiled=compiled)
    assert type(made.network) is (CompiledTableNetwork if compiled else TableNetwork)
    observation, info = env.reset(seed=0)
    torch.manual_seed(0)
    chosen, _ = made.predict(observation, action_masks=info["action_mask"])
    assert info["action_mask"][np.arange(3), chosen].all()
    made.save(tmp_path / "policy.pt")
    again = TablePolicy.load(tmp_path / "policy.pt")
    assert type(again.network) is type(made.network)
    torch.manual_seed(0)
    same, _ = again.predict(observation, action_masks=info["action_mask"])
    assert (same == chosen).all()
    for key, tensor in made.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key])
