"""Train PPO on seeded deals.

    python -m agents.train configs/quick.yaml
    python -m agents.train configs/long.yaml seed=0..4 --out runs/long
    python -m agents.train configs/long.yaml seed=0..4 --out runs/long --resume

CONFIG is a YAML file; ``key=value`` arguments override its values. Each seed is a run with a folder
of its own, described in ``agents.training.run``. Ctrl-C or SIGTERM stops a run after
writing a checkpoint; a second one stops it immediately. A run that was stopped or killed continues
with ``--resume``, and gives the same result as an uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from agents.training.config import RunError, load_config
from agents.training.folder import CONFIG_FILE, RESULTS_FILE, check_unused, seed_folders
from agents.training.run import IN_USE, Interrupted, Run
from qv_env import command_line
from qv_env.command_line import Parser, Stopped, printable


def _parser() -> Parser:
    parser = Parser("python -m agents.train", __doc__, intermixed=True)
    parser.add_argument(
        "config",
        metavar="CONFIG",
        type=command_line.path,
        help="a YAML file, such as configs/quick.yaml",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..4")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=command_line.path,
        help="folder of the runs (default: runs/NAME)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the runs from their newest checkpoints"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    hint = "--resume goes on from the newest checkpoint"
    return command_line.run(_parser(), _train, arguments, errors=(RunError,), interrupted=hint)


def _train(options: argparse.Namespace) -> int:
    configs = load_config(options.config, options.overrides)
    folders = seed_folders(configs, options.out)
    if not options.resume:  # check all folders before the first run starts
        for folder in folders:
            check_unused(folder, IN_USE)
    for config, folder in zip(configs, folders, strict=True):
        if options.resume and (folder / RESULTS_FILE).exists():
            print(printable(f"{folder} is finished"))
            continue
        started = (folder / CONFIG_FILE).exists()
        # With several seeds, runs that had not started before the interruption start now.
        resume = options.resume and (started or len(configs) == 1)
        try:
            results = Run(config, folder, resume).train(not options.quiet)
        except Interrupted as error:
            text = f"stopped by {error}; --resume goes on"
            raise Stopped(text, error.signal_number) from None
        print(printable(f"{folder}: {json.dumps(results['evaluation'])}"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
