"""Comparing results: which are comparable, and the figures of players, groups and pairs."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from qv_env import deal_code
from qv_env.evaluation.results import Results, ResultsError, game_settings, read_results
from qv_env.evaluation.stats import (
    CONFIDENCE,
    Interval,
    PairedDifference,
    Runs,
    all_paired_wins,
    clustered_proportion_interval,
    paired_differences,
    runs_summary,
    student_interval,
)
from qv_env.evaluation.summary import deal_values, summarize
from qv_env.rules import MAX_SCORE

ALLOWED = {"step-limit": "step limit", "take-backs": "take-backs"}


# ---------------------------------------------------------------------------- comparable results


def load_results(paths: Sequence[str | Path], allowed: Iterable[str] = ()) -> Results:
    """Read comparable results into one table.

    Args:
        paths: Files or folders, see ``qv_env.evaluation.results.read_results``.
        allowed: Settings of the game that may differ: ``step limit``, ``take-backs``.

    Returns:
        The rows of all files; if several files have a player of one name, the path is added to it.

    Raises:
        ResultsError: The results are of different deals or games, or incomplete; the message says
            what differs and where.
        OSError: A file cannot be read.
    """
    parts = {str(path): read_results(path) for path in paths}
    if len(parts) < len(paths):
        raise ResultsError("a path is there twice")
    return joined(parts, allowed)


def joined(parts: Mapping[str, Results], allowed: Iterable[str] = ()) -> Results:
    """Return comparable results as one table.

    Args:
        parts: Results, by their source.
        allowed: As for :func:`load_results`.

    Raises:
        ResultsError: The results are of different deals or games; the message says what differs
            and where.
    """
    found = differences({where: part.frame for where, part in parts.items()})
    refused = [text for name, text in found.items() if name not in set(allowed)]
    if refused:
        raise ResultsError("results that do not compare: " + "; ".join(refused))
    names = [name for part in parts.values() for name in part.players]
    times: dict[str, float] = {}
    frames = []
    for where, part in parts.items():
        labels = {
            name: f"{name} ({where})" if names.count(name) > 1 else name for name in part.players
        }
        times |= {labels[name]: seconds for name, seconds in part.cpu_seconds.items()}
        frames.append(part.frame.assign(player=part.frame["player"].map(labels)))
    notes = [note for part in parts.values() for note in part.notes] + list(found.values())
    return Results(pd.concat(frames, ignore_index=True), times, tuple(notes))


def differences(frames: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return the differences between results that make them incomparable, by setting.

    Args:
        frames: Rows, by the paths of their files.
    """
    found: dict[str, str] = {}
    where: dict[str, dict[Any, list[str]]] = {}
    deals: dict[str, dict[int, int]] = {}
    for path, frame in frames.items():
        where.setdefault("suite", {}).setdefault(frame["suite"].iloc[0], []).append(path)
        deals[path] = dict(zip(frame["index"], frame["deal"], strict=True))
        for player, rows in frame.groupby("player", sort=False):
            for name, value in game_settings(rows["environment"].iloc[0]).items():
                where.setdefault(name, {}).setdefault(value, []).append(f"{player} of {path}")
    for name, values in where.items():
        if len(values) > 1:
            found[name] = f"{name}: " + ", ".join(
                f"{_shown(value)} in {places[0]}"
                + (f" and {len(places) - 1} more" if len(places) > 1 else "")
                for value, places in values.items()
            )
    first, *others = deals
    for path in others:
        missing = sorted(set(deals[first].values()) - set(deals[path].values()))
        more = sorted(set(deals[path].values()) - set(deals[first].values()))
        if missing or more:
            sides = [
                f"{len(only):,} of {len(deals[there]):,} only in {there}"
                f" ({deal_code(only[0])}{' ...' if len(only) > 1 else ''})"
                for only, there in ((missing, first), (more, path))
                if only
            ]
            found["deals"] = "deals: " + ", ".join(sides)
            break
        if deals[path] != deals[first]:
            found["deals"] = f"deals: {path} has those of {first} in another order"
            break
    return found


def _shown(value: object) -> str:
    return {True: "allowed", False: "not allowed"}[value] if isinstance(value, bool) else str(value)


# ----------------------------------------------------------------------------------- the figures


@dataclass(frozen=True)
class Group:
    """An agent that was trained with several seeds; each of its policies is a player.

    Attributes:
        name: The group's name.
        players: The players' names.
        runs: Figures over training seeds; scores divided by 1,360.
        mean_score: The mean score in points, with Student's interval over training seeds.
        win_rate: The win rate of all its games, with its interval over deals.
        win_rates: The win rate of each player.
    """

    name: str
    players: tuple[str, ...]
    runs: Runs
    mean_score: Interval
    win_rate: Interval
    win_rates: tuple[float, ...]


@dataclass(frozen=True)
class Pair:
    """The differences between two players or groups on the same deals, first minus second.

    Attributes:
        first: The name of a player or group.
        second: The name of another.
        score: The difference of scores.
        wins: The difference of wins; its sign test is McNemar's exact test, over the deals that one
            of the two won more often than the other.
        cards: The difference of cards on the foundations.
    """

    first: str
    second: str
    score: PairedDifference
    wins: PairedDifference
    cards: PairedDifference


