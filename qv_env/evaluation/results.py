"""Result files: one row per game, in JSON Lines, in the same format for all players.

A row is a JSON object with these keys, in this order:

====================  ==========================================================================
``player``            the player's name in the results
``settings``          the player's settings: an object of numbers, strings and booleans
``environment``       the environment's ``id``, the keywords that the player asked for, and
                      ``max_episode_steps``
``suite``             the name of the deals: a suite's name, ``LO:HI``, or ``list``
``index``             the deal's index in the suite, from 0
``deal``, ``code``    the deal's number, and its code
``seed``              seeds the player's randomness, together with the deal
``score``             0..1360
``won``               whether all 104 cards are on the foundations
``foundation_cards``  0..104
``steps``             steps taken
``truncated``         whether the step limit ended the game
``actions``           only if games were recorded: the actions, one byte each, as Base64
====================  ==========================================================================

A file holds the rows of one or several players, in the order of players, seeds and deals; all
players have the same deals and seeds. ``pandas.read_json(path, lines=True)`` reads it, also if it
is compressed (``.jsonl.gz``). Rows contain no times.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import ConfigDict, Field, JsonValue, model_validator

from qv_env import ENV_ID, Playthrough, deal_code, deal_number
from qv_env.actions import NUM_ACTIONS
from qv_env.cards import NUM_CARDS
from qv_env.evaluation.players.base import Episode, Player
from qv_env.files import write_bytes
from qv_env.rules import MAX_SCORE
from qv_env.schema import Strict, checked, checked_lines
from qv_env.strict_json import FormatError, parse_json, read_bytes, read_json
from qv_env.suites import NUM_DEALS, SUITE_SIZES, suite

RESULTS = "results.jsonl"
SUMMARY = "summary.json"  # written last: its presence marks a complete folder
EVALUATIONS = "evaluations.jsonl"  # in the folder of a training run

LISTED = "list"  # the suite's name for deals that were named one by one


class Row(Strict):
    """The row of a game in a file of rows; see the module's docstring."""

    player: str
    settings: dict[str, JsonValue]
    environment: dict[str, JsonValue]
    suite: str
    index: Annotated[int, Field(ge=0, lt=NUM_DEALS)]
    deal: Annotated[int, Field(ge=0, lt=NUM_DEALS)]
    code: Annotated[str, Field(max_length=64)]
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]  # JSON readers, pandas' too, take no larger ones
    score: Annotated[int, Field(ge=0, le=MAX_SCORE)]
    won: bool
    foundation_cards: Annotated[int, Field(ge=0, le=NUM_CARDS)]
    steps: Annotated[int, Field(ge=0, le=1 << 53)]
    truncated: bool
    actions: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Row:
        if deal_number(self.code) != self.deal:
            raise ValueError(f"the code {self.code} is not that of deal {self.deal}")
        if self.actions is not None:
            decoded_actions(self.actions)
        return self


ACTIONS = "actions"
COLUMNS = tuple(key for key in Row.model_fields if key != ACTIONS)


@dataclass(frozen=True, eq=False)
class Results:
    """Rows, and further information about them.

    Attributes:
        frame: The checked rows: columns ``COLUMNS``, and ``actions`` if there are any.
        cpu_seconds: Each player's CPU seconds per deal, if known.
        notes: The permitted differences between results that were joined.
    """

    frame: pd.DataFrame
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def players(self) -> list[str]:
        """The players' names, in the order of the rows."""
        return list(dict.fromkeys(self.frame["player"]))

    @property
    def suite(self) -> str:
        """The name of the deals."""
        return str(self.frame["suite"].iloc[0])

    @property
    def deals(self) -> int:
        """How many different deals there are."""
        return int(self.frame["index"].nunique())


class ResultsError(ValueError):
    """A file or folder holds no complete, valid results; the message says where and why."""


# ----------------------------------------------------------------------------------------- rows


def environment_of(player: Player, max_episode_steps: int) -> dict[str, Any]:
    """Return the ``environment`` entry of a player's rows."""
    return {"id": ENV_ID, **player.env_kwargs, "max_episode_steps": max_episode_steps}


