"""The random player: all legal actions are equally likely."""

from __future__ import annotations

from typing import Any

import numpy as np

from qv_env.evaluation.players.base import Player, Uniforms, sample_rows


class RandomPlayer(Player):
    """Plays a uniformly random legal action."""

    name = "random"
    batch = 256

    def prepare(self, num_seats: int) -> None:
        """Prepare for games at seats 0..num_seats - 1."""
        self._uniforms = Uniforms(num_seats)

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat."""
        self._uniforms.start(seat, rng)

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        return sample_rows(mask, self._uniforms.draw(seats))
