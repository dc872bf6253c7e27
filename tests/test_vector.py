"""The native batch: bit for bit what Gymnasium's own vector environment makes of single ones."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import qv_env
from qv_env import QuaranteVoleursVectorEnv, deal_code, deck_of, parse_code
from qv_env.rules import REFUSALS

from . import reference
from .copies import WAYS, copied
from .same import assert_same

ROOT = Path(__file__).resolve().parents[1]
ENV = "qv_env:QuaranteVoleurs-v0"
MODES = list(AutoresetMode)
NAMES = ["action_mask", "deal", "score", "moves", "foundation_cards", "won", "refusal"]

VARIANTS = [
    {},
    {"observation": "onehot", "memory": True, "stock_visible": True, "take_back": False},
    {"memory": True, "deals": "test-1000"},
    {"stock_visible": True, "deals": "5:8"},
    {"deals": [3, "FT1-N-AAAAAAV", 2**35 - 1], "take_back": False},
]


def as_the_batch_says_it(infos: dict) -> dict:
    """Turn the deal codes of Gymnasium's infos into the batch's numbers, in final infos, too."""
    numbers = {None: 0, "": -1}
    infos = dict(infos)
    if "deal" in infos:
        codes = infos["deal"].tolist()
        deals = [numbers[code] if code in numbers else parse_code(code) for code in codes]
        infos["deal"] = np.array(deals, dtype=np.int64)
    if "final_info" in infos:
        infos["final_info"] = as_the_batch_says_it(infos["final_info"])
    return infos


class Twins:
    """A batch beside Gymnasium's SyncVectorEnv; every outcome is compared."""

    def __init__(self, count: int, mode: AutoresetMode, limit: int = 60, **keywords) -> None:
        batch_only = {k: keywords.pop(k) for k in ("num_threads", "copy") if k in keywords}
        self.batch = gym.make_vec(
            ENV,
            num_envs=count,
            autoreset_mode=mode,
            max_episode_steps=limit,
            **batch_only,
            **keywords,
        )
        self.sync = gym.make_vec(
            ENV,
            num_envs=count,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
            max_episode_steps=limit,
            **keywords,
        )
        self.mode = mode
        self.ended = np.zeros(count, dtype=bool)
        assert isinstance(self.batch, QuaranteVoleursVectorEnv)
        assert isinstance(self.sync, gym.vector.SyncVectorEnv)

    def reset(self, **arguments) -> dict:
        ours = self.batch.reset(**copy.deepcopy(arguments))
        theirs = self.sync.reset(**copy.deepcopy(arguments))  # which takes the mask out of options
        assert_same(ours, (theirs[0], as_the_batch_says_it(theirs[1])))
        chosen = (arguments.get("options") or {}).get("reset_mask")
        self.ended = self.ended & ~chosen if chosen is not None else np.zeros_like(self.ended)
        return ours[1]

    def step(self, actions) -> tuple:
        ours, theirs = self.batch.step(actions), self.sync.step(np.asarray(actions))
        assert_same(ours, (*theirs[:4], as_the_batch_says_it(theirs[4])))
        self.ended = ours[2] | ours[3]
        return ours

    def actions(self, rng: random.Random, illegal: float = 0.05) -> np.ndarray:
        """Legal actions, mostly; where a game is to be reset, any."""
        masks = self.batch.action_masks()
        chosen = []
        for mask in masks:
            legal = np.flatnonzero(mask).tolist()
            at_random = not legal or rng.random() < illegal
            chosen.append(rng.randrange(len(mask)) if at_random else rng.choice(legal))
        return np.array(chosen)

    def play(self, steps: int, rng: random.Random) -> set[str]:
        """Play on, resetting where that is the player's job; return how episodes ended."""
        ends = set()
        for _ in range(steps):
            _, _, terminated, truncated, _ = self.step(self.actions(rng))
            ends |= {"terminated"} if terminated.any() else set()
            ends |= {"truncated"} if truncated.any() else set()
            if self.mode == AutoresetMode.DISABLED and self.ended.any():
                if rng.random() < 0.3:
                    self.reset()
                else:
                    self.reset(options={"reset_mask": self.ended.copy()})
        return ends


# ------------------------------------------------------------- the batch and Gymnasium's own


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_batch_is_gymnasiums_vector_of_single_environments(variant, mode):
    twins = Twins(4, mode, **variant)
    twins.reset(seed=3)
    ends = twins.play(150, random.Random(0))
    assert "truncated" in ends
    twins.reset()
    twins.play(10, random.Random(1))


@pytest.mark.parametrize("mode", MODES)
def test_episodes_that_end_stuck_at_different_times(mode):
    """Without take-backs and with little luck, games end before the limit."""
    twins = Twins(4, mode, limit=150, take_back=False, deals="0:50")
    twins.reset(seed=1)
    assert "terminated" in twins.play(500, random.Random(2))


