"""The picture in a window, for ``render_mode="human"`` (needs pygame-ce, the extra ``human``).

Closing the window does not end the episode: the program that steps the environment continues at
full speed, without a window, until the environment is closed; only after that does a reset open a
window again. Every environment has its own window; a copy of an environment, deep or pickled, opens
a window when it is first stepped.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from qv_env.render import layout

if TYPE_CHECKING:
    import pygame

MAX_TABLES = 16  # the maximum number of games in a window
_MAX_SIZE = (1440, 960)  # of a window when it opens
_GROUND = (10, 28, 28)  # the colour around pictures

_open: weakref.WeakSet[Window] = weakref.WeakSet()


def _pygame() -> Any:
    """Import pygame; called when the first window opens."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError as error:
        raise gym.error.DependencyNotInstalled(
            "render_mode='human' needs pygame-ce: pip install 'qv-env[human]'"
        ) from error
    if not hasattr(pygame, "Window"):
        raise gym.error.DependencyNotInstalled(
            f"render_mode='human' needs pygame-ce 2.5.2 or newer, and this pygame is"
            f" {pygame.version.ver}: pip uninstall pygame, then pip install 'qv-env[human]'"
        )
    return pygame


def _grid(count: int, width: float, height: float) -> tuple[int, float]:
    """Return the number of columns that shows ``count`` tables largest, and their scale."""
    best = (1, 0.0)
    for columns in range(1, count + 1):
        rows = math.ceil(count / columns)
        scale = min(width / columns / layout.WIDTH, height / rows / layout.HEIGHT)
        if scale > best[1]:
            best = (columns, scale)
    return best


class Window:
    """A window that shows one table, or several in a grid; it opens at the first :meth:`show`.

    Copies, deep or pickled, are windows that have not opened yet.

    Args:
        title: The text of the title bar.
    """

    def __init__(self, title: str = "Quarante Voleurs") -> None:
        self.title = title
        self._dismissed = False  # closed by the user
        self._window: pygame.Window | None = None
        self._clock: pygame.time.Clock | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a window on the screen now."""
        return self._window is not None

    @property
    def dismissed(self) -> bool:
        """Whether the user closed the window; then nothing is shown until :meth:`close`."""
        return self._dismissed

    def show(self, frames: Sequence[np.ndarray], fps: float | None = None) -> None:
        """Show pictures, opening the window if necessary, and handle its events.

        Args:
            frames: RGB, uint8 (640, 960, 3) each, one per table; those after the first
                ``MAX_TABLES`` are not shown.
            fps: Wait until 1/fps seconds have passed since the last call that waited; None does
                not wait.

        Raises:
            gymnasium.error.DependencyNotInstalled: pygame-ce is missing.
            gymnasium.error.Error: There is no display to open a window on.
        """
        if self._dismissed:
            return
        frames = frames[:MAX_TABLES]
        if self._window is not None and not _pygame().display.get_init():
            self._take_down()  # another part of the program has quit pygame
        if self._window is None:
            self._open_window(len(frames))
        _see_to_events()
        if self._window is None:  # closed just now
            return
        self._paint(frames)
        if fps is not None and self._clock is not None:
            self._clock.tick(fps)

    def close(self) -> None:
        """Close the window; the next :meth:`show` opens a new one. Closing twice is fine."""
        self._take_down()
        self._dismissed = False

    def _open_window(self, count: int) -> None:
        pygame = _pygame()
        columns, scale = _grid(count, *_MAX_SIZE)
        scale = min(1.0, scale)
        rows = math.ceil(count / columns)
        size = (round(layout.WIDTH * scale) * columns, round(layout.HEIGHT * scale) * rows)
        try:
            if not pygame.display.get_init():
                pygame.display.init()
            self._window = pygame.Window(self.title, size, resizable=True)
            self._window.get_surface()
        except pygame.error as error:
            self._take_down()
            raise gym.error.Error(
                f"no window can be opened here ({error}); render_mode='rgb_array' needs no display"
            ) from error
        self._clock = pygame.time.Clock()
        _open.add(self)

    def _paint(self, frames: Sequence[np.ndarray]) -> None:
        pygame = _pygame()
        assert self._window is not None
        surface = self._window.get_surface()
        width, height = surface.get_size()
        columns, scale = _grid(len(frames), width, height)
        size = (max(1, int(layout.WIDTH * scale)), max(1, int(layout.HEIGHT * scale)))
        left = (width - size[0] * columns) // 2
        top = (height - size[1] * math.ceil(len(frames) / columns)) // 2
        surface.fill(_GROUND)
        for i, frame in enumerate(frames):
            data = np.ascontiguousarray(frame)
            picture = pygame.image.frombuffer(data, (frame.shape[1], frame.shape[0]), "RGB")
            if picture.get_size() != size:
                picture = pygame.transform.smoothscale(picture, size)
            row, column = divmod(i, columns)
            surface.blit(picture, (left + column * size[0], top + row * size[1]))
        self._window.flip()

    def _dismiss(self) -> None:
        self._dismissed = True
        self._take_down()

    def _take_down(self) -> None:
        _open.discard(self)
        if self._window is None:
            return
        window, self._window, self._clock = self._window, None, None
        window.destroy()
        pygame = _pygame()
        # The last window quits pygame's display, unless another part of the program uses it.
        if not _open and pygame.display.get_init() and pygame.display.get_surface() is None:
            pygame.display.quit()

    def __copy__(self) -> Window:
        return Window(self.title)

    def __deepcopy__(self, memo: dict[int, Any]) -> Window:
        return Window(self.title)

    def __reduce__(self) -> tuple[type[Window], tuple[str]]:
        return Window, (self.title,)


def _see_to_events() -> None:
    """Dismiss the windows that the user closed, and keep the others responsive."""
    pygame = _pygame()
    kinds = (pygame.QUIT, pygame.WINDOWCLOSE)
    # The other events are left for parts of the program that have their own pygame display.
    alone = pygame.display.get_surface() is None
    for event in pygame.event.get() if alone else pygame.event.get(kinds):
        if event.type in kinds:
            which = getattr(event, "window", None)  # a QUIT event concerns all windows
            for window in list(_open):
                if event.type == pygame.QUIT or window._window is which:
                    window._dismiss()
            if not _open:
                return
