"""The provenance of results: the state of the source, the versions of packages, the machine."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

# Packages that can change results; those not installed are left out.
_PACKAGES = (
    "qv-env",
    "gymnasium",
    "numpy",
    "numba",
    "scipy",
    "pandas",
    "torch",
    "stable-baselines3",
    "sb3-contrib",
    "matplotlib",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, by name."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def git_state(root: Path = _ROOT) -> tuple[str | None, bool | None]:
    """Return a checkout's commit, and whether it has modified or untracked files.

    Args:
        root: The checkout's top folder; this project's own by default.

    Returns:
        The commit's 40 hexadecimal digits, and whether files differ; ``(None, None)`` if the folder
        is not a checkout, has no commit yet, or git is missing.
    """
    if not (root / ".git").exists():  # an export may be inside another project's checkout
        return None, None
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        return commit, bool(_git(root, "status", "--porcelain").strip())
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
