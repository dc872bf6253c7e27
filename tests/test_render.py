"""Pictures of the table: the layout, the pixels, the window, and the render modes that show them.

``python -m tests.test_render`` writes the reference pictures anew; look at them before committing.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from itertools import combinations, pairwise
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import qv_env
from qv_env.actions import COLUMN, FOUNDATION, NUM_COLUMNS, STOCK, WASTE, parse_action
from qv_env.cards import RANK_LETTERS
from qv_env.deals import deck_of
from qv_env.playthroughs.playthrough import read_playthrough, states
from qv_env.render import art, layout, pixels
from qv_env.render.layout import LABELS, LastMove, Rect
from qv_env.render.window import Window
from qv_env.rules import MAX_COLUMN, REFUSALS, determinize, new_game, play
from qv_env.text import parse_state
from qv_env.vector import QuaranteVoleursVectorEnv

ENV = "qv_env:QuaranteVoleurs-v0"
ROOT = Path(__file__).resolve().parents[1]
PICTURES = Path(__file__).parent / "data" / "render"
STEP = 8  # the colours of the reference pictures are multiples of it
SMOOTHING = 8  # how far a pixel's colour may be off where an edge is smoothed
SHAPE = (layout.HEIGHT, layout.WIDTH, 3)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    """Windows open on SDL's dummy driver, and nobody waits for them."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(qv_env.QuaranteVoleursEnv.metadata, "render_fps", 10_000)
    monkeypatch.setitem(QuaranteVoleursVectorEnv.metadata, "render_fps", 10_000)


# ------------------------------------------------------------------------------------ the tables


def after(deal: int, *names: str) -> tuple[np.void, LastMove | None]:
    """A game after some actions, and its last move."""
    games = new_game(deck_of(deal))
    before = games.copy()
    for name in names:
        before = games.copy()
        play(games[0], parse_action(name))
    return games[0], layout.last_move(before[0], games[0])


def high_columns() -> np.void:
    """Five columns of 16: three cards, then king down to ace; nothing in the stock."""
    kings = [[rank + suit for rank in reversed(RANK_LETTERS)] for suit in "SHDCS"]
    rest = [rank + suit for suit in "HDC" for rank in RANK_LETTERS]
    columns = [[*rest[3 * i : 3 * i + 3], *run] for i, run in enumerate(kings)]
    columns += [rest[15 + 4 * i : 19 + 4 * i] for i in range(5)]
    lines = [f"column {c + 1} {' '.join(cards)}" for c, cards in enumerate(columns)]
    lines += ["stock 0 unseen", f"waste {' '.join(rest[35:])}", "score 20", "moves 91"]
    return parse_state("\n".join(lines))[0]


def deep_waste() -> np.void:
    """All 64 cards of the stock drawn, and nothing else done."""
    return after(21, *["draw"] * 64)[0]


def one_column() -> np.void:
    """A single card on the columns, the rest drawn or up: nine empty columns."""
    lines = ["column 1 KC", *(f"column {c}" for c in range(2, 11))]
    lines += ["foundations 13 13 13 13 13 0 13 12", "stock 0 unseen"]
    lines += ["waste " + " ".join(f"{rank}H" for rank in RANK_LETTERS), "score 955", "moves 170"]
    return parse_state("\n".join(lines))[0]


def won() -> tuple[np.void, LastMove | None]:
    """The end of the recorded game."""
    *_, before, end = states(read_playthrough(ROOT / "tests" / "data" / "won.json"))
    return end[0], layout.last_move(before[0], end[0])


def tables() -> dict[str, dict]:
    """What ``draw`` is asked for, by the name of the reference picture."""
    drawn, draw_move = after(3, "draw")
    refused = after(3, *["draw"] * 20)[0]
    end, last = won()
    return {
        "fresh": {"game": after(21)[0], "deal": "FT1-N-AAAAAAV"},
        "draw": {"game": drawn, "deal": "FT1-N-AAAAAAD", "move": draw_move},
        "refused": {"game": refused, "note": REFUSALS[4]},
        "high": {"game": high_columns(), "move": LastMove(WASTE, 0, COLUMN, 2)},
        "deep_waste": {"game": deep_waste()},
        "one_column": {"game": one_column(), "move": LastMove(FOUNDATION, 7, COLUMN, 0)},
        "won": {"game": end, "deal": "FT1-N-AAAAABE", "move": last},
    }