@pytest.mark.parametrize("mode", MODES)
def test_won_games(mode):
    """Four games of a deck that is easily won, each a step behind the one before."""
    twins = Twins(4, mode, limit=500)
    twins.reset(seed=0, options={"deck": reference.easy_deck()})
    wins = 0
    for step in range(185):
        masks = twins.batch.action_masks()
        actions = []
        for i, mask in enumerate(masks):
            ready = np.flatnonzero(mask[11:22]).tolist()
            play = step >= i and not twins.ended[i]
            actions.append((11 + ready[0] if ready else 0) if play else 191)
        outcome = twins.step(actions)
        final = outcome[4].get("final_info", outcome[4])
        wins += int(final["won"][twins.ended].sum())
        if mode == AutoresetMode.DISABLED and twins.ended.any():
            twins.reset(options={"reset_mask": twins.ended.copy()})
    assert wins == 4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 3])
def test_all_games_ending_at_once(mode, count):
    twins = Twins(count, mode, limit=2, memory=True)
    twins.reset(seed=0)
    twins.play(12, random.Random(0))


@pytest.mark.parametrize("mode", MODES)
def test_a_game_that_ends_at_the_step_limit_is_both_terminated_and_truncated(mode):
    tops = [12, 12, 25, 25, 38, 38, 51, 51, 8, 21]  # kings and two nines: nothing fits
    others = 2 * list(range(52))
    for card in [*tops, 30]:
        others.remove(card)
    deck = [*others[:30], *tops, *others[30:], 30]
    twins = Twins(2, mode, limit=64)
    twins.reset(seed=0, options={"deck": deck})
    for _ in range(64):
        _, _, terminated, truncated, _ = twins.step([0, 0])
    assert terminated.tolist() == truncated.tolist() == [True, True]


@pytest.mark.parametrize("mode", MODES)
def test_resets_of_every_kind(mode):
    twins = Twins(3, mode)
    rng = random.Random(4)
    masks = [np.array(mask, dtype=bool) for mask in ([1, 0, 0], [0, 1, 1], [1, 1, 1])]
    twins.reset(seed=[5, 9, 5])
    for arguments in (
        {},
        {"seed": 12},
        {"seed": [7, None, 2**70]},
        {"seed": [None, None, None]},
        {"options": {}},
        {"options": {"deal": 21}},
        {"options": {"deal": "FT1-N-AAAAAAV"}, "seed": 3},
        {"options": {"deck": deck_of(5)}},
        *({"options": {"reset_mask": mask}} for mask in masks),
        {"options": {"reset_mask": masks[1], "deal": 2**34}},
        {"options": {"reset_mask": masks[0], "deck": deck_of(5).tolist()}},
        {"options": {"reset_mask": masks[1]}, "seed": [1, 2, None]},
        {"options": {"reset_mask": masks[0]}, "seed": 40},
    ):
        twins.reset(**arguments)
        for _ in range(3):
            twins.step(twins.actions(rng))
        assert twins.batch.np_random_seed[0] == twins.sync.np_random_seed[0]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_resets_between_the_end_of_an_episode_and_its_own_reset(mode):
    twins = Twins(3, mode, limit=5)
    rng = random.Random(9)
    twins.reset(seed=0)
    for k in range(6):
        for _ in range(5):
            twins.step(twins.actions(rng))
        if mode == AutoresetMode.NEXT_STEP:
            assert twins.ended.all()
        twins.reset(options={"reset_mask": np.array([True, k % 2 == 0, False])})
        twins.step(twins.actions(rng))
        twins.step(twins.actions(rng))
        twins.reset()


def test_seeds_may_be_an_array():
    left, right = (QuaranteVoleursVectorEnv(3) for _ in range(2))
    assert_same(left.reset(seed=np.array([4, 2, 4])), right.reset(seed=[4, 2, 4]))
    assert_same(left.reset(seed=np.int64(4)), right.reset(seed=[4, 5, 6]))


def test_one_deal_each_is_what_single_resets_give():
    batch = QuaranteVoleursVectorEnv(4, memory=True)
    deals = [7, "FT1-N-AAAAAAV", None, 2**34]
    observation, infos = batch.reset(seed=10, options={"deals": deals})
    for i, deal in enumerate(deals):
        options = None if deal is None else {"deal": deal}
        expected, info = qv_env.QuaranteVoleursEnv(memory=True).reset(seed=10 + i, options=options)
        assert_same({key: array[i] for key, array in observation.items()}, expected)
        assert deal_code(infos["deal"][i]) == info["deal"]
    # Environments with a deal of their own have drawn nothing from their generators.
    following = batch.reset()[1]["deal"].tolist()
    for i, deal in enumerate(deals):
        single = qv_env.QuaranteVoleursEnv()
        single.reset(seed=10 + i, options=None if deal is None else {"deal": deal})
        assert deal_code(following[i]) == single.reset()[1]["deal"]


