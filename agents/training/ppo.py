"""MaskablePPO for the compiled table policy, with little overhead outside the network.

It computes the same as sb3_contrib's own class: the same losses and minibatches, and gradients
that are equal up to rounding. The implementation differs:

* observations and masks are stored once, as bytes, and minibatches are gathered from them;
* compiled code computes the gradients of the losses, and those of the network without autograd;
* minibatches and the games of a rollout are divided among threads.
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

from agents.networks.accelerator import (
    CompiledTableNetwork,
    Weights,
    evaluate_backward,
    evaluate_forward,
    trunk_backward,
    trunk_forward,
)
from agents.networks.policy import TablePolicy
from qv_env.compiling import compiled

Result = TypeVar("Result")

# Indices of the sums in `_losses`.
_POLICY, _VALUE, _ENTROPY, _CLIPPED, _KL = range(5)


class TableRolloutBuffer(MaskableDictRolloutBuffer):
    """A rollout buffer with bool masks, of which only the arrays are used, not ``get``."""

    action_masks: np.ndarray

    def reset(self) -> None:
        """Discard the rollout."""
        super().reset()
        self.action_masks = np.ones(self.action_masks.shape, dtype=np.bool_)


class _Targets(NamedTuple):
    """Data of a rollout's steps that their losses are computed from, besides the outputs."""

    old_log_probs: np.ndarray  # float32 (n,)
    advantages: np.ndarray  # float32 (n,)
    returns: np.ndarray  # float32 (n,)


class _Minibatch(NamedTuple):
    """A selection of a rollout's steps."""

    observation: dict[str, Tensor]
    masks: np.ndarray  # bool (n, num_actions)
    actions: np.ndarray  # int64 (n,)
    targets: _Targets


class _Outputs(NamedTuple):
    """The network's outputs for a selection of steps, or the gradients of these outputs."""

    log_probs: np.ndarray  # float32 (n,), of the actions
    entropies: np.ndarray  # float32 (n,)
    values: np.ndarray  # float32 (n,)


class _Coefficients(NamedTuple):
    """Coefficients of PPO's loss."""

    share: float  # the weight of one step: 1 / minibatch size
    clip_range: float
    ent_coef: float
    vf_coef: float


