"""The table in a terminal: a game that is played by typed commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from qv_env.files import check_writable
from qv_env.folders import sweep
from qv_env.play.game import Game, Outcome
from qv_env.playthroughs.playthrough import PathLike

__all__ = ["play_in_terminal"]

HELP = """\
draw, w>f, w>c3, c3>f, c3>c7, f2>c5   a move by its name
tap c3        as a tap does (stock, w, c1..c10)
double c3     as a double click does
drop c3 c7    as drag and drop does; auto on, auto off: automatic placing
where c3      which piles accept the card
undo          the last action, up to 100 of them
new [CODE]    another game: a random deal, or this one
code          this deal's code
quit
"""


def play_in_terminal(
    game: Game,
    lines: Iterable[str] | None = None,
    out: TextIO | None = None,
    folder: PathLike | None = None,
    color: bool = False,
) -> Game:
    """Play by typed commands, one a line; the board is printed after each that changes it.

    Args:
        game: The game to begin with.
        lines: The commands; None for stdin.
        out: Where the answers go; None for stdout.
        folder: Where finished and abandoned games are kept as playthroughs, made where it is
            missing; None to keep none.
        color: Whether red suits are printed in red, by terminal escapes.

    Returns:
        The game on the table at the end.

    Raises:
        OSError: A game could not be kept, or, before anything is played, none could be.
    """
    out = sys.stdout if out is None else out
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        check_writable(Path(folder) / game.file_name)
        sweep(folder)
    out.write(game.text(color) + "help lists the commands\n")
    out.flush()
    for line in sys.stdin if lines is None else lines:
        words = line.split()
        if words[:1] in (["quit"], ["exit"], ["q"]):
            break
        if words[:1] == ["new"] and len(words) <= 2:
            try:
                other = game.new(*words[1:])
            except ValueError as error:
                out.write(f"{error}\n")
            else:
                _keep(game, folder, out)
                game = other
                out.write(game.text(color))
        elif words:
            out.write(_answer(game, words, color))
        out.flush()
    _keep(game, folder, out)
    return game


def _answer(game: Game, words: list[str], color: bool) -> str:
    """Do what one command says; return what there is to print."""
    gestures: dict[tuple[str, int], Callable[..., Outcome]] = {
        ("tap", 1): game.tap,
        ("double", 1): game.double_click,
        ("drop", 2): game.drop,
        ("undo", 0): game.undo,
    }
    verb, *rest = (word.lower() for word in words)
    gesture = gestures.get((verb, len(rest)))
    try:
        if words == ["help"]:
            return HELP
        if words == ["code"]:
            return f"{game.deal or 'an explicit deck has no code'}\n"
        if verb == "where" and len(rest) == 1:
            return f"{' '.join(game.accepting(rest[0])) or 'nowhere'}\n"
        if verb == "auto" and rest in (["on"], ["off"]):
            game.automatic_placing = rest == ["on"]
            return f"automatic placing is {rest[0]}\n"
        outcome = gesture(*rest) if gesture else game.play(" ".join(words))
    except ValueError as error:
        return f"{error}\n"
    if not outcome.moved:
        return f"refused: {outcome.refusal}\n" if outcome.refusal else ""
    return game.text(color) + ("won\n" if game.won else "")


def _keep(game: Game, folder: PathLike | None, out: TextIO) -> None:
    path = game.keep(folder) if folder is not None else None
    if path is not None:
        out.write(f"kept as {path}\n")
