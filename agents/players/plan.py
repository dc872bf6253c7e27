"""The plan player: a search over the visible moves, from one draw to the next."""

from __future__ import annotations

from agents.players.planning import PlanningPlayer
from agents.search.planner import Planner
from agents.search.settings import DEFAULTS, PlanSettings, load_settings


class PlanPlayer(PlanningPlayer):
    """Plans from one draw to the next: moves to the best reachable position, then draws.

    The positions reachable without a draw are searched with a beam, in which safe cards go up at
    once (``agents.search``). The player moves to the best one by a weighted sum of features, which
    may be the present position. When the stock is empty, the search is deeper; if it finds no win,
    the player moves to the position with the highest score. A waste card that goes to a foundation
    is first moved to a column that accepts it, if there is one, for 5 points more.

    It knows what an attentive player knows: the whole waste, and which cards are unseen, but not
    their order. It never takes cards back from foundations, and uses no randomness.

    Args:
        settings: The player's settings; None: those of ``configs/search/plan.yaml``.
    """

    name = "plan"
    batch = 4

    def __init__(self, settings: PlanSettings | None = None) -> None:
        settings = load_settings() if settings is None else settings
        planner = Planner(settings.effort.searches(settings.weights))
        super().__init__(planner, settings.report())

    @classmethod
    def load(cls, path: str | None = None, **options: str) -> PlanPlayer:
        """Return the player that ``plan``, ``plan:PATH`` and ``key=value`` describe.

        Args:
            path: A settings file; None or empty: ``configs/search/plan.yaml``.
            options: Numbers of ``Effort`` that replace the file's, as text.

        Raises:
            ValueError: The file or an option is not valid.
            OSError: The file cannot be read.
        """
        return cls(load_settings(path or DEFAULTS).changed(options))
