"""Train an agent, evaluate it and the baselines, and write a report: the program of ``make train``.

    python -m agents.quick [--config configs/quick.yaml] [--suite test-1000] [--out DIR]

All files are written to one folder, a new one each time: the run, the results of the benchmark, a
report and a playthrough.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from agents.players import make_player
from agents.training.config import ConfigError, RunError, load_config
from agents.training.report import Report, write_report
from agents.training.run import Interrupted, Run
from qv_env import command_line, suite
from qv_env.command_line import Parser, Stopped, printable
from qv_env.evaluation.benchmark import run_benchmark
from qv_env.evaluation.play import watch
from qv_env.evaluation.reports.benchmark import write_results
from qv_env.playthroughs.export import export
from qv_env.suites import SUITE_SIZES

_AGENT, _BASELINES = "ppo", ("greedy", "random")


_MOST_DEALS = 10**9


def _parser() -> Parser:
    parser = Parser("python -m agents.quick", __doc__, intermixed=True)
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=command_line.path,
        default=Path("configs/quick.yaml"),
        help="one run's YAML file (default: configs/quick.yaml)",
    )
    parser.add_argument("--suite", default="test-1000", choices=list(SUITE_SIZES))
    parser.add_argument(
        "--limit",
        metavar="N",
        type=command_line.integer(1, _MOST_DEALS),
        help="evaluate only on the first N of its deals",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=command_line.path,
        help="folder (default: runs/quick/TIME)",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seed=1")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    return command_line.run(_parser(), _run, arguments, errors=(RunError,))


def _run(options: argparse.Namespace) -> int:
    out = options.out or Path("runs/quick") / datetime.now().strftime("%Y%m%d-%H%M%S")
    configs = load_config(options.config, options.overrides)
    if len(configs) != 1:
        raise ConfigError("one seed, not several")
    command = f".venv/bin/{_train_command(options, '--out', str(out), '--resume')}"
    before = "to go on with the training:\n  "
    try:
        return _quick(configs[0], out, options)
    except Interrupted as error:
        raise Stopped(f"stopped by {error}", error.signal_number, command, before) from None
    except KeyboardInterrupt:
        raise Stopped("interrupted", command=command, before=before) from None


def _train_command(options: argparse.Namespace, *more: str) -> str:
    """Return the command line that only trains."""
    command = ["python", "-m", "agents.train", str(options.config), *options.overrides, *more]
    return shlex.join(command)


def _quick(config, out: Path, options: argparse.Namespace) -> int:  # type: ignore[no-untyped-def]
    started = time.monotonic()
    print(f"training {config.total_steps:,} steps into {printable(str(out))}", flush=True)
    run_folder = out / f"seed-{config.seed}"
    run = Run(config, run_folder, resume=False)
    run.train()

    # The agent is loaded from its file, so that the results are those of the saved policy.
    play = f"play={config.evaluation.play}"
    if config.evaluation.play == "sample":
        play += f",temperature={config.evaluation.temperature:g}"
    specs = {_AGENT: f"ppo:{run_folder},{play}", **{name: name for name in _BASELINES}}
    players = {name: make_player(spec) for name, spec in specs.items()}
    deals = suite(options.suite)[: options.limit]
    print(f"evaluating on {len(deals):,} held-out deals of {options.suite}", flush=True)
    results = run_benchmark(players, deals, options.suite, seeds=[config.seed], progress=True)
    benchmark_folder = out / "benchmark"
    limit = f" --limit {options.limit}" if options.limit else ""
    command = (
        f"python -m agents.benchmark {shlex.quote(specs[_AGENT])} {' '.join(_BASELINES)}"
        f" --suite {options.suite}{limit} --seeds {config.seed}"
    )
    write_results(benchmark_folder, results, command)

    agent_rows = results.frame[results.frame["player"] == _AGENT]
    best = agent_rows.sort_values(["score", "index"], ascending=[False, True]).iloc[0]
    playthrough = watch(players[_AGENT], int(best["deal"]), config.seed)
    playthrough_path = out / "playthrough.json"
    playthrough.write(playthrough_path)
    page = out / "playthrough.html"
    export(playthrough, page, titles=(playthrough_path.name, ""))
    report = write_report(
        out,
        Report(
            title=f"PPO after {run.learner.steps:,} steps",
            results=results,
            agent=_AGENT,
            baselines=_BASELINES,
            curve=run.evaluations,
            config=config.to_dict(),
            playthrough_path=playthrough_path,
            commands=[_train_command(options), command],
            notes=[
                f"The playthrough is the agent's best game of these: deal {best['code']}, score"
                f" {best['score']}. The mean is what to expect of it.",
            ],
        ),
    )
    print()
    print((benchmark_folder / "table.md").read_text())
    print(f"done in {time.monotonic() - started:.0f} s")
    print(f"report:       {report}")
    print(f"playthrough:  {playthrough_path}")
    print(f"look at it:   {page} in a browser, or in the terminal:")
    print(f"              .venv/bin/python -m qv_env show {shlex.quote(str(playthrough_path))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
