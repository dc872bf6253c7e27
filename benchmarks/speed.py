"""Measure the speed of everything: ``python -m benchmarks.speed [--out FILE.json] [--quick]``.

The program prints a table of all figures with ratios and targets, which docs/speed.md explains.
``--markdown docs/speed.md`` also writes the table to that page, and ``--from FILE.json`` uses the
figures of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# As in the Makefile: waiting torch threads sleep. The variable is read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks.measure import FULL, QUICK, Result, Sizes
from qv_env import command_line
from qv_env.command_line import Parser
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.files import write_json, write_text

BEGIN = "<!-- speed: begin -->"
END = "<!-- speed: end -->"


def _batch(sizes: Sizes) -> Result:
    from benchmarks.batch import measure_batch

    return measure_batch(sizes)


def _threads(sizes: Sizes) -> Result:
    from benchmarks.batch import measure_threads

    return measure_threads(sizes)


def _single(sizes: Sizes) -> Result:
    from benchmarks.faces import measure_single

    return measure_single(sizes)


def _sb3(sizes: Sizes) -> Result:
    from benchmarks.faces import measure_sb3

    return measure_sb3(sizes)


def _training(sizes: Sizes) -> Result:
    from benchmarks.training import measure_training

    return measure_training(sizes)


def _first_use(sizes: Sizes) -> Result:
    from benchmarks.fresh import measure_first_use

    return measure_first_use(sizes)


def _memory(sizes: Sizes) -> Result:
    from benchmarks.fresh import measure_memory

    return measure_memory(sizes)


def _peers(sizes: Sizes, python: str = sys.executable) -> Result:
    from benchmarks.peers import measure_peers

    return measure_peers(sizes, python)


# In this order. Each imports its own dependencies, since most need no torch.
BENCHMARKS: dict[str, Callable[[Sizes], Result]] = {
    "batch": _batch,
    "threads": _threads,
    "single": _single,
    "sb3": _sb3,
    "training": _training,
    "first-use": _first_use,
    "memory": _memory,
    "peers": _peers,
}


def machine() -> dict[str, Any]:
    """Return a description of the machine."""
    cpu = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    except OSError:  # not Linux
        pass
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform()}


def measure(
    names: Sequence[str], sizes: Sizes, benchmarks: dict[str, Callable[[Sizes], Result]]
) -> dict[str, Any]:
    """Run benchmarks and return the report of all of them, as JSON values.

    A benchmark that fails does not stop the others: the report has its error instead.
    """
    commit, dirty = git_state()
    report: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M %z"),
        "machine": machine(),
        "packages": package_versions(),
        "git_commit": commit,
        "git_dirty": dirty,
        "sizes": vars(sizes) | {"training": list(sizes.training)},
        "results": {},
    }
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        begin = time.monotonic()
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        try:
            result = benchmarks[name](sizes)
            found: dict[str, Any] = {
                "rows": [row.to_dict() for row in result.rows],
                "details": result.details,
            }
        except Exception as error:
            found = {"rows": [], "error": f"{type(error).__name__}: {error}"}
            print(f"{name} failed: {found['error']}", file=sys.stderr)
        found |= {"seconds": round(time.monotonic() - begin, 1), "load_before": load}
        report["results"][name] = found
    return report


# ------------------------------------------------------------------------------------ the table


def _number(value: float) -> str:
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _ratio(value: float) -> str:
    if 0 < value < 0.4:
        return f"{value:.3f} (1/{1 / value:.1f})"
    return f"{value:.2f}"


def table(report: dict[str, Any]) -> str:
    """Return a report as a Markdown table, with a line about its date, machine and versions."""
    lines = ["| | what | measured | ratio | target | met |", "|---|---|---|---|---|---|"]
    for name, found in report["results"].items():
        title = name
        for row in found["rows"]:
            value = row["value"]
            measured = value if isinstance(value, str) else f"{_number(value)} {row['unit']}"
            shown = row["ratio"] is not None and row["ratio_of"]
            ratio = f"{_ratio(row['ratio'])} {row['ratio_of']}" if shown else ""
            target = row["target"]["text"] if row["target"] else ""
            met = "" if row["met"] is None else "yes" if row["met"] else "**no**"
            lines.append(f"| {title} | {row['what']} | {measured} | {ratio} | {target} | {met} |")
            title = ""
        if "error" in found:
            error = " ".join(found["error"].replace("|", "\\|").split())
            lines.append(f"| {title} | failed: {error} | | | | **no** |")
    versions = report["packages"]
    named = ("python", "numpy", "numba", "gymnasium", "torch", "stable-baselines3")
    made = [
        report["date"],
        f"{report['machine']['cpu']}, {report['machine']['cores']} cores",
        ", ".join(f"{name} {versions[name]}" for name in named if name in versions),
        f"commit {(report['git_commit'] or 'unknown')[:12]}"
        + (" with changes" if report["git_dirty"] else ""),
    ]
    loads = [found["load_before"] for found in report["results"].values()]
    known = [load for load in loads if load is not None]
    if known:
        made.append(f"load average {min(known):.1f} to {max(known):.1f}")
    return "\n".join([*lines, "", "; ".join(made) + "."]) + "\n"


def put_into(page: Path, text: str) -> None:
    """Replace the text between the two marker comments of a Markdown page.

    Raises:
        ValueError: The page has no such markers.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no {BEGIN} ... {END}")
    write_text(page, f"{before}{BEGIN}\n{text}{END}{after}")


def _earlier(path: Path) -> dict[str, Any]:
    """Read the figures that an earlier ``--out`` wrote."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        table(report)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} holds no figures: {error!r}") from None
    return report


def _parser() -> Parser:
    parser = Parser("python -m benchmarks.speed", (__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=command_line.path, metavar="FILE.json",
                        help="write all figures as JSON")  # fmt: skip
    parser.add_argument("--markdown", type=command_line.path, metavar="FILE.md",
                        help="put the table between the page's markers")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {','.join(BENCHMARKS)}")
    parser.add_argument("--from", type=command_line.path, metavar="FILE.json", dest="source",
                        help="measure nothing; show the figures of an earlier --out")  # fmt: skip
    parser.add_argument("--peers-python", default=sys.executable, metavar="PATH",
                        help="an interpreter that has the peers installed")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        Its exit status: 0, 1 if a benchmark failed (not if a target was missed), or that of
        ``qv_env.command_line.run``.
    """
    return command_line.run(_parser(), _speed, arguments)


def _speed(options: argparse.Namespace) -> int:
    names = options.only.split(",") if options.only else list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            raise ValueError(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    for path in (options.out, options.markdown):
        if path is not None:
            command_line.check_file(path)
    if options.source is not None:
        report = _earlier(options.source)
    else:
        benchmarks = BENCHMARKS | {"peers": partial(_peers, python=options.peers_python)}
        report = measure(names, QUICK if options.quick else FULL, benchmarks)
        report["command"] = options.typed
    if options.out is not None:
        write_json(options.out, report)
    text = table(report)
    print(text)
    if options.markdown is not None:
        put_into(options.markdown, text)
    return 1 if any("error" in found for found in report["results"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
