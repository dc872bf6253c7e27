"""``python -m qv_env``: its commands, its errors, and the viewer on a terminal."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qv_env
from qv_env.__main__ import main
from qv_env.deals import HELD_OUT_FROM, deal_code, deck_of
from qv_env.playthroughs import show
from qv_env.playthroughs.playthrough import Playthrough, read_playthrough, states
from qv_env.playthroughs.show import Controls, Film, frame, move_lines, split_keys
from qv_env.rules import new_game
from qv_env.text import board_text, parse_state, state_text
from tests import golden

WON = Path(__file__).parent / "data" / "won.json"
GUARD = 120  # seconds: only a hanging program ever waits as long

ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the program in this process; return status, stdout and stderr."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as error:  # argparse's way out
            status = int(error.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return call


def golden_game(**changes) -> Playthrough:
    actions = golden.chosen_actions(golden.DEAL, golden.SEED, golden.MOVES_PLAYED)
    return Playthrough.from_actions(actions, **{"deal": golden.DEAL, "player": "random", **changes})


def estimated_game() -> Playthrough:
    plain = golden_game()
    return golden_game(
        values=[500 + k / 4 for k in range(len(plain.actions))],
        likeliest=[[(action, 0.755), (0, 0.245)] for action in plain.actions],
    )


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "game.json"
    estimated_game().write(path)
    return path


# ----------------------------------------------------------------------------------------- deal


@pytest.mark.parametrize("name", ["FT1-N-AAAAAAV", "ft1-n-aaaaaav", "21", "0021"])
def test_deal_by_code_or_number(run, name):
    status, out, err = run("deal", name)
    board = board_text(new_game(deck_of(21))[0])
    assert (status, err) == (0, "")
    assert out == f"code    FT1-N-AAAAAAV\nnumber  21\n\n{board}"


def test_deal_as_text_is_read_back(run):
    status, out, _ = run("deal", "21", "--text", "--stock")
    assert status == 0
    assert np.array_equal(parse_state(out), new_game(deck_of(21)))
    assert run("deal", "21", "--text")[1] == state_text(new_game(deck_of(21))[0])


def test_deal_shows_the_stock_only_when_asked(run):
    plain = run("deal", "21")[1]
    assert "5D 4S 6H 4S" not in plain
    out = run("deal", "21", "--stock")[1]
    head, _, stock = out.partition("\nstock, next card first:\n")
    assert head == plain
    assert stock.split() == qv_env.cards_text(deck_of(21)[40:]).split()


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_deal_by_seed_is_the_one_that_reset_gives(run, seed):
    _, info = qv_env.QuaranteVoleursEnv().reset(seed=seed)
    assert run("deal", "--seed", seed)[1].split()[1] == info["deal"]


@pytest.mark.parametrize("arguments", [["--random"], []])
def test_deal_at_random(run, arguments):
    words = run("deal", *arguments)[1].split()
    number = int(words[3])
    assert words[1] == deal_code(number)
    assert number < HELD_OUT_FROM
    assert run("deal", *arguments)[1].split()[1] != words[1]


# --------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["fly"], "invalid choice: 'fly'"),
        (["deal", "FT1-N-AAAAAA1"], "deal code 'FT1-N-AAAAAA1' has '1'"),
        (["deal", "hello"], "deal code 'hello' does not start with FT1-N-"),
        (["deal", "hel\nlo"], "deal code 'hel\\nlo' does not start with FT1-N-"),
        (["deal", ""], "deal code '' does not start with"),
        (["deal", "-1"], "deal number -1 is outside"),
        (["deal", 2**35], f"deal number {2**35} is outside"),
        (["deal", "9" * 5000], "Exceeds the limit"),
        (["deal", "21", "22"], "unrecognized arguments: 22"),
        (["deal", "21", "--random"], "not allowed with argument"),
        (["deal", "--seed"], "expected one argument"),
        (["deal", "--seed", "x"], "--seed: 'x' is not an integer in 0..9223372036854775807"),
        (["deal", "--seed", "1_0"], "--seed: '1_0' is not an integer in 0..9223372036854775807"),
        (["deal", "--seed=-1"], "--seed: -1 is not at least 0"),
        (["show"], "the following arguments are required: FILE"),
        (["show", "none.json"], "none.json: No such file or directory"),
        (["show", WON, "--step", "228"], "won.json has no step 228; the last one is 227"),
        (["show", WON, "--step", "x"], "--step: 'x' is not an integer in 0.."),
        (["show", WON, "--step=-1"], "--step: -1 is not at least 0"),
        (["show", WON, "--moves", "--play"], "not allowed with argument"),
        (["show", WON, "--speed", "0"], "--speed: '0' is not a number above 0, at most 1000"),
        (["show", WON, "--speed", "nan"], "--speed: 'nan' is not a number above 0, at most 1000"),
        (["show", WON, "--speed", "inf"], "--speed: 'inf' is not a number above 0, at most 1000"),
        (["show", WON, "--speed", "fast"], "--speed: 'fast' is not a number above 0, at most 1000"),
        (["show", __file__], "test_cli.py: this is not JSON"),
        (["check"], "the following arguments are required: FILE"),
        (["check", ""], "'' is not a path"),
        (["play", "--terminal", "--store", WON], "won.json/playthroughs: Not a directory"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("python -m qv_env")
    assert err.endswith("\n")
    assert err.count("\n") == 1


def test_help(run):
    for arguments, part in [
        ([], "check"),
        (["deal"], "--stock"),
        (["show"], "Home"),
        (["check"], ""),
    ]:
        status, out, err = run(*arguments, "--help")
        assert (status, err) == (0, "")
        assert part in out
    assert run("--version")[1] == f"qv_env {qv_env.__version__}\n"


# ---------------------------------------------------------------------------------------- check


def test_check(run, tmp_path):
    good, bad, torn = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "torn.json"
    Playthrough.from_actions([0], deck=deck_of(3)).write(good)
    text = good.read_text(encoding="utf-8")
    bad.write_text(text.replace('"actions":[0]', '"actions":[0,112]'), encoding="utf-8")
    torn.write_text(text[:100], encoding="utf-8")
    none = tmp_path / "no\nne.json"
    fine = f"ok   {WON}: FT1-N-AAAAABE, 227 moves, score 1210, won\n"
    assert run("check", WON) == (0, fine, "")
    status, out, err = run("check", good, bad, WON, torn, none, tmp_path)
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert len(lines) == 6
    assert lines[0] == f"ok   {good}: explicit deck, 1 moves, score 0, not won"
    assert lines[1].startswith(f"bad  {bad}: step 2 (f1>c1) is refused: ")
    assert f"{lines[2]}\n" == fine
    assert lines[3].startswith(f"bad  {torn}: the JSON is cut off (line 1, column ")
    assert lines[4] == f"bad  {tmp_path}/no\\nne.json: No such file or directory"
    assert lines[5] == f"bad  {tmp_path}: Is a directory"


# --------------------------------------------------------------------------- show, not interactive


def test_show_prints_boards_and_moves(run, file):
    status, out, err = run("show", file)
    assert (status, err) == (0, "")
    played = read_playthrough(file)
    positions = [position[0] for position in states(played)]
    first, last = board_text(positions[0], played.deal), board_text(positions[-1], played.deal)
    assert out.startswith("game.json  player random  step 0/100\nthe deal\nvalue 500.0  likeliest ")
    assert out.index(first) < out.index("step  action  points  score\n") < out.index(last)
    moves = [line.split() for line in out.splitlines() if re.match(r" *\d+  [dwcf]\S* ", line)]
    assert moves == [
        [str(s.number), s.name, f"{s.points:+d}", str(s.score)] for s in played.steps()
    ]
    assert out.endswith(last)
    assert "\x1b" not in out


def test_show_moves(run, file):
    out = run("show", file, "--moves")[1]
    assert out.splitlines() == list(move_lines(read_playthrough(file).steps()))
    assert out.splitlines()[8] == "   8  f3>c1      -15      5"


def test_show_a_step(run, file):
    played = read_playthrough(file)
    for number, position in enumerate(states(played)):
        lines = run("show", file, "--step", number)[1].splitlines(keepends=True)
        assert lines[0] == f"game.json  player random  step {number}/100\n"
        assert "".join(lines[4:]) == board_text(position[0], played.deal)
    assert run("show", file, "--step", 8)[1].splitlines()[1:3] == [
        "f3>c1 2♦  -15  score 5",
        "value 502.0  likeliest draw 76% draw 24%",
    ]


def test_show_of_the_end_says_won(run):
    assert "K♥  +10  score 1210  won\n" in run("show", WON, "--step", 227)[1]
    assert "  won\n" not in run("show", WON, "--step", 226)[1]


def test_show_animated_without_a_terminal(run, file, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(show.time, "sleep", waits.append)
    out = run("show", file, "--play", "--speed", "8")[1]
    film = Film(read_playthrough(file), "game.json")
    assert out == "".join(frame(film, number) + "\n" for number in range(101))
    assert waits == [1 / 8] * 100


def test_a_player_cannot_steer_the_terminal(run, tmp_path):
    path = tmp_path / "game.json"
    Playthrough.from_actions([0], deal=1, player="\x1b[2Jx\n\ud800é").write(path)
    for arguments in (["show", path], ["show", path, "--step", "1"]):
        out = run(*arguments)[1]
        assert r"player \x1b[2Jx\n\ud800é" in out
        assert "\x1b" not in out


class FakeTerminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal_and_without_no_color(monkeypatch, file):
    def out(*arguments: object) -> str:
        terminal = FakeTerminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main([str(argument) for argument in arguments]) == 0
        return terminal.getvalue()

    monkeypatch.setenv("NO_COLOR", "")  # empty is as if not there
    board = board_text(new_game(deck_of(21))[0], color=True)
    assert "\x1b[31m" in board
    assert board in out("deal", "21")
    colored = out("show", file, "--step", "8")
    assert "\x1b[7m\x1b[31m2♦\x1b[0m" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in out("deal", "21")
    plain = out("show", file, "--step", "8")
    assert plain == ESCAPES.sub("", colored)


def test_the_moved_card_is_highlighted_where_it_lies():
    film = Film(golden_game())
    for number in range(film.last + 1):
        plain = frame(film, number)
        for color in (False, True):
            text = frame(film, number, color, highlight=True)
            assert ESCAPES.sub("", text) == plain
            marked = re.findall(r"\x1b\[7m(?:\x1b\[31m)?(\S+?)\x1b\[0m", text)
            assert marked == ([plain.splitlines()[1].split()[1]] if number else [])
            reds = len(re.findall("\x1b\\[31m", text))
            board = "".join(plain.splitlines()[3:])
            assert reds == (len(re.findall("[♥♦]", board)) if color else 0)


# ------------------------------------------------------------------------------ as a program


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LINES", "COLUMNS")}
    return {**kept, "TERM": "xterm", "PYTHONWARNINGS": "error", "PYTHONUTF8": "1", **changes}


def program(*arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "qv_env", *map(str, arguments)]
    options = {"env": environment(), "stdin": subprocess.DEVNULL, **options}
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=GUARD, check=False, **options)


def test_the_program_and_what_it_imports():
    done = program("deal", "21", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"code    FT1-N-AAAAAAV\n")
    code = "import sys, qv_env.__main__; print('torch' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=GUARD)
    assert done.stdout.split() == [b"False", b"False"]


def test_an_encoding_without_suits_gets_letters():
    done = program(
        "deal",
        "21",
        stdout=subprocess.PIPE,
        env=environment(PYTHONUTF8="0", PYTHONIOENCODING="ascii"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b" JH   QD  10H   KD   5D" in done.stdout


@pytest.mark.parametrize("arguments", [["show", WON], ["show", WON, "--moves"], ["deal", "21"]])
def test_a_reader_that_leaves_early(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = program(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb") as full:
        done = program("show", WON, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"python -m qv_env: standard output: No space left on device\n"


def test_a_stdout_that_is_closed():
    shell = ["sh", "-c", f'exec "{sys.executable}" -m qv_env deal 21 >&-']
    if sys.platform == "win32":
        pytest.skip("needs a POSIX shell")
    done = subprocess.run(shell, stderr=subprocess.PIPE, env=environment(), timeout=GUARD)
    assert (done.returncode, done.stderr) == (0, b"")


# ------------------------------------------------------------------------------ keys, by themselves


@pytest.mark.parametrize(
    ("text", "keys", "rest"),
    [
        ("n", ["n"], ""),
        ("\x1b[C\x1b[D", ["right", "left"], ""),
        ("\x1bOA\x1bOB", ["up", "down"], ""),
        ("\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"], ""),
        ("\x1b[5~\x1b[6~", ["up", "down"], ""),
        ("n\x1b", ["n"], "\x1b"),
        ("\x1b[", [], "\x1b["),
        ("\x1b[1", [], "\x1b[1"),
        ("\x1bO", [], "\x1bO"),
        ("\x1b[1;5C", [""], ""),
        ("\x1bx", ["escape", "x"], ""),
        ("\x1b\x1b[C", ["escape", "right"], ""),
    ],
)
def test_splitting_keys(text, keys, rest):
    assert split_keys(text) == (keys, rest)


def pressed(*keys: str, last: int = 100, number: int = 50) -> Controls:
    controls = Controls(last)
    controls.number = number
    for key in keys:
        controls.press(key)
    return controls


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        (["right"], 51),
        ([" ", "n"], 52),
        (["left", "p"], 48),
        (["down"], 60),
        (["up"], 40),
        (["home"], 0),
        (["home", "left"], 0),
        (["end"], 100),
        (["end", "right", "down"], 100),
        (["7", "\n"], 7),
        (["1", "0", "0", "\r"], 100),
        (["g", "4", "2", "\n"], 42),
        (["4", "2", "\x7f", "\n"], 4),
        (["4", "escape"], 50),
        (["g", "\n"], 50),
        (["1", "0", "1", "\n"], 50),
        (["9"] * 40 + ["\n"], 50),
        (["4", "n"], 51),
        (["", "é", "²", "?"], 50),
    ],
)
def test_where_keys_lead(keys, number):
    controls = pressed(*keys)
    assert controls.number == number
    assert controls.prompt is None
    assert not controls.ended


def test_what_the_status_line_says():
    assert pressed("1", "2").status() == "jump to step (0..100): 12_"
    assert pressed("1", "0", "1", "\n").status() == "there is no step 101; the last one is 100"
    assert "q quit" in pressed().status()
    assert pressed("a", "+").status().startswith("automatic, 8 steps/s")


def test_automatic_play():
    controls = pressed("a", number=98)
    assert controls.playing
    controls.tick()
    assert (controls.number, controls.playing) == (99, True)
    controls.tick()
    assert (controls.number, controls.playing) == (100, False)
    controls.press("a")
    assert not controls.playing  # there is nothing left to play
    for keys in (["a"], ["n"], ["5"], ["home"]):
        assert not pressed("a", *keys).playing
    assert pressed("a", *["+"] * 9).speed == show.SPEEDS[-1]
    assert pressed("a", *["-"] * 9).speed == show.SPEEDS[0]


def test_what_quits():
    for key in ("q", "\x03", "\x04"):
        assert pressed(key).ended
        assert pressed("5", key).ended


def test_a_small_window_is_never_overrun(monkeypatch):
    film = Film(estimated_game(), "game.json")
    lines = [*frame(film, 90).splitlines(), ""]
    for height in range(1, 40):
        for width in (1, 20, 200):
            monkeypatch.setattr(
                show.shutil, "get_terminal_size", lambda w=width, h=height: os.terminal_size((w, h))
            )
            drawn = ESCAPES.sub("", show._screen(lines, "the keys")).split("\n")
            assert len(drawn) <= max(height - 1, 2)
            assert all(len(line) < max(width, 2) for line in drawn)
            assert "the keys".startswith(drawn[-1])
            assert any("more lines" in line for line in drawn) <= (height < len(lines) + 2)


def test_line_by_line_where_there_are_no_keys(monkeypatch, capsys):
    film = Film(golden_game(), "game.json")
    lines = iter(["", "n", "p", "90", "101", "home", "q"])
    monkeypatch.setattr(show, "HAS_KEYS", False)
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    show.interact(film, color=False)
    out = capsys.readouterr().out
    assert re.findall(r"step (\d+)/100", out) == ["0", "1", "2", "1", "90", "90", "0"]
    assert "there is no step 101" in out
    assert frame(film, 90) in out

    def end(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    show.interact(film, color=False)


# ------------------------------------------------------------------------------- on a terminal

needs_terminal = pytest.mark.skipif(not show.HAS_KEYS, reason="needs POSIX terminals")


class Terminal:
    """The program on a pseudo-terminal, with what it draws."""

    def __init__(self, *arguments: object, lines: int = 50, **changes: str) -> None:
        import pty
        import termios

        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (lines, 120))
        self.before = termios.tcgetattr(self.slave)
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "qv_env", *map(str, arguments)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=environment(**changes),
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(GUARD)
        os.close(self.master)
        os.close(self.slave)

    def wait_for(self, seen: Callable[[], bool]) -> None:
        guard = time.monotonic() + GUARD
        while not seen():
            ready = select.select([self.master], [], [], max(guard - time.monotonic(), 0))[0]
            assert ready, f"the program hangs; it drew {self.output[-3000:]!r}"
            self.output += os.read(self.master, 65536).decode(errors="replace")

    def screen(self) -> list[str]:
        """The lines of the last screen that is drawn to its end."""
        drawn = re.findall(r"\x1b\[H((?:(?!\x1b\[H).)*?)\x1b\[J", self.output, re.DOTALL)
        return ESCAPES.sub("", drawn[-1]).split("\r\n") if drawn else []

    def shows(self, *parts: str) -> None:
        self.wait_for(lambda: all(part in "\n".join(self.screen()) for part in parts))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ends(self, status: int) -> None:
        """The program ends, and the terminal is as it was."""
        import termios

        self.wait_for(lambda: self.output.endswith("\x1b[?25h\x1b[?1049l"))
        assert self.process.wait(GUARD) == status
        assert termios.tcgetattr(self.slave) == self.before
        assert "Traceback" not in self.output


@needs_terminal
def test_interactive_show_replays_the_file(file):
    played = read_playthrough(file)
    film = Film(played, "game.json")
    with Terminal("show", file) as terminal:
        for number, position in enumerate(states(played)):
            terminal.shows(f"step {number}/100", "q quit")
            screen = terminal.screen()
            board = board_text(position[0], played.deal).splitlines()
            header = [*film.header(number), ""]
            assert screen[: len(header)] == header
            assert screen[len(header) : len(header) + len(board)] == board
            terminal.press("n")
        for number in reversed(range(90, 100)):
            terminal.press("p")
            terminal.shows(f"step {number}/100")
            board = board_text(film.positions[number][0], played.deal)
            assert board in "\n".join(terminal.screen()) + "\n"
        terminal.press("q")
        terminal.ends(0)


@needs_terminal
def test_interactive_keys(file):
    with Terminal("show", file, "--speed", "1000") as terminal:
        for keys, number in [
            ("", 0),
            ("\x1b[C", 1),
            (" ", 2),
            ("\x1bOC", 3),
            ("\x1b[D", 2),
            ("\x1b[B", 12),
            ("\x1b[B\x1b[B", 32),
            ("\x1b[A", 22),
            ("\x1b[F", 100),
            ("\x1b[H", 0),
            ("57\r", 57),
            ("g8\n", 8),
            ("a", 100),
        ]:
            terminal.press(keys)
            terminal.shows(f"step {number}/100 ".rstrip(), "q quit")
        terminal.press("4")
        terminal.shows("jump to step (0..100): 4_")
        terminal.press("2")
        terminal.shows("jump to step (0..100): 42_")
        terminal.press("\x1b")
        terminal.shows("step 100/100", "q quit")
        terminal.press("\x1a")  # nobody could continue a job here, so it goes on at once
        terminal.wait_for(lambda: terminal.output.count("\x1b[?1049h") == 2)
        terminal.press("777\r")
        terminal.shows("there is no step 777; the last one is 100")
        terminal.press("q")
        terminal.ends(0)


@needs_terminal
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_the_terminal_as_it_was(file, number, status):
    with Terminal("show", file) as terminal:
        terminal.shows("step 0/100", "q quit")
        os.kill(terminal.process.pid, number)
        terminal.ends(status)


@needs_terminal
def test_an_exception_leaves_the_terminal_as_it_was(file, monkeypatch):
    import pty
    import termios

    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)

    def fail(self: Controls) -> str:
        assert termios.tcgetattr(slave) != before
        raise RuntimeError("as a test wants it")

    monkeypatch.setattr(Controls, "status", fail)
    monkeypatch.setenv("TERM", "xterm")
    try:
        with open(slave, closefd=False) as stdin, open(slave, "w", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(sys, "stdout", stdout)
            with pytest.raises(RuntimeError, match="as a test wants it"):
                show.interact(Film(read_playthrough(file)), color=False)
        assert termios.tcgetattr(slave) == before
        assert os.read(master, 65536).endswith(b"\x1b[?25h\x1b[?1049l")
    finally:
        os.close(master)
        os.close(slave)


@needs_terminal
def test_colours_on_the_terminal(file):
    for changes, red in [({}, True), ({"NO_COLOR": "1"}, False)]:
        with Terminal("show", file, **changes) as terminal:
            terminal.press("8\r")
            terminal.shows("step 8/100", "q quit")
            assert ("\x1b[31m" in terminal.output) == red
            assert "\x1b[7m" in terminal.output
            terminal.press("q")
            terminal.ends(0)


@needs_terminal
def test_animation_on_a_terminal(file):
    with Terminal("show", file, "--play", "--speed", "1000") as terminal:
        terminal.shows("step 100/100")
        last = board_text(list(states(read_playthrough(file)))[-1][0], golden_game().deal)
        assert last in "\n".join(terminal.screen()) + "\n"
        terminal.wait_for(lambda: terminal.output.endswith("\x1b[?25h"))
        assert terminal.process.wait(GUARD) == 0
        assert "\x1b[?1049h" not in terminal.output


@needs_terminal
def test_an_interrupted_animation_shows_the_cursor_again(file):
    with Terminal("show", file, "--play", "--speed", "0.001") as terminal:
        terminal.shows("step 0/100")
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.process.wait(GUARD) == 130
        terminal.wait_for(lambda: terminal.output.endswith("\x1b[?25h"))
        assert "Traceback" not in terminal.output


@needs_terminal
def test_a_dumb_terminal_is_read_by_lines(file):
    with Terminal("show", file, TERM="dumb") as terminal:
        terminal.wait_for(lambda: "quit: " in terminal.output)
        assert "\x1b" not in terminal.output
        terminal.press("100\n")
        terminal.wait_for(lambda: "step 100/100" in terminal.output)
        terminal.press("q\n")
        assert terminal.process.wait(GUARD) == 0
