"""Players on the same held-out deals: per-deal results, intervals, a table and a plot.

    python -m agents.benchmark PLAYER [PLAYER ...] [--suite NAME | --deals DEALS] [--limit N]

``agents.players`` says how players are named. The results go to a folder:

================  ============================================================================
``results.jsonl`` one row a player and deal, player by player in the deals' order; for pandas:
                  ``pandas.read_json(path, lines=True)``
``summary.json``  the figures of each player with their intervals, and what they were made with;
                  written last, so a folder that has it is whole
``table.md``      the same as a Markdown table
``plot.png``      how the scores are spread, and their means
================  ============================================================================

A row depends on the player, the deal, the seed and the step limit alone: not on the other players
and deals, nor on how many games are played at a time. (A network's sums may round differently in
batches of another size or on another processor; there a near tie can fall the other way.)
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agents.evaluation import Episode, play_deals
from agents.players import Player, make_player
from agents.plots import score_plot
from agents.provenance import git_state, package_versions
from agents.stats import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    PairedDifference,
    mean_interval,
    paired_difference,
    proportion_interval,
)
from qv_env import MAX_EPISODE_STEPS, deal_code, suite
from qv_env.deals import typed_deal
from qv_env.files import write_bytes, write_json, write_text
from qv_env.rules import MAX_SCORE
from qv_env.suites import SUITE_SIZES, deal_pool

RESULTS, SUMMARY, TABLE, PLOT = "results.jsonl", "summary.json", "table.md", "plot.png"

COLUMNS = (
    "player",
    "settings",
    "environment",
    "suite",
    "index",
    "deal",
    "code",
    "seed",
    "score",
    "won",
    "foundation_cards",
    "steps",
    "truncated",
)

MOST_DEALS = 1_000_000  # a row of each is held in memory
LISTED = "list"  # what the suite of deals that were named one by one is called
_SEED_END = 1 << 63  # JSON readers, pandas' too, take integers below this


# ------------------------------------------------------------------------------------- playing


def run_benchmark(
    players: Mapping[str, Player],
    deals: Sequence[int] | np.ndarray,
    suite: str,
    *,
    seed: int = 0,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    num_seats: int = 256,
    progress: bool = False,
) -> pd.DataFrame:
    """Let each player play the same deals and return a row a game.

    Args:
        players: The players, by the names that the rows carry.
        deals: Deal numbers, each once.
        suite: What the deals are called in the rows.
        seed: Seeds the players' randomness, together with each deal's number.
        max_episode_steps: The step limit, at least 1: players may go round in circles.
        num_seats: How many games are played at a time; no row depends on it.
        progress: Whether to show on standard error how far it is: a bar on a terminal, a line a
            player elsewhere.

    Returns:
        The columns ``COLUMNS``: ``settings`` and ``environment`` are dicts, how the player plays
        and the keywords of the environment; ``index`` is the deal's place in ``deals``.
        ``attrs["seconds"]`` has the seconds that each player took.

    Raises:
        ValueError: There is no player or no deal, or a deal is there twice.
    """
    numbers = [int(deal) for deal in deals]
    if not players or not numbers:
        raise ValueError("a benchmark needs at least one player and one deal")
    _check_different(numbers)
    rows: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    console = Console(stderr=True)
    with _progress_bar(console, shown=progress and console.is_terminal) as bar:
        for name, player in players.items():
            task = bar.add_task(name, total=len(numbers), mean=0.0)
            episodes: list[Episode] = []
            points = 0
            for _ in play_deals(player, numbers[:1], seed, max_episode_steps):
                pass  # one game outside the clock: code compiles, caches fill
            started = time.perf_counter()
            for episode in play_deals(player, numbers, seed, max_episode_steps, num_seats):
                episodes.append(episode)
                points += episode.score
                bar.update(task, advance=1, mean=points / len(episodes))
            seconds[name] = time.perf_counter() - started
            if progress and not console.is_terminal:
                print(
                    f"{name}: {len(episodes):,} deals, mean score {points / len(episodes):.1f},"
                    f" {seconds[name]:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
            environment = {**player.env_kwargs, "max_episode_steps": max_episode_steps}
            episodes.sort(key=lambda episode: episode.index)
            rows.extend(
                {
                    "player": name,
                    "settings": dict(player.settings),
                    "environment": environment,
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
                for episode in episodes
            )
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame.attrs["seconds"] = seconds
    return frame


def _check_different(deals: Sequence[int]) -> None:
    """Refuse a deal that is there twice: intervals count each deal as a new one."""
    (deal, times), *_ = Counter(deals).most_common(1)
    if times > 1:
        raise ValueError(f"deal {deal_code(deal)} is there twice")


def _progress_bar(console: Console, shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("mean score {task.fields[mean]:.1f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not shown,
    )


# ------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class PlayerSummary:
    """A player's figures on the deals of a benchmark.

    Attributes:
        player: Its name.
        settings: How it plays.
        environment: The keywords of the environment that it played in, the step limit included.
        deals: How many deals it played.
        mean_score: Mean of the final scores, 0..1360, with bootstrap interval.
        share_of_maximum: Mean score divided by 1,360, which no game can exceed.
        wins: Deals won.
        win_rate: Wins divided by deals, with Wilson interval.
        mean_foundation_cards: Mean of the cards on the foundations at the end, 0..104, with
            bootstrap interval.
        mean_steps: Mean number of steps.
        truncated: Share of the deals that the step limit ended.
        seconds: Time that the player took for all deals together; None where not known.
        deals_per_second: Deals divided by seconds.
    """

    player: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    deals: int
    mean_score: Interval
    share_of_maximum: float
    wins: int
    win_rate: Interval
    mean_foundation_cards: Interval
    mean_steps: float
    truncated: float
    seconds: float | None
    deals_per_second: float | None


def summarize(frame: pd.DataFrame, seed: int = 0) -> dict[str, PlayerSummary]:
    """Return each player's figures, in the order in which the rows have the players.

    Args:
        frame: What ``run_benchmark`` returns, or the same read back from ``results.jsonl``.
        seed: Seeds the bootstrap.
    """
    summaries = {}
    seconds: Mapping[str, float] = frame.attrs.get("seconds", {})
    for name in dict.fromkeys(frame["player"]):
        rows = frame[frame["player"] == name]
        deals, wins = len(rows), int(rows["won"].sum())
        score = mean_interval(rows["score"].to_numpy(), seed=seed)
        taken = seconds.get(name)
        summaries[name] = PlayerSummary(
            player=name,
            settings=dict(rows["settings"].iloc[0]),
            environment=dict(rows["environment"].iloc[0]),
            deals=deals,
            mean_score=score,
            share_of_maximum=score.estimate / MAX_SCORE,
            wins=wins,
            win_rate=proportion_interval(wins, deals),
            mean_foundation_cards=mean_interval(rows["foundation_cards"].to_numpy(), seed=seed),
            mean_steps=float(rows["steps"].mean()),
            truncated=float(rows["truncated"].mean()),
            seconds=taken,
            deals_per_second=deals / taken if taken else None,
        )
    return summaries


def compare_scores(frame: pd.DataFrame, first: str, second: str, seed: int = 0) -> PairedDifference:
    """Return how the scores of two players differ on the same deals: first minus second.

    Args:
        frame: What ``run_benchmark`` returns.
        first: A player's name in it.
        second: Another's.
        seed: Seeds the bootstrap.

    Raises:
        ValueError: The two did not play the same deals, or one is not there.
    """
    scores = []
    for name in (first, second):
        rows = frame[frame["player"] == name]
        if rows.empty:
            raise ValueError(f"the results have no player {name!r}")
        scores.append(rows.set_index("deal")["score"])
    one, other = scores
    if set(one.index) != set(other.index) or len(one) != len(other):
        raise ValueError(f"{first!r} and {second!r} did not play the same deals")
    return paired_difference(one.to_numpy(), other.reindex(one.index).to_numpy(), seed=seed)


# --------------------------------------------------------------------------------------- texts


def interval_text(interval: Interval, scale: float = 1.0, unit: str = "", digits: int = 1) -> str:
    """Return an interval for people, such as ``345.1 (338.0 to 352.3)``.

    Args:
        interval: The interval.
        scale: What its numbers are multiplied by, such as 100 for per cent.
        unit: What stands after the last number.
        digits: Digits after the point.
    """
    estimate, low, high = (
        f"{scale * value:.{digits}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} ({low} to {high}){unit}"


def table_cells(summaries: Mapping[str, PlayerSummary]) -> list[list[str]]:
    """Return the table of results as rows of texts, the heading first."""
    level = f"{100 * CONFIDENCE:.0f} % interval"
    cells = [
        [
            "player",
            f"mean score ({level})",
            f"% of {MAX_SCORE:,}",
            "wins",
            f"win rate ({level})",
            f"cards up ({level})",
            "steps",
            "truncated",
            "deals/s",
        ]
    ]
    cells += [
        [
            summary.player,
            interval_text(summary.mean_score),
            f"{100 * summary.share_of_maximum:.1f} %",
            f"{summary.wins:,} of {summary.deals:,}",
            interval_text(summary.win_rate, 100, " %", digits=2),
            interval_text(summary.mean_foundation_cards),
            f"{summary.mean_steps:.1f}",
            f"{100 * summary.truncated:.1f} %",
            "" if summary.deals_per_second is None else f"{summary.deals_per_second:,.1f}",
        ]
        for summary in summaries.values()
    ]
    return cells


_MARKDOWN = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "\n": " ",
        **{sign: "\\" + sign for sign in "\\`*_[]|#$~"},
    }
)


def markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is: one line, no markup, no HTML."""
    return text.translate(_MARKDOWN)