class Comparison:
    """A comparison of results.

    Args:
        results: The results, from :func:`load_results`.
        groups: For each group's name its players, or patterns that match them.
        baseline: A player or group with which the others are compared; None: compare all pairs.

    Attributes:
        results: The results.
        summaries: Each player's figures.
        groups: The groups' figures.
        entries: For each group, and for each player outside groups, its players.
        pairs: The differences between entries.

    Raises:
        ValueError: A group has fewer than two players, a pattern matches no player, or there is no
            player or group of a given name.
    """

    def __init__(
        self,
        results: Results,
        groups: Mapping[str, Sequence[str]] | None = None,
        baseline: str | None = None,
    ) -> None:
        self.results = results
        self.summaries = summarize(results)
        members = {name: self._members(name, asked) for name, asked in (groups or {}).items()}
        grouped = {player for players in members.values() for player in players}
        alone = {name: (name,) for name in self.summaries if name not in grouped}
        taken = set(members) & set(alone)
        if taken:
            raise ValueError(f"{taken.pop()!r} is the name of a player, not of a group")
        self.entries: dict[str, tuple[str, ...]] = {**members, **alone}
        self.groups = {name: self._group(name, players) for name, players in members.items()}
        if baseline is None:
            names = list(combinations(self.entries, 2))
        elif baseline in self.entries:
            names = [(name, baseline) for name in self.entries if name != baseline]
        else:
            raise ValueError(f"no player or group {baseline!r}; there are {_listed(self.entries)}")
        self.pairs = self._pairs(names)

    def _pairs(self, names: Sequence[tuple[str, str]]) -> list[Pair]:
        values = {
            column: {entry: self.values(entry, column) for entry in self.entries}
            for column in ("score", "won", "foundation_cards")
        }

        def both(column: str) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(values[column][first], values[column][second]) for first, second in names]

        differences = paired_differences([*both("score"), *both("foundation_cards")])
        scores, cards = differences[: len(names)], differences[len(names) :]
        return [
            Pair(*pair, score, wins, more_cards)
            for pair, score, wins, more_cards in zip(
                names, scores, all_paired_wins(both("won")), cards, strict=True
            )
        ]

    def _members(self, group: str, asked: Sequence[str]) -> tuple[str, ...]:
        players: dict[str, None] = {}
        for text in asked:
            found = [name for name in self.summaries if name == text]
            found = found or [name for name in self.summaries if fnmatch.fnmatchcase(name, text)]
            if not found:
                raise ValueError(
                    f"group {group!r}: no player {text!r}; there are {_listed(self.summaries)}"
                )
            players |= dict.fromkeys(found)
        if len(players) < 2:
            raise ValueError(f"group {group!r} has one player; training seeds are at least two")
        return tuple(players)

    def _group(self, name: str, players: tuple[str, ...]) -> Group:
        scores = np.array([deal_values(self.results.frame, player, "score") for player in players])
        rates = [float(deal_values(self.results.frame, player, "won").mean()) for player in players]
        runs = runs_summary(scores / MAX_SCORE)
        return Group(
            name=name,
            players=players,
            runs=runs,
            mean_score=student_interval(scores.mean(axis=1)),
            win_rate=self._win_rate(players),
            win_rates=tuple(rates),
        )

    def values(self, entry: str, column: str) -> np.ndarray:
        """Return an entry's value for each deal, the mean over seeds and players: float64 (n,)."""
        players = self.entries[entry]
        mean: np.ndarray = np.mean(
            [deal_values(self.results.frame, name, column) for name in players], axis=0
        )
        return mean

    def games(self, players: Sequence[str], column: str) -> np.ndarray:
        """Return the value of each game of some players: float64 (deals, games per deal)."""
        rows = self.results.frame[self.results.frame["player"].isin(players)]
        ordered = rows.sort_values("index", kind="stable")
        values: np.ndarray = ordered[column].to_numpy(dtype=np.float64)
        return values.reshape(rows["index"].nunique(), -1)

    def _win_rate(self, players: Sequence[str]) -> Interval:
        games = self.games(players, "won")
        return clustered_proportion_interval(games.mean(axis=1), games.shape[1])

    def win_rate(self, entry: str) -> Interval:
        """Return an entry's win rate, 0..1, with its interval over deals."""
        return self._win_rate(self.entries[entry])

    def seconds(self, entry: str) -> float | None:
        """Return an entry's CPU seconds per deal, or None if they are unknown."""
        times = [self.summaries[name].cpu_seconds_per_deal for name in self.entries[entry]]
        known = [time for time in times if time is not None]
        return float(np.mean(known)) if len(known) == len(times) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "format": "quarante-voleurs-comparison",
            "version": 1,
            "suite": self.results.suite,
            "deals": self.results.deals,
            "confidence": CONFIDENCE,
            "players": [asdict(summary) for summary in self.summaries.values()],
            "groups": [asdict(group) for group in self.groups.values()],
            "pairs": [asdict(pair) for pair in self.pairs],
            "notes": list(self.results.notes),
        }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
