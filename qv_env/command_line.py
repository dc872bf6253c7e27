"""The way into a program and the way out of it: arguments, errors, exit statuses.

Every program of the package, and of a checkout's ``agents`` and ``benchmarks``, is a ``Parser`` and
a body, put together by ``run``. The causes listed there (wrong arguments, bad input, an interrupt,
a full disk and so on) end a program with one line on stderr and a status other than 0. Any other
exception is a fault of the program and ends it with a traceback. Where the line is not enough, the
environment variable ``QV_ENV_TRACEBACK=1`` adds the traceback to it.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import errno
import io
import math
import os
import re
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from qv_env.cards import SUIT_LETTERS, SUIT_SYMBOLS

BAD_INPUT = 2  # exit status: what was asked for cannot be done
SIGNALLED = 128  # what shells add a signal's number to
MOST_SEEDS = 1 << 63  # seeds are below: what readers of JSON take as an integer
MOST_STEPS = 1_000_000  # of a step limit
MOST_WORKERS = 1_024
_SIGPIPE = 13  # not every system has it
_LONGEST = 600  # characters of a line that says what is wrong
_TRACEBACK = "QV_ENV_TRACEBACK"


# ------------------------------------------------------------------------------------- texts


def printable(text: str) -> str:
    """Return a text without what would steer the terminal: control characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text of which the middle is left out where it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    kept = most // 2
    return f"{text[:kept]}[... {len(text) - 2 * kept:,} characters ...]{text[-kept:]}"


def one_line(text: str) -> str:
    """Return a text as one line that can be printed: shortened, its control characters escaped."""
    return printable(shortened(re.sub(r"\s*\n\s*", " ", text.strip())))


def error_text(error: BaseException) -> str:
    """Return what an exception says, on one line; an error of the system begins with its file."""
    if isinstance(error, OSError) and error.strerror is not None:
        # Of a file that could not be moved to its name, the name is what people know.
        place = error.filename if error.filename2 is None else error.filename2
        if place is None:
            return one_line(error.strerror)
        name = os.fsdecode(place) if isinstance(place, (str, bytes)) else str(place)
        return f"{printable(shortened(name))}: {one_line(error.strerror)}"
    text = one_line(str(error))
    if _is_out_of_memory(error):
        return f"out of memory: {text}" if text else "out of memory"
    return text or type(error).__name__


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    text = str(error)  # torch has no exception of its own for it
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text
    )


# --------------------------------------------------------------------------------- arguments


class _Formatter(argparse.HelpFormatter):
    """Keeps the paragraphs of a description apart, and leaves indented ones as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.replace("``", "`").strip("\n").split("\n\n")
        return "\n\n".join(
            paragraph
            if paragraph.startswith((" ", "="))
            else self._filled(paragraph, width, indent)
            for paragraph in paragraphs
        )

    def _filled(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """argparse, but a usage error is one line, shortened and escaped, and the status 2.

    Args:
        prog: The program, as people start it: ``python -m NAME``.
        description: For ``--help``; a docstring will do. Its paragraphs are filled, except
            indented ones.
        intermixed: Whether options may stand between positional arguments (a parser with commands
            cannot have that).
        options: Further keywords of ``argparse.ArgumentParser``.
    """

    def __init__(
        self,
        prog: str | None = None,
        description: str | None = None,
        *,
        intermixed: bool = False,
        **options: object,
    ) -> None:
        options.setdefault("formatter_class", _Formatter)
        super().__init__(prog, description=description, **options)  # type: ignore[arg-type]
        self.intermixed = intermixed

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments.

        Raises:
            SystemExit: With status 2, after a line on stderr, where they are wrong; with status 0
                after ``--help``.
        """
        parse = self.parse_intermixed_args if self.intermixed else self.parse_args
        return parse(list(arguments))

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage, and exit with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: {one_line(message)} (--help lists what there is)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stderr or file is None:
            super()._print_message(message, file)
        elif message:  # argparse would keep silent about a stdout that is full
            file.write(message)


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return an argument's type: an integer in ``low..high``, in decimal digits."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer in {low}..{high}")
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{value} is not at least {low}")
        if value > high:
            raise argparse.ArgumentTypeError(f"{value} is more than {high}")
        return value

    return convert


def number(low: float, high: float, *, above: bool = False) -> Callable[[str], float]:
    """Return an argument's type: a number in ``low..high``.

    Args:
        low: The least value.
        high: The largest value.
        above: Whether ``low`` itself is refused.
    """
    limits = f"above {low:g}, at most {high:g}" if above else f"in {low:g}..{high:g}"

    def convert(text: str) -> float:
        value = math.nan
        with contextlib.suppress(ValueError):
            value = float(text)
        if not low <= value <= high or (above and value == low):  # NaN is not, either
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {limits}")
        return value

    return convert


def seed(text: str) -> int:
    """Convert a seed, an argument's type: an integer in 0..2^63 - 1."""
    return integer(0, MOST_SEEDS - 1)(text)