def thumbnail(frame: np.ndarray) -> np.ndarray:
    """A picture at a quarter of its size: float (160, 240, 3)."""
    height, width, _ = frame.shape
    return frame.reshape(height // 4, 4, width // 4, 4, 3).mean(axis=(1, 3))


def as_kept(frame: np.ndarray) -> Image.Image:
    """The thumbnail that is committed: colours in steps of 8, which makes the files small."""
    return Image.fromarray(np.round(thumbnail(frame)).astype(np.uint8) // STEP * STEP + STEP // 2)


def same_picture(frame: np.ndarray, name: str) -> bool:
    """Whether a frame is a reference picture, but for how edges are smoothed."""
    kept = np.asarray(Image.open(PICTURES / f"{name}.png"), dtype=float)
    apart = np.abs(thumbnail(frame) - kept)
    return bool(apart.max() <= STEP / 2 + 1 + SMOOTHING and apart.mean() <= STEP / 4 + 0.5)


# ------------------------------------------------------------------------------------ the layout

heights = st.integers(0, MAX_COLUMN)


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


def inside(inner: Rect, outer: Rect) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.right <= outer.right
        and inner.bottom <= outer.bottom
    )


TABLE = Rect(0, 0, layout.WIDTH, layout.HEIGHT)


def column_cards(c: int, height: int) -> list[Rect]:
    return [layout.card_place(c, row, height) for row in range(height)]


@given(st.lists(heights, min_size=NUM_COLUMNS, max_size=NUM_COLUMNS))
def test_columns_stay_apart_and_inside_the_table(table):
    columns = [column_cards(c, height) for c, height in enumerate(table)]
    upper = [layout.STOCK_PLACE, layout.WASTE_PLACE, *layout.FOUNDATION_PLACES]
    for cards in columns:
        assert all(inside(card, TABLE) for card in cards)
        assert not any(overlap(card, pile) for card in cards for pile in upper)
    for left, right in combinations(columns, 2):
        assert not any(overlap(a, b) for a in left for b in right)


@given(st.integers(0, NUM_COLUMNS - 1), st.integers(1, MAX_COLUMN))
def test_every_card_shows_its_index(c, height):
    cards = column_cards(c, height)
    assert cards[0] == layout.COLUMN_PLACES[c]
    for covered, cover in pairwise(cards):
        index = layout.index_place(covered, layout.TIGHT[height])
        assert inside(index, covered)
        assert index.bottom <= cover.y
        assert cover.y - covered.y <= layout.MAX_STEP


def test_what_stands_in_the_upper_row_is_apart_from_the_rest():
    piles = [layout.STOCK_PLACE, layout.WASTE_PLACE, *layout.FOUNDATION_PLACES]
    for a, b in combinations([*piles, *layout.COLUMN_PLACES], 2):
        assert not overlap(a, b)
    for name, label in LABELS.items():
        assert inside(label.place, TABLE), name
    for a, b in combinations(LABELS, 2):
        assert "won" in (a, b) or not overlap(LABELS[a].place, LABELS[b].place), (a, b)
    # Counts stand on their piles, but not on their index; the rest stands on no card.
    for name, pile in (("stock", layout.STOCK_PLACE), ("waste", layout.WASTE_PLACE)):
        assert overlap(LABELS[name].place, pile)
        assert not overlap(LABELS[name].place, layout.index_place(pile, False))
    full = [card for c in range(NUM_COLUMNS) for card in column_cards(c, MAX_COLUMN)]
    for name, label in LABELS.items():
        if name not in ("stock", "waste", "won"):
            assert not any(overlap(label.place, place) for place in [*piles, *full]), name


@given(heights, st.sampled_from([STOCK, WASTE, COLUMN, FOUNDATION]), st.integers(0, 7))
def test_marks_are_inside_the_table(height, kind, index):
    index = index if kind in (COLUMN, FOUNDATION) else 0
    move = LastMove(kind, index, kind, index)
    if height < MAX_COLUMN:
        assert inside(layout.source_place(move, height), TABLE)
    if height > 0:
        assert inside(layout.target_place(move, height), TABLE)


def test_the_layout_for_pages_says_the_same():
    data = json.loads(json.dumps(layout.layout_json()))
    for c in range(NUM_COLUMNS):
        for height in range(MAX_COLUMN + 1):
            x, y, width, card_height = data["columns"][c]
            cards = [[x, y + down, width, card_height] for down in data["fans"][height]]
            assert cards == [list(card) for card in column_cards(c, height)]
    assert data["card"] == [layout.CARD_WIDTH, layout.CARD_HEIGHT]
    assert data["labels"]["score"]["align"] == "right"
    assert len(data["foundations"]) == 8
    assert len(data["tight"]) == MAX_COLUMN + 1


def test_the_last_move_is_what_two_positions_differ_by():
    assert after(3, "draw")[1] == LastMove(STOCK, 0, WASTE, 0)
    game = new_game(deck_of(3))
    assert layout.last_move(game[0], game[0]) is None  # a refused action
    end, last = won()
    assert last is not None
    assert last.target == FOUNDATION
    assert layout.last_move(end, game[0]) is None  # a new game
    two, _ = after(3, "draw", "draw")
    assert layout.last_move(game[0], two) is None
    other = new_game(deck_of(4))
    other["moves"] = 1
    assert layout.last_move(end, other[0]) is None


def test_every_move_of_a_game_is_found():
    playthrough = read_playthrough(ROOT / "tests" / "data" / "won.json")
    for (before, now), action in zip(
        pairwise(states(playthrough)), playthrough.actions, strict=True
    ):
        move = layout.last_move(before[0], now[0])
        expected = qv_env.actions.MOVES[action]
        assert move is not None
        assert move[:3] == expected[:3]
        if move.target == FOUNDATION:
            assert now[0]["foundations"][move.target_index] > 0
        else:
            assert move.target_index == expected.target_index


def test_paths_of_the_art_are_closed_polygons():
    for path in (*art.SUIT_PATHS, *art.CROWN_PATHS):
        for polygon in art.flatten(path):
            assert len(polygon) >= 3
            assert all(-5 <= x <= 105 and -5 <= y <= 105 for x, y in polygon)
    with pytest.raises(ValueError, match="'Q'"):
        art.flatten("M0 0 Q")


# ------------------------------------------------------------------------------------ the pixels


@pytest.mark.parametrize("name", sorted(tables()))
def test_pictures_look_as_they_were_approved(name):
    frame = pixels.draw(**tables()[name])
    assert frame.shape == SHAPE
    assert frame.dtype == np.uint8
    assert same_picture(frame, name), f"compare {PICTURES / name}.png"


def test_the_comparison_sees_a_single_card():
    table = tables()["fresh"]
    game = table["game"].copy()
    game["columns"][0, 3] = game["columns"][0, 3] % 13 + 1  # its top card, one rank up
    assert not same_picture(pixels.draw(game, table["deal"]), "fresh")
    assert not same_picture(pixels.draw(table["game"], "FT1-N-AAAAAAW"), "fresh")


def test_every_card_looks_different_large_and_small():
    for height in (1, MAX_COLUMN):
        pictures = []
        game = new_game(deck_of(0))[0]
        for card_id in range(1, 53):
            game["heights"][:] = 0
            game["heights"][0] = height
            game["columns"][0, :height] = card_id
            frame = pixels.draw(game)
            card = layout.card_place(0, 0, height)
            index = layout.index_place(card, layout.TIGHT[height])
            corner = frame[index.y : index.bottom, index.x : index.right].astype(float)
            pictures.append(corner)
        for (i, a), (j, b) in combinations(enumerate(pictures), 2):
            assert np.abs(a - b).max() > 60, (i, j)


def test_frames_are_fresh_arrays():
    game = after(21)[0]
    first = pixels.draw(game)
    kept = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(pixels.draw(game), kept)


def test_the_stocks_order_never_shows():
    games = new_game(deck_of(21))
    for _ in range(30):
        play(games[0], 0)
    other = determinize(games, np.random.default_rng(1))
    assert games.tobytes() != other.tobytes()
    for frames in zip(
        *(
            (pixels.draw(g[0], "X", LastMove(STOCK, 0, WASTE, 0)), pixels.draw(g[0]))
            for g in (games, other)
        ),
        strict=True,
    ):
        np.testing.assert_array_equal(*frames)


def test_a_whole_game_is_drawn_and_every_move_changes_the_picture():
    playthrough = read_playthrough(ROOT / "tests" / "data" / "won.json")
    last = None
    for position in states(playthrough):
        frame = pixels.draw(position[0])
        assert frame.shape == SHAPE
        assert last is None or (frame != last).any()
        last = frame


def test_marks_and_notes_show():
    game, move = after(3, "draw")
    plain = pixels.draw(game)
    marked = pixels.draw(game, move=move)
    changed = (plain != marked).any(axis=2)
    assert changed[layout.STOCK_PLACE.y - 2, layout.STOCK_PLACE.x + 10 : 60].any()
    assert changed[layout.WASTE_PLACE.y, layout.WASTE_PLACE.x + 20]
    assert not changed[layout.COLUMN_PLACES[0].y :].any()
    for note in ("short", REFUSALS[4], "word " * 60, "x" * 300):
        noted = (plain != pixels.draw(game, note=note)).any(axis=2)
        y, x = np.nonzero(noted)
        place = LABELS["note"].place
        assert place.x <= x.min()
        assert x.max() < place.right
        assert y.max() < layout.STOCK_PLACE.y


def test_numbers_of_any_size_fit():
    game = after(3)[0].copy()
    game["score"], game["moves"] = 1360, 99_999
    game["foundations"] = 13
    frame = pixels.draw(game, "FT1-N-7777777")
    plain = pixels.draw(game)
    assert (frame != plain).any()


# ------------------------------------------------------------------------- the render modes


def draw_of(env: gym.Env) -> np.ndarray:
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert frame.shape == SHAPE
    assert frame.dtype == np.uint8
    return frame


@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array", "human"])
def test_gymnasiums_checker_has_nothing_to_say(mode):
    env = gym.make(ENV, render_mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


def test_a_picture_shows_the_position_the_move_and_the_refusal():
    env = gym.make(ENV, render_mode="rgb_array")
    env.reset(options={"deal": 3})
    game, move = after(3, "draw")
    np.testing.assert_array_equal(draw_of(env), pixels.draw(after(3)[0], "FT1-N-AAAAAAD"))
    env.step(0)
    np.testing.assert_array_equal(draw_of(env), pixels.draw(game, "FT1-N-AAAAAAD", move))
    *_, info = env.step(parse_action("f1>c1"))
    assert info["refusal"]
    expected = pixels.draw(game, "FT1-N-AAAAAAD", None, info["refusal"])
    np.testing.assert_array_equal(draw_of(env), expected)
    env.reset(options={"deal": 3})
    np.testing.assert_array_equal(draw_of(env), pixels.draw(after(3)[0], "FT1-N-AAAAAAD"))


def test_a_stuck_game_says_so():
    # Deal and play by the first legal action until nothing is left, without take-backs.
    env = gym.make(ENV, render_mode="rgb_array", take_back=False, max_episode_steps=-1)
    for deal in range(40):
        _, info = env.reset(options={"deal": deal})
        ended = False
        for _ in range(400):
            legal = np.flatnonzero(info["action_mask"])
            useful = legal[(legal < 22)]
            if not len(legal):
                ended = True
                break
            _, _, ended, _, info = env.step(int(useful[-1] if len(useful) else legal[0]))
            if ended:
                break
        if ended and not info["won"]:
            game = env.unwrapped._states[0]
            move = layout.last_move(env.unwrapped._before[0], game)
            note = "no legal move is left"
            np.testing.assert_array_equal(draw_of(env), pixels.draw(game, info["deal"], move, note))
            return
    pytest.fail("no deal got stuck")


@pytest.mark.parametrize("mode", ["ansi", "rgb_array", "human"])
def test_render_modes_change_nothing_of_the_game(mode):
    plain, watched = gym.make(ENV), gym.make(ENV, render_mode=mode)
    _, expected = plain.reset(seed=5)
    _, info = watched.reset(seed=5)
    rng = np.random.default_rng(5)
    for _ in range(60):
        assert info["action_mask"].tolist() == expected["action_mask"].tolist()
        action = int(rng.choice(np.flatnonzero(expected["action_mask"])))
        *outcome, expected = plain.step(action)
        *other, info = watched.step(action)
        assert outcome[1:] == other[1:]
    watched.close()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array", "human"])
@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_as_the_original(mode, twin_of):
    env = gym.make(ENV, render_mode=mode)
    env.reset(seed=1)
    env.step(0)
    twin = twin_of(env)
    for both in (env, twin):
        both.step(0)
    if mode == "human":
        ours, theirs = env.unwrapped._window, twin.unwrapped._window
        assert ours is not theirs
        assert ours.is_open
        assert theirs.is_open
        twin.close()
        assert ours.is_open
    elif mode == "rgb_array":
        np.testing.assert_array_equal(draw_of(env), draw_of(twin))
    else:
        assert env.render() == twin.render()
    env.close()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array", "human"])
def test_determinized_copies_show_what_is_seen_and_open_no_window(mode):
    env = qv_env.QuaranteVoleursEnv(render_mode=mode)
    env.reset(options={"deal": 21})
    env.step(0)
    twin = env.determinize(np.random.default_rng(0))
    if mode == "rgb_array":
        np.testing.assert_array_equal(twin.render(), pixels.draw(env._states[0]))
    twin.step(0)
    if mode == "human":
        assert twin.render_mode is None
        assert twin._window is None
        twin.close()
        assert env._window is not None
        assert env._window.is_open
    env.close()


def test_a_spec_with_a_render_mode_is_rebuilt_from_json():
    env = gym.make(ENV, render_mode="rgb_array")
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    env.reset(seed=2)
    again.reset(seed=2)
    np.testing.assert_array_equal(draw_of(env), draw_of(again))


# -------------------------------------------------------------------- batches and other programs


def test_a_batch_gives_the_pictures_of_single_environments():
    batch = gym.make_vec(ENV, num_envs=3, render_mode="rgb_array", max_episode_steps=7)
    singles = [
        gym.make(ENV, render_mode="rgb_array", max_episode_steps=7).unwrapped for _ in range(3)
    ]
    batch.reset(seed=10)
    for i, single in enumerate(singles):
        single.reset(seed=10 + i)
    for step in range(12):
        frames = batch.render()
        assert isinstance(frames, tuple)
        for frame, single in zip(frames, singles, strict=True):
            np.testing.assert_array_equal(frame, single.render())
        actions = [0, 192 - 1, 0]  # a take-back from an empty foundation is refused
        batch.step(np.array(actions))
        for single, action in zip(singles, actions, strict=True):
            single.reset() if step == 7 else single.step(action)
    batch.close()


def test_a_batchs_mark_goes_away_with_its_reset():
    batch = gym.make_vec(ENV, num_envs=2, render_mode="rgb_array")
    batch.reset(options={"deal": 3})
    batch.step(np.array([0, 0]))
    _, marked = batch.render()
    batch.reset(options={"deal": 3, "reset_mask": np.array([True, False])})
    first, second = batch.render()
    np.testing.assert_array_equal(first, pixels.draw(after(3)[0], "FT1-N-AAAAAAD"))
    np.testing.assert_array_equal(second, marked)
    batch.close()


def test_a_batch_is_shown_in_one_window():
    batch = gym.make_vec(ENV, num_envs=5, render_mode="human")
    batch.reset(seed=1)
    batch.step(np.zeros(5, dtype=int))
    assert batch.render() is None
    window = batch._window
    assert window.is_open
    twin = pickle.loads(pickle.dumps(batch))
    assert not twin._window.is_open
    twin.step(np.zeros(5, dtype=int))
    twin.close()
    assert window.is_open
    batch.close()
    assert not window.is_open


def test_stable_baselines3_gets_images():
    from qv_env.sb3 import make_sb3_env

    env = make_sb3_env(4, seed=1, render_mode="rgb_array")
    env.reset()
    images = env.get_images()
    assert len(images) == 4
    assert all(image.shape == SHAPE for image in images)
    np.testing.assert_array_equal(env.env_method("render", indices=[2])[0], images[2])
    tiled = env.render()
    assert tiled.shape == (2 * SHAPE[0], 2 * SHAPE[1], 3)
    env.close()
    blind = make_sb3_env(2, seed=1)
    with pytest.warns(UserWarning, match="rgb_array"):
        assert blind.get_images() == [None, None]
    shown = make_sb3_env(2, seed=1, render_mode="human")
    shown.reset()
    assert shown.render() is None
    shown.close()


def test_gymnasiums_wrappers_take_the_pictures():
    env = gym.make(ENV, render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(0)
    frames = env.render()
    assert [frame.shape for frame in frames] == [SHAPE, SHAPE]
    env.close()
    shown = gym.wrappers.HumanRendering(gym.make(ENV, render_mode="rgb_array"))
    shown.reset(seed=0)
    shown.step(0)
    shown.close()


def test_another_programs_pygame_may_come_and_go():
    env = gym.make(ENV, render_mode="human").unwrapped
    env.reset(seed=0)
    other = gym.wrappers.HumanRendering(gym.make(ENV, render_mode="rgb_array"))
    other.reset(seed=0)
    env.step(0)
    assert env._window.is_open
    other.close()  # which shuts all of pygame down
    env.step(0)
    assert env._window.is_open
    env.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_batches_give_pictures(mode):
    batch = gym.make_vec(ENV, num_envs=2, vectorization_mode=mode, render_mode="rgb_array")
    batch.reset(seed=0)
    assert [frame.shape for frame in batch.render()] == [SHAPE, SHAPE]
    batch.close()


def assert_one_video(folder: Path) -> None:
    (video,) = folder.glob("*.mp4")
    assert video.stat().st_size > 1000


def test_videos_are_recorded(tmp_path):
    pytest.importorskip("moviepy", reason="Gymnasium's RecordVideo needs moviepy")
    with warnings.catch_warnings():
        # What moviepy and its parts say about themselves is not ours.
        warnings.simplefilter("ignore")
        env = gym.make(ENV, render_mode="rgb_array", max_episode_steps=5)
        env = gym.wrappers.RecordVideo(env, str(tmp_path), episode_trigger=lambda _: True)
        env.reset(seed=0)
        for _ in range(5):
            env.step(0)
        env.close()
    assert_one_video(tmp_path)


@pytest.mark.skipif(
    not hasattr(gym.wrappers.vector, "RecordVideo"), reason="Gymnasium is older than the wrapper"
)
def test_videos_of_batches_are_recorded(tmp_path):
    pytest.importorskip("moviepy", reason="Gymnasium's RecordVideo needs moviepy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = gym.make_vec(ENV, num_envs=2, render_mode="rgb_array", max_episode_steps=5)
        batch = gym.wrappers.vector.RecordVideo(
            batch, str(tmp_path), episode_trigger=lambda _: True
        )
        batch.reset(seed=0)
        for _ in range(5):
            batch.step(np.zeros(2, dtype=int))
        batch.close()
    assert_one_video(tmp_path)


# ------------------------------------------------------------------------------------ the window


def post(kind: str, **attributes) -> None:
    import pygame

    pygame.event.post(pygame.event.Event(getattr(pygame, kind), attributes))


def test_the_window_shows_the_picture_and_closes():
    import pygame

    env = gym.make(ENV, render_mode="human").unwrapped
    env.reset(options={"deal": 21})
    window = env._window
    assert window.is_open
    surface = window._window.get_surface()
    shown = np.transpose(pygame.surfarray.array3d(surface), (1, 0, 2))
    np.testing.assert_array_equal(shown, pixels.draw(env._states[0], "FT1-N-AAAAAAV"))
    assert env.render() is None
    env.close()
    assert not window.is_open
    assert not pygame.display.get_init()
    env.close()
    env.reset(seed=0)  # a closed environment that is used again shows itself again
    assert window.is_open
    env.close()


def test_closing_before_anything_was_shown_is_fine():
    env = gym.make(ENV, render_mode="human")
    env.close()
    env.close()


@pytest.mark.parametrize("kind", ["QUIT", "WINDOWCLOSE"])
def test_who_closes_the_window_stops_nothing(kind):
    env = gym.make(ENV, render_mode="human").unwrapped
    env.reset(seed=0)
    window = env._window
    post(kind, window=window._window)
    for _ in range(3):
        env.step(0)
        assert not window.is_open
        assert window.dismissed
    env.reset()
    assert env.render() is None
    assert not window.is_open
    env.close()
    env.reset()
    assert window.is_open
    env.close()


def test_an_x_closes_its_own_window_alone():
    first, second = (gym.make(ENV, render_mode="human").unwrapped for _ in range(2))
    first.reset(seed=0)
    second.reset(seed=0)
    post("WINDOWCLOSE", window=first._window._window)
    second.step(0)
    assert first._window.dismissed
    assert second._window.is_open
    first.step(0)
    second.close()
    first.close()


def test_the_picture_fits_a_window_of_any_size():
    import pygame

    window = Window()
    frame = pixels.draw(after(21)[0])
    window.show([frame])
    for size in ((500, 900), (1300, 500), (3, 3)):
        window._window.size = size
        window.show([frame])
        surface = window._window.get_surface()
        if size[0] > 3:
            assert pygame.surfarray.array3d(surface)[size[0] // 2, size[1] // 2].sum() > 0
    window.show([frame] * 40)  # more tables than a window shows
    window.close()


def test_windows_are_neither_copied_nor_pickled():
    window = Window("a title")
    window.show([pixels.draw(after(21)[0])])
    for twin in (copy.copy(window), copy.deepcopy(window), pickle.loads(pickle.dumps(window))):
        assert twin.title == "a title"
        assert not twin.is_open
    window.close()


# ----------------------------------------------------------------------------- what is not there


def in_a_new_process(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("module", "mode", "extra"),
    [
        ("PIL", "rgb_array", "qv-env[render]"),
        ("PIL", "human", "qv-env[render]"),
        ("pygame", "human", "qv-env[human]"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module, mode, extra):
    code = f"""
import sys
sys.modules[{module!r}] = None
import gymnasium as gym
env = gym.make({ENV!r}, render_mode={mode!r})
try:
    env.reset(seed=0)
    env.render()
except gym.error.DependencyNotInstalled as error:
    print(error)
"""
    assert extra in in_a_new_process(code)


def test_another_pygame_is_named(monkeypatch):
    import pygame

    monkeypatch.delattr(pygame, "Window")
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"pygame-ce 2\.5\.2"):
        Window().show([pixels.draw(after(21)[0])])


def test_without_a_display_the_error_says_what_to_do():
    code = f"""
import gymnasium as gym
env = gym.make({ENV!r}, render_mode="human")
try:
    env.reset(seed=0)
except gym.error.Error as error:
    print(error)
env.close()
"""
    assert "rgb_array" in in_a_new_process(code, SDL_VIDEODRIVER="nowhere")


def test_importing_and_drawing_import_only_what_they_need():
    code = f"""
import sys
import gymnasium as gym
env = gym.make({ENV!r}, render_mode="rgb_array")
env.reset(seed=0)
assert "PIL" not in sys.modules
assert "pygame" not in sys.modules
env.render()
assert "pygame" not in sys.modules
print("fine")
"""
    assert in_a_new_process(code) == "fine"


def write_references() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        as_kept(pixels.draw(**table)).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    write_references()
