"""MaskablePPO on the native batch, one rollout and update at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from agents.networks.files import load_policy, policy_class_of
from agents.networks.policy import value_parameters
from agents.players.ppo import PPOPlayer
from agents.training.config import RunConfig, RunError
from agents.training.ppo import TablePPO
from qv_env.sb3 import make_sb3_env


class LearnerReward(VecEnvWrapper):
    """Gives the learner ``scale * reward - step_cost``; episode statistics keep the real score."""

    def __init__(self, venv: Any, scale: float, step_cost: float) -> None:
        super().__init__(venv)
        self._scale = scale
        self._step_cost = step_cost

    def reset(self) -> VecEnvObs:
        """Start new games."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step; see VecEnv."""
        observation, rewards, dones, infos = self.venv.step_wait()
        return observation, self._paid(rewards), dones, infos

    def advance(
        self, actions: np.ndarray
    ) -> tuple[VecEnvObs, np.ndarray, np.ndarray, dict[int, dict[str, Any]]]:
        """Step without infos for unfinished games; see QuaranteVoleursVecEnv."""
        observation, rewards, dones, finals = self.venv.advance(actions)
        return observation, self._paid(rewards), dones, finals

    def action_masks(self) -> np.ndarray:
        """Return the masks of legal actions: bool (num_envs, num_actions)."""
        return self.venv.action_masks()

    def _paid(self, rewards: np.ndarray) -> np.ndarray:
        return rewards * self._scale - self._step_cost


class _Silent(BaseCallback):
    """A callback that does nothing and never stops a rollout."""

    def _on_step(self) -> bool:
        return True


class Learner:
    """MaskablePPO, one rollout and update at a time, with access to its complete state.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        torch.set_float32_matmul_precision(config.matmul_precision)
        ppo = config.ppo
        # Runs with different seeds, even adjacent ones, draw deals from independent streams.
        env_seed = int(np.random.SeedSequence(config.seed).generate_state(1, np.uint64)[0] >> 2)
        env = LearnerReward(
            make_sb3_env(
                config.env.num_envs,
                max_episode_steps=config.env.max_episode_steps,
                num_threads=config.env.num_threads,
                deals=config.env.deals,
                **config.env.variant(),
            ),
            config.reward.scale,
            config.reward.step_cost,
        )
        policy_class, policy_kwargs = policy_class_of(
            config.policy, vars(config.network), config.net_arch
        )
        algorithm: Callable[..., MaskablePPO] = MaskablePPO
        if config.policy == "table":
            algorithm = partial(TablePPO, num_threads=config.torch_threads)
        self.model = algorithm(
            policy_class,
            env,
            learning_rate=self._learning_rate,
            **ppo.keywords(),
            stats_window_size=max(100, config.env.num_envs),
            policy_kwargs=policy_kwargs,
            seed=config.seed,
            device="cpu",
        )
        if config.initial_policy is not None:
            self.model.policy.load_state_dict(_initial_weights(config))
        env.seed(env_seed)
        self._games = env
        self.model.set_logger(configure(None, []))
        # SB3's own bookkeeping before the first rollout: counters, episode statistics, first reset.
        _, self._callback = self.model._setup_learn(config.total_steps, _Silent())
        self._callback.on_training_start({}, {})

    def _learning_rate(self, remaining: float) -> float:
        ppo = self.config.ppo
        remaining = max(remaining, 0.0)  # the last rollout may exceed total_steps
        final = ppo.learning_rate if ppo.final_learning_rate is None else ppo.final_learning_rate
        return final + (ppo.learning_rate - final) * remaining

    @property
    def steps(self) -> int:
        """Environment steps taken so far."""
        return int(self.model.num_timesteps)

    def iterate(self) -> dict[str, float]:
        """Collect one rollout, learn from it, and return the values to log.

        Returns:
            ``train/...`` losses as SB3 names them; ``rollout/...`` means over recent episodes.
        """
        model = self.model
        model.collect_rollouts(
            model.env, self._callback, model.rollout_buffer, n_rollout_steps=model.n_steps
        )
        model._update_current_progress_remaining(model.num_timesteps, self.config.total_steps)
        warming_up = model.num_timesteps <= self.config.critic_warmup_steps
        model.policy.requires_grad_(not warming_up)
        for parameter in value_parameters(model.policy):
            parameter.requires_grad_(True)
        model.train()
        logged = {key: float(value) for key, value in model.logger.name_to_value.items()}
        model.logger.name_to_value.clear()
        model.logger.name_to_count.clear()
        model.logger.name_to_excluded.clear()
        episodes = model.ep_info_buffer or ()
        if episodes:
            logged["rollout/score"] = float(np.mean([episode["r"] for episode in episodes]))
            logged["rollout/length"] = float(np.mean([episode["l"] for episode in episodes]))
        return logged

    def player(self) -> PPOPlayer:
        """Return a player that uses the current policy, with the settings for evaluations."""
        evaluation = self.config.evaluation
        return PPOPlayer(
            self.model.policy,
            self.config.env.variant(),
            evaluation.play,
            evaluation.temperature,
            self.config.reward.scale,
        )

    def state(self) -> dict[str, Any]:
        """Return everything that is needed to resume the run from here, between two iterations."""
        model = self.model
        return {
            "policy": model.policy.state_dict(),
            "optimizer": model.policy.optimizer.state_dict(),
            "num_timesteps": model.num_timesteps,
            "n_updates": model._n_updates,
            "progress_remaining": model._current_progress_remaining,
            "env": self._games.venv,
            "last_obs": model._last_obs,
            "last_episode_starts": model._last_episode_starts,
            "episodes": model.ep_info_buffer,
            "random": random.getstate(),
            "numpy": np.random.get_state(),  # noqa: NPY002  (SB3 shuffles minibatches with it)
            "torch": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state` returned."""
        model = self.model
        model.policy.load_state_dict(state["policy"])
        model.policy.optimizer.load_state_dict(state["optimizer"])
        model.num_timesteps = state["num_timesteps"]
        model._n_updates = state["n_updates"]
        model._current_progress_remaining = state["progress_remaining"]
        self._games.venv = state["env"]
        model._last_obs = state["last_obs"]
        model._last_episode_starts = state["last_episode_starts"]
        model.ep_info_buffer = state["episodes"]
        random.setstate(state["random"])
        np.random.set_state(state["numpy"])  # noqa: NPY002
        torch.set_rng_state(state["torch"])


def _initial_weights(config: RunConfig) -> dict[str, Any]:
    """Return a run's initial weights, from another policy's file.

    Raises:
        RunError: The file cannot be read, or its policy differs from the run's in kind, sizes or
            environment variant; the message gives the difference.
    """
    assert config.initial_policy is not None
    try:
        policy, about = load_policy(config.initial_policy)
    except (OSError, ValueError) as error:
        raise RunError(f"initial_policy: {error}") from None
    sizes = "network" if config.policy in ("table", "table-plain") else "net_arch"
    wanted = {**config.to_dict(), "env": config.env.variant()}
    for key in ("policy", "env", sizes):
        if about[key] != wanted[key]:
            raise RunError(
                f"initial_policy: {config.initial_policy} has {key}: {about[key]!r},"
                f" this run {wanted[key]!r}"
            )
    return policy.state_dict()