def test_one_deal_each_with_a_mask():
    batch = QuaranteVoleursVectorEnv(3)
    before = batch.reset(seed=0)[1]["deal"].tolist()
    mask = np.array([False, True, True])
    options = {"deals": ["not looked at", 4, None], "reset_mask": mask}
    batch.reset(options=options)
    assert options == {"deals": ["not looked at", 4, None], "reset_mask": mask}
    batch.step([0, 0, 0])
    *_, infos = batch.step([0, 0, 0])
    after = infos["deal"].tolist()
    assert (after[0], after[1]) == (before[0], 4)
    assert after[2] not in before


# ----------------------------------------------------------------------- the batch and the rules


@pytest.mark.parametrize("policy", ["random", "take_back", "eager", "draw"])
@pytest.mark.parametrize("observation", ["cards", "onehot"])
def test_many_games_at_once_are_the_reference_games(policy, observation):
    """Observations, masks, rewards and ends, in games that are won, stuck or cut short."""
    variant = {"memory": True, "stock_visible": True}
    numbers = [random.Random(policy).randrange(2**35) for _ in range(3)]
    decks = [reference.deck_of_number(number) for number in numbers] + [reference.easy_deck()]
    rng = random.Random(1)
    for deck in decks:
        batch = QuaranteVoleursVectorEnv(
            4, observation=observation, autoreset_mode="Disabled", max_episode_steps=180, **variant
        )
        batch.reset(options={"deck": deck})
        tables = [reference.Table(deck) for _ in range(4)]
        for _ in range(180):
            actions, gained, refused = [], [], []
            for table in tables:
                action = reference.choose(table, policy, rng)
                if rng.random() < 0.1:
                    action = rng.randrange(192)
                refused.append(table.objection(action))
                gained.append(0.0 if refused[-1] else float(table.play(action)))
                actions.append(action)
            seen, rewards, terminated, _, infos = batch.step(actions)
            assert rewards.tolist() == gained
            assert infos["refusal"].tolist() == refused
            for i, table in enumerate(tables):
                mask = table.mask()
                assert infos["action_mask"][i].tolist() == mask
                assert terminated[i] == (table.won() or not any(mask))
                assert infos["won"][i] == table.won()
                assert infos["score"][i] == table.score
                expected = table.observation(**variant)
                if observation == "onehot":
                    if rng.random() < 0.3:  # decoding takes most of the time
                        assert reference.decode_onehot(seen[i], **variant) == expected
                else:
                    assert {key: array[i].tolist() for key, array in seen.items()} == expected
            if terminated.any():
                break


# ---------------------------------------------------------------------------------------- infos


@pytest.mark.parametrize("take_back", [True, False])
def test_infos_are_arrays_of_the_documented_types(take_back):
    batch = QuaranteVoleursVectorEnv(3, take_back=take_back)
    _, infos = batch.reset(seed=0)
    *_, stepped = batch.step([0, 1, 0])
    size = 192 if take_back else 112
    for info in (infos, stepped):
        assert set(info) == set(NAMES) | {f"_{name}" for name in NAMES}
        assert (info["action_mask"].dtype, info["action_mask"].shape) == (np.int8, (3, size))
        kinds = {name: info[name].dtype for name in NAMES[1:]}
        assert kinds == {
            "deal": np.int64,
            "score": np.int64,
            "moves": np.int64,
            "foundation_cards": np.int64,
            "won": np.bool_,
            "refusal": object,
        }
        for name in NAMES:
            assert info[f"_{name}"].dtype == np.bool_
            assert info[f"_{name}"].all()
    assert stepped["refusal"].tolist() == ["", REFUSALS[2], ""]
    assert stepped["moves"].tolist() == [1, 0, 1]


def test_explicit_decks_have_the_deal_minus_one():
    batch = QuaranteVoleursVectorEnv(2)
    _, infos = batch.reset(options={"deck": reference.easy_deck()})
    assert infos["deal"].tolist() == [-1, -1]
    assert batch.reset(seed=0)[1]["deal"].min() >= 0


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_final_infos_tell_of_the_episode_that_ended(copied, count):
    """Also where all games end in the same step, and where live arrays are handed out."""
    batch = QuaranteVoleursVectorEnv(
        count, copy=copied, autoreset_mode="SameStep", max_episode_steps=3
    )
    _, infos = batch.reset(seed=0)
    first = infos["deal"].tolist()
    for _ in range(3):
        observation, _, _, truncated, infos = batch.step([0] * count)
    assert truncated.all()
    final = infos["final_info"]
    assert final["deal"].tolist() == first
    assert final["moves"].tolist() == [3] * count
    assert [array["waste_size"].tolist() for array in infos["final_obs"]] == [[3]] * count
    assert infos["moves"].tolist() == [0] * count
    assert set(infos["deal"].tolist()).isdisjoint(first)
    assert observation["waste_size"].tolist() == [[0]] * count
    kept = copy.deepcopy(final)
    batch.step([0] * count)
    assert_same(final, kept)


