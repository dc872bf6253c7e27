"""The player protocol: batches of observations and masks in, actions out.

A *seat* is one game slot of the batch that the loop (``qv_env.evaluation.play_deals``) plays. When
the game at a seat ends, the next deal is started there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qv_env.playthroughs.playthrough import Playthrough


class Player:
    """A player of many games at once, one at each seat.

    A player gets observations and masks, never the environment, so nothing hidden reaches it. All
    of its randomness must come from the generator that a seat gets with each game, so that a game
    depends only on the player, the deal and that generator, not on other seats.

    Attributes:
        name: The player's name in reports.
        settings: Its settings, for reports: plain numbers and strings.
        env_kwargs: The keywords of the environment whose observations it takes.
        batch: How many games benchmarks let it play at a time, at least 1: many if large batches
            are faster, few if a game takes long, so that all cores have work.
    """

    name: str = ""
    env_kwargs: Mapping[str, Any] = {"observation": "cards"}
    batch: int = 16

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def prepare(self, num_seats: int) -> None:
        """Prepare for games at seats 0..num_seats - 1; called once, before the first game."""

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat, with ``rng`` as its source of randomness."""

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each of some seats.

        Args:
            seats: int (k,), the seats that need an action, in ascending order.
            observation: Their observations, as a batch of k environments gives them.
            mask: int8 (k, 192) or (k, 112), their legal actions.

        Returns:
            Actions, int (k,), each legal.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it acts")

    def played(self, deals: Sequence[int]) -> list[Episode] | None:
        """Return games of these deals that were recorded earlier; None (the default): play them.

        Args:
            deals: Deal numbers.

        Returns:
            One Episode per deal, in the order of the deals, or None.
        """
        return None

    def insight(self) -> dict[str, np.ndarray]:
        """Return the player's estimates at the last ``act``, for playthrough files; may be empty.

        Returns:
            ``value`` float (k,): its estimate of the score still to come; ``probabilities``
            float (k, num_actions): its probability of each action.
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
        """Draw a seat's numbers from ``rng`` from now on."""
        self._generators[seat] = rng
        self._used[seat] = self._BLOCK

    def draw(self, seats: np.ndarray) -> np.ndarray:
        """Return the next number for each of some seats: float64 (k,)."""
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
        weights: Non-negative weights (k, m); each row has a positive sum.
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
        index: The deal's index in the list of deals that was played.
        deal: The deal's number.
        score: The final score, 0..1360.
        won: Whether all 104 cards are on the foundations.
        foundation_cards: Cards on the foundations at the end, 0..104.
        steps: Steps taken.
        truncated: Whether the step limit ended the game.
        actions: The actions, if they were recorded.
        values: The player's value estimate before each action, if recorded and provided.
        likeliest: Per step, the likeliest actions and their probabilities, if recorded and
            provided.
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
        """Return the recorded game as a playthrough, verified by replaying it.

        Args:
            player: The player's name in the file.
            settings: The player's settings.
            seed: The seed of the game.
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