def result_row(
    player: str,
    settings: Mapping[str, Any],
    environment: Mapping[str, Any],
    suite: str,
    seed: int,
    episode: Episode,
    record: bool = False,
) -> dict[str, Any]:
    """Return the row of an episode.

    Args:
        player: The player's name in the results.
        settings: The player's settings.
        environment: The environment, from :func:`environment_of`.
        suite: The name of the deals, in which ``episode.index`` is the deal's index.
        seed: The seed of the game.
        episode: The game.
        record: Whether the row contains the actions.
    """
    row = {
        "player": player,
        "settings": dict(settings),
        "environment": dict(environment),
        "suite": suite,
        "index": episode.index,
        "deal": episode.deal,
        "code": deal_code(episode.deal),
        "seed": seed,
        "score": episode.score,
        "won": episode.won,
        "foundation_cards": episode.foundation_cards,
        "steps": episode.steps,
        "truncated": episode.truncated,
    }
    if record:
        row[ACTIONS] = base64.b64encode(bytes(episode.actions)).decode("ascii")
    return row


def row_line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of a file, including the line end."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def parse_row(line: str) -> dict[str, Any]:
    """Return the row of a line.

    Raises:
        ResultsError: The line is not a valid row; the message says why.
    """
    try:
        row = parse_json(line)
        checked(Row, row)
    except FormatError as error:
        raise ResultsError(str(error)) from None
    return dict(row)


def row_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the difference between two rows of the same game, or None if they are equal.

    Returns:
        The first key that differs, with both values, such as ``score was 20 and is 25``.
    """
    for key in {**before, **now}:
        if before.get(key) != now.get(key):
            return f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
    return None


def decoded_actions(text: object) -> list[int]:
    """Return the actions of a row.

    Raises:
        ResultsError: The text does not encode actions.
    """
    try:
        actions = base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise ResultsError(f"actions are Base64: {error}") from None
    if not isinstance(text, str) or max(actions, default=0) >= NUM_ACTIONS:
        raise ResultsError(f"actions are bytes below {NUM_ACTIONS}, as Base64")
    return list(actions)


def row_playthrough(row: Mapping[str, Any]) -> Playthrough:
    """Return the game of a row as a playthrough, verified by replaying it.

    Raises:
        ResultsError: The row has no actions, or their result differs from that of the row.
        qv_env.PlaythroughError: The rules refuse an action.
    """
    if not isinstance(row.get(ACTIONS), str):
        raise ResultsError(f"the game of {row['player']} on {row['code']} was not recorded")
    episode = Episode(
        index=int(row["index"]),
        deal=int(row["deal"]),
        score=int(row["score"]),
        won=bool(row["won"]),
        foundation_cards=int(row["foundation_cards"]),
        steps=int(row["steps"]),
        truncated=bool(row["truncated"]),
        actions=decoded_actions(row[ACTIONS]),
    )
    game = episode.playthrough(str(row["player"]), row["settings"], int(row["seed"]))
    for key, value in (("score", game.score), ("won", game.won), ("steps", len(game.actions))):
        if row[key] != value:
            raise ResultsError(
                f"the game of {row['player']} on {row['code']} leads to {key} {value},"
                f" the row says {row[key]}"
            )
    return game


# ---------------------------------------------------------------------------------------- files


def sorted_rows(
    rows: Iterable[dict[str, Any]], players: Sequence[str], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows in the order of files: by player, seed and deal.

    Args:
        rows: The rows.
        players: The players' names, in order.
        seeds: The seeds, in order.
    """
    place_of_player = {name: k for k, name in enumerate(players)}
    place_of_seed = {seed: k for k, seed in enumerate(seeds)}
    return sorted(
        rows,
        key=lambda row: (place_of_player[row["player"]], place_of_seed[row["seed"]], row["index"]),
    )


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of rows, whole or not at all; the same rows give the same bytes.

    Args:
        path: The file; compressed if its name ends in ``.gz``.
        rows: The rows, in the order of files.
    """
    content = "".join(map(row_line, rows)).encode("utf-8")
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
            file.write(content)
        content = buffer.getvalue()
    write_bytes(path, content)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read and check the rows of a file.

    Raises:
        ResultsError: A line is not a valid row; the message names file and line.
        OSError: The file cannot be read.
    """
    try:
        return [row for row, _ in checked_lines(Row, read_bytes(path), str(path))]
    except FormatError as error:
        raise ResultsError(str(error)) from None


def results_file(path: Path) -> Path:
    """Return the results file at a path: the path itself, or the file in a finished folder.

    Raises:
        ResultsError: The folder has no results, or unfinished ones.
        FileNotFoundError: There is nothing at the path.
    """
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        return path
    for name in (RESULTS, RESULTS + ".gz"):
        if (path / name).is_file():
            if not (path / SUMMARY).is_file():
                raise ResultsError(
                    f"{path} is not finished; its benchmark goes on with --resume --out {path}"
                )
            return path / name
    raise ResultsError(f"{path} holds no {RESULTS}")


