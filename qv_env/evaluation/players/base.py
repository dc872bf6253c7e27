"""What a player is: batches of observations and masks in, actions out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qv_env.playthroughs.playthrough import Playthrough


class Player:
    """A player of many games at once, one a seat.

    A player sees observations and masks, never the environment: nothing hidden is handed over.
    All randomness comes from the generator that a seat gets with each game, so that a game's
    course depends on the player, the deal and that generator alone, not on the other seats.

    Attributes:
        name: What reports call the player.
        settings: How it plays, for reports: plain numbers and strings.
        env_kwargs: The keywords of the environment whose observations it takes.
        batch: How many games benchmarks let it play at a time, at least 1: more where it is faster
            on large batches, few where a game takes it long, so that all cores have work.
    """

    name: str = ""
    env_kwargs: Mapping[str, Any] = {"observation": "cards"}
    batch: int = 16

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def prepare(self, num_seats: int) -> None:
        """Get ready for games at seats 0..num_seats - 1; called once, before the first game."""

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat, whose randomness comes from ``rng``."""

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each of some seats.

        Args:
            seats: int (k,), the seats whose turn it is, ascending.
            observation: Their observations: the batch environment's, k games.
            mask: int8 (k, 192) or (k, 112), their legal actions.

        Returns:
            Actions, int (k,), each legal.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it acts")

    def played(self, deals: Sequence[int]) -> list[Episode] | None:
        """Return games of these deals that were played before, or None: let it play (the rule).

        Args:
            deals: Deal numbers.

        Returns:
            An Episode a deal, in their order.
        """
        return None

    def insight(self) -> dict[str, np.ndarray]:
        """What the player thought at the last ``act``, for playthrough files; may be empty.

        Returns:
            ``value`` float (k,): its estimate of the score still to come; ``probabilities``
            float (k, num_actions): how likely it was to choose each action.
        """
        return {}


class Uniforms:
    """Uniform random numbers in [0, 1) for each seat, from the generator of the seat's game."""

    _BLOCK = 256

    def __init__(self, num_seats: int) -> None:
        self._numbers = np.zeros((num_seats, self._BLOCK))
        self._used = np.full(num_seats, self._BLOCK)
        self._generators: list[np.random.Generator | None] = [None] * num_seats

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Take a seat's numbers from ``rng`` from now on."""
        self._generators[seat] = rng
        self._used[seat] = self._BLOCK

    def draw(self, seats: np.ndarray) -> np.ndarray:
        """Return the next number of each of some seats: float64 (k,)."""
        for seat in seats[self._used[seats] == self._BLOCK]:
            generator = self._generators[seat]
            assert generator is not None, "a seat draws before its game has started"
            self._numbers[seat] = generator.random(self._BLOCK)
            self._used[seat] = 0
        numbers = self._numbers[seats, self._used[seats]]
        self._used[seats] += 1
        return numbers


def sample_rows(weights: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Return an index for each row, with probabilities proportional to the row's weights.

    Args:
        weights: Non-negative (k, m), each row with a positive sum.
        uniforms: Numbers in [0, 1), (k,).

    Returns:
        int (k,); an index of weight 0 is never returned.
    """
    sums = np.cumsum(weights, axis=1, dtype=np.float64)
    targets = uniforms * sums[:, -1]
    return (sums > targets[:, None]).argmax(axis=1)


@dataclass
class Episode:
    """One game that a player played to its end.

    Attributes:
        index: The deal's place in the list of deals that was played.
        deal: The deal's number.
        score: The final score, 0..1360.
        won: Whether all 104 cards went up.
        foundation_cards: Cards on the foundations at the end, 0..104.
        steps: Steps taken.
        truncated: Whether the step limit ended the game.
        actions: The actions, where they were recorded.
        values: The player's value estimate before each action, where it has any and is recorded.
        likeliest: Per step, the likeliest actions and their probabilities, likewise.
    """

    index: int
    deal: int
    score: int
    won: bool
    foundation_cards: int
    steps: int
    truncated: bool
    actions: list[int] = field(default_factory=list, repr=False)
    values: list[float] = field(default_factory=list, repr=False)
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list, repr=False)

    def playthrough(
        self,
        player: str,
        settings: Mapping[str, Any],
        seed: int,
        extra: Mapping[str, Any] | None = None,
    ) -> Playthrough:
        """Return the recorded game as a playthrough, replayed by the rules.

        Args:
            player: What the file calls the player.
            settings: How it plays.
            seed: The seed that was played with.
            extra: Further keys of the file.

        Raises:
            PlaythroughError: The rules refuse an action.
        """
        return Playthrough.from_actions(
            self.actions,
            deal=self.deal,
            player=player,
            values=self.values or None,
            likeliest=self.likeliest or None,
            extra={
                "settings": settings,
                "seed": seed,
                "truncated": self.truncated,
                **(extra or {}),
            },
        )
