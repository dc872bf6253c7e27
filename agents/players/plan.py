"""The plan player: a search over what is in sight, from one draw to the next."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from agents.search.settings import DEFAULTS, PlanSettings, load_settings
from agents.search.stage import FEATURES, MAX_LINE, Effort, Memory, best_line
from qv_env.actions import DRAW
from qv_env.evaluation.players.base import Player
from qv_env.observation import visible_states
from qv_env.rules import is_won


class PlanPlayer(Player):
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
        super().__init__()
        self.env_kwargs = {"observation": "cards", "memory": True}
        self._plan = load_settings() if settings is None else settings
        effort = self._plan.effort
        weights = zip(FEATURES, self._plan.weights.round(4).tolist(), strict=True)
        self.settings = {**asdict(effort), "weights": dict(weights)}
        self._memory = Memory(effort.width, effort.depth)
        self._end_memory: Memory | None = None  # larger, and not every game gets there
        self._line = np.zeros(MAX_LINE, dtype=np.uint8)
        self._queues: list[list[int]] = []

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
        settings = load_settings(path or DEFAULTS)
        effort = asdict(settings.effort)
        for key, text in options.items():
            if key not in effort:
                raise ValueError(f"plan has no setting {key!r}; there are {', '.join(effort)}")
            if not (text.isascii() and text.isdigit()):
                raise ValueError(f"plan's {key} is an integer, not {text!r}")
            effort[key] = int(text)
        return cls(PlanSettings(settings.weights, Effort(**effort)))

    def prepare(self, num_seats: int) -> None:
        """Get ready for games at seats 0..num_seats - 1."""
        self._queues = [[] for _ in range(num_seats)]
        self._ended = np.zeros(num_seats, dtype=np.bool_)

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat; ``rng`` is not used."""
        self._queues[seat] = []
        self._ended[seat] = False

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        idle = [k for k, seat in enumerate(seats) if not self._queues[seat]]
        idle = [k for k in idle if not self._ended[seats[k]]]
        if idle:
            states = visible_states({key: array[idle] for key, array in observation.items()})
            for k, i in zip(idle, range(len(idle)), strict=True):
                self._think(int(seats[k]), states[i : i + 1])
        # Where nothing is left to plan, the smallest id: take-backs, which cost points, are last.
        actions = np.argmax(mask, axis=1)
        for k, seat in enumerate(seats):
            if self._queues[seat]:
                actions[k] = self._queues[seat].pop()
        return actions

    def _think(self, seat: int, root: np.ndarray) -> None:
        effort = self._plan.effort
        has_stock = bool(root[0]["stock_size"] > 0)
        width, depth, memory = effort.width, effort.depth, self._memory
        if not has_stock:
            width, depth = effort.end_width, effort.end_depth
            if self._end_memory is None:
                self._end_memory = Memory(width, depth)
            memory = self._end_memory
            self._ended[seat] = True
        length = best_line(
            root,
            width,
            depth,
            self._plan.weights,
            memory.states,
            memory.values,
            memory.parents,
            memory.actions,
            memory.seen,
            effort.ahead,
            effort.ahead_width,
            effort.ahead_depth,
            self._line,
        )
        line = self._line[:length].tolist()
        if has_stock and not is_won(root[0]):
            line.append(DRAW)
        self._queues[seat] = line[::-1]
