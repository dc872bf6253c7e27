"""What the benchmarks share: rounds taken in turns, and the rows of the table they fill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from qv_env.compiling import compiled
from qv_env.deals import split_mix

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        seconds: How long each comparison of short rounds goes on.
        games: Of the native batch.
        many_games: Of the batch that threads share.
        sb3_games: Of the two stable-baselines3 environments.
        sb3_steps: Steps of both, whole episodes where they are a multiple of 500.
        iterations: Rollouts and updates of each learner.
        memory_games: Of the batch whose memory is measured.
        processes: How often a first use is repeated, each time in a new process.
        training: Overrides of the training config.
    """

    seconds: float = 10.0
    games: int = 1024
    many_games: int = 16_384
    sb3_games: int = 256
    sb3_steps: int = 1000
    iterations: int = 5
    memory_games: int = 65_536
    processes: int = 3
    training: tuple[str, ...] = ()


FULL = Sizes()
QUICK = Sizes(seconds=1.5, sb3_steps=500, iterations=2, processes=1)


@dataclass(frozen=True)
class Target:
    """What the issue asks of a figure.

    Attributes:
        text: In words.
        bound: The least, or the largest, value that will do.
        at_least: Which of the two ``bound`` is.
        aim: Whether it is only hoped for.
    """

    text: str
    bound: float
    at_least: bool = False
    aim: bool = False

    def met(self, value: float) -> bool:
        """Whether a value will do."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        what: What was measured.
        value: The figure, or words where there is none.
        unit: Of the figure.
        ratio: The figure compared with another, as ``ratio_of`` says; the target is for the ratio
            where there is one.
        ratio_of: What the ratio compares.
        target: What the issue asks.
    """

    what: str
    value: float | str
    unit: str = ""
    ratio: float | None = None
    ratio_of: str = ""
    target: Target | None = None

    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing to compare with it."""
        compared = self.value if self.ratio is None else self.ratio
        if self.target is None or isinstance(compared, str):
            return None
        return self.target.met(compared)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON takes it, with ``met`` beside its attributes."""
        return asdict(self) | {"met": self.met()}


@dataclass(frozen=True)
class Result:
    """What one benchmark found: rows of the table, and further figures for the JSON file."""

    rows: list[Row]
    details: dict[str, Any] = field(default_factory=dict)


# ----------------------------------------------------------------------------- rounds in turns


def in_turns(
    tasks: Mapping[str, Callable[[], float]], seconds: float, at_least: int = 3
) -> dict[str, np.ndarray]:
    """Run short rounds of several tasks in turns, so that what disturbs one disturbs all.

    Args:
        tasks: By name; each runs one round and returns the seconds a unit of its work took.
        seconds: When to stop.
        at_least: Rounds of each, however long they take.

    Returns:
        Seconds a unit, by task: float64 (rounds,); entry k of all tasks was measured together.
    """
    for task in tasks.values():
        task()  # caches and compilers warm up
    found: dict[str, list[float]] = {name: [] for name in tasks}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < at_least or time.perf_counter() < end:
        for name, task in tasks.items():
            found[name].append(task())
        rounds += 1
    return {name: np.array(values) for name, values in found.items()}


def ratio(times: Mapping[str, np.ndarray], numerator: str, denominator: str) -> float:
    """Return the median over rounds of one task's seconds a unit over another's."""
    return float(np.median(times[numerator] / times[denominator]))


def rate(times: np.ndarray) -> float:
    """Return units a second in the median round."""
    return float(1 / np.median(times))


def summary(times: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return each task's rounds in few numbers: how many, and seconds a unit."""
    return {
        name: {
            "rounds": len(values),
            "median_s": float(np.median(values)),
            "best_s": float(values.min()),
            "quartiles_s": [float(q) for q in np.quantile(values, [0.25, 0.75])],
        }
        for name, values in times.items()
    }


# ------------------------------------------------------------------------------- random players


@compiled
def choose_legal(masks: np.ndarray, actions: np.ndarray, random: np.ndarray) -> None:
    """Choose a uniformly random legal action in each game; 0 where none is legal.

    Args:
        masks: int8 or bool (n, num_actions).
        actions: int64 (n,); written.
        random: uint64 (1,), the state of the generator (SplitMix64); goes on.
    """
    for i in range(len(masks)):
        legal = 0
        for a in range(masks.shape[1]):
            legal += masks[i, a]
        random[0], bits = split_mix(random[0])
        left = ((bits >> np.uint64(32)) * np.uint64(legal)) >> np.uint64(32)
        actions[i] = 0
        for a in range(masks.shape[1]):
            if masks[i, a]:
                if left == 0:
                    actions[i] = a
                    break
                left -= np.uint64(1)


class RandomPlayer:
    """Chooses for all games of a batch at once, and keeps the time that takes.

    Args:
        num_games: Of the batch.
        seed: Of the choices.
    """

    def __init__(self, num_games: int, seed: int = 0) -> None:
        self.actions = np.zeros(num_games, dtype=np.int64)
        self.seconds = 0.0
        self.calls = 0
        self._random = np.array([seed], dtype=np.uint64)

    def act(self, masks: np.ndarray) -> np.ndarray:
        """Return actions, int64 (n,), in an array that the next call overwrites."""
        begin = time.perf_counter()
        choose_legal(masks, self.actions, self._random)
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        return self.actions


# --------------------------------------------------------------------------------- new processes


def run_python(
    arguments: list[str], python: str = sys.executable, **environment: str
) -> dict[str, Any]:
    """Run a new Python process in the checkout and return the JSON it prints on its last line.

    Args:
        arguments: Of the interpreter.
        python: The interpreter.
        **environment: Variables set on top of this process's.

    Raises:
        RuntimeError: The process failed; the message ends as its error output does.
    """
    done = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[:2]} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
