"""The sample player: what the plan player thinks of, tried out on stocks that may be."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agents.players import plan
from agents.players.plan import PlanPlayer
from agents.search.rollouts import Rollouts, choose, find_candidates, play_stocks, sample_stocks
from agents.search.settings import PlanSettings
from agents.search.stage import MAX_LINE, Memory
from qv_env.actions import DRAW
from qv_env.rules import STATE, is_won

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
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not set(content) <= {"plan", "rollouts"}:
            raise ValueError("settings have the keys plan and rollouts")
        file = content.get("plan", str(plan.DEFAULTS))
        if not isinstance(file, str):
            raise ValueError(f"plan names a settings file, not {file!r}")
        values = content.get("rollouts") or {}
        if not isinstance(values, dict):
            raise ValueError(f"rollouts are given by name, not as {values!r}")
        return SampleSettings(plan.load_settings(path.parent / file), _changed(Rollouts(), values))
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from None


def _changed(rollouts: Rollouts, values: dict[str, Any]) -> Rollouts:
    """Rollouts with some values replaced, of the kinds that they are."""
    kinds = {field.name: field.type for field in fields(Rollouts)}
    numbers: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            raise ValueError(f"sample has no setting {name!r}; there are {', '.join(kinds)}")
        whole = kinds[name] == "int"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise ValueError(f"{name} is {'an integer' if whole else 'a number'}, not {value!r}")
        numbers[name] = value if whole else float(value)
    return replace(rollouts, **numbers)


class SamplePlayer(PlanPlayer):
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
        super().__init__(settings.plan)
        self._rollouts = rollouts = settings.rollouts
        self.settings = {**asdict(rollouts), "plan": self.settings}
        effort = self._plan.effort
        self._ahead_memory = Memory(effort.ahead_width, effort.ahead_depth)
        short = Memory(rollouts.width, rollouts.depth)
        end = Memory(rollouts.end_width, rollouts.end_depth)
        self._few_seen, self._end_seen = short.seen, end.seen
        self._rollout_memory = max(short, end, key=lambda memory: memory.states.size)
        self._found = np.zeros(rollouts.candidates, dtype=STATE)
        self._worth = np.zeros(rollouts.candidates)
        self._lines = np.zeros((rollouts.candidates, MAX_LINE), dtype=np.uint8)
        self._lengths = np.zeros(rollouts.candidates, dtype=np.int64)

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
        values = {key: _number(text) for key, text in options.items()}
        return cls(replace(settings, rollouts=_changed(settings.rollouts, values)))

    def prepare(self, num_seats: int) -> None:
        """Get ready for games at seats 0..num_seats - 1."""
        super().prepare(num_seats)
        self._generators: list[np.random.Generator | None] = [None] * num_seats

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat, whose sampled stocks come from ``rng``."""
        super().start(seat, rng)
        self._generators[seat] = rng

    def _think(self, seat: int, root: np.ndarray) -> None:
        if root[0]["stock_size"] == 0:
            super()._think(seat, root)
            return
        count = self._find(root)
        generator = self._generators[seat]
        assert generator is not None, "a seat plays before its game has started"
        best = self._compared(root, count, generator) if count > 1 else 0
        line = self._lines[best, : self._lengths[best]].tolist()
        if not is_won(self._found[best]):
            line.append(DRAW)
        self._queues[seat] = line[::-1]

    def _find(self, root: np.ndarray) -> int:
        """Write the candidates; return how many."""
        effort, memory, ahead = self._plan.effort, self._memory, self._ahead_memory
        return find_candidates(
            root,
            effort.width,
            effort.depth,
            self._plan.weights,
            memory.states,
            memory.values,
            memory.parents,
            memory.actions,
            memory.seen,
            effort.ahead,
            effort.ahead_width,
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

    def _compared(self, root: np.ndarray, count: int, rng: np.random.Generator) -> int:
        """The place of the best candidate."""
        rollouts, memory = self._rollouts, self._rollout_memory

        def played(places: np.ndarray, stocks: int) -> np.ndarray:
            outcomes = np.zeros((places.size, stocks))
            play_stocks(
                self._found,
                places,
                sample_stocks(root[0], stocks, rng),
                rollouts.width,
                rollouts.depth,
                rollouts.end_width,
                rollouts.end_depth,
                self._plan.weights,
                memory.states,
                memory.values,
                memory.parents,
                memory.actions,
                self._end_seen,
                self._few_seen,
                self._line,
                rollouts.bonus,
                outcomes,
            )
            return outcomes

        return choose(self._worth[:count], rollouts, played)


def _number(text: str) -> int | float | str:
    """A setting's number, or the text where it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