def path(text: str) -> Path:
    """Convert a path, an argument's type; an empty one and one with a NUL are refused."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a path")
    return Path(text)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def add_workers(
    parser: argparse.ArgumentParser, default: int, text: str, *, least: int = 0, old: str = ""
) -> None:
    """Add ``--workers N``, the option of all programs that do their work in parallel.

    Args:
        parser: The program's.
        default: How many work where nothing is said.
        text: The help.
        least: The least that is taken; where 0 is, it means the process itself.
        old: An earlier name of the option, which is taken as well and not listed.
    """
    kind = integer(least, MOST_WORKERS)
    parser.add_argument("--workers", metavar="N", type=kind, default=default, help=text)
    if old:
        parser.add_argument(old, dest="workers", type=kind, default=default, help=argparse.SUPPRESS)


# ---------------------------------------------------------------------------- places to write


def check_file(path: str | os.PathLike[str]) -> None:
    """See that a file can be written, before there is work that would be lost; change nothing.

    Args:
        path: The file; it may exist, its folder has to.

    Raises:
        OSError: It cannot be written; the error names it.
    """
    with _named(path):
        real = os.path.realpath(path)
        if os.path.isdir(real):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with contextlib.suppress(FileNotFoundError):
            os.lstat(real)  # finds names that are too long
        _try(os.path.dirname(real))


def check_folder(path: str | os.PathLike[str]) -> None:
    """See that a folder can be written to, or can be made where it is missing; change nothing.

    Raises:
        OSError: It cannot; the error names it.
    """
    with _named(path):
        place = Path(os.path.realpath(path))
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        _try(place)


def _try(folder: str | os.PathLike[str]) -> None:
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the system name a path, whichever file they were about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


# --------------------------------------------------------------------------------- the way out


class Stopped(Exception):
    """A program was stopped by a signal and says how to go on.

    Args:
        message: What happened; it is told on a line.
        signal_number: The signal; the exit status is 128 more.
        command: A command that goes on; it gets a line of its own and is not shortened.
        before: What stands before the command.
    """

    def __init__(
        self,
        message: str,
        signal_number: int = signal.SIGINT,
        command: str = "",
        before: str = "to go on: ",
    ) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.command = command
        self.before = before


def _say(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def run(
    parser: Parser,
    body: Callable[[argparse.Namespace], int],
    arguments: Sequence[str] | None = None,
    *,
    errors: tuple[type[Exception], ...] = (),
    interrupted: str = "",
) -> int:
    """Run a program: parse its arguments, call its body, and end it as ``guarded`` says.

    Args:
        parser: The program's.
        body: Takes the parsed arguments and returns the exit status. They have one more
            attribute, ``typed``: the whole command as one types it, quoted for a shell.
        arguments: The command line; None for the process's own.
        errors: As in ``guarded``.
        interrupted: Likewise.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        options = parser.read(words)
        options.typed = shlex.join([*parser.prog.split(), *words])
        return body(options)

    return guarded(parser.prog, work, errors, interrupted)


def guarded(
    program: str,
    work: Callable[[], int],
    errors: tuple[type[Exception], ...] = (),
    interrupted: str = "",
) -> int:
    """Do a program's work, and end it in the same way whatever happens.

    ============================  ==========  =====================================================
    what happens                  status      what is told on stderr
    ============================  ==========  =====================================================
    wrong arguments               2           a line
    ``ValueError``, ``OSError``   2           a line; of ``OSError``, the file and the system's text
    no memory is left             2           a line
    one of ``errors``             2           a line
    stdout is full                2           a line
    Ctrl-C                        130         a line
    ``Stopped``                   128 + its   a line, and its command on another
    stdout's reader has left      141         nothing, as with other programs
    ============================  ==========  =====================================================

    Args:
        program: What people call it, at the beginning of each line.
        work: Returns the exit status.
        errors: Further exceptions whose text tells what is wrong with the input.
        interrupted: What to add to "interrupted" after Ctrl-C: what is kept, how to go on.

    Returns:
        The exit status; that of ``SystemExit``, too, which ``--help`` raises.
    """
    _prepare_output()
    try:
        try:
            status = work()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        status, line = SIGNALLED + _SIGPIPE, ""
    except KeyboardInterrupt:
        status = SIGNALLED + signal.SIGINT
        line = f"interrupted; {interrupted}" if interrupted else "interrupted"
    except Stopped as error:
        status, line = SIGNALLED + error.signal_number, one_line(str(error))
        if error.command:
            line += f"\n{error.before}{printable(error.command)}"
    except Exception as error:
        if not isinstance(error, (ValueError, OSError, *errors)) and not _is_out_of_memory(error):
            raise  # a fault of the program
        status, line = BAD_INPUT, error_text(error)
        if os.environ.get(_TRACEBACK):
            traceback.print_exc()
    _empty_output()  # or the exit would try once more, and tell that it failed
    if line:
        _say(f"{program}: {line}")
    return status


class _Output(io.FileIO):
    """Stdout, whose errors say that they are of stdout."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


def _prepare_output() -> None:
    """Let stdout take every text, whatever its encoding, and name itself in its errors."""
    out = sys.stdout
    if out is None:  # started with stdout closed
        sys.stdout = io.StringIO()
        return
    if out is sys.__stdout__ and isinstance(out, io.TextIOWrapper):
        unbuffered = isinstance(out.buffer, io.FileIO)
        if unbuffered or isinstance(getattr(out.buffer, "raw", None), io.FileIO):
            out.flush()
            raw = _Output(out.fileno(), "wb", closefd=False)
            sys.stdout = io.TextIOWrapper(
                raw if unbuffered else io.BufferedWriter(raw),
                encoding=out.encoding,
                errors="qv_env.spell",
                line_buffering=out.line_buffering,
                write_through=out.write_through,
            )
            return
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="qv_env.spell")


def _empty_output() -> None:
    """Write what is buffered for stdout; where it takes no more, let the rest go nowhere."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, sys.stdout.fileno())
            os.close(descriptor)


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Suits as letters, and ``?`` for the rest, where the terminal's encoding lacks the signs."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    letters = dict(zip(SUIT_SYMBOLS, SUIT_LETTERS, strict=True))
    return "".join(letters.get(character, "?") for character in lacking), error.end


codecs.register_error("qv_env.spell", _spell)
