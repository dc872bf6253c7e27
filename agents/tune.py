"""Tune the weights of the plan player, or of the solver, on training deals.

    python -m agents.tune --out FILE [--solver] [--seconds S] [--width W] ...

CMA-ES (Hansen), by the package ``cmaes``, looks for the weights of ``agents.search.stage.FEATURES``
with which most is reached: cards on the foundations, a won deal counted twice. All weights
of a generation play the same deals, each generation plays others, all below 2^34: no held-out
deal is touched. What is written after each generation is the centre of the distribution, not the
luckiest sample.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from agents.search.settings import DEFAULTS, load_settings, settings_text
from agents.search.solver import WEIGHTS
from agents.search.stage import Effort
from agents.search.tuning import SIGMA, PlanBench, Play, solver_bench, tune
from qv_env.files import write_text


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.tune", description=__doc__)
    parser.add_argument("--solver", action="store_true", help="the solver's, not the player's")
    parser.add_argument("--start", type=Path, help="settings to begin with (default: committed)")
    parser.add_argument("--seconds", type=float, default=300.0, help="when to stop (default: 300)")
    parser.add_argument("--deals", type=int, default=400, help="deals a sample (default: 400)")
    parser.add_argument("--population", type=int, help="samples a generation")
    parser.add_argument("--sigma", type=float, default=SIGMA, help=f"(default: {SIGMA})")
    parser.add_argument("--width", type=int, default=20, help="of the beam (default: 20)")
    parser.add_argument("--depth", type=int, default=12, help="of the player's (default: 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the settings, a YAML file")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    settings = load_settings(options.start or (WEIGHTS if options.solver else DEFAULTS))
    bench: Play
    if options.solver:
        bench = solver_bench(options.width)
    else:
        end = (5 * options.width, settings.effort.end_depth)
        bench = PlanBench(Effort(options.width, options.depth, *end))
    command = shlex.join(["python", "-m", "agents.tune", *(arguments or sys.argv[1:])])
    generations = tune(
        settings.weights,
        bench,
        options.deals,
        options.seed,
        options.population,
        options.sigma,
    )
    for generation, (weights, means) in enumerate(generations, start=1):
        seconds = time.monotonic() - started
        cards, won = means.mean(axis=0)
        print(
            f"{generation:4d}  {seconds:6.0f} s  cards {cards:5.2f}  won {100 * won:5.2f} %",
            flush=True,
        )
        note = f"{command}: {generation} generations of {len(means)} x {options.deals} deals"
        write_text(
            options.out, settings_text(weights, None if options.solver else settings.effort, [note])
        )
        if seconds > options.seconds:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