def read_results(path: str | Path) -> Results:
    """Read the results of a file or of a benchmark's folder.

    Args:
        path: A ``.jsonl`` or ``.jsonl.gz`` file, or a folder that has ``results.jsonl``.

    Returns:
        The checked rows, and the CPU seconds per deal if known.

    Raises:
        ResultsError: There are no complete, valid results; the message says where and why.
        OSError: The file cannot be read.
    """
    file = results_file(Path(path))
    frame = frame_of(read_rows(file))
    try:
        check_frame(frame)
    except ResultsError as error:
        raise ResultsError(f"{file}: {error}") from None
    return Results(frame, _times_beside(file))


def _times_beside(file: Path) -> dict[str, float]:
    """Return each player's CPU seconds per deal from the description beside a file of rows.

    That is the summary of a benchmark's folder, or ``NAME.json`` beside ``NAME.jsonl.gz``.
    """
    name = file.name.removesuffix(".gz").removesuffix(".jsonl")
    beside = file.parent / (SUMMARY if file.name.startswith(RESULTS) else f"{name}.json")
    try:
        said = read_json(beside)
        entries = said.get("players", [said]) if isinstance(said, dict) else said
        players = checked(list[_Timed], entries)
    except (OSError, FormatError):
        return {}
    times = {timed.player: timed.cpu_seconds_per_deal for timed in players}
    return {name: time for name, time in times.items() if time is not None}


class _Timed(Strict):
    """The part of a player's description that is read."""

    model_config = ConfigDict(extra="ignore")

    player: str
    cpu_seconds_per_deal: Annotated[float, Field(ge=0)] | None


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table: ``COLUMNS``, and ``actions`` if a row has them."""
    columns = [*COLUMNS, ACTIONS] if any(ACTIONS in row for row in rows) else list(COLUMNS)
    return pd.DataFrame(list(rows), columns=columns)


def check_frame(frame: pd.DataFrame) -> None:
    """Check that rows are complete: one suite, and each player on all deals with all its seeds.

    Raises:
        ResultsError: They are not; the message says what is missing or duplicated.
    """
    if frame.empty:
        raise ResultsError("there are no rows")
    names = frame["suite"].unique()
    if len(names) != 1:
        raise ResultsError(f"rows of several suites: {', '.join(map(str, names))}")
    numbers = suite(names[0]).tolist() if names[0] in SUITE_SIZES else None
    deals: dict[int, int] = {}
    for index, deal in zip(frame["index"].tolist(), frame["deal"].tolist(), strict=True):
        known = deals.setdefault(index, deal)
        if known != deal:
            raise ResultsError(f"place {index} holds deal {deal_code(known)} and {deal_code(deal)}")
        if numbers is not None and (index >= len(numbers) or numbers[index] != deal):
            raise ResultsError(f"deal {deal_code(deal)} is not the {index + 1}th of {names[0]}")
    if len(set(deals.values())) != len(deals):
        (deal, _), *_ = Counter(deals.values()).most_common(1)
        raise ResultsError(f"deal {deal_code(deal)} has two places")
    for player, rows in frame.groupby("player", sort=False):
        for column in ("settings", "environment"):
            said = {json.dumps(value, sort_keys=True) for value in rows[column]}
            if len(said) != 1:
                raise ResultsError(f"{player} has rows of several {column}: {sorted(said)}")
        for seed, games in rows.groupby("seed", sort=False):
            times = Counter(games["index"].tolist())
            (index, most), *_ = times.most_common(1)
            if most > 1:
                raise ResultsError(
                    f"{player} has {most} rows of deal {deal_code(deals[index])}, seed {seed}"
                )
            missing = [index for index in deals if index not in times]
            if missing:
                raise ResultsError(
                    f"{player} has {len(times):,} of {len(deals):,} deals with seed {seed};"
                    f" {deal_code(deals[missing[0]])} is missing"
                )


# ---------------------------------------------------------------------------------- comparisons


def game_settings(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an environment that define the game.

    Results that differ in them are not comparable. What a player sees is not among them.
    """
    return {
        "environment": environment.get("id", ENV_ID),
        "step limit": environment.get("max_episode_steps"),
        "take-backs": bool(environment.get("take_back", True)),
    }


def information_text(environment: Mapping[str, Any]) -> str:
    """Return a description of what a player sees: ``what lies open``, or more."""
    if environment.get("stock_visible"):
        return "the stock's order, too"
    if environment.get("memory"):
        return "what lies open, and all seen before"
    return "what lies open"
