"""The common base of the players that plan from one draw to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.search.planner import Planner
from qv_env.evaluation.players.base import Player


class PlanningPlayer(Player):
    """A player whose actions a planner chooses.

    Args:
        planner: The planner.
        settings: The player's settings, for reports.
    """

    def __init__(self, planner: Planner, settings: dict[str, Any]) -> None:
        super().__init__()
        self.env_kwargs = {"observation": "cards", "memory": True}
        self.settings = settings
        self._planner = planner

    def prepare(self, num_seats: int) -> None:
        """Prepare for games at seats 0..num_seats - 1."""
        self._planner.prepare(num_seats)

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat, with ``rng`` as its source of randomness."""
        self._planner.start(seat, rng)

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        return self._planner.act(seats, observation, mask)
