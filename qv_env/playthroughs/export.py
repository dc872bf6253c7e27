"""Exporting playthroughs as pictures, animations, films and pages.

=========  ===========================================  ==============================
ending     format                                       needs
=========  ===========================================  ==============================
``.html``  a page that replays it, in one file
``.png``   one step                                     Pillow (extra ``render``)
``.gif``   an animation                                 Pillow
``.webp``  an animation, smaller and in all colours     Pillow
``.mp4``   a film                                       Pillow and imageio-ffmpeg
                                                        (extra ``film``)
=========  ===========================================  ==============================

Files are written whole or not at all. Two playthroughs of one deal are shown side by side, aligned
so that both draw at the same moments.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from qv_env.files import replacing, write_text
from qv_env.playthroughs.playthrough import PathLike, Playthrough, states
from qv_env.playthroughs.show import STEPS_PER_SECOND
from qv_env.playthroughs.viewer import aligned, check_same_deal, viewer_page
from qv_env.render.layout import HEIGHT, last_move
from qv_env.render.pixels import draw

if TYPE_CHECKING:
    from PIL import Image

FORMATS = (".html", ".png", ".gif", ".webp", ".mp4")
DEFAULT_SCALES = {".png": 1.0, ".gif": 0.5, ".webp": 0.75, ".mp4": 1.0}
MIN_SCALE, MAX_SCALE = 0.1, 2.0
_MAX_SCALES = {".gif": 1.0, ".webp": 1.0}  # a whole animation is held in memory
END_SECONDS = 2.0  # how long the last position is shown

_GIF_TICK = 10  # milliseconds: the unit of a GIF's frame durations
_GIF_FASTEST = 1000 / (2 * _GIF_TICK)  # steps per second; viewers slow down faster animations
_GAP = 8  # pixels between two tables side by side


def export(
    playthrough: Playthrough,
    path: PathLike,
    other: Playthrough | None = None,
    step: int | None = None,
    speed: float = STEPS_PER_SECOND,
    scale: float | None = None,
    titles: Sequence[str] = ("", ""),
) -> None:
    """Export a playthrough in the format that the file's ending names.

    Args:
        playthrough: The game.
        path: A file that ends in ``.html``, ``.png``, ``.gif``, ``.webp`` or ``.mp4``; an existing
            one is replaced.
        other: A second playthrough of the same deal, shown beside the first.
        step: The step that a picture shows (None: the last), or the first step that a page shows
            (None: 0). With two games it is a moment, see ``qv_env.playthroughs.viewer.aligned``.
        speed: Steps per second, above 0; for a page, the initial speed.
        scale: Size of pictures; 1 is 960 x 640. None: ``DEFAULT_SCALES``.
        titles: Titles of the games on a page, in addition to their players' names.

    Raises:
        ValueError: The ending is unknown, an argument is invalid or does not apply to the format,
            or the playthroughs are of different deals.
        gymnasium.error.DependencyNotInstalled: Pillow or imageio-ffmpeg is missing.
        OSError: The file cannot be written.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in FORMATS:
        raise ValueError(f"a file ends in one of {', '.join(FORMATS)}, not in {ending!r}")
    if not 0 < speed < float("inf"):
        raise ValueError(f"speed is a number of steps per second above 0, not {speed!r}")
    if ending == ".html":
        if scale is not None:
            raise ValueError("a page has no scale: it takes the size of its window")
        write_text(path, viewer_page(playthrough, other, titles, speed, step or 0))
        return
    scale = DEFAULT_SCALES[ending] if scale is None else scale
    largest = _MAX_SCALES.get(ending, MAX_SCALE)
    if not MIN_SCALE <= scale <= largest:
        raise ValueError(
            f"scale is a number in {MIN_SCALE:g}..{largest:g} for {ending}, not {scale!r}"
        )
    if ending != ".png" and step is not None:
        raise ValueError(f"a step goes with .png and .html; {ending} shows them all")
    chosen = None
    if ending == ".png":
        chosen = [_last_moment(playthrough, other) if step is None else step]
    if ending == ".gif" and speed > _GIF_FASTEST:
        raise ValueError(f"a GIF shows at most {_GIF_FASTEST:g} steps per second, not {speed:g}")
    frames = _scaled(pictures(playthrough, other, chosen), scale)
    if ending == ".png":
        _write_png(path, next(frames))
    elif ending == ".gif":
        last = _last_moment(playthrough, other)
        samples = list(_scaled(pictures(playthrough, other, [0, last // 2, last]), scale))
        _write_gif(path, samples, frames, speed)
    elif ending == ".webp":
        _write_webp(path, list(frames), speed)
    else:
        _write_mp4(path, frames, speed)


def _last_moment(playthrough: Playthrough, other: Playthrough | None) -> int:
    if other is None:
        return len(playthrough.actions)
    check_same_deal(playthrough, other)
    return len(aligned(playthrough.actions, other.actions)) - 1


def pictures(
    playthrough: Playthrough, other: Playthrough | None = None, moments: Sequence[int] | None = None
) -> Iterator[np.ndarray]:
    """Yield the pictures of a game, or of two side by side: RGB, uint8 (640, width, 3).

    Args:
        playthrough: The game.
        other: A second game of the same deal.
        moments: The moments shown, in increasing order; None for all.

    Raises:
        qv_env.playthroughs.viewer.DifferentDealsError: The two are not of the same deal.
        ValueError: There is no such moment.
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    games = [playthrough] if other is None else [playthrough, other]
    if other is None:
        steps: list[tuple[int, ...]] = [(k,) for k in range(len(playthrough.actions) + 1)]
    else:
        check_same_deal(playthrough, other)
        steps = list(aligned(playthrough.actions, other.actions))
    last = len(steps) - 1
    wrong = [moment for moment in moments or () if not 0 <= moment <= last]
    if wrong:
        raise ValueError(f"there is no step {wrong[0]}; the last one is {last}")
    positions = [_Positions(game) for game in games]
    gap = np.zeros((HEIGHT, _GAP, 3), dtype=np.uint8)
    for moment in range(last + 1) if moments is None else moments:
        shown = [game.picture(step) for game, step in zip(positions, steps[moment], strict=True)]
        yield shown[0] if len(shown) == 1 else np.hstack([shown[0], gap, shown[1]])


class _Positions:
    """The pictures of a game's positions, drawn on request, in increasing order."""

    def __init__(self, playthrough: Playthrough) -> None:
        self._deal = playthrough.deal or ""
        self._states = list(states(playthrough))
        self._last: tuple[int, np.ndarray] | None = None

    def picture(self, step: int) -> np.ndarray:
        if self._last is None or self._last[0] != step:  # else unchanged: the other game moves
            game = self._states[step][0]
            move = None if step == 0 else last_move(self._states[step - 1][0], game)
            self._last = step, draw(game, self._deal, move)
        return self._last[1]


def _pillow() -> Any:
    """Import Pillow's module Image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise gym.error.DependencyNotInstalled(
            "pictures need Pillow: pip install 'qv-env[render]'"
        ) from error
    return Image


def _scaled(frames: Iterator[np.ndarray], scale: float) -> Iterator[Image.Image]:
    """Scale pictures, rounding both sides to even numbers of pixels, as films require."""
    pil = _pillow()
    for frame in frames:
        image = pil.fromarray(frame)
        if scale != 1:
            width, height = (max(2, 2 * round(side * scale / 2)) for side in image.size)
            image = image.resize((width, height), pil.Resampling.LANCZOS)
        yield image


def _durations(count: int, speed: float, tick: int = 1) -> list[int]:
    """Return how many milliseconds each of ``count`` pictures is shown, in whole ticks."""
    each = max(tick, round(1000 / speed / tick) * tick)
    return [each] * (count - 1) + [max(each, round(END_SECONDS * 1000))]


def _write_png(path: PathLike, image: Image.Image) -> None:
    with replacing(path) as temporary:
        image.save(temporary, format="PNG", optimize=True)


def _write_gif(
    path: PathLike, samples: list[Image.Image], frames: Iterator[Image.Image], speed: float
) -> None:
    pil = _pillow()
    # One palette for all frames, computed from a few of them, so that nothing flickers.
    width, height = samples[0].size
    sample = pil.new("RGB", (width, len(samples) * height))
    for k, frame in enumerate(samples):
        sample.paste(frame, (0, k * height))
    palette = sample.quantize(255, method=pil.Quantize.MEDIANCUT)
    indexed = [frame.quantize(palette=palette, dither=pil.Dither.NONE) for frame in frames]
    with replacing(path) as temporary:
        indexed[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=indexed[1:],
            duration=_durations(len(indexed), speed, _GIF_TICK),
            loop=0,
        )


def _write_webp(path: PathLike, frames: list[Image.Image], speed: float) -> None:
    with replacing(path) as temporary:
        frames[0].save(
            temporary,
            format="WEBP",
            save_all=True,
            append_images=frames[1:],
            duration=_durations(len(frames), speed),
            loop=0,
            quality=80,
            method=2,
        )


def _write_mp4(path: PathLike, frames: Iterator[Image.Image], speed: float) -> None:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        program = get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise gym.error.DependencyNotInstalled(
            "films need imageio-ffmpeg: pip install 'qv-env[film]'"
        ) from error
    first = next(frames)
    width, height = first.size
    with replacing(path) as temporary:
        command = [
            *(program, "-loglevel", "error", "-y"),
            *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{speed:g}"),
            *("-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20"),
            *("-movflags", "+faststart", "-f", "mp4", os.fspath(temporary)),
        ]
        image = first
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said) as ffmpeg,
        ):
            assert ffmpeg.stdin is not None
            try:
                for image in itertools.chain((first,), frames):
                    ffmpeg.stdin.write(image.tobytes())
                for _ in range(math.ceil(END_SECONDS * speed) - 1):
                    ffmpeg.stdin.write(image.tobytes())
                ffmpeg.stdin.close()
            except BrokenPipeError:  # ffmpeg's message tells why
                with contextlib.suppress(BrokenPipeError):
                    ffmpeg.stdin.close()
            except BaseException:
                ffmpeg.kill()
                raise
            status = ffmpeg.wait()
            said.seek(0)
            reason = " ".join(said.read(2000).decode(errors="replace").split())
        if status:
            raise OSError(f"ffmpeg cannot write {os.fspath(path)}: {reason or status}")
