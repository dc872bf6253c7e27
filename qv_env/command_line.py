"""Command lines of programs: arguments, errors, exit statuses.

Every program of the package, and of a checkout's ``agents`` and ``benchmarks``, consists of a
``Parser`` and a body, which ``run`` combines. The causes listed in ``guarded`` (wrong arguments,
bad input, an interrupt, a full disk and so on) end a program with one line on stderr and a status
other than 0. Any other exception is a bug and ends the program with a traceback. With the
environment variable ``QV_ENV_TRACEBACK=1``, the traceback is printed in the former cases as well.
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

BAD_INPUT = 2  # exit status: the request cannot be carried out
SIGNALLED = 128  # exit status of a signal: this plus its number, as in shells
MOST_SEEDS = 1 << 63  # seeds are smaller, so that JSON readers take them as integers
MOST_STEPS = 1_000_000  # the largest step limit
MOST_WORKERS = 1_024
_SIGPIPE = 13  # not every system defines it
_LONGEST = 600  # maximum length of an error line, in characters
_TRACEBACK = "QV_ENV_TRACEBACK"


# ------------------------------------------------------------------------------------- texts


def printable(text: str) -> str:
    """Return a text that is safe to print on a terminal: control characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text, with its middle left out if it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    kept = most // 2
    return f"{text[:kept]}[... {len(text) - 2 * kept:,} characters ...]{text[-kept:]}"


def one_line(text: str) -> str:
    """Return a text as one line that can be printed: shortened, its control characters escaped."""
    return printable(shortened(re.sub(r"\s*\n\s*", " ", text.strip())))


def error_text(error: BaseException) -> str:
    """Return an exception's message on one line; that of an OSError begins with its file."""
    if isinstance(error, OSError) and error.strerror is not None:
        # If renaming a temporary file failed, the user knows the final name.
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
    """Keeps the paragraphs of a description separate, and indented ones unchanged."""

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
    """An argparse parser that reports a usage error in one escaped line, with exit status 2.

    Args:
        prog: The program, as people start it: ``python -m NAME``.
        description: The text for ``--help``, such as a docstring. Its paragraphs are wrapped,
            except indented ones.
        intermixed: Whether options are allowed between positional arguments (not supported for a
            parser with commands).
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
            SystemExit: With status 2, after a line on stderr, if the arguments are wrong; with
                status 0 after ``--help``.
        """
        parse = self.parse_intermixed_args if self.intermixed else self.parse_args
        return parse(list(arguments))

    def error(self, message: str) -> NoReturn:
        """Report an error in one line, without the usage, and exit with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: {one_line(message)} (--help lists what there is)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stderr or file is None:
            super()._print_message(message, file)
        elif message:  # argparse itself would ignore errors of stdout, such as a full disk
            file.write(message)


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return the type of an argument: an integer in ``low..high``, in decimal digits."""

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
    """Return the type of an argument: a number in ``low..high``.

    Args:
        low: The smallest value.
        high: The largest value.
        above: Whether ``low`` itself is excluded.
    """
    limits = f"above {low:g}, at most {high:g}" if above else f"in {low:g}..{high:g}"

    def convert(text: str) -> float:
        value = math.nan
        with contextlib.suppress(ValueError):
            value = float(text)
        if not low <= value <= high or (above and value == low):  # true for NaN as well
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {limits}")
        return value

    return convert


def seed(text: str) -> int:
    """Convert an argument to a seed: an integer in 0..2^63 - 1."""
    return integer(0, MOST_SEEDS - 1)(text)


def path(text: str) -> Path:
    """Convert an argument to a path; an empty path and one with a NUL are refused."""
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
        parser: The program's parser.
        default: The default number of workers.
        text: The help text.
        least: The smallest number accepted; 0 means that the process itself does the work.
        old: An earlier name of the option, which is still accepted but not listed.
    """
    kind = integer(least, MOST_WORKERS)
    parser.add_argument("--workers", metavar="N", type=kind, default=default, help=text)
    if old:
        parser.add_argument(old, dest="workers", type=kind, default=default, help=argparse.SUPPRESS)


# --------------------------------------------------------------------------- checks of outputs


def check_file(path: str | os.PathLike[str]) -> None:
    """Check that a file can be written, before there is work that would be lost; change nothing.

    Args:
        path: The file, which may exist; its folder must exist.

    Raises:
        OSError: The file cannot be written; the error names it.
    """
    with _named(path):
        real = os.path.realpath(path)
        if os.path.isdir(real):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with contextlib.suppress(FileNotFoundError):
            os.lstat(real)  # finds names that are too long
        _try(os.path.dirname(real))


def check_folder(path: str | os.PathLike[str]) -> None:
    """Check that a folder can be written to, or created if it is missing; change nothing.

    Raises:
        OSError: It cannot; the error names the folder.
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
    """Make every OSError of the block name a path, whichever file it was about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


# -------------------------------------------------------------------------- running a program


class Stopped(Exception):
    """A signal stopped a program, which tells how to resume its work.

    Args:
        message: What happened; printed on a line.
        signal_number: The signal; the exit status is 128 more.
        command: A command that resumes the work; printed on a line of its own, not shortened.
        before: The text before the command.
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
    """Run a program: parse its arguments, call its body, and handle errors as ``guarded`` does.

    Args:
        parser: The program's parser.
        body: Takes the parsed arguments and returns the exit status. The arguments have one more
            attribute, ``typed``: the whole command, quoted for a shell.
        arguments: The command line; None for the process's own.
        errors: As in ``guarded``.
        interrupted: As in ``guarded``.

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
    """Do a program's work, and turn errors and interrupts into messages and exit statuses.

    ============================  ==========  =====================================================
    cause                         status      output on stderr
    ============================  ==========  =====================================================
    wrong arguments               2           a line
    ``ValueError``, ``OSError``   2           a line; for an ``OSError``, file and system message
    out of memory                 2           a line
    one of ``errors``             2           a line
    stdout cannot be written      2           a line
    Ctrl-C                        130         a line
    ``Stopped``                   128 + its   a line, and its command on another
    stdout's reader is gone       141         nothing, as with other programs
    ============================  ==========  =====================================================

    Args:
        program: The program's name, at the beginning of each line.
        work: Returns the exit status.
        errors: Further exceptions whose message explains what is wrong with the input.
        interrupted: Added to "interrupted" after Ctrl-C: what is kept, how to resume.

    Returns:
        The exit status, including that of ``SystemExit``, which ``--help`` raises.
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
            raise  # a bug
        status, line = BAD_INPUT, error_text(error)
        if os.environ.get(_TRACEBACK):
            traceback.print_exc()
    _empty_output()  # otherwise Python would try again at exit and report the failure
    if line:
        _say(f"{program}: {line}")
    return status


class _Output(io.FileIO):
    """Stdout, whose errors name it as ``standard output``."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None


def _prepare_output() -> None:
    """Make stdout accept every text, whatever its encoding, and name itself in its errors."""
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
    """Flush stdout; if it cannot be written, discard what is left."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, sys.stdout.fileno())
            os.close(descriptor)


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Replace suit symbols that an encoding lacks with letters, other characters with ``?``."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    letters = dict(zip(SUIT_SYMBOLS, SUIT_LETTERS, strict=True))
    return "".join(letters.get(character, "?") for character in lacking), error.end


codecs.register_error("qv_env.spell", _spell)
