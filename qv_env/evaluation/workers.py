"""Worker processes that play games for a benchmark, each on one thread.

A worker is a new Python process (``python -m qv_env.evaluation.workers NAMES``) that reads tasks
from standard input and writes answers to standard output, one line of JSON each: nothing is forked
and nothing is pickled. It exits at the end of its input, and so also when the process that started
it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, TextIO

from qv_env.evaluation.play import play_deals
from qv_env.evaluation.players.base import Episode, Player
from qv_env.evaluation.players.names import PlayerNames

# More threads would compete with the other workers for cores.
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_WARM_UP_STEPS = 8


@dataclass(frozen=True)
class Task:
    """Some deals for a player to play together.

    Attributes:
        player: The player's name in the results.
        spec: The text from which ``qv_env.evaluation.players.PlayerNames`` creates the player.
        seed: Seeds its randomness, together with each deal's number.
        first: The first deal's index in the suite; the others follow.
        deals: Deal numbers.
        max_episode_steps: The step limit.
        batch: How many games are played at a time.
        record: Whether episodes keep their actions.
    """

    player: str
    spec: str
    seed: int
    first: int
    deals: tuple[int, ...]
    max_episode_steps: int
    batch: int
    record: bool


@dataclass(frozen=True)
class Spent:
    """The time that a task took.

    Attributes:
        cpu_seconds: CPU time of the process, over all its threads.
        wall_seconds: Wall time.
    """

    cpu_seconds: float
    wall_seconds: float


class WorkerError(RuntimeError):
    """A worker could not do its task; the message says which and why."""


def play_task(player: Player, task: Task, warm: bool) -> Iterator[Episode | Spent]:
    """Play a task in this process: yield its episodes as they end, and then the time it took.

    Args:
        player: The task's player.
        task: What to play.
        warm: Whether the player has played in this process before. If not, it first plays a few
            steps that are not timed, to compile code and fill caches.
    """
    if not warm and player.played(task.deals[:1]) is None:
        for _ in play_deals(player, task.deals[:1], task.seed, _WARM_UP_STEPS):
            pass
    cpu, wall = time.process_time(), time.perf_counter()
    for episode in play_deals(
        player, task.deals, task.seed, task.max_episode_steps, task.batch, task.record
    ):
        episode.index += task.first
        yield episode
    yield Spent(time.process_time() - cpu, time.perf_counter() - wall)


# ----------------------------------------------------------------------------- the main process


class Workers:
    """Processes that play tasks; a context manager that ends them.

    Args:
        count: The number of processes, at least 1.
        names: Creates the players, in the workers.
    """

    def __init__(self, count: int, names: PlayerNames) -> None:
        environment = os.environ | dict.fromkeys(_ONE_THREAD, "1") | {"OMP_WAIT_POLICY": "PASSIVE"}
        # Workers import players of other projects from the same places as this process.
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._answers: queue.SimpleQueue[tuple[Task, Episode | Spent | WorkerError] | None]
        self._answers = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        try:
            for _ in range(count):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "qv_env.evaluation.workers", names.where],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env=environment,
                        encoding="utf-8",
                        # Only the main process handles a Ctrl-C in the terminal.
                        start_new_session=True,
                    )
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, even if they are busy."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # a task that was not read
                    pipe.close()

    _threads: Sequence[threading.Thread] = ()

    def play(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Episode | Spent]]:
        """Let the workers play tasks; yield episodes and times as they arrive. Call it once.

        Args:
            tasks: The tasks; a free worker takes the next one.

        Raises:
            WorkerError: A player failed or a worker died.
        """
        waiting = iter(tasks)
        self._threads = [
            threading.Thread(target=self._serve, args=(process, waiting), daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()
        busy = len(self._threads)
        while busy:
            answer = self._answers.get()
            if answer is None:
                busy -= 1
                continue
            task, said = answer
            if isinstance(said, WorkerError):
                raise said
            yield task, said

    def _serve(self, process: subprocess.Popen[str], waiting: Iterator[Task]) -> None:
        """Send tasks to one process, one after another, and pass on its answers."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            with self._lock:
                task = next(waiting, None)
            if task is None:
                break
            try:
                process.stdin.write(json.dumps(asdict(task)) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    said = _answer(json.loads(line))
                    self._answers.put((task, said))
                    if not isinstance(said, Episode):
                        break
                else:
                    raise EOFError
            except (OSError, EOFError, ValueError):
                status = process.wait()
                error = WorkerError(
                    f"a worker died (exit status {status}) while {task.player} played"
                    f" {len(task.deals)} deals from place {task.first} on"
                )
                self._answers.put((task, error))
                break
        self._answers.put(None)


def _answer(message: dict[str, Any]) -> Episode | Spent | WorkerError:
    if "episode" in message:
        return Episode(**message["episode"])
    if "spent" in message:
        return Spent(**message["spent"])
    return WorkerError(message["error"])


# ------------------------------------------------------------------------------- worker processes


def _read_tasks(source: TextIO, tasks: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in source:
        tasks.put(json.loads(line))
    os._exit(0)  # the main process has closed the input or is gone


def _work(names: PlayerNames) -> None:
    # Output of players is redirected to standard error, and their input is empty.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    source = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_tasks, args=(source, tasks), daemon=True).start()

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    player, spec = None, None
    while True:
        message = tasks.get()
        task = Task(**{**message, "deals": tuple(message["deals"])})
        try:
            warm = player is not None and spec == task.spec
            if player is None or not warm:
                player, spec = names.make(task.spec), task.spec
            for said in play_task(player, task, warm):
                say({"episode" if isinstance(said, Episode) else "spent": _plain(said, task)})
        except Exception as error:
            if not isinstance(error, (ValueError, OSError)):
                traceback.print_exc()
            player = None
            say({"error": f"{task.player}: {type(error).__name__}: {error}"})


def _plain(said: Episode | Spent, task: Task) -> dict[str, Any]:
    values = asdict(said)
    if isinstance(said, Episode):
        for key in ("values", "likeliest", *(() if task.record else ("actions",))):
            values.pop(key)
    return values


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        _work(PlayerNames.at(sys.argv[1]))
