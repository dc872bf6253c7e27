"""The plan player's settings: weights and effort, as YAML files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Field, create_model

from agents.search.features import FEATURES, NUM_FEATURES
from agents.search.stage import Effort
from qv_env.evaluation.players.names import setting_value
from qv_env.schema import Strict, checked
from qv_env.strict_yaml import read_yaml

T = TypeVar("T")

DEFAULTS = Path(__file__).resolve().parents[2] / "configs" / "search" / "plan.yaml"


@dataclass(frozen=True, eq=False)
class PlanSettings:
    """The settings of the plan player.

    Attributes:
        weights: float64 (NUM_FEATURES,), in the order of ``agents.search.features.FEATURES``.
        effort: The search limits.
    """

    weights: np.ndarray
    effort: Effort

    def changed(self, options: Mapping[str, str]) -> PlanSettings:
        """Return settings with some numbers of ``effort`` replaced.

        Args:
            options: The numbers, by name, as text.

        Raises:
            ValueError: There is no such number, or its value is not valid.
        """
        return PlanSettings(self.weights, changed_numbers(self.effort, options, "plan"))

    def report(self) -> dict[str, Any]:
        """Return the settings in the form used in result rows: numbers by name."""
        weights = zip(FEATURES, self.weights.round(4).tolist(), strict=True)
        return {**asdict(self.effort), "weights": dict(weights)}


def load_settings(path: str | Path = DEFAULTS) -> PlanSettings:
    """Read a settings file: YAML with ``weights`` and ``effort``, both by name.

    Missing weights are 0; missing numbers of ``effort`` have their defaults.

    Raises:
        ValueError: The file is not valid; the message names it and describes the problem.
        OSError: The file cannot be read.
    """
    said = checked(_File, read_yaml(path), str(path))
    weights = np.zeros(NUM_FEATURES) if said.weights is None else said.weights.array()
    return PlanSettings(weights, said.effort or Effort())


class _Weights(Strict):
    """The weights of a settings file, by name."""

    def array(self) -> np.ndarray:
        """Return them: float64 (NUM_FEATURES,)."""
        return np.array([getattr(self, name) for name in FEATURES])


_Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
_named: dict[str, Any] = dict.fromkeys(FEATURES, (_Weight, 0.0))
_FeatureWeights = create_model("_FeatureWeights", __base__=_Weights, **_named)


class _File(Strict):
    """A settings file."""

    weights: _FeatureWeights | None = None  # type: ignore[valid-type]
    effort: Effort | None = None


def changed_numbers(numbers: T, options: Mapping[str, str], name: str) -> T:
    """Return a dataclass with some of its numbers replaced.

    Args:
        numbers: The dataclass.
        options: New numbers, by name, as text.
        name: The name used for the dataclass in messages.

    Raises:
        FormatError: There is no such number, or its value is not valid.
    """
    values = {key: setting_value(text) for key, text in options.items()}
    before: Any = numbers
    return checked(type(numbers), {**asdict(before), **values}, name)


def settings_text(
    weights: np.ndarray, effort: Effort | None = None, notes: Sequence[str] = ()
) -> str:
    """Return the content of a settings file that ``load_settings`` can read.

    Args:
        weights: float64 (NUM_FEATURES,), written with four decimals.
        effort: The search limits; omitted if None.
        notes: Comment lines at the top of the file.
    """
    lines = [f"# {note}" for note in notes]
    lines.append("weights:")
    lines += [f"  {name}: {weight:.4f}" for name, weight in zip(FEATURES, weights, strict=True)]
    if effort is not None:
        lines.append("effort:")
        lines += [f"  {name}: {value}" for name, value in asdict(effort).items()]
    return "\n".join(lines) + "\n"