# --------------------------------------------------------------------------- copies and live arrays


def arrays_of(outcome) -> list[np.ndarray]:
    observation, infos = outcome[0], outcome[-1]
    parts = list(observation.values()) if isinstance(observation, dict) else [observation]
    return parts + [infos[name] for name in NAMES]


@pytest.mark.parametrize("observation", ["cards", "onehot"])
def test_copies_are_fresh_and_the_callers_own(observation):
    batch = QuaranteVoleursVectorEnv(2, observation=observation, memory=True)
    first = batch.reset(seed=0)
    kept = copy.deepcopy(first)
    second = batch.step([0, 0])
    assert_same(first, kept)
    for one, two in zip(arrays_of(first), arrays_of(second), strict=True):
        assert not np.shares_memory(one, two)
    control = QuaranteVoleursVectorEnv(2, observation=observation, memory=True)
    control.reset(seed=0)
    control.step([0, 0])
    for array in arrays_of(second):
        if array.dtype != object:
            array[...] = 1
    assert_same(batch.step([0, 0]), control.step([0, 0]))


@pytest.mark.parametrize("observation", ["cards", "onehot"])
def test_live_arrays_follow_the_games_and_cannot_be_written_to(observation):
    batch = QuaranteVoleursVectorEnv(2, observation=observation, copy=False)
    control = QuaranteVoleursVectorEnv(2, observation=observation)
    first = batch.reset(seed=0)
    control.reset(seed=0)
    parts = list(first[0].values()) if observation == "cards" else [first[0]]
    for array in parts:
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    rewards_before = batch.step([0, 0])[1]
    kept = rewards_before.copy()
    control.step([0, 0])
    for action in (0, 0, 1):
        now, expected = batch.step([action, 0]), control.step([action, 0])
        assert_same(now, expected)
        assert_same(first[0], expected[0])  # what the reset handed out has moved on
    assert_same(rewards_before, kept)


@pytest.mark.parametrize("mode", MODES)
def test_live_arrays_hold_what_copies_hold(mode):
    twins = Twins(3, mode, limit=20, copy=False)
    twins.reset(seed=2)
    twins.play(90, random.Random(5))


# -------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_threads_changes_nothing(mode):
    """Three threads for seven games and for two, against Gymnasium and so against one thread."""
    for count in (7, 2):
        twins = Twins(count, mode, limit=30, memory=True, num_threads=3)
        twins.reset(seed=1)
        twins.play(70, random.Random(3))
        twins.batch.close()


def outcome_digest(batch: QuaranteVoleursVectorEnv, steps: int = 20) -> str:
    """A hash of what some play of a batch gives; also run in other processes."""
    import hashlib

    rng, out = random.Random(0), hashlib.sha256()
    for _ in range(steps):
        actions = [rng.choice(np.flatnonzero(mask).tolist()) for mask in batch.action_masks()]
        observation, rewards, terminated, truncated, infos = batch.step(actions)
        for array in (*observation.values(), rewards, terminated, truncated, infos["deal"]):
            out.update(array.tobytes())
    return out.hexdigest()


CHILDREN = """
import multiprocessing
import sys

from qv_env import QuaranteVoleursVectorEnv
from tests.test_vector import outcome_digest


def play(batch, answers):
    answers.put(outcome_digest(batch))
    batch.close()


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    batch = QuaranteVoleursVectorEnv(4, num_threads=2, max_episode_steps=9)
    batch.reset(seed=0)
    batch.step([0, 0, 0, 0])  # the parent's threads are running
    answers = context.Queue()
    child = context.Process(target=play, args=(batch, answers))
    child.start()
    theirs = answers.get()
    child.join()
    assert child.exitcode == 0
    print(theirs, outcome_digest(batch))
    batch.close()
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_batch_with_threads_goes_to_another_process(context, tmp_path):
    """A forked child inherits the parent's batch, but not its threads; a spawned one a pickle."""
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    done = subprocess.run(
        [sys.executable, str(script), context],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs, ours = done.stdout.split()
    single = QuaranteVoleursVectorEnv(4, max_episode_steps=9)
    single.reset(seed=0)
    single.step([0, 0, 0, 0])
    assert theirs == ours == outcome_digest(single)


def test_closing_twice_is_harmless():
    batch = QuaranteVoleursVectorEnv(4, num_threads=2)
    batch.reset(seed=0)
    batch.step([0] * 4)
    batch.close()
    batch.close()


# --------------------------------------------------------------------------------------- copying


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keywords", [{}, {"num_threads": 2, "copy": False, "deals": "0:9"}])
def test_a_copy_made_in_mid_game_goes_on_as_the_original_would(mode, way, keywords):
    batch = QuaranteVoleursVectorEnv(
        3, autoreset_mode=mode, max_episode_steps=12, memory=True, **keywords
    )
    rng = random.Random(0)
    batch.reset(seed=[1, 2, 3])
    batch.step([0, 0, 0])
    batch.reset(options={"reset_mask": np.array([True, False, False])})
    for _ in range(10):
        batch.step([0, 0, 0])
    twin = copied(batch, way)
    for _ in range(40):
        actions = [rng.choice(np.flatnonzero(mask).tolist()) for mask in batch.action_masks()]
        ours = batch.step(actions)
        assert_same(ours, twin.step(actions))
        ended = ours[2] | ours[3]
        if mode == AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended.copy()}
            assert_same(batch.reset(options=options), twin.reset(options=options))
    assert_same(batch.reset(), twin.reset())
    batch.close()
    twin.close()