def markdown_table(summaries: Mapping[str, PlayerSummary]) -> str:
    """Return the table of results in Markdown."""
    return markdown_rows(table_cells(summaries))


def markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table, its columns aligned for readers of the source.

    Args:
        rows: Texts, the heading first; all columns but the first are set to the right.
    """
    heading, *body = ([markdown_text(cell) for cell in row] for row in rows)
    widths = [max(len(row[k]) for row in (heading, *body)) for k in range(len(heading))]

    def line(row: list[str]) -> str:
        first, *rest = (
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if k else "-") for k, width in enumerate(widths))
    return "\n".join([line(heading), rule + "|", *(line(row) for row in body)]) + "\n"


def _only(frame: pd.DataFrame, column: str) -> Any:
    values = frame[column].unique()
    if len(values) != 1:
        raise ValueError(f"results of different {column}s do not belong in one summary")
    return values[0]


def deals_text(frame: pd.DataFrame) -> str:
    """Return which deals the rows are about, such as ``the first 50 deals of test-1000``."""
    name, count = str(_only(frame, "suite")), int(frame["index"].max()) + 1
    deals = f"{count:,} deal{'' if count == 1 else 's'}"
    if name == LISTED:
        return deals
    low, colon, high = name.partition(":")
    size = int(high) - int(low) if colon else SUITE_SIZES.get(name, count)
    return f"the {deals} of {name}" if count == size else f"the first {deals} of {name}"


# --------------------------------------------------------------------------------------- files


def write_results(
    folder: Path, frame: pd.DataFrame, command: str = "", overwrite: bool = False
) -> dict[str, PlayerSummary]:
    """Write the files of a benchmark into a folder, each whole or not at all.

    Args:
        folder: Where to; made where it is missing.
        frame: What ``run_benchmark`` returns.
        command: The command line that made it.
        overwrite: Whether results that the folder has are replaced.

    Returns:
        The figures, as ``summarize`` returns them.

    Raises:
        FileExistsError: The folder has results already.
        OSError: It cannot be written to.
    """
    check_folder(folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SUMMARY).unlink(missing_ok=True)  # it vouches for the others until they change
    summaries = summarize(frame)
    caption = f"{deals_text(frame)}, seed {int(_only(frame, 'seed'))}"
    lines = (json.dumps(row, ensure_ascii=False) for row in frame.to_dict("records"))
    write_text(folder / RESULTS, "".join(line + "\n" for line in lines))
    scores = {name: frame.loc[frame["player"] == name, "score"].to_numpy() for name in summaries}
    means = {name: summary.mean_score for name, summary in summaries.items()}
    write_bytes(folder / PLOT, score_plot(scores, means, title=f"Scores on {caption}"))
    text = f"Results on {markdown_text(caption)}:\n\n{markdown_table(summaries)}"
    if command:
        text += f"\nMade by `{command}`.\n"
    write_text(folder / TABLE, text)
    commit, dirty = git_state()
    write_json(
        folder / SUMMARY,
        {
            "format": "quarante-voleurs-benchmark",
            "version": 1,
            "suite": str(_only(frame, "suite")),
            "deals": int(frame["index"].max()) + 1,
            "seed": int(_only(frame, "seed")),
            "confidence": CONFIDENCE,
            "bootstrap_resamples": RESAMPLES,
            "players": [asdict(summary) for summary in summaries.values()],
            "command": command,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "git_commit": commit,
            "git_dirty": dirty,
            "versions": package_versions(),
        },
    )
    return summaries


def check_folder(folder: Path, overwrite: bool = False) -> None:
    """See that results can go to a folder.

    Raises:
        FileExistsError: It has results already, which are not to be replaced.
        NotADirectoryError: It is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    there = [name for name in (RESULTS, SUMMARY, TABLE, PLOT) if (folder / name).exists()]
    if there and not overwrite:
        raise FileExistsError(f"{folder} has results already ({', '.join(there)}): --overwrite")


