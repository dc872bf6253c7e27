"""Labels of deals: the solver's results for the deals of a suite."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from io import FileIO
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agents.search.solver import WEIGHTS, solve_game
from qv_env import ENV_ID, MAX_EPISODE_STEPS, deck_of, suite
from qv_env.actions import NUM_ACTIONS
from qv_env.cards import NUM_CARDS
from qv_env.evaluation.players.base import Episode
from qv_env.evaluation.results import result_row
from qv_env.files import append, hold, write_text
from qv_env.folders import sweep
from qv_env.rules import MAX_SCORE, foundation_cards, new_game, play
from qv_env.schema import OneOf, Strict, checked_lines
from qv_env.strict_json import shown
from qv_env.suites import NUM_DEALS, VERDICTS, DealRecord, difficulty, records_text

POSITIONS = 7_000_000  # default for the approximate number of positions examined per deal


@dataclass(frozen=True)
class Labelled:
    """A record, with the CPU time it took.

    Attributes:
        index: The deal's index in its suite.
        record: The result of the search.
        seconds: CPU time of the search, in seconds.
    """

    index: int
    record: DealRecord
    seconds: float


def label_deal(place: tuple[int, int], positions: int, seed: int) -> Labelled:
    """Search a deal.

    Args:
        place: The deal's index in its suite, and its number.
        positions: Approximate number of positions to examine.
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
    """Return a one-line description of the search: its limits, seed and weights."""
    weights = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()[:12]
    return f"agents.solve, {positions:,} positions a deal, seed {seed}, weights {weights}"


class _Record(Strict):
    """A record in a line of a part file; see ``qv_env.suites.DealRecord``."""

    deal: Annotated[int, Field(ge=0, lt=NUM_DEALS)]
    verdict: Annotated[str, OneOf(VERDICTS)]
    attempts: Annotated[int, Field(ge=0)]
    positions: Annotated[int, Field(ge=0)]
    score: Annotated[int, Field(ge=0, le=MAX_SCORE)]
    cards: Annotated[int, Field(ge=0, le=NUM_CARDS)]
    actions: list[Annotated[int, Field(ge=0, lt=NUM_ACTIONS)]]


class _Label(Strict):
    """A line of a part file."""

    index: Annotated[int, Field(ge=0)]
    record: _Record
    seconds: Annotated[float, Field(ge=0)]


def _rows_of(path: Path, content: bytes) -> dict[int, Labelled]:
    """Return the rows of a part file, by index; the first line is a header.

    Raises:
        FormatError: A line is not a valid row; the message names the line.
    """
    done = {}
    for _, label in checked_lines(_Label, content[content.find(b"\n") :], str(path)):
        record = DealRecord(**dict(label.record) | {"actions": tuple(label.record.actions)})
        done[label.index] = Labelled(label.index, record, label.seconds)
    return done


@contextmanager
def _part(path: Path, effort: str) -> Iterator[tuple[dict[int, Labelled], FileIO]]:
    """Open and lock the file of the deals finished so far.

    Only one process writes the file at a time. An incomplete last line, left by a killed process,
    is removed.

    Args:
        path: The file; created if missing.
        effort: Its first line.

    Yields:
        Its rows, by index, and the file, to which further rows are appended.

    Raises:
        InUseError: Another process is writing the file.
        ValueError: The file was made with another effort or suite, or is not a part file.
    """
    head = f"{effort}\n".encode()
    with ExitStack() as stack:
        while True:
            file = stack.enter_context(open(path, "a+b", buffering=0))
            hold(file.fileno(), path)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    break
            file.close()  # another process has finished and removed it
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        torn = not whole and head.startswith(content)
        if not torn and not whole.startswith(head):
            first = content.split(b"\n")[0].decode("utf-8", "replace")
            raise ValueError(f"{path} was made otherwise: {shown(first)}")
        done = _rows_of(path, whole)
        file.truncate(len(whole))
        append(file, b"" if whole else head)
        yield done, file


def label_suite(
    name: str, out: Path, positions: int, seed: int, jobs: int, limit: int | None = None
) -> Iterator[Labelled]:
    """Label the remaining deals of a suite, and write the file when all are done.

    Args:
        name: The suite.
        out: The file; deals finished so far are in ``OUT.part``.
        positions: Approximate number of positions to examine per deal.
        seed: Seeds the changes of the weights.
        jobs: Number of processes that search, at least 1; the file does not depend on it.
        limit: Label only this many deals, the first ones of the suite.

    Yields:
        The labels that ``OUT.part`` already contains, then each new one.

    Raises:
        InUseError: Another process is labelling into the same file.
        ValueError: There is no such suite, or ``OUT.part`` was made with another suite or effort.
        OSError: A file cannot be read or written.
    """
    places = list(enumerate(suite(name).tolist()))[:limit]
    effort = f"{name}: {effort_text(positions, seed)}"
    part = out.with_name(out.name + ".part")
    sweep(out.parent)  # the folder is not locked, only the part file is
    with _part(part, effort) as (done, file):
        yield from done.values()
        missing = [place for place in places if place[0] not in done]
        search = partial(label_deal, positions=positions, seed=seed)
        for label in _searched(search, missing, jobs):
            append(file, _line(label).encode())
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
    with multiprocessing.get_context("spawn").Pool(jobs, _end_with_parent) as pool:
        yield from pool.imap_unordered(search, missing)


def _end_with_parent() -> None:
    """Make this process end when its parent process ends, for whatever reason."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=_wait_for, args=(parent,), daemon=True).start()


def _wait_for(process: BaseProcess) -> None:
    process.join()
    os._exit(1)


def result_rows(name: str) -> list[dict[str, Any]]:
    """Return a suite's labels as rows of a benchmark; see ``qv_env.evaluation.results``."""
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
