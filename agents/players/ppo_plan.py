"""The plan player, with a trained network's word on the positions that it chooses from."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from agents.networks.files import load_policy
from agents.networks.policy import TablePolicy
from agents.networks.table import observation_tensors
from agents.players.plan import PlanPlayer
from agents.search.rollouts import find_candidates
from agents.search.settings import PlanSettings
from agents.search.stage import MAX_LINE, Effort, Memory
from qv_env.actions import DRAW
from qv_env.observation import Encoding, encode, visible_states
from qv_env.rules import STATE, is_won

WEIGHT = 10.0  # what the network's value counts, in units of the plan player's values
CANDIDATES = 24


class PPOPlanPlayer(PlanPlayer):
    """Chooses among the plan player's best positions with the value that a network gives them.

    Before each draw, the plan player's search gives the best few positions that can be reached.
    It goes where the search's value, plus ``weight`` times the network's estimate of how the game
    will end, is highest. All positions of all seats are evaluated in one batch. With the stock
    empty it does what the plan player does. It knows what the plan player knows; no randomness.

    Args:
        policy: A policy of ``policy: table`` that sees cards with memory; its value is used.
        value_scale: What one point of score counts in the network's values, which are of what is
            still to come; 0: they are of the whole game, as ``agents.value`` trains them.
        settings: How the plan player plays; ``configs/search/plan.yaml`` where None. With
            ``ahead`` above 1, the search's values are those after the next draw.
        weight: What the network's value counts.
        candidates: How many positions are evaluated before a draw.

    Raises:
        ValueError: The policy is of another kind, or a number is one that cannot be.
    """

    name = "ppo+plan"
    batch = 32

    def __init__(
        self,
        policy: Any,
        value_scale: float,
        settings: PlanSettings | None = None,
        weight: float = WEIGHT,
        candidates: int = CANDIDATES,
    ) -> None:
        super().__init__(settings)
        self._encoding = Encoding("cards", memory=True, stock_visible=False)
        if not isinstance(policy, TablePolicy) or policy.observation_space != self._encoding.space:
            raise ValueError("ppo+plan needs a policy: table of env.memory: true")
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is a number, at least 0, not {weight!r}")
        if candidates < 1:
            raise ValueError(f"candidates is at least 1, not {candidates!r}")
        self._network = policy.network
        self._value_scale, self._weight = value_scale, weight
        effort = self._plan.effort
        self.settings |= {"weight": weight, "candidates": candidates}
        self._ahead_memory = Memory(effort.ahead_width, effort.ahead_depth)
        self._found = np.zeros(candidates, dtype=STATE)
        self._worth = np.zeros(candidates)
        self._lines = np.zeros((candidates, MAX_LINE), dtype=np.uint8)
        self._lengths = np.zeros(candidates, dtype=np.int64)

    @classmethod
    def load(cls, path: str | None = None, **options: str) -> PPOPlanPlayer:
        """Return the player that ``ppo+plan:PATH,key=value`` describes.

        Args:
            path: A policy file, or a run's folder.
            options: ``weight``, ``candidates``, and the numbers of ``agents.search.stage.Effort``.

        Raises:
            ValueError: The file or an option is not as it should be.
            OSError: The file cannot be read.
        """
        if not path:
            raise ValueError("ppo+plan names no policy: ppo+plan:PATH")
        names = ["weight", "candidates", *(field.name for field in fields(Effort))]
        for key in options:
            if key not in names:
                raise ValueError(f"ppo+plan has no setting {key!r}; there are {', '.join(names)}")
        try:
            weight = float(options.pop("weight", WEIGHT))
        except ValueError:
            raise ValueError("ppo+plan's weight is a number") from None
        try:
            candidates = int(options.pop("candidates", CANDIDATES))
        except ValueError:
            raise ValueError("ppo+plan's candidates is an integer") from None
        plan = PlanPlayer.load(None, **options)
        policy, about = load_policy(path)
        scale = 0.0 if about.get("whole_game") else about["value_scale"]
        return cls(policy, scale, plan._plan, weight, candidates)

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        idle = [k for k, seat in enumerate(seats.tolist()) if not self._queues[seat]]
        idle = [k for k in idle if not self._ended[seats[k]]]
        if idle:
            states = visible_states({key: array[idle] for key, array in observation.items()})
            drawing = states["stock_size"] > 0
            self._choose(seats[idle][drawing], states[drawing])
        return super().act(seats, observation, mask)

    def _choose(self, seats: np.ndarray, roots: np.ndarray) -> None:
        """Plan what the seats do up to their next draws."""
        found = [self._find(roots[i : i + 1]) for i in range(len(roots))]
        if not found:
            return
        rows = np.zeros((sum(len(worth) for _, _, worth in found), self._encoding.size), np.uint8)
        states = np.concatenate([states for states, _, _ in found])
        for state, row in zip(states, rows, strict=True):
            encode(state, self._encoding.flags, row)
        seen: Any = self._encoding.views(rows)
        with torch.inference_mode():
            _, values = self._network(observation_tensors(seen))
        ends = values.numpy() + self._value_scale * states["score"]
        at = 0
        for seat, (candidates, lines, worth) in zip(seats.tolist(), found, strict=True):
            best = int(np.argmax(worth + self._weight * ends[at : at + len(worth)]))
            at += len(worth)
            line = lines[best]
            if not is_won(candidates[best]):
                line.append(DRAW)
            self._queues[seat] = line[::-1]

    def _find(self, root: np.ndarray) -> tuple[np.ndarray, list[list[int]], np.ndarray]:
        """The positions to choose from, the lines that lead there, the search's values."""
        effort, memory, ahead = self._plan.effort, self._memory, self._ahead_memory
        look = effort.ahead > 1
        count = find_candidates(
            root,
            effort.width,
            effort.depth,
            self._plan.weights,
            memory.states,
            memory.values,
            memory.parents,
            memory.actions,
            memory.seen,
            effort.ahead if look else len(self._found),
            effort.ahead_width if look else 0,
            effort.ahead_depth,
            ahead.states,
            ahead.values,
            ahead.parents,
            ahead.actions,
            ahead.seen,
            self._found,
            self._worth,
            self._lines,
            self._lengths,
        )
        lines = [self._lines[k, : self._lengths[k]].tolist() for k in range(count)]
        return self._found[:count].copy(), lines, self._worth[:count].copy()
