"""MaskablePPO for the table policy, with what training does around the network cut to the bone.

It learns what sb3_contrib's own class learns: the same losses, the same minibatches, gradients
equal up to rounding. What differs is how:

* positions and masks are stored once, as bytes, and minibatches are made from them;
* the losses' gradients come from compiled code, and the network's without autograd;
* minibatches and the games of a rollout are shared by threads, a part each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from agents.networks.policy import TablePolicy
from agents.networks.table import (
    TableNetwork,
    Weights,
    evaluate_backward,
    evaluate_forward,
    scorer_of,
    trunk_backward,
    trunk_forward,
)
from qv_env.compiling import compiled

Result = TypeVar("Result")

# Indices of what `_losses` adds up.
_POLICY, _VALUE, _ENTROPY, _CLIPPED, _KL = range(5)


class TableRolloutBuffer(MaskableDictRolloutBuffer):
    """A rollout buffer whose masks are bool, and which hands out nothing but its arrays."""

    action_masks: np.ndarray

    def reset(self) -> None:
        """Forget the rollout."""
        super().reset()
        self.action_masks = np.ones(self.action_masks.shape, dtype=np.bool_)


class _Minibatch(NamedTuple):
    """Some of a rollout's steps."""

    observation: dict[str, Tensor]
    masks: np.ndarray  # bool (n, num_actions)
    actions: np.ndarray  # int64 (n,)
    old_log_probs: np.ndarray  # float32 (n,)
    advantages: np.ndarray  # float32 (n,)
    returns: np.ndarray  # float32 (n,)