# --------------------------------------------------------------------------------- command line


def parse_deals(text: str) -> tuple[str, Sequence[int]]:
    """Return the suite's name and the deal numbers that ``--deals`` describes.

    Args:
        text: ``LO:HI`` for the numbers LO to HI - 1, or codes and numbers, separated by commas or
            blanks.

    Raises:
        ValueError: It describes no deals; the message says what is wrong.
    """
    if ":" in text:
        pool = deal_pool(text)
        return f"{pool.start}:{pool.start + pool.size}", range(pool.start, pool.start + pool.size)
    words = text.replace(",", " ").split()
    if not words:
        raise ValueError("names no deal")
    return LISTED, [typed_deal(word) for word in words]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _integer(low: int, end: int | None = None) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no integer") from None
        if value < low or (end is not None and value >= end):
            limits = f"at least {low}" if end is None else f"between {low} and {end - 1}"
            raise argparse.ArgumentTypeError(f"{value} is not {limits}")
        return value

    return convert


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m agents.benchmark",
        description="Let players play the same held-out deals and compare their results.",
    )
    parser.add_argument(
        "players",
        metavar="PLAYER",
        nargs="+",
        help="random, greedy, plan, human:FOLDER, or ppo:PATH[,play=...][,temperature=T]",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--suite",
        default="dev-200",
        help=f"{', '.join(SUITE_SIZES)} (default dev-200, for tuning; tables use test suites)",
    )
    which.add_argument(
        "--deals",
        help="instead of a suite: LO:HI for the numbers LO to HI - 1, or codes and numbers,"
        " separated by commas",
    )
    parser.add_argument(
        "--limit", metavar="N", type=_integer(1), help="play the first N of the deals only"
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=_integer(0, _SEED_END),
        default=0,
        help="seeds the players' randomness (default 0)",
    )
    parser.add_argument(
        "--max-episode-steps",
        metavar="N",
        type=_integer(1),
        default=MAX_EPISODE_STEPS,
        help=f"the step limit (default {MAX_EPISODE_STEPS})",
    )
    parser.add_argument(
        "--seats",
        metavar="N",
        type=_integer(1),
        default=256,
        help="games played at a time (default 256); results do not depend on it",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="where the results go (default runs/benchmark/SUITE-TIME)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace results that the folder has"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, or 130 after Ctrl-C.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        name, deals = _chosen_deals(options)
        started = datetime.now().strftime("%Y%m%d-%H%M%S")
        label = name.replace(":", "-")
        folder = options.out or Path("runs", "benchmark", f"{label}-{started}")
        check_folder(folder, options.overwrite)
        players = _chosen_players(options.players)
        for player in players.values():
            player.played(deals)  # an error where games that it should have are missing
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)  # rather now than after an hour of play
    except (ValueError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    except KeyboardInterrupt:
        return _interrupted()
    try:
        frame = run_benchmark(
            players,
            deals,
            name,
            seed=options.seed,
            max_episode_steps=options.max_episode_steps,
            num_seats=options.seats,
            progress=True,
        )
        command = shlex.join(["python", "-m", "agents.benchmark", *arguments])
        try:
            summaries = write_results(folder, frame, command, options.overwrite)
        except OSError as error:
            parser.error(str(error))
    except KeyboardInterrupt:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        return _interrupted()
    print(f"Results on {deals_text(frame)}, seed {options.seed}:\n")
    print(markdown_table(summaries))
    print(f"{folder}: {RESULTS}, {SUMMARY}, {TABLE}, {PLOT}")
    return 0


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return 130


def _chosen_deals(options: argparse.Namespace) -> tuple[str, list[int]]:
    deals: Sequence[int] | np.ndarray
    if options.deals is None:
        name, deals = options.suite, suite(options.suite)
    else:
        try:
            name, deals = parse_deals(options.deals)
        except ValueError as error:
            raise ValueError(f"--deals: {error}") from None
    chosen = deals[: options.limit]
    if len(chosen) > MOST_DEALS:
        raise ValueError(f"{len(chosen):,} deals are more than {MOST_DEALS:,}: --limit")
    numbers = [int(deal) for deal in chosen]
    _check_different(numbers)
    return name, numbers


def _chosen_players(names: Sequence[str]) -> dict[str, Player]:
    players: dict[str, Player] = {}
    for name in names:
        if name in players:
            raise ValueError(f"player {name!r} is named twice")
        players[name] = make_player(name)
    return players


if __name__ == "__main__":
    sys.exit(main())
