"""Train PPO on seeded deals: ``python -m agents.train configs/NAME.yaml [key=value ...]``.

A run's folder holds its resolved config, versions, checkpoints, TensorBoard events, evaluations
on held-out deals and, at the end, the policy and its results. A run that was killed goes on from
its newest whole checkpoint with ``--resume``, as if nothing had happened: networks, optimizer,
counters, games and random streams are all in it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from agents.training.config import ConfigError, RunError, load_config
from agents.training.folder import CONFIG_FILE, RESULTS_FILE, check_unused
from agents.training.run import IN_USE, Interrupted, Run


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.train", description=__doc__)
    parser.add_argument("config", help="a YAML file, such as configs/quick.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=0..4")
    parser.add_argument("--out", type=Path, help="folder of the runs (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="go on where the runs stopped")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_intermixed_args(arguments)
    try:
        configs = load_config(options.config, options.overrides)
        out = options.out or Path("runs") / configs[0].name
        folders = [out / f"seed-{config.seed}" for config in configs]
        if not options.resume:  # rather now than when the seeds before have been trained
            for folder in folders:
                check_unused(folder, IN_USE)
        for config, folder in zip(configs, folders, strict=True):
            if options.resume and (folder / RESULTS_FILE).exists():
                print(f"{folder} is finished")
                continue
            started = (folder / CONFIG_FILE).exists()
            # Of several seeds, those that had not begun when the rest was stopped begin now.
            resume = options.resume and (started or len(configs) == 1)
            results = Run(config, folder, resume).train(not options.quiet)
            print(f"{folder}: {json.dumps(results['evaluation'])}", flush=True)
    except (ConfigError, RunError, OSError) as error:
        print(f"agents.train: {error}", file=sys.stderr)
        return 2
    except Interrupted as error:
        print(f"stopped by {error}; --resume goes on", file=sys.stderr)
        return 128 + error.signal_number
    except KeyboardInterrupt:
        print("stopped at once; --resume goes on from the newest checkpoint", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