@compiled
def _losses(
    log_probs: np.ndarray,
    entropies: np.ndarray,
    values: np.ndarray,
    old_log_probs: np.ndarray,
    advantages: np.ndarray,
    returns: np.ndarray,
    share: float,
    clip_range: float,
    ent_coef: float,
    vf_coef: float,
    d_log_probs: np.ndarray,
    d_entropies: np.ndarray,
    d_values: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add up PPO's losses, and write the gradients of the whole loss.

    Args:
        log_probs, entropies, values: What the network says, float32 (n,).
        old_log_probs, advantages, returns: Of the rollout, float32 (n,).
        share: What a step counts: one over the size of the minibatch.
        clip_range, ent_coef, vf_coef: PPO's.
        d_log_probs, d_entropies, d_values: float32 (n,); written.
        sums: float64 (5,): the losses of policy and value, entropies, how often ratios were
            clipped, estimates of the divergence from the old policy; added to.
    """
    for i in range(len(log_probs)):
        log_ratio = np.float64(log_probs[i]) - np.float64(old_log_probs[i])
        ratio = np.exp(log_ratio)
        advantage = np.float64(advantages[i])
        free = advantage * ratio
        clipped = advantage * min(max(ratio, 1 - clip_range), 1 + clip_range)
        within = 1 - clip_range <= ratio <= 1 + clip_range
        error = np.float64(values[i]) - np.float64(returns[i])
        d_log_probs[i] = -free * share if within or free < clipped else 0.0
        d_entropies[i] = -ent_coef * share
        d_values[i] = 2 * vf_coef * share * error
        sums[_POLICY] -= min(free, clipped)
        sums[_VALUE] += error * error
        sums[_ENTROPY] += entropies[i]
        sums[_CLIPPED] += abs(ratio - 1) > clip_range
        sums[_KL] += ratio - 1 - log_ratio


class TablePPO(MaskablePPO):
    """MaskablePPO with a :class:`agents.networks.policy.TablePolicy`, on the CPU.

    Its environment is a :class:`qv_env.sb3.QuaranteVoleursVecEnv`, or a wrapper around one that
    has its ``advance`` and ``action_masks``, too.

    Args:
        policy: ``TablePolicy``.
        env: The environment.
        num_threads: How many threads share the work. Sums are rounded otherwise with another
            number; with the same, runs repeat.
        **keywords: MaskablePPO's.
    """

    policy: TablePolicy
    rollout_buffer: TableRolloutBuffer
    _last_obs: Any
    _last_episode_starts: Any

    def __init__(
        self, policy: type[TablePolicy], env: VecEnv, num_threads: int = 1, **keywords: Any
    ) -> None:
        self._num_threads = num_threads
        self._executor: ThreadPoolExecutor | None = None
        super().__init__(policy, env, rollout_buffer_class=TableRolloutBuffer, **keywords)

    # --------------------------------------------------------------------------------- threads

    def _parts(self, size: int, work: Callable[[int, int], Result]) -> list[Result]:
        """Call ``work(low, high)`` for each thread's part of 0..size - 1; results in order."""
        threads = max(1, min(self._num_threads, size))
        bounds = [size * k // threads for k in range(threads + 1)]
        if threads == 1:
            return [work(0, size)]
        if self._executor is None:
            self._executor = ThreadPoolExecutor(
                self._num_threads - 1, "ppo", initializer=torch.set_num_threads, initargs=(1,)
            )
        others = [self._executor.submit(work, low, high) for low, high in pairwise(bounds[1:])]
        own = work(0, bounds[1])
        return [own, *self._wait(others)]

    @staticmethod
    def _wait(others: list[Future[Result]]) -> list[Result]:
        """What the other threads find, once they have."""
        return [other.result() for other in others]

    @contextmanager
    def _own_threads(self) -> Iterator[None]:
        """Keep torch from using threads of its own within ours."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    # -------------------------------------------------------------------------------- rollouts

    def collect_rollouts(
        self,
        env: Any,
        callback: BaseCallback,
        rollout_buffer: TableRolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Play, and fill the buffer; as MaskablePPO does, but for callbacks on each step."""
        if not use_masking:
            raise ValueError("the table policy is trained with masks")
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        with self._own_threads(), torch.no_grad():
            weights = self.policy.network.weights().detached()
            for _ in range(n_rollout_steps):
                self._play_step(env, rollout_buffer, weights)
            last_values = self._values(self._last_obs, weights)
        rollout_buffer.compute_returns_and_advantage(
            last_values=torch.from_numpy(last_values), dones=self._last_episode_starts
        )
        callback.on_rollout_end()
        return True

    def _play_step(self, env: Any, buffer: TableRolloutBuffer, weights: Weights) -> None:
        observation: Any = self._last_obs
        masks = env.action_masks()
        actions, log_probs, values = self._choose(observation, masks, weights)
        new_observation, rewards, dones, finals = env.advance(actions)
        self.num_timesteps += env.num_envs
        self._update_info_buffer(list(finals.values()))
        # An episode that was cut off goes on with what its last position is worth.
        cut = [i for i, info in finals.items() if info["TimeLimit.truncated"]]
        if cut:
            ends = [finals[i]["terminal_observation"] for i in cut]
            stacked = {key: np.stack([end[key] for end in ends]) for key in ends[0]}
            rewards[cut] += self.gamma * self._values(stacked, weights)
        at = buffer.pos
        for key, array in observation.items():
            buffer.observations[key][at] = array
        buffer.action_masks[at] = masks
        buffer.actions[at, :, 0] = actions
        buffer.log_probs[at] = log_probs
        buffer.values[at] = values
        buffer.rewards[at] = rewards
        buffer.episode_starts[at] = self._last_episode_starts
        buffer.pos += 1
        buffer.full = buffer.pos == buffer.buffer_size
        self._last_obs = new_observation
        self._last_episode_starts = dones

    def _choose(
        self, observation: dict[str, np.ndarray], masks: np.ndarray, weights: Weights
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw actions, int64 (n,); with their log-probabilities and values, float32 (n,)."""
        network = self.policy.network
        n = len(masks)
        uniforms = torch.rand(n, dtype=torch.float64).numpy()

        def part(low: int, high: int) -> tuple[np.ndarray, ...]:
            with torch.no_grad():
                some = {
                    key: torch.from_numpy(array[low:high]) for key, array in observation.items()
                }
                found = network.choose(some, masks[low:high], uniforms[low:high], weights)
            return tuple(tensor.numpy() for tensor in found)

        parts = self._parts(n, part)
        actions, log_probs, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return actions, log_probs, values

    def _values(self, observation: Any, weights: Weights) -> np.ndarray:
        """What positions are worth, float32 (n,)."""
        network = self.policy.network
        looked = network.look({key: torch.from_numpy(a) for key, a in observation.items()})
        return trunk_forward(weights, looked, network.at)[2].numpy()

    # --------------------------------------------------------------------------------- updates

    def train(self) -> None:
        """Learn from the rollout in the buffer, as MaskablePPO does."""
        policy, buffer = self.policy, self.rollout_buffer
        policy.set_training_mode(True)
        self._update_learning_rate(policy.optimizer)
        clip_range: float = self.clip_range(self._current_progress_remaining)
        rollout = self._rollout()
        total = len(rollout.actions)
        means: list[np.ndarray] = []
        loss = 0.0
        going_on = True
        with self._own_threads():
            for _ in range(self.n_epochs):
                order = np.random.permutation(total)  # noqa: NPY002  (SB3's generator)
                divergences = []
                for start in range(0, total, self.batch_size):
                    chosen = order[start : start + self.batch_size]
                    sums = self._backward(rollout, chosen, clip_range)
                    mean = sums / len(chosen)
                    means.append(mean)
                    divergences.append(mean[_KL])
                    loss = (
                        mean[_POLICY] - self.ent_coef * mean[_ENTROPY] + self.vf_coef * mean[_VALUE]
                    )
                    if self.target_kl is not None and mean[_KL] > 1.5 * self.target_kl:
                        going_on = False
                        break
                    torch.nn.utils.clip_grad_norm_(
                        policy.parameters(), self.max_grad_norm, foreach=True
                    )
                    policy.optimizer.step()
                self._n_updates += 1
                if not going_on:
                    break
        average = np.mean(means, axis=0)
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/entropy_loss", -average[_ENTROPY])
        self.logger.record("train/policy_gradient_loss", average[_POLICY])
        self.logger.record("train/value_loss", average[_VALUE])
        self.logger.record("train/approx_kl", np.mean(divergences))
        self.logger.record("train/clip_fraction", average[_CLIPPED])
        self.logger.record("train/loss", loss)
        self.logger.record("train/explained_variance", explained)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)

    def _rollout(self) -> _Minibatch:
        """All steps of the rollout, without copies but of the actions."""
        buffer = self.rollout_buffer

        def flat(array: np.ndarray) -> np.ndarray:
            return array.reshape(-1, *array.shape[2:])

        return _Minibatch(
            {key: torch.from_numpy(flat(array)) for key, array in buffer.observations.items()},
            flat(buffer.action_masks),
            buffer.actions.astype(np.int64).reshape(-1),
            flat(buffer.log_probs),
            flat(buffer.advantages),
            flat(buffer.returns),
        )

    def _backward(self, rollout: _Minibatch, chosen: np.ndarray, clip_range: float) -> np.ndarray:
        """Set the parameters' gradients for a minibatch; return the sums of its losses."""
        network = self.policy.network
        advantages = rollout.advantages[chosen]
        if self.normalize_advantage and len(chosen) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
        weights = network.weights()
        plain = weights.detached()

        def part(low: int, high: int) -> tuple[Weights, np.ndarray]:
            with torch.no_grad():
                minibatch = self._minibatch(rollout, chosen[low:high], advantages[low:high])
                return self._gradients(network, plain, minibatch, 1 / len(chosen), clip_range)

        parts = self._parts(len(chosen), part)
        gradients, sums = parts[0]
        for others, other_sums in parts[1:]:
            torch._foreach_add_(list(gradients), list(others))
            sums += other_sums
        for parameter in network.parameters():
            parameter.grad = None
        learnt = [k for k, weight in enumerate(weights) if weight.requires_grad]
        torch.autograd.backward([weights[k] for k in learnt], [gradients[k] for k in learnt])
        return sums

    def _minibatch(
        self, rollout: _Minibatch, some: np.ndarray, advantages: np.ndarray
    ) -> _Minibatch:
        """Some steps of a rollout, whose normalised advantages are given."""
        index = torch.from_numpy(some)
        return _Minibatch(
            {key: tensor[index] for key, tensor in rollout.observation.items()},
            rollout.masks[some],
            rollout.actions[some],
            rollout.old_log_probs[some],
            advantages,
            rollout.returns[some],
        )

    def _gradients(
        self,
        network: TableNetwork,
        weights: Weights,
        minibatch: _Minibatch,
        share: float,
        clip_range: float,
    ) -> tuple[Weights, np.ndarray]:
        """The gradients that some steps give the weights, and the sums of their losses."""
        looked = network.look(minibatch.observation)
        ends, heads, values, saved = trunk_forward(weights, looked, network.at)
        scorer = scorer_of(
            ends, heads, weights.cards, weights.cards_bias, looked, network.at, network.scale
        )
        found = evaluate_forward(scorer, minibatch.masks, minibatch.actions)
        n = len(minibatch.actions)
        d_log_probs, d_entropies, d_values = (np.empty(n, dtype=np.float32) for _ in range(3))
        sums = np.zeros(5)
        _losses(
            found.log_probs, found.entropies, values.numpy(),
            minibatch.old_log_probs, minibatch.advantages, minibatch.returns,
            share, clip_range, self.ent_coef, self.vf_coef,
            d_log_probs, d_entropies, d_values, sums,
        )  # fmt: skip
        d_ends, d_heads, d_cards, d_cards_bias = evaluate_backward(
            scorer, minibatch.actions, found, d_log_probs, d_entropies
        )
        gradients = trunk_backward(
            weights, looked, network.at, saved,
            d_ends, d_heads, torch.from_numpy(d_values), d_cards, d_cards_bias,
        )  # fmt: skip
        return gradients, sums
