"""The single environment, as Gymnasium, stable-baselines3 and the people who use it expect it."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import qv_env
from qv_env.text import board_text, parse_state

from . import reference
from .copies import WAYS, copied
from .reference import Table, decode_onehot
from .same import assert_same

ROOT = Path(__file__).resolve().parents[1]
ENV = "qv_env:QuaranteVoleurs-v0"

VARIANTS = [
    {},
    {"memory": True},
    {"stock_visible": True},
    {"memory": True, "stock_visible": True, "take_back": False},
    {"observation": "onehot"},
    {"observation": "onehot", "memory": True, "stock_visible": True},
    {"deals": "dev-200"},
    {"deals": [3, "FT1-N-AAAAAAV"], "take_back": False},
    {"deals": "100:200"},
]
INFO_TYPES = {
    "action_mask": np.ndarray,
    "deal": str,
    "score": int,
    "moves": int,
    "foundation_cards": int,
    "won": bool,
    "refusal": str,
}


def a_legal_action(info: dict, rng: random.Random) -> int:
    return rng.choice(np.flatnonzero(info["action_mask"]).tolist())


def trajectory(env: gym.Env, steps: int = 60, seed: int = 4) -> list:
    """What comes out of some random play, illegal actions among it."""
    rng = random.Random(seed)
    outcomes: list = [env.reset(seed=seed)]
    for _ in range(steps):
        action = a_legal_action(outcomes[-1][-1], rng)
        if rng.random() < 0.1:
            action = rng.randrange(int(env.action_space.n))
        outcomes.append(env.step(action))
        if outcomes[-1][2] or outcomes[-1][3]:
            outcomes.append(env.reset())
    return outcomes


def assert_goes_on_like(env: gym.Env, twin: gym.Env) -> None:
    """See that nothing has changed since the twin was copied: not the game, not the generator."""
    assert env.np_random.bit_generator.state == twin.np_random.bit_generator.state
    assert env.unwrapped.np_random_seed == twin.unwrapped.np_random_seed
    masks = [e.get_wrapper_attr("action_masks")().tolist() for e in (env, twin)]
    assert masks[0] == masks[1]
    for action in (0, 1, 0, 0):
        assert_same(env.step(action), twin.step(action))
    assert_same(env.reset(), twin.reset())


def in_a_new_process(code: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments, "-c", code],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ------------------------------------------------------------------------------ the two checkers


@pytest.mark.parametrize("variant", VARIANTS)
def test_gymnasiums_checker_has_nothing_to_say(variant):
    env = gym.make(ENV, render_mode="ansi", **variant)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("variant", VARIANTS)
def test_stable_baselines3s_checker_has_nothing_else_to_say(variant):
    """It advises against the two-dimensional ``columns``, and that alone is let pass."""
    from stable_baselines3.common.env_checker import check_env as check_for_sb3

    env = gym.make(ENV, render_mode="ansi", **variant)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_for_sb3(env.unwrapped)
    texts = [str(warning.message) for warning in caught]
    if variant.get("observation") == "onehot":
        assert texts == []
    else:
        assert len(texts) == 1
        assert texts[0].startswith(
            "Your observation columns has an unconventional shape (neither an image, nor a 1D"
            " vector)."
        )


# --------------------------------------------------------------------- importing and registering


def test_importing_needs_gymnasium_numpy_and_numba_only():
    code = "import sys, qv_env; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    modules = set(in_a_new_process(code, "-W", "error").split())
    assert {"gymnasium", "numba", "numpy", "qv_env"} <= modules
    heavy = {"torch", "stable_baselines3", "sb3_contrib", "pygame", "matplotlib", "pandas"}
    assert not modules & heavy


def test_registering_twice_is_silent():
    code = (
        "import importlib, qv_env, gymnasium as gym;"
        "spec = gym.spec('QuaranteVoleurs-v0');"
        "importlib.reload(qv_env);"
        "assert gym.spec('QuaranteVoleurs-v0') is spec;"
        "print(spec.max_episode_steps, qv_env.ENV_ID)"
    )
    assert in_a_new_process(code, "-W", "error") == "500 QuaranteVoleurs-v0"


def test_the_id_with_its_module_needs_no_import():
    code = f"import gymnasium as gym; print(gym.make({ENV!r}).reset(seed=1)[1]['deal'])"
    assert in_a_new_process(code, "-W", "error") == gym.make(ENV).reset(seed=1)[1]["deal"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_spec_goes_through_json(variant):
    env = gym.make(ENV, max_episode_steps=77, render_mode="ansi", **variant)
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec
    again = gym.make(spec)
    assert again.spec == env.spec
    assert_same(trajectory(env), trajectory(again))
    assert env.render() == again.render()


def test_a_spec_rebuilds_the_environment_in_a_process_that_has_not_imported_it():
    text = gym.make(ENV, deals="5:6", memory=True).spec.to_json()
    code = (
        "import gymnasium as gym\n"
        "from gymnasium.envs.registration import EnvSpec\n"
        f"observation, info = gym.make(EnvSpec.from_json({text!r})).reset(seed=0)\n"
        "print(info['deal'], 'waste' in observation)"
    )
    assert in_a_new_process(code, "-W", "error") == f"{qv_env.deal_code(5)} True"


def test_the_documentation_has_gymnasiums_headings_in_order():
    headings = re.findall(r"## (.+)", qv_env.QuaranteVoleursEnv.__doc__)
    assert headings == [
        "Description",
        "Action Space",
        "Observation Space",
        "Starting State",
        "Rewards",
        "Episode End",
        "Information",
        "Arguments",
        "References",
        "Version History",
    ]


# ----------------------------------------------------------------------------------- determinism


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_runs_are_the_same(variant):
    assert_same(trajectory(gym.make(ENV, **variant)), trajectory(gym.make(ENV, **variant)))


def test_two_processes_are_the_same():
    code = (
        "import hashlib, pickle, gymnasium as gym\n"
        "from tests.test_env import ENV, trajectory\n"
        "out = [repr(x) for x in trajectory(gym.make(ENV, memory=True), 200)]\n"
        "print(hashlib.sha256(repr(out).encode()).hexdigest())"
    )
    first = in_a_new_process(code, PYTHONHASHSEED="1")
    assert first == in_a_new_process(code, PYTHONHASHSEED="2")
    assert len(first) == 64


def test_different_seeds_give_different_games():
    env = gym.make(ENV)
    assert len({env.reset(seed=seed)[1]["deal"] for seed in range(50)}) == 50


@pytest.mark.parametrize("variant", VARIANTS[:6])
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_made_in_mid_game_goes_on_as_the_original_would(variant, wrapped, way):
    env = gym.make(ENV, max_episode_steps=50, **variant)
    env = env if wrapped else env.unwrapped
    rng = random.Random(0)
    env.action_space.seed(8)
    _, info = env.reset(seed=8)
    for _ in range(20):
        *_, info = env.step(a_legal_action(info, rng))
    twin = copied(env, way)
    for _ in range(40):
        action = a_legal_action(info, rng)
        left = env.step(action)
        assert_same(left, twin.step(action))
        *_, terminated, truncated, info = left
        if terminated or truncated:
            again = env.reset()
            assert_same(again, twin.reset())  # the generators go on alike, too
            info = again[1]
    assert_same(env.reset(), twin.reset())
    assert env.action_space.sample() == twin.action_space.sample()


def test_a_copy_does_not_touch_its_original():
    env = qv_env.QuaranteVoleursEnv()
    env.reset(seed=1)
    kept = copy.deepcopy(env)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        twin.step(0)
        twin.reset()
        twin.reset(seed=4)
    assert_goes_on_like(env, kept)


def test_spawned_workers_play_the_same_games():
    actions = [0, 0, 0, 5, 0, 11, 0]
    parts = []
    for mode, keywords in (("async", {"context": "spawn"}), ("sync", {})):
        env = gym.make_vec(
            ENV, num_envs=2, vectorization_mode=mode, vector_kwargs=keywords, memory=True
        )
        outcomes: list = [env.reset(seed=3)]
        outcomes += [env.step(np.array([action, 0])) for action in actions]
        env.close()
        parts.append(outcomes)
    assert_same(*parts)


# -------------------------------------------------------------------------------- the step limit


@pytest.mark.parametrize(("keywords", "limit"), [({}, 500), ({"max_episode_steps": 7}, 7)])
def test_episodes_are_cut_at_the_step_limit(keywords, limit):
    env = gym.make(ENV, **keywords)
    for _ in range(2):
        env.reset(options={"deal": 0})
        flags = [env.step(1)[2:4] for _ in range(limit)]  # refused: the waste is empty
        assert flags == [(False, False)] * (limit - 1) + [(False, True)]


def test_without_a_limit_episodes_go_on():
    env = gym.make(ENV, max_episode_steps=-1)
    env.reset(seed=0)
    assert not any(env.step(1)[3] for _ in range(501))


# --------------------------------------------------------------------- rewards, flags and infos


@pytest.mark.parametrize("variant", VARIANTS)
def test_types_are_the_documented_ones_at_reset_and_at_every_step(variant):
    env = gym.make(ENV, **variant)
    size = 192 if variant.get("take_back", True) else 112
    assert env.action_space == gym.spaces.Discrete(size)
    outcomes = trajectory(env)
    total = 0.0
    for outcome in outcomes:
        observation, info = outcome[0], outcome[-1]
        assert observation in env.observation_space
        assert {key: type(value) for key, value in info.items()} == INFO_TYPES
        assert list(info) == list(INFO_TYPES)
        mask = info["action_mask"]
        assert (mask.dtype, mask.shape) == (np.int8, (size,))
        assert set(mask.tolist()) <= {0, 1}
        if len(outcome) == 2:
            assert (info["score"], info["moves"], info["foundation_cards"]) == (0, 0, 0)
            assert (info["won"], info["refusal"]) == (False, "")
            total = 0.0
        else:
            assert [type(part) for part in outcome[1:4]] == [float, bool, bool]
            total += outcome[1]
            assert total == info["score"]


def test_a_mask_is_what_sampling_takes():
    env = gym.make(ENV)
    _, info = env.reset(seed=0)
    for _ in range(30):
        action = env.action_space.sample(info["action_mask"])
        *_, info = env.step(action)
        assert info["refusal"] == ""


def test_masks_are_found_through_wrappers():
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(ENV))
    _, info = env.reset(seed=0)
    masks = env.get_wrapper_attr("action_masks")()
    assert (masks.dtype, masks.shape) == (np.bool_, (192,))
    assert masks.tolist() == info["action_mask"].astype(bool).tolist()
    *_, info = env.step(0)
    masks = env.get_wrapper_attr("action_masks")()
    assert masks.tolist() == info["action_mask"].astype(bool).tolist()


def test_what_is_handed_out_is_the_callers_own():
    env = qv_env.QuaranteVoleursEnv(memory=True)
    observation, info = env.reset(seed=0)
    kept = copy.deepcopy((observation, info))
    env.step(0)
    assert_same((observation, info), kept)
    twin = copy.deepcopy(env)
    for array in (*observation.values(), info["action_mask"], env.action_masks()):
        array[...] = 1
    assert_goes_on_like(env, twin)


# ------------------------------------------------------------------ actions that are not possible


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("w>c1", reference.EMPTY_PILE),
        ("w>f", reference.EMPTY_PILE),
        ("f1>c1", reference.EMPTY_PILE),
        ("c1>f", reference.FOUNDATION_RULE),
        ("c1>c2", reference.COLUMN_RULE),
        ("c1>c9", reference.COLUMN_RULE),
    ],
)
def test_an_illegal_action_changes_nothing_and_names_the_rule(name, refusal):
    env = gym.make(ENV, memory=True)
    observation, info = env.reset(seed=1, options={"deal": 0})
    twin = copy.deepcopy(env)
    after, reward, terminated, truncated, info_after = env.step(qv_env.parse_action(name))
    assert_same(after, observation)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert type(reward) is float
    assert info_after["refusal"] == refusal
    assert_same({**info_after, "refusal": ""}, info)
    *_, info_after = env.step(0)
    assert (info_after["refusal"], info_after["moves"]) == ("", 1)
    twin.step(0)
    assert_goes_on_like(env, twin)


def test_an_illegal_action_counts_as_a_step():
    env = gym.make(ENV, max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(1)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(
    "action",
    [-1, 192, 10**30, 3.5, 3.0, np.float32(3), None, "draw", "0", [0], (), np.array([0]), {}],
)
def test_an_action_outside_the_space_is_an_error_and_changes_nothing(action, wrapped):
    env = gym.make(ENV) if wrapped else qv_env.QuaranteVoleursEnv()
    env.reset(seed=0)
    env.step(0)
    twin = copy.deepcopy(env)
    with pytest.raises(ValueError, match=r"action .* is not an integer in 0\.\.191"):
        env.step(action)
    assert_goes_on_like(env, twin)


@pytest.mark.parametrize("action", [112, 191, 192, -1])
def test_without_take_backs_their_actions_are_outside_the_space(action):
    env = gym.make(ENV, take_back=False)
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    with pytest.raises(ValueError, match=r"0\.\.111"):
        env.step(action)
    assert_goes_on_like(env, twin)


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8, np.array])
def test_integers_of_every_type_are_actions(kind):
    env = gym.make(ENV)
    env.reset(seed=0)
    *_, info = env.step(kind(0))
    assert info["moves"] == 1


# --------------------------------------------------------------------------------- reset options


def test_reset_plays_exactly_the_deal_that_is_asked_for():
    env = gym.make(ENV)
    code = "FT1-N-AAAAAAV"
    for deal in (21, code, f" {code.lower()} ", np.int64(21)):
        observation, info = env.reset(options={"deal": deal})
        assert info["deal"] == code
        assert (observation["columns"][:, 0] == qv_env.deck_of(21)[:10] + 1).all()
    held_out = 2**35 - 1
    assert env.reset(options={"deal": held_out})[1]["deal"] == qv_env.deal_code(held_out)


def test_reset_plays_exactly_the_deck_that_is_asked_for():
    deck = reference.easy_deck()
    for form in (deck, tuple(deck), np.array(deck), np.array(deck, dtype=np.uint8)):
        env = gym.make(ENV, stock_visible=True)
        observation, info = env.reset(options={"deck": form})
        assert info["deal"] == ""
        expected = Table(deck).observation(stock_visible=True)
        assert {key: value.tolist() for key, value in observation.items()} == expected


def test_an_explicit_deal_draws_nothing_from_the_generator():
    left, right = gym.make(ENV), gym.make(ENV)
    left.reset(seed=6)
    right.reset(seed=6)
    left.reset(options={"deal": 3})
    left.reset(options={"deck": reference.easy_deck()})
    assert left.reset()[1]["deal"] == right.reset()[1]["deal"]


def test_a_seed_beside_an_explicit_deal_seeds_the_later_ones():
    env, other = gym.make(ENV), gym.make(ENV)
    assert env.reset(seed=6, options={"deal": 3})[1]["deal"] == qv_env.deal_code(3)
    assert env.reset()[1]["deal"] == other.reset(seed=6)[1]["deal"]


@pytest.mark.parametrize("options", [None, {}])
def test_no_options_are_no_choice(options):
    expected = gym.make(ENV).reset(seed=2)[1]["deal"]
    assert gym.make(ENV).reset(seed=2, options=options)[1]["deal"] == expected


BAD_OPTIONS = [
    ({"deal": -1}, "-1"),
    ({"deal": 2**35}, str(2**35)),
    ({"deal": 1.0}, "1.0"),
    ({"deal": None}, "None"),
    ({"deal": True}, "True"),
    ({"deal": "FT1-N-AAAAAA0"}, "'0'"),
    ({"deal": "AAAAAAV"}, "FT1-N-"),
    ({"deal": ""}, "FT1-N-"),
    ({"deck": list(range(104))}, r"deck\[52\]"),
    ({"deck": [0] * 104}, "AS"),
    ({"deck": []}, "104"),
    ({"deck": None}, "104"),
    ({"deal": 3, "deck": reference.easy_deck()}, "not both"),
    ({"deals": [3]}, "'deals'"),
    ({"Deal": 3}, "'Deal'"),
    ({"deal": 3, "speed": 1}, "'speed'"),
]


@pytest.mark.parametrize("seed", [None, 99])
@pytest.mark.parametrize(("options", "says"), BAD_OPTIONS)
def test_bad_options_leave_the_running_episode_and_its_generator_alone(options, says, seed):
    env = qv_env.QuaranteVoleursEnv()
    env.reset(seed=5)
    env.step(0)
    twin = copy.deepcopy(env)
    with pytest.raises(ValueError, match=says):
        env.reset(seed=seed, options=options)
    assert_goes_on_like(env, twin)
    assert env.np_random_seed == 5


def test_a_bad_seed_leaves_the_running_episode_alone():
    env = qv_env.QuaranteVoleursEnv()
    env.reset(seed=5)
    twin = copy.deepcopy(env)
    with pytest.raises(gym.error.Error):
        env.reset(seed=-1, options={"deal": 3})
    assert_goes_on_like(env, twin)


# -------------------------------------------------------------------------------------- keywords


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("observation", "Cards"),
        ("observation", "image"),
        ("observation", None),
        ("observation", 1),
        ("memory", None),
        ("memory", 1),
        ("memory", "yes"),
        ("stock_visible", 0),
        ("stock_visible", "False"),
        ("take_back", None),
        ("take_back", 1.0),
        ("render_mode", "rgb"),
        ("render_mode", True),
        ("render_mode", ""),
        ("deals", "no-such-suite"),
        ("deals", 5),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_refused_by_name(keyword, value):
    says = "suite" if value == "no-such-suite" else keyword
    for maker in (qv_env.QuaranteVoleursEnv, qv_env.QuaranteVoleursVectorEnv):
        with pytest.raises(ValueError, match=says):
            maker(**{keyword: value})


def test_a_keyword_that_does_not_exist_is_refused_by_name():
    with pytest.raises(TypeError, match="memroy"):
        gym.make(ENV, memroy=True)


# ---------------------------------------------------------------------------------- observations


def play_along(rng: random.Random, deck: list[int], *envs: gym.Env, steps: int = 120):
    """Play one game in several environments and on the reference table, yielding at each step."""
    table = Table(deck)
    yield table, [env.reset(options={"deck": deck})[0] for env in envs]
    for _ in range(steps):
        if table.won() or not any(table.mask(take_back=False)):
            return
        action = 112
        while action >= 112:
            action = reference.choose(table, "eager", rng)
        table.play(action)
        yield table, [env.step(action)[0] for env in envs]


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("stock_visible", [False, True])
@pytest.mark.parametrize("take_back", [False, True])
def test_both_observations_say_what_the_reference_says(memory, stock_visible, take_back):
    variant = {"memory": memory, "stock_visible": stock_visible}
    cards = gym.make(ENV, take_back=take_back, **variant)
    onehot = gym.make(ENV, observation="onehot", take_back=take_back, **variant)
    decks = [reference.easy_deck(), *(reference.deck_of_number(n) for n in (4, 2**34 + 9))]
    for deck in decks:
        for table, (dictionary, vector) in play_along(random.Random(1), deck, cards, onehot):
            expected = table.observation(**variant)
            assert {key: array.tolist() for key, array in dictionary.items()} == expected
            assert all(array.dtype == np.uint8 for array in dictionary.values())
            assert vector.dtype == np.uint8
            assert decode_onehot(vector, **variant) == expected


def test_spaces_are_the_documented_ones():
    env = gym.make(ENV, memory=True, stock_visible=True)
    documented = {
        "columns": ((10, 16), 52),
        "foundations": ((8,), 13),
        "waste_top": ((1,), 52),
        "waste_size": ((1,), 64),
        "stock_size": ((1,), 64),
        "waste": ((64,), 52),
        "unseen": ((52,), 2),
        "stock": ((64,), 52),
    }
    assert env.observation_space == gym.spaces.Dict(
        {key: gym.spaces.Box(0, high, shape, np.uint8) for key, (shape, high) in documented.items()}
    )
    assert set(gym.make(ENV).observation_space) == set(list(documented)[:5])
    assert set(gym.make(ENV, memory=True).observation_space) == set(list(documented)[:7])
    onehot = gym.make(ENV, observation="onehot").observation_space
    length = 10 * (5 * 52 + 17) + 8 * 14 + 52 + 65 + 65
    assert onehot == gym.spaces.Box(0, 1, (length,), np.uint8)
    full = gym.make(ENV, observation="onehot", memory=True, stock_visible=True).observation_space
    assert full.shape == (length + 64 * 52 + 52 * 2 + 64 * 52,)


def test_the_state_is_the_live_game_and_cannot_be_written_to():
    env = qv_env.QuaranteVoleursEnv()
    env.reset(options={"deal": 21})
    table = Table(reference.deck_of_number(21))
    state = env.state
    for _ in range(2):
        assert parse_state(table.text())[0] == state == env.state
        env.step(0)
        table.play(0)
    for game in (state, env.state):
        with pytest.raises(ValueError, match="read-only"):
            game["score"] = 5


# --------------------------------------------------------------------------------------- drawing


def test_ansi_shows_the_board_and_its_deal():
    env = gym.make(ENV, render_mode="ansi")
    env.reset(options={"deal": 21})
    env.step(0)
    text = env.render()
    table = Table(reference.deck_of_number(21))
    table.play(0)
    assert text == board_text(parse_state(table.text())[0], "FT1-N-AAAAAAV")
    assert text.startswith(
        "FT1-N-AAAAAAV  score 0  moves 1  foundations 0/104\nstock 63  waste 1: 5♦"
    )
    env.reset(options={"deck": reference.easy_deck()})
    assert env.render().startswith("score 0  moves 0")


def test_drawing_without_a_mode_warns_and_gives_nothing():
    env = qv_env.QuaranteVoleursEnv()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render"):
        assert env.render() is None


def test_an_environments_metadata_is_its_own():
    """Older versions of Gymnasium's SyncVectorEnv write to it."""
    one, other = qv_env.QuaranteVoleursEnv(), qv_env.QuaranteVoleursEnv()
    one.metadata["autoreset_mode"] = "any"
    assert other.metadata == qv_env.QuaranteVoleursEnv.metadata
    assert "autoreset_mode" not in other.metadata


def test_the_metadata_survives_json():
    assert json.loads(json.dumps(qv_env.QuaranteVoleursEnv.metadata))["render_fps"] > 0
    assert "ansi" in qv_env.QuaranteVoleursEnv.metadata["render_modes"]
