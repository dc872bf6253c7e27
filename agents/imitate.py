"""Train a network to imitate another player.

    python -m agents.imitate configs/imitation/plan.yaml
    python -m agents.imitate configs/imitation/plan.yaml seed=0..2 --out runs/imitation

CONFIG is a YAML file; ``key=value`` arguments override its values. Each seed is a run with a folder
of its own, which contains the resolved config, versions, ``imitation.jsonl`` (one
line per evaluation) and ``policy.safetensors``. The result is a player: ``ppo:DIR/seed-0``. For the
method, see ``agents.training.imitation``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agents.training.config import RunError, load_configs
from agents.training.folder import check_new, seed_folders
from agents.training.imitation import ImitationConfig, imitate
from qv_env import command_line
from qv_env.command_line import Parser


def _parser() -> Parser:
    parser = Parser("python -m agents.imitate", __doc__, intermixed=True)
    parser.add_argument(
        "config",
        metavar="CONFIG",
        type=command_line.path,
        help="a YAML file, such as configs/imitation/plan.yaml",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..2")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=command_line.path,
        help="folder of the runs (default: runs/NAME)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    hint = "what was learnt up to the last evaluation is kept"
    return command_line.run(_parser(), _imitate, arguments, errors=(RunError,), interrupted=hint)


def _imitate(options: argparse.Namespace) -> int:
    configs = load_configs(ImitationConfig, options.config, options.overrides)
    folders = seed_folders(configs, options.out)
    for config, folder in zip(configs, folders, strict=True):
        check_new(folder, config.to_dict())
    for config, folder in zip(configs, folders, strict=True):
        imitate(config, folder, lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
