"""Recorded games of people as a player: ``human:FOLDER`` in a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qv_env import Playthrough, deal_code, deal_number, read_playthrough
from qv_env.evaluation.players.base import Episode, Player
from qv_env.folders import listed


class HumanPlayer(Player):
    """The playthroughs in a folder, such as that of the play page; hidden files are ignored.

    This player does not play: a benchmark counts the recorded games, however many moves they took.
    Of several games of one deal the earliest counts, so that nobody is measured on a deal that they
    already knew.

    Args:
        folder: The folder of the files; those of explicit decks are ignored.

    Raises:
        ValueError: A file is not a playthrough (the message names it), or there are none.
        OSError: The folder cannot be read.
    """

    name = "human"

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._games: dict[int, Playthrough] = {}
        if not self._folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder")
        games = [read_playthrough(path) for path in listed(self._folder)]
        games.sort(key=lambda game: str(game.extra.get("started", "")))
        for game in games:
            if game.deal is not None:
                self._games.setdefault(deal_number(game.deal), game)
        if not self._games:
            raise ValueError(f"{folder} holds no playthroughs of deals")

    def played(self, deals: Sequence[int]) -> list[Episode]:
        """Return the games of some deals; see :meth:`Player.played`.

        Raises:
            ValueError: One of the deals was not played; the message says how many were.
        """
        missing = [deal for deal in deals if deal not in self._games]
        if missing:
            raise ValueError(
                f"{self._folder} has games of {len(deals) - len(missing)} of the {len(deals)}"
                f" deals; {deal_code(missing[0])} is missing. Compare on those that were played"
                " with --deals or --limit"
            )
        episodes = []
        for index, deal in enumerate(deals):
            game = self._games[deal]
            last = game.steps()
            ups = sum(step.name.endswith(">f") for step in last)
            backs = sum(step.name.startswith("f") for step in last)
            episodes.append(
                Episode(
                    index,
                    deal,
                    game.score,
                    game.won,
                    ups - backs,
                    len(game.actions),
                    truncated=False,
                    actions=list(game.actions),
                )
            )
        return episodes
