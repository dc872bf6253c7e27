"""Labels of deals: what the solver finds about the deals of a suite."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.search.solver import WEIGHTS, solve_game
from qv_env import ENV_ID, MAX_EPISODE_STEPS, deck_of, suite
from qv_env.cards import NUM_CARDS
from qv_env.evaluation.players.base import Episode
from qv_env.evaluation.results import result_row
from qv_env.files import write_text
from qv_env.rules import foundation_cards, new_game, play
from qv_env.suites import DealRecord, difficulty, records_text

POSITIONS = 7_000_000  # looked at in a deal, about, where nothing else is said


@dataclass(frozen=True)
class Labelled:
    """A record and what it cost.

    Attributes:
        index: The deal's place in its suite.
        record: What was found.
        seconds: CPU time of the search, in seconds.
    """

    index: int
    record: DealRecord
    seconds: float


def label_deal(place: tuple[int, int], positions: int, seed: int) -> Labelled:
    """Search a deal.

    Args:
        place: The deal's place in its suite, and its number.
        positions: How many positions to look at, about.
        seed: Seeds the changes of the weights.
    """
    index, deal = place
    game = new_game(deck_of(deal))
    solution = solve_game(game, float("inf"), seed, positions)
    for action in solution.best:
        play(game[0], action)
    record = DealRecord(
        deal,
        solution.verdict,
        solution.attempts,
        solution.positions,
        int(game[0]["score"]),
        int(foundation_cards(game[0])),
        solution.best,
    )
    if (record.verdict == "won") != (record.cards == NUM_CARDS):
        raise AssertionError(f"deal {deal}: {record.verdict} with {record.cards} cards up")
    return Labelled(index, record, solution.seconds)


def effort_text(positions: int, seed: int) -> str:
    """Return how hard deals are searched, and with which weights, on one line."""
    weights = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()[:12]
    return f"agents.solve, {positions:,} positions a deal, seed {seed}, weights {weights}"


def read_part(path: Path, effort: str) -> dict[int, Labelled]:
    """Read the rows that a killed run left, by place; a last line that is cut off is left out.

    Raises:
        ValueError: The file is of another effort or suite, or no such file.
    """
    if not path.exists():
        return {}
    head, *lines = path.read_bytes().split(b"\n")
    if head.decode("utf-8", "replace") != effort:
        raise ValueError(f"{path} was made otherwise: {head.decode('utf-8', 'replace')!r}")
    done = {}
    for number, line in enumerate(lines[:-1], start=2):
        try:
            row = json.loads(line)
            record = DealRecord(**row["record"] | {"actions": tuple(row["record"]["actions"])})
            done[int(row["index"])] = Labelled(int(row["index"]), record, float(row["seconds"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return done


def label_suite(
    name: str, out: Path, positions: int, seed: int, jobs: int, limit: int | None = None
) -> Iterator[Labelled]:
    """Label the deals of a suite that are missing, and write the file when none is.

    Args:
        name: The suite.
        out: The file; what is finished so far is in ``OUT.part``.
        positions: How many positions to look at in a deal, about.
        seed: Seeds the changes of the weights.
        jobs: Processes that search, at least 1; the file is the same for any number.
        limit: The first so many deals only.

    Yields:
        What is known already, then each deal that is finished.
    """
    places = list(enumerate(suite(name).tolist()))[:limit]
    part = out.with_name(out.name + ".part")
    effort = f"{name}: {effort_text(positions, seed)}"
    done = read_part(part, effort)
    yield from done.values()
    missing = [place for place in places if place[0] not in done]
    search = partial(label_deal, positions=positions, seed=seed)
    kept = "".join(_line(label) for label in done.values())
    write_text(part, f"{effort}\n{kept}")  # without a line that was cut off
    with part.open("a", encoding="utf-8") as file:
        for label in _searched(search, missing, jobs):
            file.write(_line(label))
            file.flush()
            done[label.index] = label
            yield label
    records = [done[index].record for index, _ in places]
    write_text(out, records_text(records, effort))
    part.unlink()


def _line(label: Labelled) -> str:
    return json.dumps(asdict(label)) + "\n"


def _searched(search: Any, missing: Sequence[tuple[int, int]], jobs: int) -> Iterator[Labelled]:
    if jobs == 1:
        yield from map(search, missing)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(search, missing)


def result_rows(name: str) -> list[dict[str, Any]]:
    """Return a suite's labels as rows of a benchmark, see ``qv_env.evaluation.results``."""
    rows = []
    for index, record in enumerate(difficulty(name)):
        episode = Episode(
            index=index,
            deal=record.deal,
            score=record.score,
            won=record.verdict == "won",
            foundation_cards=record.cards,
            steps=len(record.actions),
            truncated=len(record.actions) >= MAX_EPISODE_STEPS and record.verdict != "won",
            actions=list(record.actions),
        )
        environment = {"id": ENV_ID, "stock_visible": True, "max_episode_steps": MAX_EPISODE_STEPS}
        settings = {"positions": POSITIONS}
        rows.append(result_row("solver", settings, environment, name, 0, episode, record=True))
    return rows
