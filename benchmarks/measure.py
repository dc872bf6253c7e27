"""What the benchmarks share: alternating rounds, and the rows of the results table."""

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
        seconds: The duration of each comparison of short rounds.
        games: Number of games in the native batch.
        many_games: Number of games in the batch that threads share.
        sb3_games: Number of games in each of the two stable-baselines3 environments.
        sb3_steps: Steps of both; a multiple of 500 makes them whole episodes.
        iterations: Rollouts and updates of each learner.
        memory_games: Number of games in the batch whose memory is measured.
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
    """The target for a figure.

    Attributes:
        text: The target in words.
        bound: The smallest or the largest value that meets the target.
        at_least: Whether ``bound`` is the smallest such value.
        aim: Whether the target is only an aim, not a requirement.
    """

    text: str
    bound: float
    at_least: bool = False
    aim: bool = False

    def met(self, value: float) -> bool:
        """Whether a value meets the target."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        what: What was measured.
        value: The figure, or words if there is none.
        unit: The unit of the figure.
        ratio: The ratio to another figure, which ``ratio_of`` describes; if there is one, the
            target applies to it.
        ratio_of: A description of the ratio.
        target: The target.
    """

    what: str
    value: float | str
    unit: str = ""
    ratio: float | None = None
    ratio_of: str = ""
    target: Target | None = None

    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target, or no figure."""
        compared = self.value if self.ratio is None else self.ratio
        if self.target is None or isinstance(compared, str):
            return None
        return self.target.met(compared)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values: its attributes and ``met``."""
        return asdict(self) | {"met": self.met()}


@dataclass(frozen=True)
class Result:
    """The result of one benchmark: rows of the table, and further figures for the JSON file."""

    rows: list[Row]
    details: dict[str, Any] = field(default_factory=dict)


# -------------------------------------------------------------------------- alternating rounds


def in_turns(
    tasks: Mapping[str, Callable[[], float]], seconds: float, at_least: int = 3
) -> dict[str, np.ndarray]:
    """Run short rounds of several tasks in alternation, so that disturbances affect all of them.

    Args:
        tasks: The tasks, by name; each runs one round and returns the seconds per unit of work.
        seconds: The duration after which no further round starts.
        at_least: The least number of rounds of each, however long they take.

    Returns:
        Seconds per unit, by task: float64 (rounds,); entries k of all tasks are from one round.
    """
    for task in tasks.values():
        task()  # warm-up of caches and compilers
    found: dict[str, list[float]] = {name: [] for name in tasks}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < at_least or time.perf_counter() < end:
        for name, task in tasks.items():
            found[name].append(task())
        rounds += 1
    return {name: np.array(values) for name, values in found.items()}


def ratio(times: Mapping[str, np.ndarray], numerator: str, denominator: str) -> float:
    """Return the median over rounds of the ratio of two tasks' seconds per unit."""
    return float(np.median(times[numerator] / times[denominator]))


def rate(times: np.ndarray) -> float:
    """Return the units per second in the median round."""
    return float(1 / np.median(times))


def summary(times: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return a summary of each task's rounds: their number, and seconds per unit."""
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
    """Choose a uniformly random legal action in each game; 0 if none is legal.

    Args:
        masks: int8 or bool (n, num_actions).
        actions: int64 (n,); written.
        random: uint64 (1,), the state of the generator (SplitMix64); advanced.
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
    """Chooses actions for all games of a batch at once, and measures the time that takes.

    Args:
        num_games: Number of games in the batch.
        seed: Seeds the choices.
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
        arguments: Arguments of the interpreter.
        python: The interpreter.
        **environment: Environment variables, in addition to this process's.

    Raises:
        RuntimeError: The process failed; the message ends with the end of its error output.
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
