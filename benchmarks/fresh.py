"""One-time costs: imports, compiling, memory; each measured in new processes."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from benchmarks.measure import Result, Row, Sizes, Target, run_python

_FIRST_USE = """
import json, sys, time
def clock():
    return time.perf_counter(), time.process_time()
times = [clock()]
import qv_env
times.append(clock())
import gymnasium as gym
import numpy as np
if sys.argv[1] == "single":
    env = gym.make(qv_env.ENV_ID)
    env.reset(seed=0)
    env.step(0)
else:
    env = gym.make_vec(qv_env.ENV_ID, num_envs=int(sys.argv[2]))
    env.reset(seed=0)
    env.step(np.zeros(env.num_envs, dtype=np.int64))
times.append(clock())
spans = [[b - a for a, b in zip(*pair)] for pair in zip(times, times[1:])]
print(json.dumps({"import_s": spans[0], "step_s": spans[1]}))
"""

_MEMORY = """
import gc, json, resource, sys, tracemalloc
import numpy as np
import qv_env
games, copy, trace = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True"
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
def play(num_envs):
    env = qv_env.QuaranteVoleursVectorEnv(num_envs, copy=copy)
    outputs = env.reset(seed=0)
    for _ in range(3):
        outputs = env.step(np.zeros(num_envs, dtype=np.int64))
    return env, outputs
play(2)
gc.collect()
if trace:
    tracemalloc.start()
before = resident()
held = play(games)
gc.collect()
found = {"resident_bytes": resident() - before}
if trace:
    found["traced_bytes"] = tracemalloc.get_traced_memory()[0]
print(json.dumps(found))
"""


def measure_first_use(sizes: Sizes) -> Result:
    """Measure the import and the first reset and step, without and with a compile cache."""
    names = ("import", "compile", "cached")
    details: dict[str, Any] = {}
    rows, imports = [], []
    for kind in ("single", "batch"):
        found: dict[str, list[list[float]]] = {name: [] for name in names}
        for _ in range(sizes.processes):
            with tempfile.TemporaryDirectory() as cache:
                for name in ("compile", "cached"):
                    child = ["-c", _FIRST_USE, kind, str(sizes.games)]
                    times = run_python(child, NUMBA_CACHE_DIR=cache)
                    found["import"].append(times["import_s"])
                    found[name].append(times["step_s"])
        details[kind] = {
            name: {"wall_s": [wall for wall, _ in times], "cpu_s": [cpu for _, cpu in times]}
            for name, times in found.items()
        }
        imports += details[kind]["import"]["wall_s"]
        best = {name: min(details[kind][name]["wall_s"]) for name in names}
        what = "single environment" if kind == "single" else f"batch of {sizes.games:,}"
        rows += [
            Row(f"{what}: first reset and step, compiling", best["compile"], "s",
                target=Target("< 10 s", 10.0)),
            Row(f"{what}: first reset and step, from the cache", best["cached"], "s",
                target=Target("< 1 s", 1.0)),
        ]  # fmt: skip
    first = Row("import qv_env", min(imports), "s", target=Target("< 1.0 s", 1.0))
    return Result([first, *rows], details)


def measure_memory(sizes: Sizes) -> Result:
    """Measure the memory that a large batch adds to a process, and how much of it is arrays."""
    details: dict[str, Any] = {"numpy": np.__version__}
    rows = []
    for copy in (False, True):
        found: dict[str, int] = {}
        for trace in (True, False):
            child = ["-c", _MEMORY, str(sizes.memory_games), str(copy), str(trace)]
            found |= run_python(child)  # resident memory is taken from the run without tracing
        details[f"copy={copy}"] = found
        # With copy=True, the last step's outputs, which the caller holds, are added.
        what = f"{sizes.memory_games:,} games, copy={copy}" + ", with one step's outputs" * copy
        target = None if copy else Target("< 100 MB", 100.0)
        for name, title in (("traced_bytes", "allocated"), ("resident_bytes", "resident")):
            rows.append(Row(f"{what}: {title}", found[name] / 1e6, "MB", target=target))
    return Result(rows, details)
