"""Playthroughs in the terminal: controlled by keys or lines, as an animation, or printed.

Control by keys needs a POSIX terminal (``termios``); elsewhere the viewer reads lines. However the
viewer ends, the terminal's state is restored.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, NoReturn, TextIO

from qv_env.actions import ACTION_NAMES, FOUNDATION, WASTE
from qv_env.cards import NUM_RANKS, NUM_SUITS, RANK_LETTERS, SUIT_SYMBOLS
from qv_env.command_line import printable
from qv_env.playthroughs.playthrough import Playthrough, Step, states
from qv_env.render.layout import last_move
from qv_env.rules import Game, column_top, foundation_top, waste_top
from qv_env.text import board_text

try:
    import termios
    import tty
except ImportError:  # no POSIX: lines instead of keys
    HAS_KEYS = False
else:
    HAS_KEYS = True

STEPS_PER_SECOND = 4.0
SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # the choices of + and -
LEAP = 10  # steps skipped by up and down

_LIKELIEST_SHOWN = 5

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l"  # the alternate screen, with the cursor hidden
_LEAVE_SCREEN = "\x1b[?25h\x1b[?1049l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR, _HOME, _LINE_END, _SCREEN_END = "\x1b[2J", "\x1b[H", "\x1b[K\n", "\x1b[K\x1b[J"
_RED, _REVERSE, _PLAIN = "\x1b[31m", "\x1b[7m", "\x1b[0m"
_RED_CARD = re.compile(r"(?:10|[2-9AJQK])?[♥♦]")

_KEYS_LINE = "→/n ←/p step  ↓ ↑ 10 steps  Home End  a auto  + - speed  g jump  q quit"


# ------------------------------------------------------------------------------------- frames


class Place(NamedTuple):
    """The position of a card on a printed board: its pile's label, and its row.

    Attributes:
        label: ``waste``, ``f1`` .. ``f8`` or ``c1`` .. ``c10``.
        row: The row below the label, from 0; 0 for waste and foundations.
    """

    label: str
    row: int


class Film:
    """A playthrough with all of its positions, and the text shown with each.

    Args:
        playthrough: The game.
        title: The start of the first line, such as the file's name.
    """

    def __init__(self, playthrough: Playthrough, title: str = "") -> None:
        self.playthrough = playthrough
        self.title = printable(title)
        self.positions = list(states(playthrough))
        self.steps = playthrough.steps()

    @property
    def last(self) -> int:
        """The number of the last step; 0 is the position before the first one."""
        return len(self.steps)

    def header(self, number: int) -> list[str]:
        """Return the lines above the board after a step: who plays, the move, the estimates."""
        first = [self.title] if self.title else []
        if self.playthrough.player:
            first.append(f"player {printable(self.playthrough.player)}")
        first.append(f"step {number}/{self.last}")
        return ["  ".join(first), self._move_line(number), *self._estimate_lines(number)]

    def board(self, number: int) -> str:
        """Return the board after a step, as ``board_text`` without colours."""
        return board_text(self.positions[number][0], self.playthrough.deal or "explicit deck")

    def moved_to(self, number: int) -> Place | None:
        """Return where the last moved card lies after a step; None at the start."""
        if number == 0:
            return None
        before, after = self.positions[number - 1][0], self.positions[number][0]
        move = last_move(before, after)
        assert move is not None, "each step of a playthrough moves a card"
        if move.target == WASTE:
            return Place("waste", 0)
        if move.target == FOUNDATION:
            return Place(f"f{move.target_index + 1}", 0)
        return Place(f"c{move.target_index + 1}", int(after["heights"][move.target_index]) - 1)

    def _move_line(self, number: int) -> str:
        if number == 0:
            return "the deal"
        step = self.steps[number - 1]
        card = _moved_card(self.positions[number][0], self.moved_to(number))
        won = "  won" if number == self.last and self.playthrough.won else ""
        return f"{step.name} {card}  {step.points:+d}  score {step.score}{won}"

    def _estimate_lines(self, number: int) -> list[str]:
        """The player's estimates before the next action, if they are recorded."""
        game, parts = self.playthrough, []
        if game.values is None and game.likeliest is None:
            return []
        if number < self.last:
            if game.values is not None:
                parts.append(f"value {game.values[number]:.1f}")
            if game.likeliest is not None:
                shown = game.likeliest[number][:_LIKELIEST_SHOWN]
                parts.append(
                    "likeliest "
                    + (" ".join(f"{ACTION_NAMES[action]} {p:.0%}" for action, p in shown) or "none")
                )
        return ["  ".join(parts)]  # at the end an empty line, so that the board does not move


