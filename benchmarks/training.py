"""Training: our learner compared with MaskablePPO over ``DummyVecEnv``, and its time profile."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.ppo_mask import ppo_mask
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor

from agents.networks.files import policy_class_of
from agents.networks.policy import TablePolicy
from agents.training import ppo as table_ppo
from agents.training.config import RunConfig, load_config
from agents.training.learner import Learner, LearnerReward
from benchmarks.measure import ROOT, Result, Row, Sizes, Target
from qv_env import ENV_ID

_CONFIG = ROOT / "configs" / "quick.yaml"

# The parts of a training iteration, by their names in the table.
_KERNEL = "environment: the compiled batch and its arrays"
_ADAPTER = "environment: the adapter to stable-baselines3"
_MASKS = "environment: masks"
_FORWARD = "network: choosing actions"
_EVALUATE = "network: forward in updates"
_BACKWARD = "network: backward"
_LOOK = "network: reading positions"
_WEIGHTS = "network: combining layers, and splitting their gradients"
_OPTIMIZER = "network: optimizer and clipping of gradients"
_WAIT = "waiting for other threads' share of the network"
_STORE = "rollout buffer: storing"
_SAMPLE = "rollout buffer: minibatches"
_ROLLOUT = "the rest of rollouts"
_UPDATE = "the rest of updates: losses"
_REST = "the rest"


class StockPolicy(TablePolicy):
    """The same network, with sb3_contrib's own masked distributions on top of it."""

    def forward(
        self, obs: Any, deterministic: bool = False, action_masks: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Choose actions; see TablePolicy."""
        logits, values = self.network(obs)
        distribution = self._masked(logits, action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values.unsqueeze(1), distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: Any, actions: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, log-probabilities and entropies; see TablePolicy."""
        logits, values = self.network(obs)
        distribution = self._masked(logits, action_masks)
        return values.unsqueeze(1), distribution.log_prob(actions), distribution.entropy()

    def _masked(self, logits: Tensor, masks: Any) -> Any:
        distribution = self.action_dist.proba_distribution(action_logits=logits)
        if masks is not None:
            distribution.apply_masking(masks)
        return distribution


class PlainLearner:
    """MaskablePPO as its documentation uses it, with the network and settings of a run.

    Args:
        config: The run's config.
        stock: Whether to use sb3_contrib's distributions (if the run's network is ours).
    """

    def __init__(self, config: RunConfig, stock: bool) -> None:
        ppo, games = config.ppo, config.env

        def make() -> gym.Env:
            steps = games.max_episode_steps
            return Monitor(
                gym.make(ENV_ID, max_episode_steps=steps, deals=games.deals, **games.variant())
            )

        env = LearnerReward(
            DummyVecEnv([make] * games.num_envs), config.reward.scale, config.reward.step_cost
        )
        policy_class, policy_kwargs = policy_class_of(
            config.policy, vars(config.network), config.net_arch
        )
        if stock and policy_class is TablePolicy:
            policy_class = StockPolicy
        self._rollout = ppo.n_steps * games.num_envs
        self.model = MaskablePPO(
            policy_class,
            env,
            learning_rate=ppo.learning_rate,
            **ppo.keywords(),
            policy_kwargs=policy_kwargs,
            seed=config.seed,
            device="cpu",
        )
        self.model.set_logger(configure(None, []))

    def iterate(self) -> None:
        """Collect one rollout and learn from it."""
        self.model.learn(self._rollout, reset_num_timesteps=False)


class Stopwatch:
    """Wall time by label, of nested functions: each second counts for the innermost one.

    If threads share work, the main thread's time counts.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner: list[float] = []

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapped function whose own time is added to a label."""

        def run(*arguments: Any, **keywords: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*arguments, **keywords)
            self._inner.append(0.0)
            begin = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                total = time.perf_counter() - begin
                self.seconds[label] += total - self._inner.pop()
                if self._inner:
                    self._inner[-1] += total

        return run


def _parts(model: Any) -> Iterator[tuple[Any, str, str]]:
    """Yield the functions that training with a model calls: owner, name, label."""
    env = model.env
    while env is not None:
        for name in ("step", "step_async", "step_wait", "advance"):
            yield env, name, _ADAPTER
        for name in ("env_method", "action_masks"):
            yield env, name, _MASKS
        if hasattr(env, "batch"):
            for name in ("step_games", "finish_step"):
                yield env.batch, name, _KERNEL
        for single in getattr(env, "envs", ()):  # those of a DummyVecEnv
            yield single, "step", _KERNEL
        env = vars(env).get("venv")
    yield ppo_mask, "get_action_masks", _MASKS
    yield model.policy, "forward", _FORWARD
    yield model.policy, "predict_values", _FORWARD
    yield model.policy, "evaluate_actions", _EVALUATE
    yield torch.Tensor, "backward", _BACKWARD
    yield torch.nn.utils, "clip_grad_norm_", _OPTIMIZER
    yield model.policy.optimizer, "step", _OPTIMIZER
    yield model.policy.optimizer, "zero_grad", _OPTIMIZER
    for name in ("reset", "add", "compute_returns_and_advantage"):
        yield model.rollout_buffer, name, _STORE
    for name in ("swap_and_flatten", "_get_samples"):
        yield model.rollout_buffer, name, _SAMPLE
    if isinstance(model, table_ppo.TablePPO):
        for name in ("_choose", "_values"):
            yield model, name, _FORWARD
        yield model, "_wait", _WAIT
        yield model, "_play_step", _STORE
        yield model, "_minibatch", _SAMPLE
        yield model.policy.network, "weights", _WEIGHTS
        yield model.policy.network, "read_features", _LOOK
        for name in ("trunk_forward", "evaluate_forward"):
            yield table_ppo, name, _EVALUATE
        yield torch.autograd, "backward", _WEIGHTS
        for name in ("trunk_backward", "evaluate_backward"):
            yield table_ppo, name, _BACKWARD
    yield model, "collect_rollouts", _ROLLOUT
    yield model, "train", _UPDATE


def breakdown(learner: Any, iterations: int) -> dict[str, float]:
    """Return the share of wall time of each part of training iterations, by label."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for owner, name, label in _parts(learner.model):
            own = name in dir(type(owner)) or name in vars(owner)
            if own:  # a wrapper's forwarded attributes are patched at their source
                timed = watch.timed(label, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, timed))
        iterate = watch.timed(_REST, learner.iterate)
        for _ in range(iterations):
            iterate()
    total = sum(watch.seconds.values())
    return {
        label: seconds / total
        for label, seconds in sorted(watch.seconds.items(), key=lambda item: -item[1])
    }


def _environment_share(shares: dict[str, float]) -> float:
    return sum(shares.get(label, 0.0) for label in (_KERNEL, _ADAPTER, _MASKS))


def measure_training(sizes: Sizes) -> Result:
    """Measure three learners in alternation, then the shares of time in each."""
    (config,) = load_config(_CONFIG, sizes.training)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(config.torch_threads)
    torch.set_float32_matmul_precision(config.matmul_precision)
    try:
        return _measure(config, sizes)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


def _measure(config: RunConfig, sizes: Sizes) -> Result:
    learners: dict[str, Any] = {
        "plain": PlainLearner(config, stock=False),
        "stock": PlainLearner(config, stock=True),
        "learner": Learner(config),
    }
    wall: dict[str, list[float]] = {name: [] for name in learners}
    cpu: dict[str, list[float]] = {name: [] for name in learners}
    for iteration in range(sizes.iterations + 1):  # the first warms up
        for name, learner in learners.items():
            begin, begin_cpu = time.perf_counter(), time.process_time()
            learner.iterate()
            if iteration:
                wall[name].append(time.perf_counter() - begin)
                cpu[name].append(time.process_time() - begin_cpu)
    shares = {}
    for name, learner in learners.items():
        shares[name] = breakdown(learner, max(1, sizes.iterations // 2))
    steps = config.ppo.n_steps * config.env.num_envs
    pace = {name: steps / float(np.median(times)) for name, times in wall.items()}
    faster, cheaper = (
        {
            name: float(np.median(np.array(times[name]) / np.array(times["learner"])))
            for name in ("plain", "stock")
        }
        for times in (wall, cpu)
    )
    share = "{:.1%}".format
    target = Target("≥ 1.5", 1.5, at_least=True)
    environment = _environment_share(shares["learner"])
    rows = [
        Row("MaskablePPO over DummyVecEnv, our network", pace["stock"], "steps/s"),
        Row("the same with our whole policy class", pace["plain"], "steps/s"),
        Row("agents.train.Learner", pace["learner"], "steps/s", faster["stock"],
            "of MaskablePPO", target),
        Row("the same", pace["learner"], "steps/s", faster["plain"],
            "of MaskablePPO with our whole policy class"),
        Row("time that environment and adapter take in it", share(environment),
            ratio=environment, target=Target("< 5 %", 0.05)),
        *(
            Row(f"… {label}", share(part))
            for label, part in shares["learner"].items()
            if part >= 0.005
        ),
    ]  # fmt: skip
    return Result(
        rows,
        {
            "config": str(_CONFIG.relative_to(ROOT)),
            "overrides": list(sizes.training),
            "steps_an_iteration": steps,
            "wall_s": wall,
            "cpu_s": cpu,
            "ratios_of_cpu_s": cheaper,
            "shares": shares,
            "environment_share": {name: _environment_share(s) for name, s in shares.items()},
        },
    )
