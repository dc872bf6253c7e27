"""What was played at the table, and what can be undone of it."""

from __future__ import annotations

from collections import deque

import numpy as np

from qv_env.play.gestures import landing
from qv_env.rules import Game, play

UNDO_LIMIT = 100  # actions that can be undone in a row


class History:
    """The actions that led to how a game stands, and the states to go back to.

    Args:
        states: The game as it is dealt: ``qv_env.rules.STATE`` (1,).

    Attributes:
        states: The game as it stands.
        actions: The actions that led here, 0..191; what was undone is not among them.
        landings: For each of them, the name of the pile that its card went to.
    """

    def __init__(self, states: np.ndarray) -> None:
        self.states = states
        self.actions: list[int] = []
        self.landings: list[str] = []
        self._before: deque[np.ndarray] = deque(maxlen=UNDO_LIMIT)

    @property
    def game(self) -> Game:
        """The game as it stands: a record of ``qv_env.rules.STATE``."""
        return self.states[0]

    @property
    def score(self) -> int:
        """The score."""
        return int(self.game["score"])

    @property
    def undoable(self) -> int:
        """How many actions can be undone, 0..100."""
        return len(self._before)

    def play(self, action: int) -> int:
        """Play a legal action; return its points."""
        self._before.append(self.states.copy())
        self.landings.append(landing(self.game, action))
        self.actions.append(action)
        return int(play(self.game, action))

    def undo(self) -> tuple[int, int]:
        """Take back the last action, which can be undone; return it and the points given back."""
        score = self.score
        self.states = self._before.pop()
        self.landings.pop()
        return self.actions.pop(), self.score - score

    def shorten(self, undoable: int) -> None:
        """Let no more than so many actions be undone."""
        while len(self._before) > undoable:
            self._before.popleft()
