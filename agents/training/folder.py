"""The folder of a run: what its files are called, what makes it one, who may begin there."""

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

CONFIG_FILE = "config.yaml"  # makes a folder a run's, and is written first
VERSIONS_FILE = "versions.json"
RESULTS_FILE = "results.json"  # written last: the run is finished
IMITATION_FILE = "imitation.jsonl"
VALUE_FILE = "value.jsonl"

# Folders in it.
CHECKPOINTS = "checkpoints"
PLAYTHROUGHS = "playthroughs"
TENSORBOARD = "tensorboard"


def seed_folders(configs: Sequence[SeededConfig], out: Path | None) -> list[Path]:
    """Return the folder of each run, ``seed-N`` in ``out``, or in ``runs/NAME`` where it is None.

    Args:
        configs: The runs, of one name and different seeds.
        out: The folder of the runs.
    """
    out = out or Path("runs") / configs[0].name
    return [out / f"seed-{config.seed}" for config in configs]


def check_unused(folder: Path, what_to_do: str) -> None:
    """See that nothing lies in a folder in which a run is to begin.

    Args:
        folder: The folder, which may be missing.
        what_to_do: The end of the message.

    Raises:
        RunError: There are files in it, or below it.
    """
    if not is_unused(folder):
        raise RunError(f"{folder} holds files already; {what_to_do}")


def check_new(folder: Path, config: Mapping[str, Any]) -> None:
    """See that a run which cannot be resumed may begin in a folder, and sweep it.

    It may where the folder is unused, or holds the same run as far as it comes without having
    learnt anything: its config and its versions. Where it may not, nobody holds the folder again,
    so that what a kill left there is swept now.

    Args:
        folder: The folder, which may be missing.
        config: The run's config, as plain dicts.

    Raises:
        RunError: Something else lies there.
    """
    sweep(folder)
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    begun = CONFIG_FILE in names and names <= {CONFIG_FILE, VERSIONS_FILE}
    if not begun or differing_key(folder, config) is not None:
        check_unused(folder, "--out names another")


@contextmanager
def new_run(folder: Path, config: Mapping[str, Any]) -> Iterator[None]:
    """Take a folder for a run that cannot be resumed, and write what makes it a run's.

    Args:
        folder: The folder; made where it is missing.
        config: The run's config, as plain dicts.

    Raises:
        RunError: The folder holds something else; see :func:`check_new`.
        InUseError: Another run works in the folder.
    """
    with taken(folder):
        check_new(folder, config)
        begin(folder, config)
        yield


def begin(folder: Path, config: Mapping[str, Any]) -> None:
    """Make a folder a run's: write its config, and then what it is made with.

    The folder is made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CONFIG_FILE, yaml_text(dict(config)))
    write_versions(folder)


def write_versions(folder: Path) -> None:
    """Write what a run, or the rest of one, is made with: packages and the sources' commit."""
    commit, dirty = git_state()
    write_json(
        folder / VERSIONS_FILE,
        {"git_commit": commit, "git_dirty": dirty, "packages": package_versions()},
    )


def differing_key(folder: Path, config: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the first key in which a run's config is another than this one.

    Args:
        folder: The run's folder.
        config: This config, as plain dicts.

    Returns:
        The key, its value in the folder's config, and its value in this one; None where all are
        the same.

    Raises:
        RunError: What lies in the folder is no config.
        OSError: It cannot be read.
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
    """See that a folder holds a run of this config.

    Raises:
        RunError: It holds none, or one of another config; the message says which key differs.
        OSError: Its config cannot be read.
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
