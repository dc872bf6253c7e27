"""A benchmark's files: rows, figures, table and plot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from qv_env.evaluation.benchmark import _FORMAT, _VERSION, PLOT, TABLE, _now, check_folder
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.reports.plots import score_plot
from qv_env.evaluation.reports.tables import deals_text, markdown_table, markdown_text, seeds_text
from qv_env.evaluation.results import RESULTS, SUMMARY, write_rows
from qv_env.evaluation.stats import CONFIDENCE, RESAMPLES
from qv_env.evaluation.summary import PlayerSummary, deal_values, summarize
from qv_env.files import write_bytes, write_json, write_text

# --------------------------------------------------------------------------------------- files


def write_results(
    folder: Path, frame: pd.DataFrame, command: str = "", overwrite: bool = False
) -> dict[str, PlayerSummary]:
    """Write the rows of :func:`run_benchmark` and their figures, each file whole or not at all.

    Args:
        folder: Where to; made where it is missing.
        frame: The rows.
        command: The command line that made them.
        overwrite: Whether results that the folder has are replaced.

    Returns:
        The figures, as ``qv_env.evaluation.summary.summarize`` returns them.

    Raises:
        FileExistsError: The folder has results already.
        OSError: It cannot be written to.
    """
    check_folder(folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SUMMARY).unlink(missing_ok=True)  # it vouches for the others until they change
    rows = frame.to_dict("records")
    write_rows(folder / RESULTS, ({str(key): row[key] for key in row} for row in rows))
    return write_figures(folder, frame, command)


def write_figures(folder: Path, frame: pd.DataFrame, command: str) -> dict[str, PlayerSummary]:
    """Write ``plot.png``, ``table.md`` and, last, ``summary.json``; see :func:`write_results`."""
    summaries = summarize(frame)
    caption = f"{deals_text(frame)}, {seeds_text(frame)}"
    scores = {name: deal_values(frame, name, "score") for name in summaries}
    means = {name: summary.mean_score for name, summary in summaries.items()}
    write_bytes(folder / PLOT, score_plot(scores, means, title=f"Scores on {caption}"))
    text = f"Results on {markdown_text(caption)}:\n\n{markdown_table(summaries)}"
    if command:
        text += f"\nMade by `{command}`.\n"
    write_text(folder / TABLE, text)
    commit, dirty = git_state()
    write_json(
        folder / SUMMARY,
        {
            "format": _FORMAT,
            "version": _VERSION,
            "suite": str(frame["suite"].iloc[0]),
            "deals": int(frame["index"].max()) + 1,
            "seeds": [int(seed) for seed in dict.fromkeys(frame["seed"])],
            "confidence": CONFIDENCE,
            "bootstrap_resamples": RESAMPLES,
            "players": [asdict(summary) for summary in summaries.values()],
            "command": command,
            "date": _now(),
            "git_commit": commit,
            "git_dirty": dirty,
            "versions": package_versions(),
        },
    )
    return summaries
