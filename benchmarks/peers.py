"""Other environments beside this one: ``python -m benchmarks.peers NAME SECONDS GAMES``.

Each runs in its own process, on one core, alternating with this project's batch (``copy=True``, the
default of ``gym.make_vec``). If a peer has legal actions, one is chosen at random; choosing is not
counted, except in OpenSpiel's loop over one game. Observations and masks are read at each step.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from benchmarks.measure import RandomPlayer, Result, Row, Sizes, in_turns, rate, ratio, run_python
from benchmarks.measure import summary as summary_of

_CALLS = 10  # steps in a round


def _rounds(
    games: int, choose: Callable[[], Any], step: Callable[[Any], Any]
) -> Callable[[], float]:
    """Return a round of steps, which returns the seconds per game and step, without choosing."""

    def play() -> float:
        seconds = 0.0
        for _ in range(_CALLS):
            actions = choose()
            begin = time.perf_counter()
            step(actions)
            seconds += time.perf_counter() - begin
        return seconds / (_CALLS * games)

    return play


def _cartpole(games: int) -> Callable[[], float]:
    env = gym.make_vec("CartPole-v1", games, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    return _rounds(games, lambda: rng.integers(2, size=games), lambda actions: env.step(actions))


def _openspiel(games: int) -> Callable[[], float]:
    game = import_module("pyspiel").load_game("solitaire")
    rng = random.Random(0)
    state = game.new_initial_state()

    def play() -> float:
        nonlocal state
        steps = 0
        begin = time.perf_counter()
        while steps < 100:
            if state.is_terminal():
                state = game.new_initial_state()
            elif state.is_chance_node():
                actions, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(actions, chances)[0])
            else:
                state.observation_tensor()
                state.legal_actions_mask()
                state.apply_action(rng.choice(state.legal_actions()))
                steps += 1
        return (time.perf_counter() - begin) / steps

    return play


def _envpool(games: int, name: str, board: str | None) -> Callable[[], float]:
    env = import_module("envpool").make(name, env_type="gymnasium", num_envs=games, num_threads=1)
    observation, _ = env.reset()
    rng = np.random.default_rng(0)

    def choose() -> np.ndarray:
        if board is None:
            return rng.integers(env.action_space.n, size=games).astype(np.int32)
        wishes = rng.random((games, int(env.action_space.n))) * observation[board]
        return wishes.argmax(axis=1).astype(np.int32)

    def step(actions: np.ndarray) -> None:
        nonlocal observation
        observation = env.step(actions)[0]

    return _rounds(games, choose, step)


def _envpool_taxi(games: int) -> Callable[[], float]:
    return _envpool(games, "Taxi-v3", None)


def _envpool_2048(games: int) -> Callable[[], float]:
    return _envpool(games, "Game2048-v1", "action_mask")


def _jax_play(
    games: int,
    state: Any,
    step: Callable[[Any, Any, Any], Any],
    read: Callable[[Any], tuple[Any, Any]],
) -> Callable[[], float]:
    """Return a round in JAX, given ``step(state, actions, keys)`` and ``read(state)``."""
    jax: Any = import_module("jax")
    key = jax.random.PRNGKey(0)
    draw = jax.jit(lambda key, mask: jax.random.categorical(key, jax.numpy.where(mask, 0.0, -1e9)))
    stepped = jax.jit(step)

    def choose() -> Any:
        nonlocal key
        key, first, second = jax.random.split(key, 3)
        actions = draw(first, read(state)[1])
        return jax.block_until_ready((actions, jax.random.split(second, games)))

    def advance(chosen: Any) -> None:
        nonlocal state
        state = stepped(state, *chosen)
        for array in read(state):
            np.asarray(array)

    return _rounds(games, choose, advance)


def _pgx(games: int) -> Callable[[], float]:
    jax: Any = import_module("jax")
    auto_reset = import_module("pgx.experimental.wrappers").auto_reset
    env = import_module("pgx").make("2048")
    keys = jax.random.split(jax.random.PRNGKey(1), games)
    step = jax.vmap(auto_reset(env.step, env.init))
    state = jax.jit(jax.vmap(env.init))(keys)
    return _jax_play(games, state, step, lambda s: (s.observation, s.legal_action_mask))


def _jumanji(games: int) -> Callable[[], float]:
    jax: Any = import_module("jax")
    wrappers = import_module("jumanji.wrappers")
    env = import_module("jumanji").make("Game2048-v1")
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(env))
    pair = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(1), games))

    def read(pair: Any) -> tuple[Any, Any]:
        return pair[1].observation.board, pair[1].observation.action_mask

    return _jax_play(games, pair, lambda pair, action, _: env.step(pair[0], action), read)


class Peer(NamedTuple):
    """Another environment: its title in the table, the packages it needs, and its rounds."""

    title: str
    modules: tuple[str, ...]
    package: str
    prepare: Callable[[int], Callable[[], float]]


PEERS = {
    "cartpole": Peer("Gymnasium CartPole-v1, native vector", (), "gymnasium", _cartpole),
    "envpool-taxi": Peer("EnvPool Taxi-v3", ("envpool",), "envpool", _envpool_taxi),
    "envpool-2048": Peer("EnvPool Game2048-v1", ("envpool",), "envpool", _envpool_2048),
    "pgx-2048": Peer("Pgx 2048", ("jax", "pgx"), "pgx", _pgx),
    "jumanji-2048": Peer("Jumanji Game2048-v1", ("jax", "jumanji"), "jumanji", _jumanji),
    "openspiel": Peer(
        "OpenSpiel solitaire, one game", ("pyspiel",), "open-spiel", _openspiel
    ),
}  # fmt: skip


def _native(games: int) -> Callable[[], float]:
    env = gym.make_vec("qv_env:QuaranteVoleurs-v0", games)
    _, infos = env.reset(seed=0)
    player = RandomPlayer(games)

    def step(actions: np.ndarray) -> None:
        nonlocal infos
        infos = env.step(actions)[4]

    return _rounds(games, lambda: player.act(infos["action_mask"]), step)


def measure_here(name: str, seconds: float, games: int) -> dict[str, Any]:
    """Measure one peer and this project's batch, in this process."""
    peer = PEERS[name]
    if any(find_spec(module) is None for module in peer.modules):
        return {"installed": None}
    times = in_turns({"peer": peer.prepare(games), "native": _native(games)}, seconds)
    try:
        installed = version(peer.package)
    except PackageNotFoundError:
        installed = "of unknown version"
    return {
        "installed": installed,
        "steps_per_s": rate(times["peer"]),
        "native_steps_per_s": rate(times["native"]),
        "native_ratio": ratio(times, "peer", "native"),
        "seconds_a_step": summary_of(times),
    }


def measure_peers(sizes: Sizes, python: str = sys.executable) -> Result:
    """Measure every peer that is installed.

    Args:
        sizes: How much is measured.
        python: The interpreter whose installed packages are used.
    """
    rows, details = [], {}
    for name, peer in PEERS.items():
        arguments = ["-m", "benchmarks.peers", name, str(sizes.seconds / 2), str(sizes.games)]
        found = run_python(arguments, python, JAX_PLATFORMS="cpu")
        details[name] = found
        if found["installed"] is None:
            rows.append(Row(peer.title, "not installed"))
            continue
        rows.append(
            Row(f"{peer.title} ({found['installed']})", found["steps_per_s"], "steps/s",
                found["native_ratio"], "(ours / peer)")
        )  # fmt: skip
    return Result(rows, details)


def main() -> None:
    """Measure one peer on one core and print the figures as JSON."""
    name, seconds, games = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):  # before any library counts cores for its threads
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(measure_here(name, float(seconds), int(games))))


if __name__ == "__main__":
    main()