def _moved_card(game: Game, place: Place | None) -> str:
    """The card at a place, for people: ``10♥``."""
    assert place is not None
    if place.label == "waste":
        card_id = waste_top(game)
    elif place.label.startswith("f"):
        card_id = foundation_top(game, int(place.label[1:]) - 1)
    else:
        card_id = column_top(game, int(place.label[1:]) - 1)
    suit, rank = divmod(int(card_id) - 1, NUM_RANKS)
    return RANK_LETTERS[rank].replace("T", "10") + SUIT_SYMBOLS[suit % NUM_SUITS]


def frame(film: Film, number: int, color: bool = False, highlight: bool = False) -> str:
    """Return header and board after a step, as lines.

    Args:
        film: The game.
        number: 0 (before the first step) to ``film.last``.
        color: Whether red suits are printed in red, with terminal escapes.
        highlight: Whether the moved card is shown in reverse video.
    """
    lines = film.board(number).splitlines()
    place = film.moved_to(number) if highlight else None
    painted = _painted(lines, color, place)
    return "\n".join([*film.header(number), "", *painted]) + "\n"


def _painted(lines: list[str], color: bool, place: Place | None) -> list[str]:
    """Board lines with red suits, and with one card in reverse video."""
    at, start, end = _span(lines, place) if place else (-1, 0, 0)
    painted = []
    for k, line in enumerate(lines):
        if k != at:
            painted.append(_reds(line) if color else line)
            continue
        card = line[start:end]
        red = _RED if color and _RED_CARD.search(card) else ""
        before, after = line[:start], line[end:]
        if color:
            before, after = _reds(before), _reds(after)
        painted.append(f"{before}{_REVERSE}{red}{card}{_PLAIN}{after}")
    return painted


def _reds(line: str) -> str:
    return _RED_CARD.sub(lambda match: f"{_RED}{match[0]}{_PLAIN}", line)


def _span(lines: list[str], place: Place) -> tuple[int, int, int]:
    """Line, first and last column of the card at a place, found by the board's own labels."""
    if place.label == "waste":
        k = next(k for k, line in enumerate(lines) if " waste " in line)
        return k, lines[k].rindex(" ") + 1, len(lines[k])
    # The labels c1 and c10 differ by their ends.
    label = re.compile(rf"\b{place.label}\b")
    k, match = next(
        (k, match) for k, line in enumerate(lines) if (match := label.search(line)) and k > 1
    )
    k += 1 + place.row
    end = match.end()
    card = lines[k][:end].rsplit(" ", 1)[-1]
    return k, end - len(card), end


def move_lines(steps: list[Step]) -> Iterator[str]:
    """Yield a line per move: its number, name, points and the score after it."""
    yield f"{'step':>4}  {'action':<6}  {'points':>6}  {'score':>5}"
    for step in steps:
        yield f"{step.number:>4}  {step.name:<6}  {step.points:>+6d}  {step.score:>5}"


def summary(film: Film) -> Iterator[str]:
    """Yield the lines that describe a whole game: first board, moves, final board."""
    yield from frame(film, 0).splitlines()
    yield ""
    yield from move_lines(film.steps)
    yield ""
    yield from frame(film, film.last).splitlines()


# ----------------------------------------------------------------------------------- animation


def animate(film: Film, out: TextIO, color: bool, speed: float = STEPS_PER_SECOND) -> None:
    """Show every position in turn, without keys; the last one remains on the screen.

    Args:
        film: The game.
        out: The output; on a terminal, each position replaces the previous one.
        color: Whether red suits are red.
        speed: Steps per second.
    """
    on_screen = out.isatty()
    try:
        if on_screen:
            out.write(_HIDE_CURSOR + _CLEAR)
        for number in range(film.last + 1):
            if number:
                out.flush()
                time.sleep(1 / speed)
            text = frame(film, number, color, highlight=on_screen)
            if on_screen:
                out.write(_screen(text.splitlines()) + "\n")
            else:
                out.write(text + "\n")
        out.flush()
    finally:
        if on_screen:
            out.write(_SHOW_CURSOR)
            out.flush()


