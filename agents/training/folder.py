"""The folder of a run: its file names, how it is created, and checks before a run starts in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.training.config import RunError, SeededConfig
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.files import write_json, write_text
from qv_env.folders import is_unused, sweep, taken
from qv_env.strict_json import FormatError, shown, shown_key
from qv_env.strict_yaml import read_yaml, yaml_text

CONFIG_FILE = "config.yaml"  # identifies the folder of a run; written first
VERSIONS_FILE = "versions.json"
RESULTS_FILE = "results.json"  # written last: marks a finished run
IMITATION_FILE = "imitation.jsonl"
VALUE_FILE = "value.jsonl"

# Subfolders.
CHECKPOINTS = "checkpoints"
PLAYTHROUGHS = "playthroughs"
TENSORBOARD = "tensorboard"


def seed_folders(configs: Sequence[SeededConfig], out: Path | None) -> list[Path]:
    """Return the folder of each run, ``seed-N`` in ``out``.

    Args:
        configs: The runs, with the same name and different seeds.
        out: The folder of the runs; None: ``runs/NAME``.
    """
    out = out or Path("runs") / configs[0].name
    return [out / f"seed-{config.seed}" for config in configs]


def check_unused(folder: Path, what_to_do: str) -> None:
    """Check that a folder in which a run is to start contains no files.

    Args:
        folder: The folder, which may be missing.
        what_to_do: Advice, the end of the error message.

    Raises:
        RunError: There are files in the folder or its subfolders.
    """
    if not is_unused(folder):
        raise RunError(f"{folder} holds files already; {what_to_do}")


def check_new(folder: Path, config: Mapping[str, Any]) -> None:
    """Check that a run which cannot be resumed may start in a folder; remove temporary files.

    It may start if the folder is unused, or contains only the config and the versions of the same
    run. Temporary files that a killed process left behind are removed in any case, because a
    folder that is refused here is not opened again by a run, which would remove them.

    Args:
        folder: The folder, which may be missing.
        config: The run's config, as plain dicts.

    Raises:
        RunError: The folder contains other files.
    """
    sweep(folder)
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    begun = CONFIG_FILE in names and names <= {CONFIG_FILE, VERSIONS_FILE}
    if not begun or differing_key(folder, config) is not None:
        check_unused(folder, "--out names another")


@contextmanager
def new_run(folder: Path, config: Mapping[str, Any]) -> Iterator[None]:
    """Lock a folder for a run that cannot be resumed, and write the run's config and versions.

    Args:
        folder: The folder; created if missing.
        config: The run's config, as plain dicts.

    Raises:
        RunError: The folder contains other files; see :func:`check_new`.
        InUseError: Another run is using the folder.
    """
    with taken(folder):
        check_new(folder, config)
        begin(folder, config)
        yield


def begin(folder: Path, config: Mapping[str, Any]) -> None:
    """Start the folder of a run: write its config, then its versions.

    The folder is created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CONFIG_FILE, yaml_text(dict(config)))
    write_versions(folder)


def write_versions(folder: Path) -> None:
    """Write the versions of the packages and the Git commit that a run, or its rest, uses."""
    commit, dirty = git_state()
    write_json(
        folder / VERSIONS_FILE,
        {"git_commit": commit, "git_dirty": dirty, "packages": package_versions()},
    )


def differing_key(folder: Path, config: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the first key in which the config in a folder differs from a given one.

    Args:
        folder: The run's folder.
        config: The given config, as plain dicts.

    Returns:
        The key, its value in the folder's config, and its value in the given one; None if the
        configs are equal.

    Raises:
        RunError: The folder's config file is not valid.
        OSError: The file cannot be read.
    """
    path = folder / CONFIG_FILE
    try:
        before = read_yaml(path)
    except FormatError as error:
        raise RunError(str(error)) from None
    if not isinstance(before, dict):
        raise RunError(f"{path} is no config of a run")
    for key in sorted({*before, *config}):
        if before.get(key) != config.get(key):
            return key, before.get(key), config.get(key)
    return None


def check_same_run(folder: Path, config: Mapping[str, Any]) -> None:
    """Check that a folder contains a run with the given config.

    Raises:
        RunError: It contains no run, or one with another config; the message names the key that
            differs.
        OSError: The folder's config cannot be read.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise RunError(f"{folder} holds no run to resume: there is no {CONFIG_FILE}")
    difference = differing_key(folder, config)
    if difference is not None:
        key, before, now = difference
        raise RunError(
            f"{path} says {shown_key(key)}: {shown(before)}, this run {shown(now)};"
            " a run resumes with the config it began with"
        )
