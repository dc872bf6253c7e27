"""The plan player, with a trained network's values of the positions that it chooses from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from agents.networks.files import load_policy
from agents.networks.policy import TablePolicy
from agents.networks.table import TableNetwork, observation_tensors
from agents.players.planning import PlanningPlayer
from agents.search.planner import Choice, Planner
from agents.search.settings import PlanSettings, load_settings
from agents.search.stage import Effort, game_searches
from qv_env.evaluation.players.names import setting_value
from qv_env.observation import Encoding, encode
from qv_env.schema import Strict, checked
from qv_env.strict_json import shown

WEIGHT = 10.0  # the factor of the network's value, in units of the plan player's values
CANDIDATES = 24


class _Numbers(Strict):
    """The player's own numbers."""

    weight: Annotated[float, Field(ge=0, le=1e6)]
    candidates: Annotated[int, Field(ge=1, le=10_000)]


class ValueChooser:
    """Chooses a position by the values of the plan player and of a network; see ``Planner``.

    All positions of all choices are evaluated in one batch.

    Args:
        network: The network, whose values of ``cards`` observations with ``memory`` are used.
        value_scale, weight: See ``PPOPlanPlayer``.
    """

    ENCODING = Encoding("cards", memory=True, stock_visible=False)

    def __init__(self, network: TableNetwork, value_scale: float, weight: float) -> None:
        self._network = network
        self._value_scale, self._weight = value_scale, weight

    def __call__(self, choices: Sequence[Choice]) -> list[int]:
        """Return the index of the best position of each choice."""
        states = np.concatenate([choice.positions for choice in choices])
        rows = np.zeros((len(states), self.ENCODING.size), dtype=np.uint8)
        for state, row in zip(states, rows, strict=True):
            encode(state, self.ENCODING.flags, row)
        seen: Any = self.ENCODING.views(rows)
        with torch.inference_mode():
            _, values = self._network(observation_tensors(seen))
        ends = values.numpy() + self._value_scale * states["score"]
        best = []
        at = 0
        for choice in choices:
            count = len(choice.worth)
            best.append(int(np.argmax(choice.worth + self._weight * ends[at : at + count])))
            at += count
        return best


class PPOPlanPlayer(PlanningPlayer):
    """Chooses among the plan player's best positions with a network's estimate of their values.

    Before each draw, the plan player's search finds the best reachable positions. The player moves
    to the one with the highest sum of the search's value and ``weight`` times the network's
    estimate of the result of the game. All positions of all seats are evaluated in one batch. When
    the stock is empty, it plays as the plan player does. It has the same knowledge as the plan
    player, and uses no randomness.

    Args:
        policy: A policy of ``policy: table`` that sees cards with memory; its value is used.
        value_scale: The value of one point of score in the network's values, if they are of the
            score still to come; 0: they are of the whole game, as ``agents.value`` trains them.
        settings: The plan player's settings; None: those of ``configs/search/plan.yaml``. With
            ``ahead`` above 1, the search's values are those after the next draw.
        weight: The factor of the network's value.
        candidates: How many positions are evaluated before a draw.

    Raises:
        ValueError: The policy is of another kind, or a number is not valid.
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
        space = ValueChooser.ENCODING.space
        if not isinstance(policy, TablePolicy) or policy.observation_space != space:
            raise ValueError("ppo+plan needs a policy: table of env.memory: true")
        checked(_Numbers, {"weight": weight, "candidates": candidates}, "ppo+plan")
        settings = load_settings() if settings is None else settings
        effort, weights = settings.effort, settings.weights
        if effort.ahead > 1:
            searches = effort.searches(weights)
        else:
            searches = game_searches(effort.beam, effort.end_beam, weights, ahead=candidates)
        chooser = ValueChooser(policy.network, value_scale, weight)
        super().__init__(
            Planner(searches, chooser, candidates),
            {**settings.report(), "weight": weight, "candidates": candidates},
        )

    @classmethod
    def load(cls, path: str | None = None, **options: str) -> PPOPlanPlayer:
        """Return the player that ``ppo+plan:PATH,key=value`` describes.

        Args:
            path: A policy file, or a run's folder.
            options: ``weight``, ``candidates``, and the numbers of ``agents.search.stage.Effort``.

        Raises:
            ValueError: The file or an option is not valid.
            OSError: The file cannot be read.
        """
        if not path:
            raise ValueError("ppo+plan names no policy: ppo+plan:PATH")
        names = [*_Numbers.model_fields, *(field.name for field in fields(Effort))]
        for key in options:
            if key not in names:
                raise ValueError(
                    f"ppo+plan has no setting {shown(key)}; there are {', '.join(names)}"
                )
        own = {
            key: setting_value(options.pop(key)) for key in _Numbers.model_fields if key in options
        }
        settings = load_settings().changed(options)
        policy, about = load_policy(path)
        scale = 0.0 if about.get("whole_game") else about["value_scale"]
        return cls(policy, scale, settings, **own)
