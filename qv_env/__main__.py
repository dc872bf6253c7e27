"""``python -m qv_env``: show and play deals; show, export and verify playthroughs."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys
import textwrap
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias

from gymnasium.error import DependencyNotInstalled

from qv_env import command_line
from qv_env._version import __version__
from qv_env.cards import cards_text
from qv_env.command_line import SIGNALLED, Parser, error_text, printable
from qv_env.deals import HELD_OUT_FROM, deal_code, deck_of, typed_deal
from qv_env.files import KEPT_FOLDER, default_store
from qv_env.play.game import Game
from qv_env.play.terminal import play_in_terminal
from qv_env.playthroughs.export import FORMATS, MAX_SCALE, MIN_SCALE, export
from qv_env.playthroughs.playthrough import PlaythroughError, read_playthrough
from qv_env.playthroughs.show import (
    STEPS_PER_SECOND,
    Film,
    animate,
    frame,
    interact,
    move_lines,
    summary,
)
from qv_env.rules import COLUMN_CARDS, new_game
from qv_env.suites import deal_of_seed
from qv_env.text import board_text, state_text

PROGRAM = "python -m qv_env"

_MAX_SPEED = 1000.0
_MOST_STEPS = 10**9  # more than any playthrough that can be read
_MOST_PORT = 65_535


# Commands that need the extra "evaluation".
_EVALUATION = {
    "benchmark": "play the same deals with several players: rows, intervals, a table and a plot",
    "check-player": "check that your own player follows the protocol",
    "compare": "compare results deal by deal, including published ones",
}


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def parser() -> Parser:
    """Return the parser of the command line."""
    top = Parser(
        prog=PROGRAM,
        description=(
            "Quarante Voleurs: look at deals, play them, show playthroughs, export and verify them."
        ),
    )
    top.add_argument("--version", action="version", version=f"qv_env {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True)

    _add_deal(commands)
    _add_play(commands)
    _add_show(commands)
    _add_export(commands)
    _add_check(commands)
    for name, text in _EVALUATION.items():  # their own parsers read their arguments
        commands.add_parser(name, help=text, add_help=False)
    return top


def _add_deal(commands: Commands) -> None:
    deal = commands.add_parser(
        "deal",
        help="print a deal's code, number and board",
        description="Print a deal's code, number and board; a random one if none is named.",
    )
    which = deal.add_mutually_exclusive_group()
    which.add_argument("deal", nargs="?", metavar="CODE|NUMBER", help="such as FT1-N-AAAAAAV or 21")
    which.add_argument(
        "--seed", metavar="S", type=command_line.seed, help="the deal that reset(seed=S) gives"
    )
    which.add_argument("--random", action="store_true", help="any deal of the training half")
    deal.add_argument(
        "--text", action="store_true", help="print the board in a form that can be parsed"
    )
    deal.add_argument("--stock", action="store_true", help="show the order of the stock, too")
    deal.set_defaults(run=_deal)


def _add_play(commands: Commands) -> None:
    table = commands.add_parser(
        "play",
        help="play, on a page in the browser",
        description=(
            "Serve a page to play on, for this machine only, at the printed address, which holds"
            " a token that nobody else knows. The current game is"
            " stored and can be continued later; finished and abandoned games are kept as"
            " playthroughs. With --terminal, play here by typed commands instead."
        ),
    )
    table.add_argument(
        "--deal",
        metavar="CODE|NUMBER",
        help="such as FT1-N-AAAAAAV or 21; default: the game on the table, or a random deal",
    )
    table.add_argument(
        "--store",
        metavar="FOLDER",
        type=command_line.path,
        default=default_store(),
        help=f"default: {default_store()}",
    )
    table.add_argument(
        "--port",
        metavar="N",
        type=command_line.integer(0, _MOST_PORT),
        help="the port of the page; 0 for any free port (default 8104)",
    )
    table.add_argument("--no-browser", action="store_true", help="only print the page's address")
    table.add_argument("--terminal", action="store_true", help="play here, by typed commands")
    table.set_defaults(run=_play)


def _add_show(commands: Commands) -> None:
    show = commands.add_parser(
        "show",
        help="step through a playthrough",
        description=(
            "Step through a playthrough. On a terminal: right, space or n for the next step, left"
            " or p for the previous one, down and up for ten steps, Home and End, a for automatic"
            " play (+ and - change its speed), digits and Enter or g to jump, q to quit. Elsewhere,"
            " the first board, the moves and the final board are printed."
        ),
    )
    show.add_argument("file", metavar="FILE", type=command_line.path, help="a playthrough file")
    how = show.add_mutually_exclusive_group()
    how.add_argument(
        "--step",
        metavar="N",
        type=command_line.integer(0, _MOST_STEPS),
        help="print the board after step N (0: the deal)",
    )
    how.add_argument("--moves", action="store_true", help="print the moves only")
    how.add_argument("--play", action="store_true", help="show all steps one by one, without keys")
    show.add_argument(
        "--speed",
        metavar="STEPS_PER_S",
        type=command_line.number(0, _MAX_SPEED, above=True),
        default=STEPS_PER_SECOND,
        help=f"speed of the automatic play (default {STEPS_PER_SECOND:g})",
    )
    show.set_defaults(run=_show)


def _add_export(commands: Commands) -> None:
    out = commands.add_parser(
        "export",
        help="export a playthrough as a page, a picture, an animation or a film",
        description=(
            "Export a playthrough as a page that replays it and needs no other file and no network"
            " (.html), a picture of one step (.png), an animation (.gif, .webp) or a film (.mp4)."
            " Pictures need Pillow, films imageio-ffmpeg as well."
        ),
    )
    out.add_argument("file", metavar="FILE", type=command_line.path, help="a playthrough file")
    out.add_argument(
        "--out",
        metavar="FILE",
        type=command_line.path,
        required=True,
        help=f"the file to write; its ending ({', '.join(FORMATS)}) determines the format",
    )
    out.add_argument(
        "--step",
        metavar="N",
        type=command_line.integer(0, _MOST_STEPS),
        help=".png: which step (default: the last); .html: the first step shown",
    )
    out.add_argument(
        "--compare",
        metavar="OTHER",
        type=command_line.path,
        help="a second playthrough of the same deal, side by side",
    )
    out.add_argument(
        "--speed",
        metavar="STEPS_PER_S",
        type=command_line.number(0, _MAX_SPEED, above=True),
        default=STEPS_PER_SECOND,
        help=f"playback speed (default {STEPS_PER_SECOND:g})",
    )
    out.add_argument(
        "--scale",
        metavar="S",
        type=command_line.number(MIN_SCALE, MAX_SCALE),
        help=f"size of pictures, {MIN_SCALE:g} to {MAX_SCALE:g}; 1 is 960 x 640",
    )
    out.set_defaults(run=_export)


def _add_check(commands: Commands) -> None:
    check = commands.add_parser(
        "check",
        help="verify playthroughs",
        description="Verify playthroughs by replaying them, one line each; status 1 if one is bad.",
    )
    check.add_argument(
        "files", metavar="FILE", type=command_line.path, nargs="+", help="playthrough files"
    )
    check.set_defaults(run=_check)


# ------------------------------------------------------------------------------- the commands


def _deal(arguments: argparse.Namespace, out: TextIO) -> int:
    if arguments.seed is not None:
        number = deal_of_seed(arguments.seed)
    elif arguments.deal is None:
        number = secrets.randbelow(HELD_OUT_FROM)
    else:
        number = typed_deal(arguments.deal)
    deck = deck_of(number)
    game = new_game(deck)[0]
    if arguments.text:
        out.write(state_text(game, show_stock=arguments.stock))
        return 0
    out.write(f"code    {deal_code(number)}\nnumber  {number}\n\n")
    out.write(board_text(game, color=_wants_color(out)))
    if arguments.stock:
        out.write("\nstock, next card first:\n")
        out.write(textwrap.fill(cards_text(deck[COLUMN_CARDS:]), 16 * 3) + "\n")
    return 0


def _play(arguments: argparse.Namespace, out: TextIO) -> int:
    number = None if arguments.deal is None else typed_deal(arguments.deal)
    store: Path = arguments.store
    if arguments.terminal:
        if arguments.port is not None or arguments.no_browser:
            raise ValueError("--port and --no-browser are for the page, not for --terminal")
        command_line.check_folder(store / KEPT_FOLDER)
        play_in_terminal(
            Game(number), _typed_lines(out), out, store / KEPT_FOLDER, _wants_color(out)
        )
        return 0
    try:
        from qv_env.play import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "qv_env":
            raise
        raise DependencyNotInstalled(
            "the play page needs Starlette and uvicorn: pip install 'qv-env[play]'"
            " (--terminal plays without them)"
        ) from None

    def ready(address: str) -> None:
        out.write(f"The table is at {address} (Ctrl-C stops the server)\n")
        out.flush()

    browse = None if arguments.no_browser else webbrowser.open
    port = server.PORT if arguments.port is None else arguments.port
    server.serve(store, port, number, ready, browse)
    return 0


def _typed_lines(out: TextIO) -> Iterator[str]:
    """Yield typed lines until the end of the input or Ctrl-C; the game is kept in either case."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # an invalid byte must not end the game
    try:
        yield from sys.stdin or ()
    except KeyboardInterrupt:
        out.write("\n")


