"""The batch as a stable-baselines3 VecEnv, beside a DummyVecEnv over monitored single games."""

from __future__ import annotations

import copy
import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

import qv_env
from qv_env.sb3 import QuaranteVoleursVecEnv, make_sb3_env

from . import reference
from .copies import WAYS, copied
from .same import assert_same

ENV = "qv_env:QuaranteVoleurs-v0"
VARIANTS = [
    {},
    {"observation": "onehot", "memory": True, "take_back": False},
    {"memory": True, "stock_visible": True, "deals": "dev-200", "num_threads": 2},
]


@pytest.fixture(autouse=True)
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def without_time(infos: list[dict]) -> list[dict]:
    """The infos without the seconds since the start, which no two runs share."""
    infos = copy.deepcopy(infos)
    for info in infos:
        if "episode" in info:
            assert type(info["episode"].pop("t")) is float
    return infos


def without_masks(infos: list[dict]) -> list[dict]:
    """The infos of single environments as ours are: masks are asked for, not handed out."""
    return [{key: info[key] for key in info if key != "action_mask"} for info in infos]


def plain(observation):
    """An observation with stable-baselines3's OrderedDict made a dict."""
    return dict(observation) if isinstance(observation, dict) else observation


class Twins:
    """Our environment beside stable-baselines3's; every outcome is compared."""

    def __init__(self, count: int, seed: int | None = None, limit: int = 25, **keywords) -> None:
        self.ours = make_sb3_env(count, seed=seed, max_episode_steps=limit, **keywords)
        keywords.pop("num_threads", None)
        self.theirs = DummyVecEnv(
            [lambda: Monitor(gym.make(ENV, max_episode_steps=limit, **keywords))] * count
        )
        if seed is not None:
            self.theirs.seed(seed)

    def compare_sides(self) -> None:
        assert_same(self.ours.reset_infos, without_masks(self.theirs.reset_infos))
        assert_same(
            self.ours.env_method("action_masks"), list(self.theirs.env_method("action_masks"))
        )

    def reset(self) -> None:
        assert_same(plain(self.ours.reset()), plain(self.theirs.reset()))
        self.compare_sides()

    def step(self, actions: list[int]) -> tuple:
        ours = self.ours.step(np.array(actions))
        theirs = self.theirs.step(np.array(actions))
        assert_same(plain(ours[0]), plain(theirs[0]))
        assert_same(ours[1:3], theirs[1:3])
        assert_same(without_time(ours[3]), without_masks(without_time(theirs[3])))
        self.compare_sides()
        return ours

    def actions(self, rng: random.Random) -> list[int]:
        chosen = []
        for mask in self.ours.action_masks():
            legal = np.flatnonzero(mask).tolist()
            chosen.append(rng.choice(legal) if rng.random() < 0.9 else rng.randrange(len(mask)))
        return chosen


# ------------------------------------------------------------------- beside stable-baselines3's own


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_a_dummy_vec_env_of_monitored_games(variant):
    twins = Twins(3, seed=5, **variant)
    rng = random.Random(0)
    for _ in range(2):
        twins.reset()
        ends = 0
        for _ in range(70):
            *_, dones, infos = twins.step(twins.actions(rng))
            ends += dones.sum()
            for done, info in zip(dones, infos, strict=True):
                assert ("episode" in info) == ("terminal_observation" in info) == bool(done)
        assert ends >= 6
    twins.ours.close()


def test_games_that_end_stuck_are_not_truncated():
    twins = Twins(3, seed=1, limit=150, take_back=False)
    rng = random.Random(1)
    twins.reset()
    kinds = set()
    for _ in range(400):
        *_, dones, infos = twins.step(twins.actions(rng))
        kinds |= {infos[i]["TimeLimit.truncated"] for i in np.flatnonzero(dones)}
    assert kinds == {True, False}


@pytest.mark.parametrize("limit", [500, 64 + 104])
def test_a_won_game_is_not_truncated_even_by_its_last_step(limit):
    twins = Twins(2, seed=0, limit=limit)
    for env in (twins.ours, twins.theirs):
        env.set_options({"deck": reference.easy_deck()})
    twins.reset()
    for _ in range(64 + 104):
        ready = [np.flatnonzero(mask[11:22]) for mask in twins.ours.action_masks()]
        *_, dones, infos = twins.step([11 + int(r[0]) if len(r) else 0 for r in ready])
    assert dones.all()
    for info in infos:
        assert (info["won"], info["deal"], info["TimeLimit.truncated"]) == (True, "", False)
        assert {key: info["episode"][key] for key in "rl"} == {"r": 1040.0, "l": 168}
        assert info["terminal_observation"]["foundations"].tolist() == [13] * 8


# ------------------------------------------------------------------------------ seeds and options


def test_the_seed_is_used_once_and_goes_up_by_one_per_game():
    env = make_sb3_env(3, seed=10)
    env.reset()
    first = [info["deal"] for info in env.reset_infos]
    assert first == [qv_env.QuaranteVoleursEnv().reset(seed=10 + i)[1]["deal"] for i in range(3)]
    env.reset()
    assert set(first).isdisjoint(info["deal"] for info in env.reset_infos)
    assert env.seed(10) == [10, 11, 12]
    env.reset()
    assert [info["deal"] for info in env.reset_infos] == first


