"""The cache of compiled code: not needed, never stale, and whole again when it was damaged."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import qv_env
from qv_env import compiling

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


def run(
    script: str, folder: Path, before: Callable[[], None] | None = None, **variables: str
) -> list[float]:
    """The numbers that a script prints when it runs with the copy of the package in ``folder``.

    Args:
        script: It prints the package's file first.
        folder: Where the package is, and where the script runs.
        before: Called in the new process before the script runs.
        variables: For the script's environment.
    """
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
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    file, *numbers = done.stdout.split()
    assert Path(file).parent == folder / "qv_env"
    return [float(number) for number in numbers]


def entries(cache: Path) -> dict[Path, int]:
    """The files of a cache, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb[ci]")}


def rewrite(file: Path, old: str, new: str) -> None:
    """Change a source so that its content alone tells: size and time are as before."""
    times, source = file.stat(), file.read_text("utf-8")
    assert source.count(old) == 1
    assert len(old) == len(new)
    file.write_text(source.replace(old, new), "utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


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

    assert run(SCORE, tmp_path, **variables) == [10, 10]
    before = entries(cache)
    assert before
    assert run(SCORE, tmp_path, **variables) == [10, 10]
    assert entries(cache) == before  # the cache was used: now it could be stale

    rewrite(rules, "POINTS_TO_FOUNDATION = 10\n", "POINTS_TO_FOUNDATION = 11\n")
    assert run(SCORE, tmp_path, **variables) == [11, 11]


# Another package, in which everything that `total` is made of stands in a file of its own.
OTHER_PACKAGE = {
    "outer/__init__.py": "",
    "outer/entry.py": """
from typing import NamedTuple
from outer.deep import shape
from outer.deep.callee import called
from qv_env.compiling import compiled

@compiled
def total(pair):
    return called(pair) + shape.ADDED

@compiled
def inner_total(pairs):
    return called(pairs[0])
""",
    "outer/deep/__init__.py": "",
    "outer/deep/shape.py": """
from typing import NamedTuple
import numpy as np

ADDED = 100000
TABLE = np.array([10000, 20000])
FACTORS = (1, (2, 3))

class Pair(NamedTuple):
    first: int
    other: int
""",
    "outer/deep/callee.py": """
from outer.deep.shape import FACTORS, TABLE
from outer.deep.last import constant
from qv_env.compiling import inlined

@inlined
def called(pair):
    return FACTORS[1][0] * pair.first + TABLE[0] + constant()
""",
    "outer/deep/last.py": """
from qv_env.compiling import compiled

@compiled
def constant():
    return 1000

@compiled
def unused():
    return 2000
""",
}

TOTAL = """
import qv_env
from outer.deep.shape import Pair
from outer.entry import inner_total, total
pair = Pair(3, 5)
print(qv_env.__file__, total(pair), inner_total((pair,)))
"""


@pytest.fixture(scope="module")
def outer(tmp_path_factory) -> Path:
    """A folder with the package and another one, both compiled."""
    folder = tmp_path_factory.mktemp("outer")
    copied_package(folder)
    for name, source in OTHER_PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    variables = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    assert run(TOTAL, folder, **variables) == [111006, 11006]
    before = entries(folder / "cache")
    assert {path.name.split("-")[0] for path in before} >= {"entry.total", "last.constant"}
    assert run(TOTAL, folder, **variables) == [111006, 11006]
    assert entries(folder / "cache") == before
    return folder


@pytest.mark.parametrize(
    ("file", "old", "new", "totals"),
    [
        ("deep/last.py", "return 1000", "return 1001", [111007, 11007]),
        ("deep/callee.py", "[1][0] *", "[1][1] *", [111009, 11009]),
        ("deep/shape.py", "ADDED = 100000", "ADDED = 200000", [211006, 11006]),
        ("deep/shape.py", "[10000,", "[30000,", [131006, 31006]),
        ("deep/shape.py", "(1, (2, 3))", "(1, (4, 3))", [111012, 11012]),
        (
            "deep/shape.py",
            "    first: int\n    other: int",
            "    other: int\n    first: int",
            [111010, 11010],
        ),
    ],
    ids=["function", "caller", "number", "table", "tuple", "fields"],
)
def test_code_that_another_package_inlines_is_never_stale(outer, file, old, new, totals):
    variables = {"NUMBA_CACHE_DIR": str(outer / "cache")}
    assert run(TOTAL, outer, **variables) == [111006, 11006]
    rewrite(outer / "outer" / file, old, new)
    assert run(TOTAL, outer, **variables) == totals
    rewrite(outer / "outer" / file, new, old)


def test_a_change_that_does_not_concern_a_function_leaves_its_entry(outer):
    variables = {"NUMBA_CACHE_DIR": str(outer / "cache")}
    assert run(TOTAL, outer, **variables) == [111006, 11006]
    before = entries(outer / "cache")
    rewrite(outer / "outer" / "deep" / "last.py", "return 2000", "return 2001")
    assert run(TOTAL, outer, **variables) == [111006, 11006]
    assert entries(outer / "cache") == before


# ------------------------------------------------------------------------------ damaged entries

MODULE = """
import numpy as np
OFFSET = np.array([7, 8])

def plain(x):
    return x + OFFSET[1]
"""


@pytest.fixture
def plain(tmp_path, monkeypatch) -> Callable[[Any], Any]:
    """A function that is compiled into the cache ``tmp_path / "cache"``."""
    name = "qv_env_cached_module"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return importlib.import_module(name).plain


def use(plain: Callable[[Any], Any]) -> tuple[int, int]:
    """Use a function as a new process does: how many calls the cache served, and how many not."""
    function: Any = compiling.compiled(plain)
    assert function(1) == 9
    assert function(0.5) == 8.5
    stats = function.stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def empty(file: Path) -> None:
    file.write_bytes(b"")


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def halve(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def fill_with_garbage(file: Path) -> None:
    file.write_bytes(np.random.default_rng(0).bytes(file.stat().st_size))


def flip_one_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[2 * len(content) // 3] ^= 1
    file.write_bytes(content)


def put_a_text(file: Path) -> None:
    file.write_text("no cache\n")


def remove(file: Path) -> None:
    file.unlink()


DAMAGES = [empty, truncate, halve, fill_with_garbage, flip_one_bit, put_a_text, remove]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_entry_is_compiled_again_and_mended(plain, tmp_path, suffix, damage):
    assert use(plain) == (0, 2)
    assert use(plain) == (2, 0)
    files = sorted((tmp_path / "cache").rglob(f"*.{suffix}"))
    assert len(files) == {"nbi": 1, "nbc": 2}[suffix]
    for file in files:
        damage(file)
    hits, misses = use(plain)
    assert hits + misses == 2
    assert misses > 0  # with an index of two entries only the first call misses both
    use(plain)
    assert use(plain) == (2, 0)
    assert not list(tmp_path.rglob("*.tmp"))


def test_an_entry_that_is_another_functions_is_not_taken(plain, tmp_path):
    """Two processes that write at once may leave an index that names the other one's file."""
    use(plain)
    first, second = sorted((tmp_path / "cache").rglob("*.nbc"))
    shutil.copy(first, second)
    assert use(plain) == (1, 1)
    assert use(plain) == (2, 0)


def test_an_entry_that_cannot_be_replaced_is_compiled_each_time(plain, tmp_path):
    use(plain)
    (index,) = (tmp_path / "cache").rglob("*.nbi")
    index.unlink()
    index.mkdir()
    assert use(plain) == (0, 2)
    assert use(plain) == (0, 2)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_disk_stops_nothing(plain, tmp_path, monkeypatch):
    def fail(file: Path, content: bytes) -> int:
        write(file, content[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    write = Path.write_bytes
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fail)
        assert use(plain) == (0, 2)
        assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert use(plain) == (0, 2)  # there is room again
    assert use(plain) == (2, 0)


def test_a_disk_that_takes_no_more_bytes_stops_nothing(tmp_path):
    """The system itself refuses what is written: a limit on the size of files."""
    resource = pytest.importorskip("resource", reason="no such limits on this system")
    copied_package(tmp_path)
    cache = tmp_path / "cache"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

    variables = {"NUMBA_CACHE_DIR": str(cache), "HOME": str(tmp_path)}
    assert run(DEAL, tmp_path, limit, **variables) == [4, 8, 27]
    assert not [path for path in cache.rglob("*") if path.is_file()]
    assert run(DEAL, tmp_path, **variables) == [4, 8, 27]
    assert entries(cache)


def test_the_stamp_does_not_depend_on_the_process(outer):
    script = (
        TOTAL
        + """
from qv_env.compiling import stamp
print(int(stamp(total)[:12], 16))
"""
    )
    stamps = {run(script, outer, PYTHONHASHSEED=seed)[-1] for seed in ("1", "2")}
    assert len(stamps) == 1