def _show(arguments: argparse.Namespace, out: TextIO) -> int:
    step, speed = arguments.step, arguments.speed
    name = arguments.file.name
    film = Film(read_playthrough(arguments.file), name)
    color = _wants_color(out)
    if step is not None:
        if step > film.last:
            raise ValueError(f"{arguments.file} has no step {step}; the last one is {film.last}")
        out.write(frame(film, step, color, highlight=color))
    elif arguments.moves:
        out.writelines(f"{line}\n" for line in move_lines(film.steps))
    elif arguments.play:
        return _watched(lambda: animate(film, out, color, speed))
    elif out.isatty() and sys.stdin is not None and sys.stdin.isatty():
        return _watched(lambda: interact(film, color, speed))
    else:
        out.writelines(f"{line}\n" for line in summary(film))
    return 0


def _watched(show: Callable[[], None]) -> int:
    """Show something until it ends or Ctrl-C, which ends it without a message."""
    try:
        show()
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    return 0


def _export(arguments: argparse.Namespace, out: TextIO) -> int:
    files = [arguments.file] if arguments.compare is None else [arguments.file, arguments.compare]
    games = [read_playthrough(file) for file in files]
    if any(_same_file(arguments.out, file) for file in files):
        raise ValueError(f"{arguments.out} is the playthrough itself; --out names another file")
    titles = [file.name for file in files]
    other = None if arguments.compare is None else games[1]
    export(
        games[0],
        arguments.out,
        other,
        arguments.step,
        arguments.speed,
        arguments.scale,
        (*titles, "")[:2],
    )
    out.write(f"{printable(str(arguments.out))}\n")
    return 0