def test_without_a_seed_two_environments_differ():
    deals = set()
    for _ in range(3):
        env = make_sb3_env(2)
        env.reset()
        deals |= {info["deal"] for info in env.reset_infos}
    assert len(deals) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"deal": 21},
        {"deal": "FT1-N-AAAAAAV"},
        {"deck": reference.easy_deck()},
        {"deck": np.array(reference.easy_deck())},
        [{"deal": 21}, {"deal": 2**34}],
        [{"deal": 21}, {}],
        [{}, {"deal": 21}],
        [{}, {}],
        [{"deck": reference.easy_deck()}] * 2,
        [{"deck": np.array(reference.easy_deck())}, {"deck": np.array(reference.easy_deck())}],
        None,
    ],
)
def test_options_are_used_at_the_next_reset_only(options):
    twins = Twins(2, seed=3)
    for env in (twins.ours, twins.theirs):
        env.set_options(options)
    twins.reset()
    twins.step([0, 0])
    twins.reset()


def test_a_different_deck_for_each_game_is_refused_or_played():
    """Only deals may differ; a deck among them must not be dealt to the wrong game in silence."""
    env = make_sb3_env(2, seed=0)
    env.set_options([{"deck": reference.easy_deck()}, {"deal": 3}])
    with pytest.raises(ValueError, match="environment 0"):
        env.reset()


def test_a_bad_option_is_an_error():
    env = make_sb3_env(2, seed=0)
    env.reset()
    env.set_options({"deal": "nonsense"})
    with pytest.raises(ValueError, match="nonsense"):
        env.reset()


@pytest.mark.parametrize("name", ["copy", "autoreset_mode"])
def test_what_a_vec_env_needs_cannot_be_chosen(name):
    with pytest.raises(TypeError, match=name):
        make_sb3_env(2, **{name: True})


def test_bad_keywords_are_refused_by_name():
    with pytest.raises(ValueError, match="observation"):
        make_sb3_env(2, observation="image")
    with pytest.raises(TypeError, match="memroy"):
        make_sb3_env(2, memroy=True)


# ---------------------------------------------------------------------------- masks and attributes


def test_masks_are_found_in_every_way_that_is_looked_for():
    env = make_sb3_env(3, seed=0)
    env.reset()
    env.step(np.zeros(3, dtype=int))
    masks = env.action_masks()
    assert (masks.dtype, masks.shape) == (np.bool_, (3, 192))
    assert is_masking_supported(env)
    assert env.has_attr("action_masks")
    assert not env.has_attr("no_such_thing")
    with pytest.raises(AttributeError):
        env.get_attr("no_such_thing")
    assert (get_action_masks(env) == masks).all()
    assert_same(env.env_method("action_masks"), list(masks))
    assert_same(env.env_method("action_masks", indices=[2, 0]), [masks[2], masks[0]])
    assert_same(env.env_method("action_masks", indices=1), [masks[1]])
    methods = env.get_attr("action_masks")
    assert_same([method() for method in methods], list(masks))


def test_attributes_of_single_games():
    env = make_sb3_env(2, render_mode="ansi", take_back=False)
    assert env.get_attr("render_mode") == ["ansi", "ansi"]
    assert env.get_attr("action_space", indices=0) == [gym.spaces.Discrete(112)]
    assert env.get_attr("observation_space")[1] == env.observation_space
    assert [single.unwrapped for single in env.get_attr("unwrapped")] == env.get_attr("unwrapped")
    for i, generator in enumerate(env.get_attr("np_random")):
        assert generator.bit_generator.state == env.batch.np_random[i].bit_generator.state
    assert env.metadata == qv_env.QuaranteVoleursEnv.metadata  # films run at the same speed
    env.set_attr("nickname", "left", indices=0)
    assert env.get_attr("nickname", indices=[0]) == ["left"]
    with pytest.raises(AttributeError):
        env.get_attr("nickname")
    env.set_options({"deal": 21})
    env.reset()
    boards = env.env_method("render")
    assert len(boards) == 2
    assert all(board.startswith("FT1-N-AAAAAAV  score 0") for board in boards)
    assert env.env_method("render", indices=[1]) == boards[1:]


def test_it_counts_as_monitored():
    env = make_sb3_env(2)
    assert isinstance(env, VecEnv)
    assert env.env_is_wrapped(Monitor) == [True, True]
    assert env.env_is_wrapped(Monitor, indices=[0]) == [True]
    assert env.env_is_wrapped(gym.wrappers.TimeLimit) == [False, False]


def test_what_was_handed_out_stays_as_it_was():
    env = make_sb3_env(2, seed=0, max_episode_steps=3)
    env.reset()
    outcomes = [env.step(np.zeros(2, dtype=int)) for _ in range(3)]
    resets = copy.deepcopy(env.reset_infos)
    kept = copy.deepcopy(outcomes)
    for _ in range(2):
        env.step(np.zeros(2, dtype=int))
    assert_same(outcomes, kept)
    assert_same(env.reset_infos, resets)


