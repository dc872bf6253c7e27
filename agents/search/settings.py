"""The plan player's settings: weights and effort, as YAML files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agents.search.features import FEATURES, NUM_FEATURES
from agents.search.stage import Effort

DEFAULTS = Path(__file__).resolve().parents[2] / "configs" / "search" / "plan.yaml"


@dataclass(frozen=True, eq=False)
class PlanSettings:
    """How the player plays.

    Attributes:
        weights: float64 (NUM_FEATURES,), in the order of ``agents.search.features.FEATURES``.
        effort: How far it looks.
    """

    weights: np.ndarray
    effort: Effort

    def changed(self, options: Mapping[str, str]) -> PlanSettings:
        """Return settings with some numbers of ``effort`` replaced.

        Args:
            options: The numbers, by name, as text.

        Raises:
            ValueError: There is no such number, or it is none that can be.
        """
        effort = asdict(self.effort)
        for key, text in options.items():
            if key not in effort:
                raise ValueError(f"plan has no setting {key!r}; there are {', '.join(effort)}")
            if not (text.isascii() and text.isdigit()):
                raise ValueError(f"plan's {key} is an integer, not {text!r}")
            effort[key] = int(text)
        return PlanSettings(self.weights, Effort(**effort))

    def report(self) -> dict[str, Any]:
        """Return the settings as result rows have them: numbers by name."""
        weights = zip(FEATURES, self.weights.round(4).tolist(), strict=True)
        return {**asdict(self.effort), "weights": dict(weights)}


def load_settings(path: str | Path = DEFAULTS) -> PlanSettings:
    """Read a settings file: YAML, ``weights`` and ``effort`` by name; what is missing is 0.

    Raises:
        ValueError: It is no such file; the message names it and says what is wrong.
        OSError: It cannot be read.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not set(content) <= {"weights", "effort"}:
            raise ValueError("settings have the keys weights and effort")
        weights = np.zeros(NUM_FEATURES)
        for name, weight in _mapping(content, "weights").items():
            if name not in FEATURES:
                raise ValueError(f"no feature {name!r}; there are {', '.join(FEATURES)}")
            if isinstance(weight, bool) or not isinstance(weight, (int, float)):
                raise ValueError(f"the weight of {name} is a number, not {weight!r}")
            weights[FEATURES.index(name)] = weight
        if not np.isfinite(weights).all():
            raise ValueError("weights are finite")
        names = [field.name for field in fields(Effort)]
        effort = _mapping(content, "effort")
        for name, value in effort.items():
            if name not in names:
                raise ValueError(f"effort has no {name!r}; it has {', '.join(names)}")
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is an integer, not {value!r}")
        return PlanSettings(weights, Effort(**effort))
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from None


def _mapping(content: dict[str, Any], key: str) -> dict[str, Any]:
    mapping = content.get(key) or {}
    if not isinstance(mapping, dict):
        raise ValueError(f"{key} are given by name, not as {mapping!r}")
    return mapping


def settings_text(
    weights: np.ndarray, effort: Effort | None = None, notes: Sequence[str] = ()
) -> str:
    """Return the settings file's content that ``load_settings`` reads back.

    Args:
        weights: float64 (NUM_FEATURES,), written with four digits after the point.
        effort: How far the player looks; left out where None.
        notes: Lines of comment above it.
    """
    lines = [f"# {note}" for note in notes]
    lines.append("weights:")
    lines += [f"  {name}: {weight:.4f}" for name, weight in zip(FEATURES, weights, strict=True)]
    if effort is not None:
        lines.append("effort:")
        lines += [f"  {name}: {value}" for name, value in asdict(effort).items()]
    return "\n".join(lines) + "\n"
