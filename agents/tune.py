"""Tune the weights of the plan player, or of the solver, on training deals.

    python -m agents.tune --out FILE [--solver] [--seconds S] [--width W] ...

The settings file is written after each generation; a comment in it gives the command line. For the
method, see ``agents.search.tuning``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from agents.search.settings import DEFAULTS, load_settings, settings_text
from agents.search.solver import WEIGHTS
from agents.search.stage import Effort
from agents.search.tuning import SIGMA, PlanBench, Play, solver_bench, tune
from qv_env import command_line
from qv_env.command_line import Parser, printable
from qv_env.files import write_text

_MOST_SECONDS, _MOST_SIGMA = 1e9, 1e6
_MOST_DEALS, _MOST_SAMPLES, _MOST_WIDTH, _MOST_DEPTH = 1_000_000, 10_000, 10_000, 1_000
_LAST_SEED = 2**32 - 1  # of the optimizer's generator


def _parser() -> Parser:
    parser = Parser("python -m agents.tune", __doc__)
    parser.add_argument(
        "--solver", action="store_true", help="tune the solver instead of the player"
    )
    parser.add_argument(
        "--start",
        metavar="FILE",
        type=command_line.path,
        help="initial settings (default: the committed ones)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=command_line.number(0, _MOST_SECONDS),
        default=300.0,
        help="when to stop (default: 300)",
    )
    parser.add_argument(
        "--sigma",
        metavar="S",
        type=command_line.number(0, _MOST_SIGMA, above=True),
        default=SIGMA,
        help=f"initial standard deviation (default: {SIGMA})",
    )
    for name, low, high, default, text in (
        ("deals", 1, _MOST_DEALS, 400, "deals per sample (default: 400)"),
        ("population", 2, _MOST_SAMPLES, None, "samples per generation (default: CMA-ES's own)"),
        ("width", 1, _MOST_WIDTH, 20, "width of the beam (default: 20)"),
        ("depth", 1, _MOST_DEPTH, 12, "depth of the player's beam (default: 12)"),
        ("seed", 0, _LAST_SEED, 0, "seeds samples and deals (default: 0)"),
    ):
        parser.add_argument(
            f"--{name}",
            metavar="N",
            type=command_line.integer(low, high),
            default=default,
            help=text,
        )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=command_line.path,
        required=True,
        help="the settings, a YAML file",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    return command_line.run(_parser(), _tune, arguments, interrupted="the file stays as it is")


def _tune(options: argparse.Namespace) -> int:
    started = time.monotonic()
    command_line.check_file(options.out)
    settings = load_settings(options.start or (WEIGHTS if options.solver else DEFAULTS))
    bench: Play
    if options.solver:
        bench = solver_bench(options.width)
    else:
        end = (5 * options.width, settings.effort.end_depth)
        bench = PlanBench(Effort(options.width, options.depth, *end))
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
        made = f"{generation} generations of {len(means)} x {options.deals} deals"
        note = f"{printable(options.typed)}: {made}"
        write_text(
            options.out, settings_text(weights, None if options.solver else settings.effort, [note])
        )
        if seconds > options.seconds:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