def test_bad_actions_are_an_error():
    env = make_sb3_env(2, seed=0)
    env.reset()
    for actions in ([0, 192], [0], [0.5, 0.5]):
        with pytest.raises(ValueError, match="action"):
            env.step(np.array(actions))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_made_in_mid_game_goes_on_as_the_original_would(way):
    env = make_sb3_env(2, seed=0, max_episode_steps=9, num_threads=2)
    env.reset()
    for _ in range(5):
        env.step(np.zeros(2, dtype=int))
    twin = copied(env, way)
    assert isinstance(twin, QuaranteVoleursVecEnv)
    for _ in range(20):
        ours, theirs = (e.step(np.zeros(2, dtype=int)) for e in (env, twin))
        assert_same(ours[:3], theirs[:3])
        assert_same(without_time(ours[3]), without_masks(without_time(theirs[3])))
        assert_same(env.env_method("action_masks"), twin.env_method("action_masks"))
        assert_same(
            [method() for method in twin.get_attr("action_masks")], list(twin.action_masks())
        )
    env.close()
    twin.close()


@pytest.mark.parametrize("variant", VARIANTS)
def test_steps_without_infos_are_the_same_steps(variant):
    # They take turns with steps with infos, so that neither can leave the other out of date.
    keywords = {"seed": 3, "max_episode_steps": 9, **variant}
    env, twin = make_sb3_env(4, **keywords), make_sb3_env(4, **keywords)
    env.reset()
    twin.reset()
    rng = random.Random(2)
    order = np.random.default_rng(2)
    refused = 0
    for _ in range(80):
        actions = np.array([
            rng.choice(np.flatnonzero(mask)) if rng.random() < 0.7 else rng.randrange(len(mask))
            for mask in env.action_masks()
        ])  # fmt: skip
        *theirs, infos = twin.step(actions)
        infos = without_time(infos)
        refused += sum(info["refusal"] != "" for info in infos)
        if order.random() < 0.5:
            *ours, finals = env.advance(actions)
            assert list(finals) == np.flatnonzero(theirs[2]).tolist()
            assert_same(without_time(list(finals.values())), [infos[i] for i in finals])
        else:
            *ours, own = env.step(actions)
            assert_same(without_time(own), infos)
        assert_same(ours, theirs)
        assert_same(env.reset_infos, twin.reset_infos)
    assert refused > 20


def test_infos_belong_to_whoever_asked_for_them():
    env = make_sb3_env(2, seed=0)
    env.reset()
    *_, first = env.step(np.zeros(2, dtype=int))
    kept = copy.deepcopy(first)
    first[0]["mine"] = first[0]["score"] = 7
    *_, second = env.step(np.zeros(2, dtype=int))
    assert "mine" not in second[0]
    assert second[0]["score"] == second[1]["score"] == 0
    assert [info["moves"] for info in second] == [2, 2]
    assert first[1] == kept[1]


# ------------------------------------------------------------------------------------- algorithms


@pytest.mark.parametrize(
    ("policy", "keywords"),
    [
        ("MlpPolicy", {"observation": "onehot"}),
        ("MultiInputPolicy", {"memory": True, "take_back": False}),
    ],
)
def test_maskable_ppo_takes_it_as_it_is(policy, keywords):
    env = make_sb3_env(2, max_episode_steps=12, **keywords)
    model = MaskablePPO(
        policy,
        env,
        n_steps=16,
        batch_size=16,
        n_epochs=1,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [8]},
    )
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(64)
    after = list(model.policy.parameters())
    assert any(not torch.equal(one, two) for one, two in zip(before, after, strict=True))
    assert len(model.ep_info_buffer) == 4  # 32 steps a game, 12 an episode: two each
    assert all(episode["l"] == 12 for episode in model.ep_info_buffer)
    observation = env.reset()
    masks = get_action_masks(env)
    for _ in range(12):
        actions, _ = model.predict(observation, action_masks=masks)
        observation, _, _, infos = env.step(actions)
        assert [info["refusal"] for info in infos] == ["", ""]
        masks = get_action_masks(env)


def test_evaluation_agrees_with_the_scores():
    env = make_sb3_env(2, seed=0, max_episode_steps=20, observation="onehot")
    model = MaskablePPO("MlpPolicy", env, n_steps=4, batch_size=8, device="cpu", seed=0)
    env.seed(0)
    scores = []

    def note(local_variables, _):
        if local_variables["done"]:
            scores.append(local_variables["info"]["score"])

    returns, lengths = evaluate_policy(
        model, env, n_eval_episodes=4, return_episode_rewards=True, callback=note
    )
    assert returns == scores
    assert lengths == [20] * 4


def test_stable_baselines3s_wrappers_go_around_it():
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        env = VecMonitor(make_sb3_env(2, seed=0, max_episode_steps=5))
    env.reset()
    for _ in range(5):
        *_, infos = env.step(np.zeros(2, dtype=int))
    assert [(info["episode"]["r"], info["episode"]["l"]) for info in infos] == [(0.0, 5)] * 2
    assert len(env.env_method("action_masks")) == 2
