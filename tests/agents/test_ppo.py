"""PPO for the table policy, beside sb3_contrib's MaskablePPO."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.logger import configure

from agents.networks import kernels
from agents.networks.policy import TablePolicy
from agents.training.learner import LearnerReward, _Silent
from agents.training.ppo import TablePPO
from qv_env.sb3 import make_sb3_env

SMALL = {"card": 6, "hidden": 12, "column": 10, "context": 14, "pair": 8}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(algorithm, seed=0, games=6, limit=9, **changes):
    """An algorithm that is about to play; episodes are cut off within its rollouts."""
    env = LearnerReward(make_sb3_env(games, max_episode_steps=limit, memory=True), 0.1, 0.01)
    model = algorithm(
        TablePolicy,
        env,
        **{
            "n_steps": 20, "batch_size": 120, "n_epochs": 1, "gamma": 0.9, "learning_rate": 1e-2,
            "ent_coef": 0.05, "policy_kwargs": {"network": SMALL}, "seed": seed, "device": "cpu",
        } | changes,
    )  # fmt: skip
    env.seed(seed)
    model.set_logger(configure(None, []))
    _, model.callback = model._setup_learn(10**6, _Silent())
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.policy.parameters():
        parameter.data.normal_(0, 0.4, generator=generator)
    return model


def play(model):
    model.collect_rollouts(model.env, model.callback, model.rollout_buffer, model.n_steps)
    return model.rollout_buffer


def learn(model):
    model.train()
    return dict(model.logger.name_to_value)


def copy_rollout(source, target):
    for name in ("actions", "values", "log_probs", "advantages", "returns", "action_masks"):
        setattr(target.rollout_buffer, name, getattr(source.rollout_buffer, name).copy())
    for key, array in source.rollout_buffer.observations.items():
        target.rollout_buffer.observations[key] = array.copy()
    target.rollout_buffer.full = True
    target.rollout_buffer.generator_ready = False


@pytest.mark.parametrize("threads", [1, 3])
def test_rollouts_are_those_of_maskable_ppo(threads):
    # The random numbers are the same, so the games are, too.
    ours, theirs = make(TablePPO, num_threads=threads), make(MaskablePPO)
    for _ in range(2):
        torch.manual_seed(1)
        one = play(ours)
        torch.manual_seed(1)
        other = play(theirs)
        for key, array in one.observations.items():
            np.testing.assert_array_equal(array, other.observations[key])
        for name in ("actions", "action_masks", "episode_starts"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("values", "log_probs", "rewards", "returns", "advantages"):
            mine, others = getattr(one, name), getattr(other, name)
            assert mine.dtype == others.dtype
            np.testing.assert_allclose(mine, others, rtol=1e-3, atol=1e-4)
    assert one.episode_starts.sum() == 6 * 2  # a rollout is 20 steps, an episode 9
    assert ours.num_timesteps == theirs.num_timesteps == 240
    without_time = [
        [{**episode, "t": 0} for episode in model.ep_info_buffer] for model in (ours, theirs)
    ]
    assert without_time[0] == without_time[1]
    np.testing.assert_array_equal(ours._last_obs["columns"], theirs._last_obs["columns"])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_epochs": 4},
        {"n_epochs": 4, "clip_range": 0.02, "max_grad_norm": 0.01},
        {"normalize_advantage": False, "vf_coef": 2.0},
        {"n_epochs": 5, "target_kl": 0.001},
    ],
    ids=str,
)
@pytest.mark.parametrize(("threads", "compiled"), [(1, True), (3, True), (1, False)])
def test_updates_are_those_of_maskable_ppo(changes, threads, compiled):
    # With one minibatch an epoch, since the two shuffle in different orders.
    ours = make(TablePPO, num_threads=threads, **changes)
    keywords = {"network": SMALL, "compiled": compiled}
    theirs = make(MaskablePPO, policy_kwargs=keywords, **changes)
    before = [parameter.detach().clone() for parameter in ours.policy.parameters()]
    play(ours)
    copy_rollout(ours, theirs)
    found, expected = learn(ours), learn(theirs)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-5, err_msg=key)
    if "clip_range" in changes:
        assert found["train/clip_fraction"] > 0.1
    if "target_kl" in changes:
        assert found["train/n_updates"] < 5
    moved = 0.0
    for old, one, other in zip(
        before, ours.policy.parameters(), theirs.policy.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)
        moved = max(moved, (one - old).abs().max().item())
    assert moved > 5e-3


def no_kernels(monkeypatch):
    """Make every compiled pass of the network fail."""

    def fail(*_):
        raise AssertionError("a compiled pass was called")

    passes = [name for name, value in vars(kernels).items() if hasattr(value, "py_func")]
    passes = passes or [name for name, value in vars(kernels).items() if inspect.isfunction(value)]
    assert {"read_features", "sum_columns", "evaluate"} <= set(passes)
    for name in passes:
        monkeypatch.setattr(kernels, name, fail)


def test_the_plain_network_trains_without_compiled_passes(monkeypatch):
    no_kernels(monkeypatch)
    model = MaskablePPO(
        TablePolicy,
        LearnerReward(make_sb3_env(32, max_episode_steps=20, memory=True), 0.1, 0.0),
        n_steps=20,
        batch_size=320,
        n_epochs=2,
        learning_rate=5e-3,
        seed=3,
        device="cpu",
        policy_kwargs={"network": SMALL, "compiled": False},
    )
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    scores = []
    for rollouts in (1, 11):
        model.learn(rollouts * 20 * 32, reset_num_timesteps=False)
        scores.append(np.mean([episode["r"] for episode in model.ep_info_buffer][-32:]))
    assert scores[1] > 1.3 * scores[0]
    for name, tensor in model.policy.state_dict().items():
        assert torch.isfinite(tensor).all()
        assert not torch.equal(tensor, before[name])


def test_compiled_training_is_for_compiled_networks():
    with pytest.raises(ValueError, match="TablePPO trains the compiled table network"):
        make(TablePPO, policy_kwargs={"network": SMALL, "compiled": False})


def test_every_step_is_learned_from_once_an_epoch(monkeypatch):
    model = make(TablePPO, batch_size=50, n_epochs=2)
    play(model)
    chosen = []
    backward = model._backward
    monkeypatch.setattr(
        model, "_backward", lambda rollout, some, clip: chosen.append(some) or backward(
            rollout, some, clip
        )
    )  # fmt: skip
    learn(model)
    assert [len(some) for some in chosen] == [50, 50, 20] * 2
    for epoch in (chosen[:3], chosen[3:]):
        assert sorted(np.concatenate(epoch)) == list(range(120))
    assert not np.array_equal(chosen[0], chosen[3])


def test_threads_share_the_sums(monkeypatch):
    gradients = []
    for threads in (1, 2, 5):
        model = make(TablePPO, num_threads=threads)
        torch.manual_seed(0)
        play(model)
        model._backward(model._rollout(), np.arange(7, 71), 0.2)
        gradients.append([parameter.grad for parameter in model.policy.parameters()])
        assert torch.get_num_threads() == 1
    for others in gradients[1:]:
        for one, other in zip(gradients[0], others, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_runs_repeat_with_the_same_threads():
    ends = []
    for _ in range(2):
        model = make(TablePPO, num_threads=3, batch_size=50)
        for _ in range(2):
            play(model)
            learn(model)
        ends.append([parameter.detach().clone() for parameter in model.policy.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_the_table_policy_needs_masks():
    model = make(TablePPO)
    with pytest.raises(ValueError, match="trained with masks"):
        model.collect_rollouts(
            model.env, model.callback, model.rollout_buffer, 1, use_masking=False
        )
