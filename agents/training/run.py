"""A training run and its folder.

The folder contains the run's resolved config, versions, checkpoints, TensorBoard events,
evaluations on held-out deals and, at the end, the policy and its results. A run that was killed
resumes from its newest intact checkpoint and gives the same result as an uninterrupted one: the
checkpoint contains networks, optimizer, counters, games and random states.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agents.networks.files import POLICY_FILE, save_policy
from agents.training.checkpoints import Checkpoints
from agents.training.config import RunConfig
from agents.training.curves import Curves
from agents.training.evaluation import evaluate
from agents.training.folder import (
    CHECKPOINTS,
    PLAYTHROUGHS,
    RESULTS_FILE,
    TENSORBOARD,
    begin,
    check_same_run,
    check_unused,
    write_versions,
)
from agents.training.learner import Learner
from agents.training.recording import record_deals
from qv_env.evaluation.results import EVALUATIONS
from qv_env.files import write_json, write_text
from qv_env.folders import taken

IN_USE = "--resume goes on, --out names another"  # advice when the folder is not empty


class Interrupted(Exception):
    """A signal stopped the run after a checkpoint had been written."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


def _say_at_once(line: str) -> None:
    print(line, flush=True)  # a pipe or a file would otherwise be buffered


class Run:
    """One training run and its folder.

    Args:
        config: What to train.
        folder: The run's folder; created if missing.
        resume: Whether to resume from the folder's newest intact checkpoint.
        say: Called with progress messages, one line each.

    Raises:
        RunError: The folder is not empty and ``resume`` is off, or it contains a run with another
            config, or there is nothing to resume, or no checkpoint can be read.
        OSError: A file cannot be read or written.
        InUseError: Another run is using the folder. This run keeps the folder locked until
            ``train`` ends or ``close`` is called.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        resume: bool,
        say: Callable[[str], None] = _say_at_once,
    ) -> None:
        self.config = config
        self.folder = folder
        self._say = say
        self._stop: int | None = None
        self._checkpoints = Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep, say)
        if resume:
            check_same_run(folder, config.to_dict())
        with ExitStack() as stack:
            stack.enter_context(taken(folder, CHECKPOINTS, PLAYTHROUGHS))
            if not resume:
                check_unused(folder, IN_USE)
            self._begin(resume)
            self._hold = stack.pop_all()

    def close(self) -> None:
        """Unlock the folder, as the end of ``train`` does."""
        self._hold.close()

    def _begin(self, resume: bool) -> None:
        config = self.config
        checkpoint = self._checkpoints.newest() if resume else None
        torch.set_num_threads(config.torch_threads)
        self.learner = Learner(config)
        self.evaluations: list[dict[str, Any]] = []
        self._seconds_before = 0.0
        self._next_evaluation = config.evaluation.every
        self._next_checkpoint = config.checkpoint.every
        self._next_recording = config.record.every
        self._curve_sizes: dict[str, int] | None = {}
        if checkpoint is not None:
            self._restore(checkpoint)
        if resume:
            write_versions(self.folder)
        else:
            begin(self.folder, config.to_dict())
        (self.folder / CHECKPOINTS).mkdir(exist_ok=True)
        self._write_evaluations()

    def _write_checkpoint(self) -> None:
        state = {
            "learner": self.learner.state(),
            "curves": self._curves.sizes(),
            "evaluations": self.evaluations,
            "seconds": self._seconds(),
            "next_evaluation": self._next_evaluation,
            "next_checkpoint": self._next_checkpoint,
            "next_recording": self._next_recording,
        }
        self._checkpoints.write(state, self.learner.steps)

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        self.learner.restore(checkpoint["learner"])
        self.evaluations = checkpoint["evaluations"]
        self._seconds_before = checkpoint["seconds"]
        self._next_evaluation = checkpoint["next_evaluation"]
        self._next_checkpoint = checkpoint["next_checkpoint"]
        self._next_recording = checkpoint["next_recording"]
        self._curve_sizes = checkpoint.get("curves")  # absent in older checkpoints
        self._say(f"resumed at {self.learner.steps:,} steps")

    def _seconds(self) -> float:
        """Wall-clock seconds of training and evaluation so far, over all sessions of the run."""
        return self._seconds_before + time.monotonic() - self._started

    def train(self, progress: bool = True) -> dict[str, Any]:
        """Train to the end; return the results, which are also written to ``results.json``.

        Args:
            progress: Whether to show a progress bar if the output is a terminal.

        Raises:
            Interrupted: SIGINT or SIGTERM was received; a checkpoint was written.
            KeyboardInterrupt: A second signal was received.
        """
        self._started = time.monotonic()
        self._curves = Curves(self.folder / TENSORBOARD, self._curve_sizes)
        bar = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} steps/s  score {task.fields[score]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not progress or not sys.stderr.isatty(),
        )
        handlers = {s: signal.signal(s, self._on_signal) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            with bar:
                task = bar.add_task(
                    f"{self.config.name} seed {self.config.seed}",
                    total=self.config.total_steps,
                    completed=self.learner.steps,
                    rate="-",
                    score="-",
                )
                while self.learner.steps < self.config.total_steps:
                    self._iterate(bar, task)
            results = self._finish()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._curves.close()
            self.close()
        if self._stop is not None:  # received after the last iteration
            raise Interrupted(self._stop)
        return results

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._stop is not None:  # second signal: stop without finishing the rollout
            raise KeyboardInterrupt
        self._stop = number
        with contextlib.suppress(RuntimeError):  # the signal interrupted a print
            self._say("stopping at the next checkpoint; again to stop at once")

    def _iterate(self, bar: Progress, task: Any) -> None:
        config, before, began = self.config, self.learner.steps, time.monotonic()
        logged = self.learner.iterate()
        steps = self.learner.steps
        logged["time/steps_per_second"] = (steps - before) / (time.monotonic() - began)
        if steps >= self._next_evaluation and steps < config.total_steps:
            self._next_evaluation = _next_multiple(steps, config.evaluation.every)
            logged |= self._evaluate()
        if self._next_recording is not None and steps >= self._next_recording:
            self._record()
        self._curves.add(logged, steps)
        bar.update(
            task,
            completed=min(steps, config.total_steps),
            rate=f"{logged['time/steps_per_second']:,.0f}",
            score=f"{logged.get('rollout/score', float('nan')):.0f}",
        )
        if self._stop is not None or steps >= self._next_checkpoint:
            self._next_checkpoint = _next_multiple(steps, config.checkpoint.every)
            self._write_checkpoint()
        if self._stop is not None:
            raise Interrupted(self._stop)

    def _evaluate(self) -> dict[str, float]:
        """Evaluate on held-out deals, record and print the result; return the values to log."""
        config, steps = self.config, self.learner.steps
        row = evaluate(
            self.learner.player(), config.evaluation, config.seed, config.evaluation_steps
        )
        seconds = self._seconds()
        self.evaluations.append({"steps": steps, "seconds": round(seconds, 3), **row})
        self._write_evaluations()
        self._say(
            f"{steps:>12,} steps  {seconds:6.0f} s  score on {row['deals']}"
            f" held-out deals {row['mean_score']:.1f} ({row['low']:.1f} to {row['high']:.1f}),"
            f" {row['wins']} won"
        )
        return {
            "evaluation/score": row["mean_score"],
            "evaluation/win_rate": row["wins"] / row["deals"],
        }

    def _record(self) -> None:
        """Write playthroughs of the agent on the recorded deals."""
        record = self.config.record
        assert record.every is not None
        self._next_recording = _next_multiple(self.learner.steps, record.every)
        record_deals(
            self.learner.player(),
            record.numbers(self.config.evaluation.suite),
            self.folder / PLAYTHROUGHS,
            self.learner.steps,
            self.config.seed,
            self.config.evaluation_steps,
        )

    def _write_evaluations(self) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self.evaluations)
        write_text(self.folder / EVALUATIONS, lines)

    def _finish(self) -> dict[str, Any]:
        self._write_checkpoint()  # if interrupted now, only an evaluation is lost
        if not self.evaluations or self.evaluations[-1]["steps"] < self.learner.steps:
            self._curves.add(self._evaluate(), self.learner.steps)
        save_policy(
            self.learner.model.policy,
            self.folder / POLICY_FILE,
            self.config.policy,
            vars(self.config.network),
            self.config.net_arch,
            self.config.env.variant(),
            self.config.reward.scale,
        )
        results = {
            "name": self.config.name,
            "seed": self.config.seed,
            "steps": self.learner.steps,
            "seconds": round(self._seconds(), 3),
            "evaluation": self.evaluations[-1],
        }
        write_json(self.folder / RESULTS_FILE, results)
        return results


def _next_multiple(steps: int, every: int) -> int:
    return (steps // every + 1) * every