def _screen(lines: list[str], bottom: str = "") -> str:
    """Return the text that redraws the terminal's screen with as many lines as fit."""
    width, height = shutil.get_terminal_size()
    room = height - 1
    if len(lines) + bool(bottom) > room:
        lines = [line for line in lines if line]
    if len(lines) + bool(bottom) > room:
        kept = max(room - 1 - bool(bottom), 0)
        lines = [*lines[:kept], f"({len(lines) - kept} more lines: enlarge the window)"]
    if bottom:
        lines = [*lines, bottom]
    return _HOME + _LINE_END.join(_clipped(line, width) for line in lines) + _SCREEN_END


def _clipped(line: str, width: int) -> str:
    """Cut a line to a width. Lines with escapes are those of a board, which is narrow."""
    return line if "\x1b" in line else line[: max(width - 1, 1)]


# ------------------------------------------------------------------------------------- with keys

_SEQUENCES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "up",  # page up, page down
    "6~": "down",
    "7~": "home",
    "8~": "end",
}
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")


def split_keys(text: str) -> tuple[list[str], str]:
    """Split what a terminal sent into keys.

    Returns:
        Characters and names (``up``, ``right``, ``home``, ``escape``, ...; "" for a key that has
        no meaning here), and the rest: an incomplete escape sequence.
    """
    keys, at = [], 0
    while at < len(text):
        if text[at] != "\x1b":
            keys.append(text[at])
            at += 1
        elif match := _ESCAPE_SEQUENCE.match(text, at):
            keys.append(_SEQUENCES.get(match[0][2:], ""))
            at = match.end()
        elif _UNFINISHED.match(text, at):
            break
        else:
            keys.append("escape")
            at += 1
    return keys, text[at:]


class Controls:
    """The state of the viewer and the effect of each key, independent of the terminal.

    Args:
        last: The last step's number.
        speed: Steps per second of the automatic play.

    Attributes:
        number: The step that is shown.
        playing: Whether automatic play is on.
        speed: Steps per second.
        prompt: The digits of a jump that is being typed, or None.
        notice: The message of the last key.
        ended: Whether the viewer was asked to quit.
    """

    def __init__(self, last: int, speed: float = STEPS_PER_SECOND) -> None:
        self.last = last
        self.number = 0
        self.playing = False
        self.speed = speed
        self.prompt: str | None = None
        self.notice = ""
        self.ended = False

    def press(self, key: str) -> None:
        """Handle a key (see ``split_keys``)."""
        self.notice = ""
        if self.prompt is not None and self._typed(key):
            return
        if key in ("q", "\x03", "\x04"):  # Ctrl-C and Ctrl-D, where they come as characters
            self.ended = True
        elif key == "a":
            self.playing = not self.playing and self.number < self.last
        elif key in ("+", "="):
            self.speed = min((s for s in SPEEDS if s > self.speed), default=self.speed)
        elif key in ("-", "_"):
            self.speed = max((s for s in SPEEDS if s < self.speed), default=self.speed)
        elif key == "g" or (key.isascii() and key.isdigit()):
            self.playing = False
            self.prompt = key if key != "g" else ""
        else:
            self._go(key)

    def tick(self) -> None:
        """Advance one step in automatic play, which ends with the game."""
        self.number = min(self.number + 1, self.last)
        self.playing = self.playing and self.number < self.last

    def status(self) -> str:
        """Return the line below the board."""
        if self.prompt is not None:
            return f"jump to step (0..{self.last}): {self.prompt}_"
        if self.notice:
            return self.notice
        if self.playing:
            return f"automatic, {self.speed:g} steps/s  + - speed  a stop  q quit"
        return _KEYS_LINE

    def _typed(self, key: str) -> bool:
        """Handle a key of the jump that is being typed; return whether it was one."""
        assert self.prompt is not None
        if key.isascii() and key.isdigit():
            self.prompt = (self.prompt + key)[:9]
        elif key in ("\x7f", "\b"):
            self.prompt = self.prompt[:-1]
        elif key in ("\r", "\n"):
            self._jump(self.prompt)
            self.prompt = None
        elif key in ("escape", "g"):
            self.prompt = None
        else:  # any other key cancels the jump and is handled as usual
            self.prompt = None
            return False
        return True

    def _jump(self, digits: str) -> None:
        if digits and int(digits) <= self.last:
            self.number = int(digits)
        elif digits:
            self.notice = f"there is no step {int(digits)}; the last one is {self.last}"

    def _go(self, key: str) -> None:
        targets = {
            **dict.fromkeys(("right", " ", "n"), self.number + 1),
            **dict.fromkeys(("left", "p"), self.number - 1),
            "down": self.number + LEAP,
            "up": self.number - LEAP,
            "home": 0,
            "end": self.last,
        }
        if key in targets:
            self.playing = False
            self.number = min(max(targets[key], 0), self.last)


