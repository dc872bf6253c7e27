"""Recording wrappers: what the files hold, in every kind of environment of ours."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import qv_env
from qv_env.deals import deck_of
from qv_env.playthroughs.playthrough import PlaythroughError, read_playthrough
from qv_env.playthroughs.record import RecordPlaythrough, RecordPlaythroughVector, deck_of_start
from qv_env.rules import new_game
from tests.helpers.kills import forks, run_killed

ID = "qv_env:QuaranteVoleurs-v0"


def play(env, rng, **reset) -> list[int]:
    """Play one game at random, now and then something illegal; return the actions that counted."""
    _, info = env.reset(**reset)
    counted = []
    while True:
        mask = info["action_mask"]
        pool = np.flatnonzero(mask if rng.random() < 0.9 else mask == 0)
        action = int(rng.choice(pool))
        _, _, terminated, truncated, info = env.step(action)
        if not info["refusal"]:
            counted.append(action)
        if terminated or truncated:
            return counted


def files(folder: Path) -> list[Path]:
    assert not [path for path in folder.iterdir() if path.suffix != ".json"]
    return sorted(folder.iterdir())


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"observation": "onehot", "memory": True},
        {"stock_visible": True, "take_back": False},
        {"deals": ["FT1-N-AAAAAAV", 5]},
        {"max_episode_steps": 40, "deals": "dev-200"},
    ],
    ids=str,
)
def test_every_game_is_a_file(tmp_path, kwargs):
    env = RecordPlaythrough(gym.make(ID, **kwargs), tmp_path / "new" / "games", player="chance")
    rng = np.random.default_rng(0)
    played = [play(env, rng, seed=0), play(env, rng), play(env, rng, options={"deal": 21})]
    games = [read_playthrough(path) for path in files(tmp_path / "new" / "games")]
    assert [list(game.actions) for game in games] == played
    assert games[2].deal == "FT1-N-AAAAAAV"
    assert [game.extra["episode"] for game in games] == [1, 2, 3]
    assert {game.player for game in games} == {"chance"}
    assert [path.name for path in files(tmp_path / "new" / "games")] == [
        "game-000001.json",
        "game-000002.json",
        "game-000003.json",
    ]
    if "max_episode_steps" in kwargs:
        assert all(game.extra["truncated"] for game in games)


def test_the_deck_of_a_start():
    deck = deck_of(7)
    assert deck_of_start(new_game(deck)[0]) == deck.tolist()


def test_an_explicit_deck(tmp_path):
    env = RecordPlaythrough(gym.make(ID), tmp_path)
    deck = deck_of(3)[::-1].tolist()
    actions = play(env, np.random.default_rng(1), options={"deck": deck})
    game = read_playthrough(tmp_path / "game-000001.json")
    assert (game.deal, list(game.deck), list(game.actions)) == (None, deck, actions)


def test_every_third_game_and_a_prefix(tmp_path):
    env = RecordPlaythrough(gym.make(ID, max_episode_steps=5), tmp_path, every=3, prefix="run-1")
    rng = np.random.default_rng(0)
    for _ in range(7):
        play(env, rng)
    assert [path.name for path in files(tmp_path)] == [
        "run-1-000001.json",
        "run-1-000002.json",
        "run-1-000003.json",
    ]
    assert [read_playthrough(path).extra["episode"] for path in files(tmp_path)] == [1, 4, 7]


def test_a_game_given_up_is_not_written(tmp_path):
    env = RecordPlaythrough(gym.make(ID), tmp_path)
    env.reset(seed=0)
    env.step(0)
    env.reset()
    env.step(0)
    env.close()
    assert files(tmp_path) == []


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "game-000001.json").write_text("mine")
    first, second = (
        RecordPlaythrough(gym.make(ID, max_episode_steps=3), tmp_path) for _ in range(2)
    )
    rng = np.random.default_rng(0)
    for env in (first, second, first):
        play(env, rng)
    assert (tmp_path / "game-000001.json").read_text() == "mine"
    assert [path.name for path in files(tmp_path)][1:] == [f"game-00000{k}.json" for k in (2, 3, 4)]


def test_without_hard_links(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError("not supported")

    monkeypatch.setattr("os.link", no_links)
    env = RecordPlaythrough(gym.make(ID, max_episode_steps=3), tmp_path)
    (tmp_path / "game-000002.json").write_text("mine")
    rng = np.random.default_rng(0)
    play(env, rng)
    play(env, rng)
    assert (tmp_path / "game-000002.json").read_text() == "mine"
    assert len(files(tmp_path)) == 3
    read_playthrough(tmp_path / "game-000003.json")


def test_thoughts_are_kept_where_every_step_has_them(tmp_path):
    env = RecordPlaythrough(gym.make(ID, max_episode_steps=4), tmp_path)
    env.reset(seed=0)
    for k in range(4):
        env.note(value=k / 2, likeliest=[(0, 0.75), (1, 0.25)] if k else None)
        env.step(0)
    game = read_playthrough(tmp_path / "game-000001.json")
    assert game.values == (0.0, 0.5, 1.0, 1.5)
    assert game.likeliest is None


def test_what_cannot_be_is_refused(tmp_path):
    env = gym.make(ID)
    with pytest.raises(TypeError, match="QuaranteVoleurs-v0"):
        RecordPlaythrough(gym.make("CartPole-v1"), tmp_path)
    for arguments in ({"every": 0}, {"every": True}, {"prefix": "a/b"}, {"prefix": ""}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            RecordPlaythrough(env, tmp_path, **arguments)
    with pytest.raises(ValueError, match="player"):
        RecordPlaythrough(env, tmp_path, player=3)
    batch = gym.vector.SyncVectorEnv([lambda: gym.make(ID)])
    with pytest.raises(TypeError, match="RecordPlaythrough around the single"):
        RecordPlaythroughVector(batch, tmp_path)


def test_a_wrapper_that_changes_actions_is_found_out(tmp_path):
    inner = gym.wrappers.TransformAction(gym.make(ID, max_episode_steps=2), lambda a: 0, None)
    env = RecordPlaythrough(inner, tmp_path)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(PlaythroughError):
        env.step(100)
    assert files(tmp_path) == []


def test_spec_pickle_and_copy_go_on(tmp_path):
    env = RecordPlaythrough(gym.make(ID, memory=True, max_episode_steps=30), tmp_path, player="x")
    twin = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert twin.spec.additional_wrappers == env.spec.additional_wrappers
    assert twin.get_wrapper_attr("_writer")._player == "x"
    _, info = env.reset(seed=4)
    for _ in range(10):
        env.step(0)
    others = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    for each in (env, *others):
        for _ in range(20):
            each.step(0)
    games = [read_playthrough(path) for path in files(tmp_path)]
    assert len(games) == 3
    assert {game.actions for game in games} == {(0,) * 30}
    assert {game.deal for game in games} == {info["deal"]}


def test_in_other_processes(tmp_path):
    wrappers = [partial(RecordPlaythrough, folder=str(tmp_path))]
    envs = gym.make_vec(
        ID,
        num_envs=2,
        vectorization_mode="async",
        wrappers=wrappers,
        max_episode_steps=6,
        vector_kwargs={"context": "spawn"},
    )
    envs.reset(seed=0)
    for _ in range(13):
        envs.step(np.zeros(2, dtype=np.int64))
    envs.close()
    assert len([read_playthrough(path) for path in files(tmp_path)]) == 4


# --------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("share", [False, True], ids=["copies", "live"])
def test_a_batch_records_what_single_environments_do(tmp_path, mode, share):
    """The same games, action by action, as a record kept beside the batch."""
    num_envs, kept = 5, []
    env = RecordPlaythroughVector(
        gym.make_vec(
            ID,
            num_envs=num_envs,
            max_episode_steps=60,
            autoreset_mode=mode,
            copy=not share,
            memory=True,
        ),
        tmp_path,
        player="batch",
    )
    rng = np.random.default_rng(2)
    _, infos = env.reset(seed=9)
    running: list = [[int(infos["deal"][i]), []] for i in range(num_envs)]
    idle = np.zeros(num_envs, dtype=bool)
    for _ in range(150):
        masks = env.action_masks()
        wild = rng.random(num_envs) < 0.1
        actions = np.array(
            [
                rng.choice(np.flatnonzero(mask if not w or mask.all() else ~mask))
                for mask, w in zip(masks, wild, strict=True)
            ]
        )
        env.note(values=actions * 1.0)
        _, _, terminated, truncated, infos = env.step(actions)
        ended = terminated | truncated
        for i in range(num_envs):
            if idle[i]:
                running[i] = [int(infos["deal"][i]), []]
                continue
            source = infos["final_info"] if mode == AutoresetMode.SAME_STEP and ended[i] else infos
            if not source["refusal"][i]:
                running[i][1].append(int(actions[i]))
            if ended[i]:
                kept.append(tuple(running[i]))
                running[i] = [int(infos["deal"][i]), []]
        idle = ended if mode == AutoresetMode.NEXT_STEP else np.zeros(num_envs, dtype=bool)
        if mode == AutoresetMode.DISABLED and ended.any():
            _, infos = env.reset(options={"reset_mask": ended})
            for i in np.flatnonzero(ended):
                running[i] = [int(infos["deal"][i]), []]
    games = [read_playthrough(path) for path in files(tmp_path)]
    assert len(games) >= 10
    assert [(qv_env.deal_number(game.deal), list(game.actions)) for game in games] == kept
    assert all(game.values == tuple(map(float, game.actions)) for game in games)


def test_a_batch_with_explicit_decks_and_every_second_game(tmp_path):
    deck = deck_of(3)[::-1].tolist()
    env = RecordPlaythroughVector(
        gym.make_vec(ID, num_envs=3, max_episode_steps=4), tmp_path, every=2, prefix="b"
    )
    env.reset(options={"deck": deck})
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(4):
        env.step(np.zeros(3, dtype=np.int64))
    games = [read_playthrough(path) for path in files(tmp_path)]
    assert [path.name for path in files(tmp_path)] == ["b-000001.json", "b-000002.json"]
    assert {(game.deal, game.deck) for game in games} == {(None, tuple(deck))}
    for _ in range(4):
        twin.step(np.zeros(3, dtype=np.int64))
    assert len(files(tmp_path)) == 4


def test_notes_of_a_wrong_size(tmp_path):
    env = RecordPlaythroughVector(gym.make_vec(ID, num_envs=2), tmp_path)
    with pytest.raises(ValueError, match="values has 1 entries for 2 games"):
        env.note(values=[1.0])


# ----------------------------------------------------------------------------------------- kills

RECORDING = """
import gymnasium as gym
from qv_env.playthroughs.record import RecordPlaythrough

gym.make("qv_env:QuaranteVoleurs-v0").reset()  # loads what is compiled, once for all sessions

def session(folder, k):
    env = RecordPlaythrough(gym.make("qv_env:QuaranteVoleurs-v0", max_episode_steps=3), folder,
                            player=str(k))
    env.reset(seed=k)
    for _ in range(4):
        for _ in range(3):
            env.step(0)
        print(k, flush=True)  # another game is kept
        env.reset()
"""


@forks
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_recorders_lose_and_double_no_game(tmp_path, seed):
    told = run_killed(RECORDING, tmp_path, seed, kills=12, moments=30)
    games = [read_playthrough(path) for path in files(tmp_path)]  # and nothing else lies there
    assert [path.name for path in files(tmp_path)] == [
        f"game-{k:06d}.json" for k in range(1, len(games) + 1)
    ]
    early = 0
    for k in range(13):
        episodes = [game.extra["episode"] for game in games if game.player == str(k)]
        assert episodes == list(range(1, len(episodes) + 1))
        assert len(episodes) - told.count(str(k)) in ((0, 1) if k < 12 else (0,))
        early += len(episodes) < 4
    assert early >= 6
