"""A benchmark's files: rows, figures, table and plot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.reports.plots import score_plot
from qv_env.evaluation.reports.tables import deals_text, markdown_table, markdown_text, seeds_text
from qv_env.evaluation.results import RESULTS, SUMMARY, Results, write_rows
from qv_env.evaluation.schedule import FORMAT, PLOT, TABLE, VERSION, check_folder, now
from qv_env.evaluation.stats import CONFIDENCE, RESAMPLES
from qv_env.evaluation.summary import PlayerSummary, deal_values, summarize
from qv_env.files import write_bytes, write_json, write_text


def write_results(
    folder: Path, results: Results, command: str = "", overwrite: bool = False
) -> dict[str, PlayerSummary]:
    """Write a benchmark's rows and their figures, each file whole or not at all.

    Args:
        folder: The folder; created if it is missing.
        results: The rows.
        command: The command line that produced them.
        overwrite: Whether existing results in the folder are replaced.

    Returns:
        The figures, as ``qv_env.evaluation.summary.summarize`` returns them.

    Raises:
        FileExistsError: The folder has results already.
        OSError: It cannot be written to.
    """
    check_folder(folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SUMMARY).unlink(missing_ok=True)  # its presence marks the other files as complete
    rows = results.frame.to_dict("records")
    write_rows(folder / RESULTS, ({str(key): row[key] for key in row} for row in rows))
    return write_figures(folder, results, command)


def write_figures(folder: Path, results: Results, command: str) -> dict[str, PlayerSummary]:
    """Write ``plot.png``, ``table.md`` and, last, ``summary.json``; see :func:`write_results`."""
    frame, summaries = results.frame, summarize(results)
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
            "format": FORMAT,
            "version": VERSION,
            "suite": results.suite,
            "deals": int(frame["index"].max()) + 1,
            "seeds": [int(seed) for seed in dict.fromkeys(frame["seed"])],
            "confidence": CONFIDENCE,
            "bootstrap_resamples": RESAMPLES,
            "players": [asdict(summary) for summary in summaries.values()],
            "command": command,
            "date": now(),
            "git_commit": commit,
            "git_dirty": dirty,
            "versions": package_versions(),
        },
    )
    return summaries
