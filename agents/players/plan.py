"""The plan player: a search over what is in sight, from one draw to the next."""

from __future__ import annotations

from agents.players.planning import PlanningPlayer
from agents.search.planner import Planner
from agents.search.settings import DEFAULTS, PlanSettings, load_settings


class PlanPlayer(PlanningPlayer):
    """Thinks from one draw to the next: does what leads to the best position, then draws.

    The positions that can be reached without a draw are searched with a beam, safe cards going up
    at once (``agents.search``); the best one by a weighted sum of features is where the player
    goes, which may be where it stands. With the stock empty it looks further, and without a win in
    sight goes where the score is highest. A waste card on its way to a foundation takes the way
    over a column that accepts it, for 5 points more.

    It knows what an attentive player knows: the whole waste, and which cards are unseen, not their
    order. No card comes back from a foundation. No randomness.

    Args:
        settings: How it plays; ``configs/search/plan.yaml`` where None.
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
            path: A settings file; ``configs/search/plan.yaml`` where None or empty.
            options: Numbers of ``Effort`` that replace the file's, as text.

        Raises:
            ValueError: The file or an option is not as it should be.
            OSError: The file cannot be read.
        """
        return cls(load_settings(path or DEFAULTS).changed(options))