def test_a_copy_does_not_touch_its_original():
    batch = QuaranteVoleursVectorEnv(2)
    batch.reset(seed=0)
    control = QuaranteVoleursVectorEnv(2)
    control.reset(seed=0)
    for twin in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        twin.step([0, 0])
        twin.reset()
        twin.reset(seed=9)
    assert_same(batch.step([0, 0]), control.step([0, 0]))
    assert_same(batch.reset(), control.reset())


def test_its_generators_are_shown_as_copies():
    batch = QuaranteVoleursVectorEnv(2)
    batch.reset(seed=7)
    singles = [qv_env.QuaranteVoleursEnv() for _ in range(2)]
    for i, single in enumerate(singles):
        single.reset(seed=7 + i)
    for _ in range(2):  # drawing from what is shown moves nothing
        shown = [int(generator.bit_generator.random_raw()) for generator in batch.np_random]
        own = [int(copy.deepcopy(s.np_random).bit_generator.random_raw()) for s in singles]
        assert shown == own
    assert batch.np_random_seed == (7, 8)


# -------------------------------------------------------------------------------------- make_vec


def test_make_vec_reaches_the_native_batch():
    env = gym.make_vec(ENV, num_envs=5, memory=True, observation="onehot")
    assert type(env) is QuaranteVoleursVectorEnv
    assert env.num_envs == 5
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    sync = gym.make_vec(
        ENV, num_envs=5, vectorization_mode="sync", memory=True, observation="onehot"
    )
    for space in (
        "single_observation_space",
        "single_action_space",
        "observation_space",
        "action_space",
    ):
        assert getattr(env, space) == getattr(sync, space)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_comes_out_is_in_its_spaces(variant):
    env = gym.make_vec(ENV, num_envs=3, **variant)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    observation, *_ = env.step([0, 0, 0])
    assert observation in env.observation_space


@pytest.mark.parametrize(("keywords", "limit"), [({}, 500), ({"max_episode_steps": 7}, 7)])
def test_episodes_are_cut_at_the_step_limit(keywords, limit):
    for env in (
        gym.make_vec(ENV, num_envs=2, **keywords),
        QuaranteVoleursVectorEnv(2, **keywords),
    ):
        env.reset(seed=0)
        flags = [env.step([1, 1])[3].tolist() for _ in range(limit)]  # refused, but a step
        assert flags == [[False, False]] * (limit - 1) + [[True, True]]


def test_without_a_limit_episodes_go_on():
    env = gym.make_vec(ENV, num_envs=2, max_episode_steps=-1)
    env.reset(seed=0)
    assert not any(env.step([1, 1])[3].any() for _ in range(501))


def test_autoreset_modes_are_given_by_name_and_by_value_too():
    for mode in MODES:
        for text in (mode.name, mode.name.lower(), mode.value, mode.value.upper()):
            env = gym.make_vec(ENV, num_envs=2, autoreset_mode=text)
            assert env.autoreset_mode is env.metadata["autoreset_mode"] is mode
    assert QuaranteVoleursVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_step_in_two_halves_is_a_step(mode, copied):
    rng, ends, refused = random.Random(5), 0, 0
    whole, halves = (
        QuaranteVoleursVectorEnv(4, autoreset_mode=mode, max_episode_steps=25, copy=copied)
        for _ in range(2)
    )
    infos = whole.reset(seed=3)[1]
    halves.reset(seed=3)
    arrays = halves.arrays
    for _ in range(80):
        masks = whole.action_masks()
        actions = [rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks]
        actions[rng.randrange(4)] = rng.randrange(192)
        observation, rewards, terminations, truncations, infos = whole.step(actions)
        num_ended, num_refused = halves.step_games(actions)
        ended = terminations | truncations
        assert num_ended == ended.sum()
        last = infos.get("final_info", infos)
        refusals = np.where(ended, last["refusal"], infos["refusal"])
        assert num_refused == sum(map(bool, refusals))
        assert_same(
            (rewards, terminations, truncations, ended),
            (arrays.reward, arrays.terminated, arrays.truncated, arrays.ended),
        )
        for i in np.flatnonzero(ended):
            if mode == AutoresetMode.SAME_STEP:
                assert_same(halves.observation_of(i), infos["final_obs"][i])
            assert arrays.score[i] == last["score"][i]
            assert arrays.states[i]["score"] == last["score"][i]
        assert_same(halves.finish_step(), observation)
        assert_same(halves.action_masks(), whole.action_masks())
        assert_same(arrays.score, infos["score"])
        assert_same(arrays.deal, infos["deal"])
        ends, refused = ends + num_ended, refused + num_refused
        if mode == AutoresetMode.DISABLED and ended.any():
            for env in (whole, halves):
                env.reset(options={"reset_mask": ended})
    assert ends >= 12
    assert refused >= 20


