"""A training run and its folder: checkpoints, evaluations, logs, results."""

from __future__ import annotations

import contextlib
import json
import pickle
import signal
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from stable_baselines3.common.logger import configure

from agents.networks.files import POLICY_FILE, save_policy
from agents.training.config import CONFIG_FILE, VERSIONS_FILE, RunConfig, RunError
from agents.training.learner import Learner
from agents.training.recording import record_deals
from qv_env import suite
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.stats import mean_interval, proportion_interval
from qv_env.files import held, replacing, write_json, write_text

EVALUATIONS_FILE = "evaluations.jsonl"

RESULTS_FILE = "results.json"

PLAYTHROUGHS = "playthroughs"  # a folder

_CHECKPOINTS = "checkpoints"

_CHECKPOINT_VERSION = 1


class Interrupted(Exception):
    """A signal stopped the run, after a checkpoint was written."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


def _say_at_once(line: str) -> None:
    print(line, flush=True)  # also where the output is a pipe or a file that somebody follows


class Run:
    """One training run and its folder.

    Args:
        config: What to train.
        folder: Where; made if need be.
        resume: Whether to go on from the folder's newest whole checkpoint.
        say: Takes lines for people.

    Raises:
        RunError: The folder holds a run and ``resume`` is off, or it holds a run of another
            config, or there is nothing to resume, or no checkpoint can be read.
        InUseError: Another run works in the folder; this one does until ``train`` ends or
            ``close`` is called.
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
        if resume:
            self._check_same_config()
        else:
            folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(held(folder))
            if not resume:
                _check_unused(folder)
            self._begin(resume)
            self._hold = stack.pop_all()

    def close(self) -> None:
        """Let go of the folder, as the end of ``train`` does."""
        self._hold.close()

    def _begin(self, resume: bool) -> None:
        config, folder = self.config, self.folder
        checkpoint = self._newest_checkpoint() if resume else None
        torch.set_num_threads(config.torch_threads)
        self.learner = Learner(config)
        self.evaluations: list[dict[str, Any]] = []
        self._seconds_before = 0.0
        self._next_evaluation = config.evaluation.every
        self._next_checkpoint = config.checkpoint.every
        self._next_recording = config.record.every
        (folder / _CHECKPOINTS).mkdir(exist_ok=True)
        if checkpoint is None:
            write_text(folder / CONFIG_FILE, yaml.safe_dump(config.to_dict(), sort_keys=False))
        else:
            self._restore(checkpoint)
        commit, dirty = git_state()
        write_json(
            folder / VERSIONS_FILE,
            {"git_commit": commit, "git_dirty": dirty, "packages": package_versions()},
        )
        self._write_evaluations()

    def _check_same_config(self) -> None:
        path = self.folder / CONFIG_FILE
        if not path.is_file():
            raise RunError(f"{self.folder} holds no run to resume: there is no {CONFIG_FILE}")
        before, now = yaml.safe_load(path.read_text()), self.config.to_dict()
        for key in sorted(set(before) | set(now)):
            if before.get(key) != now.get(key):
                raise RunError(
                    f"{path} says {key}: {before.get(key)!r}, this run {now.get(key)!r};"
                    " a run resumes with the config it began with"
                )

    # ------------------------------------------------------------------------------ checkpoints

    def _checkpoint_files(self) -> list[Path]:
        """The folder's checkpoints, newest first."""
        return sorted((self.folder / _CHECKPOINTS).glob("checkpoint-*.pt"), reverse=True)

    def _newest_checkpoint(self) -> dict[str, Any] | None:
        """The newest checkpoint that can be read whole; None where the run wrote none yet.

        Those that cannot are put aside, lest they count as the newest from now on.
        """
        files = self._checkpoint_files()
        for path in files:
            try:
                state = _read_checkpoint(path)
            except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error,
                    pickle.UnpicklingError) as error:  # fmt: skip
                self._say(f"{path.name} cannot be read ({error}); trying an older one")
                path.rename(path.with_suffix(".unreadable"))
                continue
            if state["version"] != _CHECKPOINT_VERSION:
                raise RunError(
                    f"{path}: checkpoint format {state['version']!r}, this is {_CHECKPOINT_VERSION}"
                )
            return state
        if files:
            raise RunError(f"no checkpoint of {self.folder} can be read")
        return None

    def _write_checkpoint(self) -> None:
        state = {
            "version": _CHECKPOINT_VERSION,
            "learner": self.learner.state(),
            "evaluations": self.evaluations,
            "seconds": self._seconds(),
            "next_evaluation": self._next_evaluation,
            "next_checkpoint": self._next_checkpoint,
            "next_recording": self._next_recording,
        }
        path = self.folder / _CHECKPOINTS / f"checkpoint-{self.learner.steps:012d}.pt"
        with replacing(path) as temporary:
            torch.save(state, temporary)
        for old in self._checkpoint_files()[self.config.checkpoint.keep :]:
            old.unlink()

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        self.learner.restore(checkpoint["learner"])
        self.evaluations = checkpoint["evaluations"]
        self._seconds_before = checkpoint["seconds"]
        self._next_evaluation = checkpoint["next_evaluation"]
        self._next_checkpoint = checkpoint["next_checkpoint"]
        self._next_recording = checkpoint["next_recording"]
        self._say(f"resumed at {self.learner.steps:,} steps")

    # ---------------------------------------------------------------------------------- the run

    def _seconds(self) -> float:
        """Wall-clock seconds of training and evaluation so far, over all sessions of the run."""
        return self._seconds_before + time.monotonic() - self._started

    def train(self, progress: bool = True) -> dict[str, Any]:
        """Train to the end; return the results, which ``results.json`` holds, too.

        Args:
            progress: Whether to show a progress bar, where there is a terminal.

        Raises:
            Interrupted: SIGINT or SIGTERM came; a checkpoint was written.
            KeyboardInterrupt: It came twice.
        """
        self._started = time.monotonic()
        writer = configure(str(self.folder / "tensorboard"), ["tensorboard"])
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
                    self._iterate(writer, bar, task)
            results = self._finish(writer)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            writer.close()
            self.close()
        if self._stop is not None:  # it came when there was nothing left to break off
            raise Interrupted(self._stop)
        return results

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._stop is not None:  # a second signal does not wait for the rollout to end
            raise KeyboardInterrupt
        self._stop = number
        with contextlib.suppress(RuntimeError):  # the signal came in the midst of a print
            self._say("stopping at the next checkpoint; again to stop at once")

    def _iterate(self, writer: Any, bar: Progress, task: Any) -> None:
        config, before, began = self.config, self.learner.steps, time.monotonic()
        logged = self.learner.iterate()
        steps = self.learner.steps
        logged["time/steps_per_second"] = (steps - before) / (time.monotonic() - began)
        if steps >= self._next_evaluation and steps < config.total_steps:
            self._next_evaluation = _next_multiple(steps, config.evaluation.every)
            logged |= self._evaluate()
        if self._next_recording is not None and steps >= self._next_recording:
            self._record()
        self._log(writer, logged)
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

    def _log(self, writer: Any, values: dict[str, float]) -> None:
        for key, value in values.items():
            writer.record(key, value)
        writer.dump(self.learner.steps)

    def _evaluate(self) -> dict[str, float]:
        """Play held-out deals, note and say the result; return what there is to log."""
        evaluation = self.config.evaluation
        deals = suite(evaluation.suite)[: evaluation.limit]
        player = self.learner.player()
        episodes = list(
            play_deals(
                player,
                deals,
                seed=self.config.seed,
                max_episode_steps=self.config.evaluation_steps,
            )
        )
        episodes.sort(key=lambda episode: episode.index)
        score = mean_interval([episode.score for episode in episodes])
        wins = sum(episode.won for episode in episodes)
        win_rate = proportion_interval(wins, len(episodes))
        self.evaluations.append(
            {
                "steps": self.learner.steps,
                "seconds": round(self._seconds(), 3),
                "suite": evaluation.suite,
                "deals": len(episodes),
                "play": " ".join(str(value) for value in player.settings.values()),
                "mean_score": score.estimate,
                "low": score.low,
                "high": score.high,
                "wins": wins,
                "win_rate_low": win_rate.low,
                "win_rate_high": win_rate.high,
                "foundation_cards": float(np.mean([e.foundation_cards for e in episodes])),
                "mean_steps": float(np.mean([e.steps for e in episodes])),
            }
        )
        self._write_evaluations()
        self._say(
            f"{self.learner.steps:>12,} steps  {self._seconds():6.0f} s  score on {len(episodes)}"
            f" held-out deals {score.estimate:.1f} ({score.low:.1f} to {score.high:.1f}),"
            f" {wins} won"
        )
        return {
            "evaluation/score": score.estimate,
            "evaluation/win_rate": wins / len(episodes),
        }

    def _record(self) -> None:
        """Keep the agent's play on the recorded deals."""
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
        write_text(self.folder / EVALUATIONS_FILE, lines)

    def _finish(self, writer: Any) -> dict[str, Any]:
        self._write_checkpoint()  # whoever loses patience now loses an evaluation only
        if not self.evaluations or self.evaluations[-1]["steps"] < self.learner.steps:
            self._log(writer, self._evaluate())
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


def _read_checkpoint(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()  # torch does not look at the checksums
    if damaged is not None:
        raise zipfile.BadZipFile(f"{damaged} is damaged")
    # A checkpoint holds pickled games: load only runs of your own.
    state = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(state, dict) or "version" not in state:
        raise ValueError("not a checkpoint of a run")
    return state


def _check_unused(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} holds files already; --resume goes on, --out names another")


def _next_multiple(steps: int, every: int) -> int:
    return (steps // every + 1) * every
