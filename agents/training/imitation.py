"""Learning a policy by imitation of another player, the expert.

A policy network learns to choose the actions that an expert, such as the ``plan`` player, would
choose. The first samples come from games that the expert plays itself. They hardly ever show the
consequences of a mistake, so a policy that has seen no other games cannot recover from its own;
therefore the policy plays next, and the expert is queried in some of its positions (DAgger: Ross,
Gordon and Bagnell, 2011). The network learns from random minibatches of the newest samples. It
learns no values; a run of ``agents.train`` that starts from the policy (``initial_policy``) does,
in its ``critic_warmup_steps``.

The run's folder contains the resolved config, versions, ``imitation.jsonl`` with a line for each
evaluation, and ``policy.safetensors``, which plays as ``ppo:FOLDER``. All deals are training deals.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from pydantic import Field, model_validator
from torch import Tensor

from agents.networks.files import POLICY_FILE, build_policy, save_policy
from agents.networks.table import NetworkConfig
from agents.players import make_player
from agents.players.ppo import PPOPlayer
from agents.training.config import (
    MATMUL_PRECISIONS,
    ConfigError,
    Count,
    EnvConfig,
    EvaluationConfig,
    Positive,
    SeededConfig,
    Share,
    Steps,
    Threads,
    require,
    require_room,
)
from agents.training.folder import IMITATION_FILE, new_run
from qv_env import QuaranteVoleursVectorEnv, suite
from qv_env.deals import HELD_OUT_FROM
from qv_env.evaluation.play import play_deals, rows_of
from qv_env.evaluation.stats import mean_interval
from qv_env.files import write_text
from qv_env.schema import OneOf

VALUE_SCALE = 0.01  # the default of agents.training.config.RewardConfig; no values are learnt here

_FIRST = 4  # minibatches' worth of samples that are collected before learning starts

_RECENT_BATCHES, _RECENT_GAMES = 200, 1_000  # averaged in reports


class ImitationConfig(SeededConfig):
    """One run of imitation.

    Attributes:
        name, seed: See :class:`agents.training.config.SeededConfig`.
        expert: The player to imitate, as ``agents.players`` names it. It must not remember a game
            once another one has started.
        samples: Number of samples to learn from, each a position and the expert's action there.
        expert_fraction: The fraction of the samples, from the first on, that come from games that
            the expert plays itself, 0..1.
        query_probability: The probability with which the expert is queried in a position of the
            policy's own games, above 0, at most 1.
        buffer_size: The newest samples, from which minibatches are drawn.
        batch_size: Samples in a minibatch.
        passes: How often a sample is learnt from, on average.
        learning_rate: Adam's; falls linearly to a twentieth.
        torch_threads, matmul_precision, network: As in ``agents.training.config.RunConfig``.
        env: The games; the variant must be the expert's.
        evaluation: Evaluation on held-out deals, after each ``every`` samples.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "teacher": "expert",
        "answers": "samples",
        "teacher_part": "expert_fraction",
        "asked": "query_probability",
        "kept": "buffer_size",
    }

    expert: str = "plan"
    samples: Steps = 2_000_000
    expert_fraction: Share = 0.5
    query_probability: Annotated[float, Field(gt=0, le=1)] = 0.34
    buffer_size: Steps = 400_000
    batch_size: Count = 1024
    passes: Positive = 2.0
    learning_rate: Positive = 1e-3
    torch_threads: Threads = 1
    matmul_precision: Annotated[str, OneOf(MATMUL_PRECISIONS)] = "highest"
    network: NetworkConfig = NetworkConfig()
    env: EnvConfig = EnvConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _check(self) -> ImitationConfig:
        require(self.buffer_size >= self.batch_size, "buffer_size is at least batch_size")
        require_room(self.buffer_size, self.env, "buffer_size")
        require(self.env.deals is None, "env.deals cannot be chosen: all training deals are used")
        try:
            expert = make_player(self.expert)
        except (ValueError, OSError) as error:
            raise ConfigError(f"expert: {error}") from None
        for key, value in expert.env_kwargs.items():
            require(
                self.env.variant()[key] == value,
                f"env.{key} is {self.env.variant()[key]!r}, but {self.expert} needs {value!r}",
            )
        return self


