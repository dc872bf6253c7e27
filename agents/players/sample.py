"""The sample player: what the plan player thinks of, tried out on stocks that may be."""

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
    """How the player plays.

    Attributes:
        plan: How the plan player plays: where candidates come from, and play-outs' weights.
        rollouts: How much is played out, and what is made of it.
    """

    plan: PlanSettings
    rollouts: Rollouts


def load_settings(path: str | Path = DEFAULTS) -> SampleSettings:
    """Read a settings file: YAML with the keys ``plan`` and ``rollouts``; each may be left out.

    ``plan`` is the plan player's settings file, as seen from the folder of this one
    (``configs/search/plan.yaml`` where left out), ``rollouts`` gives values by name.

    Raises:
        ValueError: It is no such file; the message names it and says what is wrong.
        OSError: It, or the plan player's, cannot be read.
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
    """Tries out on sampled stocks what the plan player would do, and what else it might.

    Before each draw, the plan player's search gives the best few positions that can be reached.
    Each is played to the end on the same sampled stocks, by the plan player with a small beam,
    which sees no card of them before it draws it. Where another position than the plan player's
    choice comes out ahead, by more than luck and the plan player's doubts explain, it goes there
    (``agents.search.rollouts``). With the stock empty it does what the plan player does.

    It knows what an attentive player knows: the whole waste, and which cards are unseen, not their
    order. Randomness, the sampled stocks, comes from the seat's generator.

    Args:
        settings: How it plays; ``configs/search/sample.yaml`` where None.
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
            path: A settings file; ``configs/search/sample.yaml`` where None or empty.
            options: Numbers of ``Rollouts`` that replace the file's, as text.

        Raises:
            ValueError: The file or an option is not as it should be.
            OSError: The file cannot be read.
        """
        settings = load_settings(path or DEFAULTS)
        rollouts = plan.changed_numbers(settings.rollouts, options, "sample")
        return cls(replace(settings, rollouts=rollouts))
