"""numba's cache on disk: not needed, and never stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import qv_env

PACKAGE = Path(qv_env.__file__).parent

DEAL = """
import qv_env
print(qv_env.__file__, *qv_env.deck_of(0)[:3])
"""

# Plays an ace to its foundation in a batch: what the rules give for it comes out of functions that
# are compiled, and cached, for other files than rules.py.
SCORE = """
import numpy as np
import qv_env
deck = sorted(2 * list(range(52)), key=lambda card: card % 13)
batch = qv_env.QuaranteVoleursVectorEnv(2)
batch.reset(options={"deck": deck[:40][::-1] + deck[40:]})
print(qv_env.__file__, *batch.step(np.array([21, 21]))[1])
"""


def copied_package(folder: Path) -> Path:
    """A copy of the package's sources, without what was compiled of them."""
    copy = folder / "qv_env"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run(script: str, folder: Path, **variables: str) -> list[float]:
    """The numbers that a script prints when it runs with the copy of the package in ``folder``."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "HOME"))}
    environment |= {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    file, *numbers = done.stdout.split()
    assert Path(file).parent == folder / "qv_env"
    return [float(number) for number in numbers]


@pytest.mark.parametrize("place", ["missing", "a file", "none"])
def test_where_nothing_can_be_written_functions_are_compiled_in_memory(place, tmp_path):
    """Files stand where folders would have to be made: that stops even root."""
    package = copied_package(tmp_path)
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder\n")
    (package / "__pycache__").write_text("no folder\n")
    home = {"HOME": str(blocked), "XDG_CACHE_HOME": str(blocked)}
    cache = {
        "missing": {"NUMBA_CACHE_DIR": "/proc/no-such-place/cache"},
        "a file": {"NUMBA_CACHE_DIR": str(blocked)},
        "none": {},
    }
    assert run(DEAL, tmp_path, **home, **cache[place]) == [4, 8, 27]  # 5S 9S 2D
    assert blocked.read_text() == "no folder\n"
    assert not list(tmp_path.rglob("*.nbi"))


def test_changed_rules_are_not_served_from_a_stale_cache(tmp_path):
    rules = copied_package(tmp_path) / "rules.py"
    cache = tmp_path / "cache"
    variables = {"NUMBA_CACHE_DIR": str(cache), "HOME": str(tmp_path)}

    def entries() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb[ci]")}

    assert run(SCORE, tmp_path, **variables) == [10, 10]
    before = entries()
    assert before
    assert run(SCORE, tmp_path, **variables) == [10, 10]
    assert entries() == before  # the cache was used: now it could be stale

    times, source = rules.stat(), rules.read_text("utf-8")
    assert source.count("POINTS_TO_FOUNDATION = 10\n") == 1
    rules.write_text(source.replace("POINTS_TO_FOUNDATION = 10\n", "POINTS_TO_FOUNDATION = 11\n"))
    # Size and time are as before; the content alone tells.
    os.utime(rules, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert run(SCORE, tmp_path, **variables) == [11, 11]