class SampleBuffer:
    """The newest samples: positions, and the expert's actions there.

    Args:
        size: The capacity, in samples.

    Attributes:
        total: Number of samples added so far, including those that newer ones have replaced.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._observation: dict[str, np.ndarray] = {}
        self._masks = self._actions = np.zeros(0)
        self.total = 0

    def add(
        self, observation: dict[str, np.ndarray], masks: np.ndarray, actions: np.ndarray
    ) -> None:
        """Add k samples: observations, masks bool (k, m), the expert's actions int (k,)."""
        if not self._observation:
            for key, array in observation.items():
                self._observation[key] = np.zeros((self._size, *array.shape[1:]), array.dtype)
            self._masks = np.zeros((self._size, masks.shape[1]), np.bool_)
            self._actions = np.zeros(self._size, np.int64)
        places = (self.total + np.arange(len(actions))) % self._size
        for key, array in observation.items():
            self._observation[key][places] = array
        self._masks[places] = masks
        self._actions[places] = actions
        self.total += len(actions)

    def sample(self, size: int, rng: np.random.Generator) -> tuple[dict[str, Tensor], Any, Tensor]:
        """Return a random minibatch: observation, masks (size, m), actions (size,)."""
        places = rng.integers(0, min(self.total, self._size), size)
        observation = {
            key: torch.from_numpy(array[places]) for key, array in self._observation.items()
        }
        actions = torch.from_numpy(self._actions[places])
        return observation, torch.from_numpy(self._masks[places]), actions