def _same_file(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False


def _check(arguments: argparse.Namespace, out: TextIO) -> int:
    bad = 0
    for file in arguments.files:
        try:
            game = read_playthrough(file)
        except (PlaythroughError, OSError) as error:
            bad += 1
            out.write(f"bad  {error_text(error)}\n")
            continue
        facts = (
            game.deal or "explicit deck",
            f"{len(game.actions)} moves",
            f"score {game.score}",
            "won" if game.won else "not won",
        )
        out.write(f"ok   {printable(str(file))}: {', '.join(facts)}\n")
    return 1 if bad else 0


def _wants_color(out: TextIO) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: The command line; None for the process's own.

    Returns:
        The exit status: 0, 1 (``check`` found a bad file), or that of ``qv_env.command_line.run``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    missing = (DependencyNotInstalled,)
    if words and words[0] in _EVALUATION:
        return command_line.guarded(PROGRAM, lambda: _evaluation(words[0], words[1:]), missing)

    def body(chosen: argparse.Namespace) -> int:
        status: int = chosen.run(chosen, sys.stdout)
        return status

    return command_line.run(parser(), body, words, errors=missing)


def _evaluation(command: str, words: Sequence[str]) -> int:
    """Run a command of ``qv_env.evaluation``, which reads its own arguments."""
    try:
        from qv_env.evaluation import commands
        from qv_env.evaluation.players import PLAYERS
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "qv_env":
            raise
        raise DependencyNotInstalled(
            f"{command} needs {error.name}: pip install 'qv-env[evaluation]'"
        ) from None
    program = f"{PROGRAM} {command}"
    if command == "check-player":
        return commands.check(words, program, PLAYERS)
    if command == "benchmark":
        return commands.benchmark(words, program, PLAYERS)
    return commands.compare(words, program)


if __name__ == "__main__":
    sys.exit(main())