def test_boards_are_drawn_for_every_game():
    env = gym.make_vec(ENV, num_envs=2, render_mode="ansi")
    env.reset(options={"deals": [0, 21]})
    env.step([0, 0])
    boards = env.render()
    expected = [qv_env.QuaranteVoleursEnv(render_mode="ansi") for _ in range(2)]
    for i, number in enumerate((0, 21)):
        expected[i].reset(options={"deal": number})
        expected[i].step(0)
        assert boards[i] == expected[i].render()
        assert boards[i].startswith(deal_code(number))


def test_drawing_without_a_mode_warns_and_gives_nothing():
    env = QuaranteVoleursVectorEnv(2)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render"):
        assert env.render() is None


# ------------------------------------------------------------------------------- game by game


def beside_sync(**keywords) -> tuple[QuaranteVoleursVectorEnv, gym.vector.SyncVectorEnv]:
    batch = gym.make_vec(ENV, num_envs=3, **keywords)
    sync = gym.make_vec(ENV, num_envs=3, vectorization_mode="sync", **keywords)
    for envs in (batch, sync):
        envs.reset(seed=[5, 6, 2])
        envs.step(np.array([0, 0, 0]))
    return batch, sync


@pytest.mark.parametrize(
    "keywords",
    [{}, {"take_back": False, "observation": "onehot", "deals": [1, 2], "render_mode": "ansi"}],
)
def test_attributes_of_each_game_are_those_of_single_environments(keywords):
    batch, sync = beside_sync(**keywords)
    assert_same(batch.call("action_masks"), sync.call("action_masks"))
    assert_same(tuple(env.action_masks() for env in batch.sub_envs), batch.get_attr("action_masks"))
    names = ("action_space", "observation_space", "render_mode", "np_random_seed", "state")
    for name in names:
        assert batch.get_attr(name) == batch.call(name) == sync.get_attr(name), name
    for ours, theirs in zip(batch.get_attr("metadata"), sync.get_attr("metadata"), strict=True):
        assert ours.items() <= theirs.items()  # to which older versions of Gymnasium add a key
    for ours, theirs in zip(batch.get_attr("np_random"), sync.get_attr("np_random"), strict=True):
        assert ours.bit_generator.state == theirs.bit_generator.state
    if keywords:
        assert batch.call("render") == sync.call("render")
        assert [env.render() for env in batch.sub_envs] == list(sync.call("render"))


def test_the_state_of_a_game_cannot_be_written_to():
    batch, _ = beside_sync()
    with pytest.raises(ValueError, match="read-only"):
        batch.get_attr("state")[1]["score"] = 5


@pytest.mark.parametrize("limit", [None, 7])
def test_the_spec_of_each_game_makes_a_single_environment(limit):
    keywords = {} if limit is None else {"max_episode_steps": limit}
    batch = gym.make_vec(ENV, num_envs=2, deals="3:4", memory=True, num_threads=2, **keywords)
    one, other = batch.get_attr("spec")
    env = gym.make(one)
    assert one == other == batch.call("spec")[0]
    assert one.kwargs == {"deals": "3:4", "memory": True}
    assert env.spec.max_episode_steps == (limit or qv_env.MAX_EPISODE_STEPS)
    assert env.reset()[1]["deal"] == deal_code(batch.reset(seed=0)[1]["deal"][0]) == deal_code(3)
    assert QuaranteVoleursVectorEnv(2).get_attr("spec") == (None, None)


def test_set_attributes_are_kept_and_change_no_game():
    batch, sync = beside_sync()
    for envs in (batch, sync):
        envs.set_attr("name", ["a", "b", "c"])
        assert envs.get_attr("name") == ("a", "b", "c")
        envs.set_attr("name", "d")
        assert envs.get_attr("name") == ("d", "d", "d")
        with pytest.raises(ValueError, match=r"2.* values"):
            envs.set_attr("name", ("a", "b"))
    assert pickle.loads(pickle.dumps(batch)).get_attr("name") == ("d", "d", "d")
    actions = np.array([0, 0, 1])
    assert_same(batch.step(actions)[:4], sync.step(actions)[:4])


