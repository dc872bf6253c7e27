"""Train a network to predict the value of positions, for the ``ppo+plan`` player.

    python -m agents.value configs/value/plan.yaml
    python -m agents.value configs/value/plan.yaml seed=0..2 --out runs/value --workers 4

CONFIG is a YAML file; ``key=value`` arguments override its values. Each seed is a run with a folder
of its own, which contains the resolved config, versions, ``value.jsonl`` (one line
about the games, then one per report) and ``policy.safetensors``, for ``ppo+plan:DIR/seed-0``. For
the method, see ``agents.training.value``. The result does not depend on the number of workers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agents.training.config import RunError, load_configs
from agents.training.folder import check_new, seed_folders
from agents.training.value import ValueConfig, learn_values
from qv_env import command_line
from qv_env.command_line import Parser


def _parser() -> Parser:
    parser = Parser("python -m agents.value", __doc__, intermixed=True)
    parser.add_argument(
        "config",
        metavar="CONFIG",
        type=command_line.path,
        help="a YAML file, such as configs/value/plan.yaml",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..2")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=command_line.path,
        help="folder of the runs (default: runs/NAME)",
    )
    command_line.add_workers(
        parser,
        command_line.cores(),
        "threads that play the games (default: one per core)",
        least=1,
        old="--threads",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    hint = "what was learnt up to the last report is kept"
    return command_line.run(_parser(), _learn, arguments, errors=(RunError,), interrupted=hint)


def _learn(options: argparse.Namespace) -> int:
    configs = load_configs(ValueConfig, options.config, options.overrides)
    folders = seed_folders(configs, options.out)
    for config, folder in zip(configs, folders, strict=True):
        check_new(folder, config.to_dict())
    for config, folder in zip(configs, folders, strict=True):
        learn_values(config, folder, options.workers, lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
