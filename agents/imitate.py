"""Learn a policy from another player: ``python -m agents.imitate CONFIG [key=value ...]``.

A policy network learns to choose what a teacher, such as the ``plan`` player, would choose. Games
of the teacher's own come first. In them everything goes well, so that a policy which has seen no
others does not know what to do about its own mistakes; therefore the policy plays next, and the
teacher says in a part of its positions what it would have done there (DAgger: Ross, Gordon and
Bagnell, 2011). The network learns from random minibatches of the newest answers. It learns no
values; a run of ``agents.train`` that goes on from the policy (``initial_policy``) does, by
``value_only_steps``.

The run's folder gets the resolved config, versions, ``imitation.jsonl`` with a line at each
evaluation, and ``policy.safetensors``, a player of its own. All deals are training deals.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from agents.training.config import ConfigError, RunError, load_configs
from agents.training.folder import check_new
from agents.training.imitation import ImitationConfig, imitate


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.imitate", description=__doc__)
    parser.add_argument("config", help="a YAML file, such as configs/imitation/plan.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..2")
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/NAME)")
    options = parser.parse_intermixed_args(arguments)
    try:
        configs = load_configs(ImitationConfig, options.config, options.overrides)
        out = options.out or Path("runs") / configs[0].name
        folders = [out / f"seed-{config.seed}" for config in configs]
        for config, folder in zip(configs, folders, strict=True):
            check_new(folder, dataclasses.asdict(config))
        for config, folder in zip(configs, folders, strict=True):
            imitate(config, folder, lambda line: print(line, flush=True))
    except (ConfigError, RunError, OSError) as error:
        print(f"agents.imitate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what was learnt up to the last evaluation is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