@pytest.mark.parametrize("name", ["no_such_thing", "reset", "step"])
def test_attributes_that_a_game_does_not_have(name):
    batch, _ = beside_sync()
    for method in (batch.call, batch.get_attr):
        with pytest.raises(AttributeError, match=name):
            method(name)


def test_masks_of_all_games():
    batch = QuaranteVoleursVectorEnv(3)
    _, infos = batch.reset(seed=0)
    masks = batch.action_masks()
    assert (masks.dtype, masks.shape) == (np.bool_, (3, 192))
    assert (masks == infos["action_mask"]).all()
    masks[...] = False
    assert batch.action_masks().any(axis=1).all()
    assert QuaranteVoleursVectorEnv(3, take_back=False).action_masks().shape == (3, 112)


# ------------------------------------------------------------------------- what is not possible


def in_mid_game(mode: AutoresetMode = AutoresetMode.NEXT_STEP, **keywords):
    """A batch in the middle of its games, and a copy that tells whether it is still there."""
    batch = QuaranteVoleursVectorEnv(3, autoreset_mode=mode, memory=True, **keywords)
    batch.reset(seed=0)
    batch.step([0, 0, 0])
    return batch, copy.deepcopy(batch)


def assert_goes_on_like(batch: QuaranteVoleursVectorEnv, twin: QuaranteVoleursVectorEnv) -> None:
    """See that nothing has changed: not the games, the step counters or the generators."""
    assert batch.np_random_seed == twin.np_random_seed
    assert_same(batch.action_masks(), twin.action_masks())
    for actions in ([0, 0, 0], [0, 1, 0], [0, 0, 1]):
        assert_same(batch.step(actions), twin.step(actions))
    assert_same(batch.reset(), twin.reset())


@pytest.mark.parametrize(
    "actions",
    [
        [0, 0],
        [0, 0, 0, 0],
        [],
        0,
        None,
        [[0, 0, 0]],
        [0, -1, 0],
        [0, 0, 192],
        [0, 0, 2**40],
        np.array([0, 0, 2**64 - 1], dtype=np.uint64),
        [0.0, 0.0, 0.0],
        [0, 0, 1.5],
        ["draw", "draw", "draw"],
        [None, 0, 0],
        [True, False, True],
    ],
)
def test_bad_actions_are_an_error_and_change_nothing(actions):
    batch, twin = in_mid_game()
    with pytest.raises(ValueError, match="action"):
        batch.step(actions)
    assert_goes_on_like(batch, twin)


def test_an_action_outside_the_space_is_named():
    batch, _ = in_mid_game()
    with pytest.raises(ValueError, match=r"actions\[1\] is 192, outside 0\.\.191"):
        batch.step([0, 192, 0])
    batch, _ = in_mid_game(take_back=False)
    with pytest.raises(ValueError, match=r"actions\[2\] is 112, outside 0\.\.111"):
        batch.step([0, 0, 112])


def test_bad_actions_do_not_reset_games_that_ended():
    batch, _ = in_mid_game(max_episode_steps=2)
    batch.step([0, 0, 0])
    mask = np.array([True, False, False])
    batch.reset(options={"reset_mask": mask})
    twin = copy.deepcopy(batch)
    with pytest.raises(ValueError, match=r"actions\[0\]"):
        batch.step([500, 0, 0])
    assert_goes_on_like(batch, twin)