def interact(film: Film, color: bool, speed: float = STEPS_PER_SECOND) -> None:
    """Show a game on the terminal of stdin and stdout, controlled by keys (or by lines).

    Args:
        film: The game.
        color: Whether red suits are red.
        speed: Steps per second of the automatic play.
    """
    if HAS_KEYS and os.environ.get("TERM") != "dumb":
        _Terminal(film, color, speed).run()
    else:
        _interact_by_lines(film)


class _Terminal:
    """The viewer with keys on a POSIX terminal."""

    _PATIENCE = 0.25  # seconds until the window's size is checked, and a lone escape is a key

    def __init__(self, film: Film, color: bool, speed: float) -> None:
        self.film = film
        self.color = color
        self.controls = Controls(film.last, speed)
        self.input = sys.stdin.fileno()
        self.unread = ""
        self.modes: Any = None

    def run(self) -> None:
        self.modes = termios.tcgetattr(self.input)
        # A signal that ends the program must not leave the terminal without echo or cursor.
        handlers = {s: signal.signal(s, _end_program) for s in (signal.SIGTERM, signal.SIGHUP)}
        try:
            self._enter()
            self._loop()
        finally:
            self._leave()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _enter(self) -> None:
        tty.setcbreak(self.input, termios.TCSADRAIN)  # keeps keys that were typed ahead
        modes = termios.tcgetattr(self.input)
        modes[6][termios.VSUSP] = b"\0"  # Ctrl-Z is read as a key: first the screen is left
        termios.tcsetattr(self.input, termios.TCSADRAIN, modes)
        sys.stdout.write(_ENTER_SCREEN + _CLEAR)

    def _leave(self) -> None:
        try:
            sys.stdout.write(_LEAVE_SCREEN)
            sys.stdout.flush()
        finally:
            with contextlib.suppress(termios.error):  # if the terminal is gone
                termios.tcsetattr(self.input, termios.TCSADRAIN, self.modes)

    def _loop(self) -> None:
        controls, size, due = self.controls, shutil.get_terminal_size(), 0.0
        self._draw()
        while not controls.ended:
            was_playing, speed = controls.playing, controls.speed
            timeout = self._PATIENCE
            if was_playing:
                timeout = min(timeout, max(due - time.monotonic(), 0.0))
            keys = self._keys(timeout)
            for key in keys:
                if key == "\x1a":
                    self._suspend()
                controls.press(key)
                if controls.ended:
                    return
            now = time.monotonic()
            if controls.playing and (not was_playing or speed != controls.speed):
                due = now + 1 / controls.speed
            ticked = controls.playing and now >= due
            if ticked:
                controls.tick()
                due = now + 1 / controls.speed
            new_size = shutil.get_terminal_size()
            if keys or ticked or new_size != size:
                size = new_size
                self._draw()

    def _draw(self) -> None:
        lines = frame(self.film, self.controls.number, self.color, highlight=True).splitlines()
        sys.stdout.write(_screen([*lines, ""], self.controls.status()))
        sys.stdout.flush()

    def _keys(self, timeout: float) -> list[str]:
        """Return the keys pressed so far, waiting for one until the timeout."""
        if not select.select([self.input], [], [], timeout)[0]:
            waiting, self.unread = self.unread, ""
            return ["escape"] if waiting else []
        try:
            read = os.read(self.input, 1024)
        except OSError:  # the terminal hung up
            read = b""
        if not read:
            return ["q"]
        keys, self.unread = split_keys(self.unread + read.decode("latin-1"))
        return keys

    def _suspend(self) -> None:
        self._leave()
        os.kill(0, signal.SIGTSTP)  # to the whole foreground job, as the terminal would do
        self._enter()


def _end_program(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _interact_by_lines(film: Film) -> None:
    """The viewer for terminals on which single keys cannot be read."""
    controls = Controls(film.last)
    while not controls.ended:
        print(frame(film, controls.number))
        if controls.notice:
            print(controls.notice)
        try:
            line = input(f"Enter next, p back, 0..{film.last} jump, q quit: ").strip().lower()
        except EOFError:
            print()
            return
        keys = [*line, "\n"] if line.isascii() and line.isdigit() else [line or "n"]
        for key in keys:
            controls.press(key)
