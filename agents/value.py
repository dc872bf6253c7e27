"""Learn what positions are worth: ``python -m agents.value CONFIG [key=value ...]``.

The ``plan`` player plays many games, but now and then goes to another of its best positions than
the best. Of its games without that, a network would learn nothing about the positions that it
never goes to, and those are what the ``ppo+plan`` player asks about. The network then learns, of
the positions before each draw, how the whole game ends: score and win.

The run's folder gets the resolved config, versions, ``value.jsonl`` (a line about the games, then
one at each report: the error on games that are not learnt from, and R2, the part of the outcomes'
variance that is explained) and ``policy.safetensors``, for ``ppo+plan:FOLDER``. Its value head is
what was learnt. Its policy head learns nothing, and with an initial policy fits no longer what is
under it. All deals are training deals; the games, and so the result, do not depend on how many
threads play them.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path

from agents.training.config import ConfigError, RunError, load_configs, require
from agents.training.folder import check_new
from agents.training.value import ValueConfig, learn_values


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.value", description=__doc__)
    parser.add_argument("config", help="a YAML file, such as configs/value/plan.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..2")
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/NAME)")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        help="that play the games (default: one a core)",
    )
    options = parser.parse_intermixed_args(arguments)
    try:
        require(options.threads >= 1, f"--threads is at least 1, not {options.threads}")
        configs = load_configs(ValueConfig, options.config, options.overrides)
        out = options.out or Path("runs") / configs[0].name
        folders = [out / f"seed-{config.seed}" for config in configs]
        for config, folder in zip(configs, folders, strict=True):
            check_new(folder, dataclasses.asdict(config))
        for config, folder in zip(configs, folders, strict=True):
            learn_values(config, folder, options.threads, lambda line: print(line, flush=True))
    except (ConfigError, RunError, OSError) as error:
        print(f"agents.value: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what was learnt up to the last report is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