@compiled
def _losses(
    outputs: _Outputs,
    targets: _Targets,
    coefficients: _Coefficients,
    gradients: _Outputs,
    sums: np.ndarray,
) -> None:
    """Accumulate PPO's losses, and write the gradients of the total loss.

    Args:
        outputs: The network's outputs.
        targets: The rollout's targets.
        coefficients: The coefficients of the loss.
        gradients: Receives the gradients of the loss with respect to the outputs.
        sums: float64 (5,), accumulated: policy loss, value loss, entropy, number of steps whose
            ratio is outside the clip range, estimated KL divergence from the old policy.
    """
    log_probs, entropies, values = outputs
    old_log_probs, advantages, returns = targets
    share, clip_range, ent_coef, vf_coef = coefficients
    d_log_probs, d_entropies, d_values = gradients
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
    """MaskablePPO with a compiled :class:`agents.networks.policy.TablePolicy`, on the CPU.

    Its environment is a :class:`qv_env.sb3.QuaranteVoleursVecEnv`, or a wrapper of one that also
    provides ``advance`` and ``action_masks``.

    Args:
        policy: ``TablePolicy``.
        env: The environment.
        num_threads: Number of threads. Rounding errors depend on it: runs are reproducible only
            with the same number.
        **keywords: Arguments of MaskablePPO.

    Raises:
        ValueError: The policy's network is not compiled, or not on the CPU.
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

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.policy.compiled_network() is None:
            raise ValueError(
                "TablePPO trains the compiled table network on the CPU; MaskablePPO trains others"
            )

    @property
    def _network(self) -> CompiledTableNetwork:
        network = self.policy.compiled_network()
        assert network is not None
        return network

    # --------------------------------------------------------------------------------- threads

    def _parts(self, size: int, work: Callable[[int, int], Result]) -> list[Result]:
        """Call ``work(low, high)`` for each thread's part of 0..size - 1; return their results.

        The results are in the order of the parts.
        """
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
        """Wait for the other threads' results."""
        return [other.result() for other in others]

    @contextmanager
    def _own_threads(self) -> Iterator[None]:
        """Prevent torch from starting additional threads inside our own threads."""
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
        """Play and fill the buffer as MaskablePPO does, but without a callback at each step."""
        if not use_masking:
            raise ValueError("the table policy is trained with masks")
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        with self._own_threads(), torch.no_grad():
            weights = self._network.weights().detached()
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
        # Bootstrap truncated episodes with the value of their last observation.
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
        """Sample actions; return them, int64 (n,), with log-probabilities and values, float32."""
        network = self._network
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
        """Return the values of observations, float32 (n,)."""
        tensors = {key: torch.from_numpy(array) for key, array in observation.items()}
        features = self._network.read_features(tensors)
        return trunk_forward(weights, features, self._network.offsets)[2].numpy()

    # --------------------------------------------------------------------------------- updates

    def train(self) -> None:
        """Update the policy from the rollout in the buffer, as MaskablePPO does."""
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
        """Return all steps of the rollout; only the actions are copied."""
        buffer = self.rollout_buffer

        def flat(array: np.ndarray) -> np.ndarray:
            return array.reshape(-1, *array.shape[2:])

        return _Minibatch(
            {key: torch.from_numpy(flat(array)) for key, array in buffer.observations.items()},
            flat(buffer.action_masks),
            buffer.actions.astype(np.int64).reshape(-1),
            _Targets(flat(buffer.log_probs), flat(buffer.advantages), flat(buffer.returns)),
        )

    def _backward(self, rollout: _Minibatch, chosen: np.ndarray, clip_range: float) -> np.ndarray:
        """Set the parameters' gradients for a minibatch; return its loss sums."""
        network = self._network
        advantages = rollout.targets.advantages[chosen]
        if self.normalize_advantage and len(chosen) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
        weights = network.weights()
        detached = weights.detached()
        coefficients = _Coefficients(1 / len(chosen), clip_range, self.ent_coef, self.vf_coef)

        def part(low: int, high: int) -> tuple[Weights, np.ndarray]:
            with torch.no_grad():
                minibatch = self._minibatch(rollout, chosen[low:high], advantages[low:high])
                return self._gradients(detached, minibatch, coefficients)

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
        """Return the given steps of a rollout, with the given normalized advantages."""
        index, targets = torch.from_numpy(some), rollout.targets
        return _Minibatch(
            {key: tensor[index] for key, tensor in rollout.observation.items()},
            rollout.masks[some],
            rollout.actions[some],
            _Targets(targets.old_log_probs[some], advantages, targets.returns[some]),
        )

    def _gradients(
        self, weights: Weights, minibatch: _Minibatch, coefficients: _Coefficients
    ) -> tuple[Weights, np.ndarray]:
        """Return the gradients of the weights for some steps, and the steps' loss sums."""
        network = self._network
        features = network.read_features(minibatch.observation)
        ends, heads, values, activations = trunk_forward(weights, features, network.offsets)
        scorer = network.scorer(ends, heads, weights.cards, weights.cards_bias, features)
        evaluation = evaluate_forward(scorer, minibatch.masks, minibatch.actions)
        outputs = _Outputs(evaluation.log_probs, evaluation.entropies, values.numpy())
        d_outputs = _Outputs(*(np.empty(len(values), dtype=np.float32) for _ in range(3)))
        sums = np.zeros(5)
        _losses(outputs, minibatch.targets, coefficients, d_outputs, sums)
        scorer_gradients = evaluate_backward(
            scorer, minibatch.actions, evaluation, d_outputs.log_probs, d_outputs.entropies
        )
        gradients = trunk_backward(
            weights, features, network.offsets, activations,
            scorer_gradients, torch.from_numpy(d_outputs.values),
        )  # fmt: skip
        return gradients, sums
