"""Print a hash of some games, so that the compiled and the plain Python rules can be compared.

``python -m tests.trajectories``, with or without ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import hashlib
import random

import numba
import numpy as np

import qv_env
from qv_env.rules import determinize, legal_actions, new_game, play, refusal


def digest() -> str:
    """Play single games and a batch; hash everything that comes out."""
    out = hashlib.sha256()
    rng = random.Random(11)
    for number in (0, 21, 2**34 + 5):
        for variant in (
            {"memory": True, "stock_visible": True},
            {"observation": "onehot", "memory": True, "stock_visible": True},
        ):
            env = qv_env.QuaranteVoleursEnv(**variant)
            observation, info = env.reset(options={"deal": number})
            for _ in range(60):
                legal = np.flatnonzero(info["action_mask"]).tolist()
                back = [action for action in legal if action >= 112]
                choice = rng.choice(back if back and rng.random() < 0.3 else legal)
                action = rng.randrange(192) if rng.random() < 0.1 else choice
                observation, reward, terminated, _, info = env.step(action)
                parts = observation.values() if isinstance(observation, dict) else [observation]
                for part in parts:
                    out.update(part.tobytes())
                out.update(info["action_mask"].tobytes())
                out.update(repr((reward, terminated, {**info, "action_mask": 0})).encode())
                if terminated:
                    break
            shown, *_ = env.determinize(np.random.default_rng(3)).step(0)
            for part in shown.values() if isinstance(shown, dict) else [shown]:
                out.update(part.tobytes())
    batch = qv_env.QuaranteVoleursVectorEnv(3, max_episode_steps=20, deals="100:200")
    _, infos = batch.reset(seed=5)
    for _ in range(50):
        actions = [
            rng.choice(np.flatnonzero(mask).tolist() or [0]) for mask in batch.action_masks()
        ]
        _, rewards, terminated, truncated, infos = batch.step(actions)
        for array in (rewards, terminated, truncated, infos["deal"], infos["score"]):
            out.update(array.tobytes())
    states = determinize(new_game(qv_env.deck_of(5)), np.random.default_rng(4))
    mask = np.zeros(192, dtype=np.int8)
    for _ in range(60):
        legal_actions(states[0], mask)
        out.update(mask.tobytes())
        out.update(repr([int(refusal(states[0], action)) for action in range(192)]).encode())
        if not mask.any():
            break
        points = play(states[0], rng.choice(np.flatnonzero(mask).tolist()))
        out.update(repr(int(points)).encode() + states.tobytes())
    return out.hexdigest()


if __name__ == "__main__":
    print("plain" if numba.config.DISABLE_JIT else "compiled", digest())