class Imitation:
    """A run, one step of its games at a time.

    Args:
        config: The run.
    """

    def __init__(self, config: ImitationConfig) -> None:
        self.config = config
        torch.set_num_threads(config.torch_threads)
        torch.set_float32_matmul_precision(config.matmul_precision)
        torch.manual_seed(config.seed)
        num_envs, variant = config.env.num_envs, config.env.variant()
        self.policy = build_policy("table", vars(config.network), [], variant)
        self.optimizer = torch.optim.Adam(
            self.policy.parameters(), lr=config.learning_rate, eps=1e-5
        )
        self.expert, self.student = make_player(config.expert), PPOPlayer(self.policy, variant)
        self.expert.prepare(num_envs)
        self.student.prepare(num_envs)
        self.buffer = SampleBuffer(config.buffer_size)
        self._rng = np.random.default_rng(config.seed)
        self._env = QuaranteVoleursVectorEnv(
            num_envs,
            max_episode_steps=config.env.max_episode_steps,
            autoreset_mode=AutoresetMode.DISABLED,
            num_threads=config.env.num_threads,
            **variant,
        )
        self._observation: Any = None
        self._masks = np.zeros(0, dtype=np.int8)
        self._ended = np.ones(num_envs, dtype=np.bool_)
        self._expert_plays = np.ones(num_envs, dtype=np.bool_)  # in which games the expert acts
        self._learnt = 0
        self._losses: list[tuple[float, float]] = []
        self._scores: list[int] = []

    def step(self) -> None:
        """Make a move in each game, and add the expert's actions to the buffer."""
        if self._ended.any():
            self._begin_games()
        num_envs, expert_plays = len(self._expert_plays), self._expert_plays
        every_seat = np.arange(num_envs)
        actions = np.zeros(num_envs, dtype=np.int64)
        own = every_seat[~expert_plays]
        if own.size:
            seen = rows_of(self._observation, own)
            actions[own] = self.student.act(own, seen, self._masks[own])
        queried = expert_plays | (self._rng.random(num_envs) < self.config.query_probability)
        for seat in every_seat[queried & ~expert_plays].tolist():
            self.expert.start(seat, self._generator())
        seats = every_seat[queried]
        seen, masks = rows_of(self._observation, seats), self._masks[seats]
        chosen = np.asarray(self.expert.act(seats, seen, masks))
        actions[expert_plays] = chosen[expert_plays[seats]]
        self.buffer.add(seen, masks != 0, chosen)
        self._observation, _, terminated, truncated, info = self._env.step(actions)
        self._masks = info["action_mask"]
        self._ended = terminated | truncated
        self._scores += info["score"][self._ended & ~expert_plays].tolist()

    def _begin_games(self) -> None:
        config, ended = self.config, self._ended
        deals = self._rng.integers(0, HELD_OUT_FROM, len(ended)).tolist()
        options = {"reset_mask": ended.copy(), "deals": deals}
        self._observation, _ = self._env.reset(options=options)
        self._masks = self._env.action_masks().astype(np.int8)
        self._expert_plays[ended] = self.buffer.total < config.expert_fraction * config.samples
        for seat in np.flatnonzero(ended).tolist():
            self.expert.start(seat, self._generator())
            self.student.start(seat, self._generator())

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(int(self._rng.integers(1 << 62)))

    def learn(self) -> None:
        """Train on as many minibatches as the samples so far allow, once there are enough."""
        config = self.config
        if self.buffer.total < min(_FIRST * config.batch_size, config.buffer_size, config.samples):
            return
        share = min(self.buffer.total / config.samples, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * (1 - 0.95 * share)
        self.policy.set_training_mode(True)
        while self._learnt + config.batch_size <= config.passes * self.buffer.total:
            self._learnt += config.batch_size
            observation, masks, actions = self.buffer.sample(config.batch_size, self._rng)
            _, log_probs, _ = self.policy.evaluate_actions(observation, actions, masks)
            loss = -log_probs.mean()
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
            self._losses.append((loss.item(), float(log_probs.detach().exp().mean())))

    def report(self) -> dict[str, Any]:
        """Return statistics of recent minibatches and games, and of play on held-out deals."""
        losses = np.array(self._losses[-_RECENT_BATCHES:]).reshape(-1, 2).mean(axis=0)
        own = self._scores[-_RECENT_GAMES:]
        return {
            "samples": self.buffer.total,
            "loss": round(float(losses[0]), 4),
            "probability": round(float(losses[1]), 4),
            "own_score": round(float(np.mean(own)), 2) if own else None,
            **self._evaluate(),
        }

    def _evaluate(self) -> dict[str, Any]:
        config, evaluation = self.config, self.config.evaluation
        deals = suite(evaluation.suite)[: evaluation.limit]
        variant = config.env.variant()
        player = PPOPlayer(
            self.policy, variant, evaluation.play, evaluation.temperature, VALUE_SCALE
        )
        episodes = list(play_deals(player, deals, seed=config.seed))
        score = mean_interval([episode.score for episode in episodes])
        return {
            "suite": evaluation.suite,
            "deals": len(episodes),
            "mean_score": score.estimate,
            "low": score.low,
            "high": score.high,
            "wins": sum(episode.won for episode in episodes),
        }

    def save(self, path: Path) -> None:
        """Write the policy's file."""
        config = self.config
        save_policy(
            self.policy, path, "table", vars(config.network), [], config.env.variant(), VALUE_SCALE
        )


def imitate(config: ImitationConfig, folder: Path, say: Callable[[str], object] = print) -> None:
    """Execute a run and write its files to a folder.

    Args:
        config: The run.
        folder: The run's folder; created if missing.
        say: Called with each line of ``imitation.jsonl``.

    Raises:
        RunError: The folder contains files other than those of this run's start.
        InUseError: Another run is using the folder.
        OSError: The folder cannot be written to.
    """
    run = Imitation(config)
    with new_run(folder, config.to_dict()):
        started = time.monotonic()
        next_report = config.evaluation.every
        lines: list[str] = []
        while run.buffer.total < config.samples:
            run.step()
            run.learn()
            if run.buffer.total >= min(next_report, config.samples):
                next_report += config.evaluation.every
                row = run.report() | {"seconds": round(time.monotonic() - started, 1)}
                lines.append(json.dumps(row))
                write_text(folder / IMITATION_FILE, "".join(line + "\n" for line in lines))
                run.save(folder / POLICY_FILE)
                say(lines[-1])
