"""The sample player: the plan player's best positions, evaluated by play-outs on sampled stocks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agents.players.planning import PlanningPlayer
from agents.search import settings as plan
from agents.search.planner import Planner
from agents.search.rollouts import RolloutChooser, Rollouts
from agents.search.settings import PlanSettings
from qv_env.schema import Strict, checked
from qv_env.strict_json import FormatError
from qv_env.strict_yaml import read_yaml

DEFAULTS = plan.DEFAULTS.with_name("sample.yaml")


@dataclass(frozen=True, eq=False)
class SampleSettings:
    """The player's settings.

    Attributes:
        plan: The plan player's settings, for finding candidates and for the weights in play-outs.
        rollouts: The number and effort of play-outs, and how their results are used.
    """

    plan: PlanSettings
    rollouts: Rollouts


def load_settings(path: str | Path = DEFAULTS) -> SampleSettings:
    """Read a settings file: YAML with the optional keys ``plan`` and ``rollouts``.

    ``plan`` is the path of the plan player's settings file, relative to the folder of this file
    (default: ``configs/search/plan.yaml``); ``rollouts`` gives values by name.

    Raises:
        ValueError: The file is not valid; the message names it and says what is wrong.
        OSError: This file, or the plan player's, cannot be read.
    """
    path = Path(path)
    said = checked(_File, read_yaml(path), str(path))
    file = plan.DEFAULTS if said.plan is None else path.parent / said.plan
    try:
        return SampleSettings(plan.load_settings(file), said.rollouts or Rollouts())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


class _File(Strict):
    """A settings file."""

    plan: str | None = None
    rollouts: Rollouts | None = None


class SamplePlayer(PlanningPlayer):
    """Evaluates the plan player's choice and its alternatives by play-outs on sampled stocks.

    Before each draw, the plan player's search finds the best reachable positions. From each, games
    are played to the end on the same sampled stocks, by the plan player with a small beam, which
    sees a card of a stock only when it is drawn. The player moves to another position than the plan
    player's choice if that is better by more than chance and the plan player's lower estimate of
    it would explain (``agents.search.rollouts``). When the stock is empty, it plays as the plan
    player does.

    It knows what an attentive player knows: the whole waste, and which cards are unseen, but not
    their order. Its randomness, the sampled stocks, comes from the seat's generator.

    Args:
        settings: The player's settings; None: those of ``configs/search/sample.yaml``.
    """

    name = "sample"
    batch = 1  # a game takes seconds

    def __init__(self, settings: SampleSettings | None = None) -> None:
        settings = load_settings() if settings is None else settings
        thoughts, rollouts = settings.plan, settings.rollouts
        planner = Planner(
            thoughts.effort.searches(thoughts.weights),
            RolloutChooser(rollouts, thoughts.weights),
            rollouts.candidates,
        )
        super().__init__(planner, {**asdict(rollouts), "plan": thoughts.report()})

    @classmethod
    def load(cls, path: str | None = None, **options: str) -> SamplePlayer:
        """Return the player that ``sample``, ``sample:PATH`` and ``key=value`` describe.

        Args:
            path: A settings file; None or empty: ``configs/search/sample.yaml``.
            options: Numbers of ``Rollouts`` that replace the file's, as text.

        Raises:
            ValueError: The file or an option is not valid.
            OSError: The file cannot be read.
        """
        settings = load_settings(path or DEFAULTS)
        rollouts = plan.changed_numbers(settings.rollouts, options, "sample")
        return cls(replace(settings, rollouts=rollouts))