@pytest.mark.parametrize("kind", [list, tuple, np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_actions_are_integers_of_every_type(kind):
    batch, _ = in_mid_game()
    zeros = kind([0, 0, 0]) if kind in (list, tuple) else np.zeros(3, dtype=kind)
    assert batch.step(zeros)[4]["moves"].tolist() == [2, 2, 2]
    strided = np.zeros(6, dtype=np.int64)[::2]
    assert batch.step(strided)[4]["moves"].tolist() == [3, 3, 3]


def test_without_autoreset_a_game_that_ended_must_be_reset():
    batch, _ = in_mid_game(AutoresetMode.DISABLED, max_episode_steps=2)
    batch.step([0, 0, 0])
    batch.reset(options={"reset_mask": np.array([True, False, True])})
    twin = copy.deepcopy(batch)
    with pytest.raises(ValueError, match="environment 1 has ended"):
        batch.step([0, 0, 0])
    options = {"reset_mask": np.array([False, True, False])}
    assert_same(batch.reset(options=options), twin.reset(options=options))
    assert_same(batch.step([0, 0, 0]), twin.step([0, 0, 0]))


@pytest.mark.parametrize(
    ("seed", "error", "says"),
    [
        ([1, 2], ValueError, "2 entries for 3"),
        ([1, 2, 3, 4], ValueError, "4 entries for 3"),
        ([1, -2, 3], ValueError, r"seed\[1\] is -2"),
        (-1, ValueError, r"seed\[0\] is -1"),
        ([1, 2, 3.5], ValueError, r"seed\[2\] is 3.5"),
        (["1", "2", "3"], ValueError, r"seed\[0\] is '1'"),
        (3.5, TypeError, "float"),
    ],
)
def test_bad_seeds_are_an_error_and_change_nothing(seed, error, says):
    batch, twin = in_mid_game()
    with pytest.raises(error, match=says):
        batch.reset(seed=seed)
    assert_goes_on_like(batch, twin)


SOME = np.array([True, False, True])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"deal": -1}, ValueError, "-1"),
        ({"deal": "FT1-N-AAAAAA0"}, ValueError, "'0'"),
        ({"deck": [0] * 104}, ValueError, "AS"),
        ({"deck": [deck_of(0)] * 3}, ValueError, "104"),
        ({"deal": 1, "deck": deck_of(0)}, ValueError, "not both"),
        ({"speed": 1}, ValueError, "'speed'"),
        ({"deals": [1, 2]}, ValueError, "2 entries for 3"),
        ({"deals": [1, 2, -3]}, ValueError, r"\['deals'\]\[2\].*-3"),
        ({"deals": [1, "x", 3]}, ValueError, r"\['deals'\]\[1\].*'x'"),
        ({"deals": [1, 2, 3], "deal": 4}, ValueError, "'deals' and 'deal'"),
        ({"deals": [1, 2, 3], "speed": 4}, ValueError, "speed"),
        ({"reset_mask": [True, False, True]}, TypeError, "reset_mask"),
        ({"reset_mask": None}, TypeError, "reset_mask"),
        ({"reset_mask": np.array([1, 0, 1])}, TypeError, "reset_mask"),
        ({"reset_mask": np.array([True, False])}, ValueError, "reset_mask"),
        ({"reset_mask": np.zeros(3, dtype=bool)}, ValueError, "reset_mask"),
        ({"reset_mask": SOME, "deal": -1}, ValueError, "-1"),
        ({"reset_mask": SOME, "deals": [1, 2, -3]}, ValueError, "-3"),
    ],
)
@pytest.mark.parametrize("seed", [None, 77])
def test_bad_options_are_an_error_and_change_nothing(options, error, says, seed):
    batch, twin = in_mid_game()
    with pytest.raises(error, match=says):
        batch.reset(seed=seed, options=options)
    assert_goes_on_like(batch, twin)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("num_envs", 0),
        ("num_envs", -1),
        ("num_envs", 2.0),
        ("num_envs", True),
        ("num_envs", "3"),
        ("num_threads", 0),
        ("num_threads", 1.5),
        ("num_threads", None),
        ("max_episode_steps", 0),
        ("max_episode_steps", -2),
        ("max_episode_steps", 10.0),
        ("max_episode_steps", True),
        ("autoreset_mode", "sometimes"),
        ("autoreset_mode", None),
        ("autoreset_mode", ""),
        ("autoreset_mode", 1),
        ("autoreset_mode", "SAMESTEP_"),
        ("copy", "no"),
        ("copy", None),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_refused_by_name(keyword, value):
    with pytest.raises(ValueError, match=keyword):
        QuaranteVoleursVectorEnv(**{"num_envs": 2, keyword: value})


def test_a_batch_that_was_refused_can_be_closed():
    """Older versions of Gymnasium do so when Python frees it."""
    batch = QuaranteVoleursVectorEnv.__new__(QuaranteVoleursVectorEnv)
    with pytest.raises(ValueError, match="num_envs"):
        batch.__init__(0)
    batch.close()


def test_a_keyword_that_does_not_exist_is_refused_by_name():
    with pytest.raises(TypeError, match="memroy"):
        QuaranteVoleursVectorEnv(2, memroy=True)


@pytest.mark.parametrize("mode", MODES)
def test_stepping_before_the_first_reset_is_an_error(mode):
    """As it is with Gymnasium's; there is no game yet, and no generator to draw one from."""
    batch = QuaranteVoleursVectorEnv(2, autoreset_mode=mode)
    with pytest.raises((gym.error.ResetNeeded, ValueError)):
        batch.step([0, 0])
    batch.reset(seed=0, options={"reset_mask": np.array([True, False])})
    with pytest.raises((gym.error.ResetNeeded, ValueError)):
        batch.step([0, 0])


@pytest.mark.parametrize("options", [5, [("deal", 1)], "deal"])
def test_options_that_are_no_dict_are_refused(options):
    for env in (QuaranteVoleursVectorEnv(2), qv_env.QuaranteVoleursEnv()):
        with pytest.raises(ValueError, match="a dict"):
            env.reset(options=options)


@pytest.mark.parametrize("deals", [5, "FT1-N-AAAAAAV", None])
def test_deals_that_are_no_list_are_refused(deals):
    with pytest.raises(ValueError, match="a list of deals"):
        QuaranteVoleursVectorEnv(2).reset(options={"deals": deals})
