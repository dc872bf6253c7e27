"""Exports of playthroughs: what the files are, and what is refused."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from qv_env.__main__ import main
from qv_env.playthroughs.export import END_SECONDS, export, pictures
from qv_env.playthroughs.playthrough import Playthrough, read_playthrough, states
from qv_env.render.layout import last_move
from qv_env.render.pixels import draw
from tests import golden

WON = Path(__file__).parent / "data" / "won.json"


def game(count: int = 6, **changes) -> Playthrough:
    actions = golden.chosen_actions(golden.DEAL, golden.SEED, count)
    return Playthrough.from_actions(actions, **{"deal": golden.DEAL, "player": "chance"} | changes)


def picture_of(playthrough: Playthrough, step: int) -> np.ndarray:
    positions = [state[0] for state in states(playthrough)]
    move = last_move(positions[step - 1], positions[step]) if step else None
    return draw(positions[step], playthrough.deal or "", move)


def array(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


@pytest.fixture
def run(capsys):
    """Run the program in this process; return status, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            status = main(["export", *(str(argument) for argument in arguments)])
        except SystemExit as error:
            status = int(error.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "game.json"
    game().write(path)
    return path


# ------------------------------------------------------------------------------------ pictures


@pytest.mark.parametrize("step", [None, 0, 3, 6])
def test_a_picture_of_one_step(tmp_path, step):
    path = tmp_path / "step.png"
    export(game(), path, step=step)
    assert np.array_equal(array(path), picture_of(game(), 6 if step is None else step))


@pytest.mark.parametrize("scale", [0.1, 0.5, 2])
def test_scale(tmp_path, scale):
    path = tmp_path / "step.PNG"
    export(game(), path, scale=scale)
    assert array(path).shape == (640 * scale, 960 * scale, 3)


def test_two_games_in_one_picture(tmp_path):
    one, other = game(6), game(4)
    path = tmp_path / "both.png"
    export(one, path, other)
    shown = array(path)
    assert shown.shape == (640, 960 + 8 + 960, 3)
    assert np.array_equal(shown[:, :960], picture_of(one, 6))
    assert np.array_equal(shown[:, 968:], picture_of(other, 4))


def test_pictures_follow_the_game():
    for frame, step in zip(pictures(game()), range(7), strict=True):
        assert np.array_equal(frame, picture_of(game(), step))


# ----------------------------------------------------------------------- animations and films


@pytest.mark.parametrize("ending", [".gif", ".webp"])
def test_animations(tmp_path, ending):
    path = tmp_path / f"game{ending}"
    export(game(), path, speed=8, scale=0.25)
    with Image.open(path) as animation:
        assert animation.size == (240, 160)
        assert animation.n_frames == 7
        durations = []
        for k in range(7):
            animation.seek(k)
            animation.load()
            durations.append(animation.info["duration"])
            small = Image.fromarray(picture_of(game(), k)).resize((240, 160), 1)
            difference = np.abs(
                np.array(animation.convert("RGB"), dtype=int) - np.array(small, dtype=int)
            )
            assert difference.mean() < 8
        assert durations[-1] == END_SECONDS * 1000
        assert {round(duration, -1) for duration in durations[:-1]} <= {120, 130}


def test_a_film(tmp_path):
    path = tmp_path / "game.mp4"
    export(game(), path, speed=5, scale=0.25)
    assert path.read_bytes()[4:8] == b"ftyp"
    command = [get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    read = subprocess.run(command, capture_output=True, check=True)
    assert re.search(rb"Video: h264.*240x160.* 5 fps", read.stderr)
    frames = np.frombuffer(read.stdout, dtype=np.uint8).reshape(-1, 160, 240, 3)
    assert len(frames) == 7 + END_SECONDS * 5 - 1
    for k in (0, 3, 6, -1):
        small = Image.fromarray(picture_of(game(), min(k % len(frames), 6))).resize((240, 160), 1)
        assert np.abs(frames[k] - np.array(small, dtype=int)).mean() < 8


@pytest.mark.parametrize("script", ["exit 3", "echo no room >&2; exit 1", "cat >/dev/null; exit 1"])
def test_a_film_that_fails_leaves_nothing(tmp_path, monkeypatch, script):
    broken = tmp_path / "ffmpeg"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(broken))
    with pytest.raises(OSError, match=r"ffmpeg cannot write .*game.mp4: (no room|1|3)"):
        export(game(), tmp_path / "game.mp4", speed=5)
    assert [path.name for path in tmp_path.iterdir()] == ["ffmpeg"]


def test_two_games_as_an_animation(tmp_path):
    path = tmp_path / "both.gif"
    export(game(6), path, game(4), scale=0.1)
    with Image.open(path) as animation:
        assert animation.size == (192, 64)
        assert animation.n_frames >= 7


def test_a_game_without_moves(tmp_path):
    empty = Playthrough.from_actions([], deal=21)
    for name in ("a.gif", "a.webp", "a.mp4", "a.png", "a.html"):
        export(empty, tmp_path / name, scale=None if name == "a.html" else 0.1)
        assert (tmp_path / name).stat().st_size > 0


# -------------------------------------------------------------------------------- the program


@pytest.mark.parametrize("ending", ["html", "png", "gif", "webp"])
def test_the_program_writes_it(run, file, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    scale = () if ending == "html" else ("--scale", 0.25)
    assert run(file, "--out", out, "--speed", 10, *scale) == (0, f"{out}\n", "")
    assert out.stat().st_size > 1000


def test_the_program_compares(run, file, tmp_path):
    other = tmp_path / "other.json"
    game(4, player="other").write(other)
    out = tmp_path / "out.html"
    assert run(file, "--compare", other, "--out", out, "--step", 2)[0] == 0
    page = out.read_text(encoding="utf-8")
    assert '"title":"game.json"' in page
    assert '"title":"other.json"' in page
    assert '"step":2}' in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x.jpg"], "ends in one of .html, .png, .gif, .webp, .mp4"),
        (["--out", "x"], "ends in one of"),
        (["--out", "x.png", "--step", "7"], "no step 7; the last one is 6"),
        (["--out", "x.html", "--step", "7"], "no step 7; the last one is 6"),
        (["--out", "x.png", "--step", "-1"], "--step"),
        (["--out", "x.gif", "--step", "1"], "a step goes with .png and .html"),
        (["--out", "x.html", "--scale", "1"], "a page has no scale"),
        (["--out", "x.png", "--scale", "3"], "--scale: '3' is not a number in 0.1..2"),
        (["--out", "x.webp", "--scale", "1.5"], "scale is a number in 0.1..1 for .webp"),
        (["--out", "x.png", "--scale", "nan"], "--scale: 'nan' is not a number in"),
        (["--out", "x.png", "--scale", "big"], "--scale: 'big' is not a number in"),
        (["--out", "x.gif", "--speed", "51"], "at most 50 steps per second"),
        (["--out", "x.gif", "--speed", "0"], "--speed: '0' is not a number above 0"),
        (["--out", "no/folder/x.html"], "No such file"),
        ([], "--out"),
    ],
)
def test_what_cannot_be_is_one_line(run, file, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(file, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["game.json"]


def test_other_deals_do_not_stand_beside_it(run, file, tmp_path):
    for name in ("x.html", "x.png", "x.gif"):
        status, _, err = run(file, "--compare", WON, "--out", tmp_path / name)
        assert status == 2
        assert "games of one deal" in err


def test_the_playthrough_itself_is_not_overwritten(run, tmp_path):
    path = tmp_path / "game.html"
    game().write(path)
    status, _, err = run(path, "--out", path)
    assert status == 2
    assert "--out names another file" in err
    assert read_playthrough(path) == game()


def test_a_bad_file_is_named(run, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text("{}")
    status, _, err = run(path, "--out", tmp_path / "x.html")
    assert status == 2
    assert "bad.json" in err


@pytest.mark.parametrize(
    ("module", "name", "extra"), [("PIL", "x.png", "render"), ("imageio_ffmpeg", "x.mp4", "film")]
)
def test_a_missing_package_is_named(run, file, tmp_path, monkeypatch, module, name, extra):
    for loaded in list(sys.modules):
        if loaded.split(".")[0] == module:
            monkeypatch.delitem(sys.modules, loaded)
    real = builtins.__import__

    def importing(wanted, *arguments, **keywords):
        if wanted.split(".")[0] == module:
            raise ImportError(wanted)
        return real(wanted, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", importing)
    status, _, err = run(file, "--out", tmp_path / name)
    assert status == 2
    assert f"qv-env[{extra}]" in err
    assert not (tmp_path / name).exists()


def test_what_breaks_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.gif"
    path.write_bytes(b"old")
    monkeypatch.setattr("PIL.Image.Image.save", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(game(), path, scale=0.1)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["x.gif"]


def test_speed_is_positive(tmp_path):
    for speed in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="speed"):
            export(game(), tmp_path / "x.html", speed=speed)


@pytest.mark.parametrize("ending", [".html", ".png", ".gif", ".webp", ".mp4"])
def test_links_are_followed_and_names_may_be_long(tmp_path, ending):
    place = tmp_path / ("n" * (255 - len(ending)) + ending)
    link = tmp_path / f"link{ending}"
    link.symlink_to(place)
    export(game(2), link)
    assert link.is_symlink()
    content = place.read_bytes()
    export(game(2), place)
    assert place.read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 2
