"""Programs that are killed at random moments, and begun again.

What lies on a disk changes when files are made, opened, moved and removed, so those are the moments
of which one is drawn: the same for the same seed, however fast the machine is.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MOMENT = "tests.moment"  # programs raise this audit event, with a path, where there is one more

_EVENTS = {
    *("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"),
    *("os.utime", MOMENT),
}

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills programs that were forked")


def run_killed(
    program: str, folder: Path, seed: int, *, kills: int, moments: int, arguments: str = ""
) -> list[str]:
    """Run a program a number of times, each but the last killed at some moment.

    Args:
        program: Python that defines ``session(folder, k)``, which is called in a process of its
            own for k = 0..kills.
        folder: The folder that moments are counted in.
        seed: Draws the moments.
        kills: How often to kill. A session that ends before its moment is not killed.
        moments: A moment is below this.
        arguments: What the program finds in ``sys.argv[1]``.

    Returns:
        What the sessions printed, line by line.
    """
    command = [sys.executable, "-m", "tests.helpers.kills", arguments, str(folder)]
    done = subprocess.run(
        [*command, str(seed), str(kills), str(moments)],
        input=program,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _main(folder: str, seed: int, kills: int, moments: int) -> int:
    names: dict = {"__name__": "program"}
    exec(compile(sys.stdin.read(), "program", "exec"), names)
    chance = random.Random(seed)
    for k in range(kills + 1):
        moment = chance.randrange(moments) if k < kills else None
        child = os.fork()
        if not child:
            status = 99
            try:
                if moment is not None:
                    _die_at(folder, moment)
                names["session"](Path(folder), k)
                sys.stdout.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status not in (0, *([-signal.SIGKILL] if k < kills else [])):
            print(f"session {k} ended with status {status}", file=sys.stderr)
            return 1
    return 0


def _die_at(folder: str, moment: int) -> None:
    left = moment

    def hook(event: str, arguments: tuple) -> None:
        nonlocal left
        if event in _EVENTS and isinstance(arguments[0], (str, os.PathLike)):
            if os.fspath(arguments[0]).startswith(folder):
                left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[2], *map(int, sys.argv[3:])))
