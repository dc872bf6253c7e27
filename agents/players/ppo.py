"""A trained policy as a player."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.networks.files import load_policy, policy_outputs
from agents.networks.policy import masked_log_probs
from agents.search.stage import table_key
from qv_env.evaluation.players.base import Player, Uniforms, sample_rows
from qv_env.observation import visible_states
from qv_env.rules import Game, play

# How a policy is played, for settings and reports.
PLAYS = {
    "sample": "its actions are sampled from the policy's probabilities",
    "argmax": "it takes the likeliest action, even where that goes round in circles",
    "argmax-new": "it takes the likeliest action that does not return to a position already seen"
    " in the episode; where there is none, it goes to the one seen least often",
}


def position_key(game: Game) -> tuple[int, int, int]:
    """Return a key that is the same for equal positions of one episode.

    Within an episode, the sizes of stock and waste determine their cards. The cards of the waste
    are not read, since observations without ``memory`` do not show them.
    """
    return int(table_key(game)), int(game["waste_size"]), int(game["stock_size"])


class PPOPlayer(Player):
    """Plays with a policy network.

    Args:
        policy: A policy of sb3_contrib's MaskablePPO.
        variant: The variant of the environment that it plays.
        play: ``sample`` draws from the policy's distribution; ``argmax`` takes the likeliest
            action; ``argmax-new`` the likeliest that leads to a position not yet met in the
            episode (if there is none, to the one met least often).
        temperature: For ``sample``: the divisor of the logits.
        value_scale: The value of one point of score in the policy's value estimates.

    Raises:
        ValueError: ``play`` or ``temperature`` is not valid.
    """

    name = "ppo"
    batch = 128

    def __init__(
        self,
        policy: MaskableActorCriticPolicy,
        variant: Mapping[str, Any],
        play: str = "sample",
        temperature: float = 1.0,
        value_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if play not in PLAYS:
            raise ValueError(f"play is one of {', '.join(PLAYS)}, not {play!r}")
        if not (temperature > 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature is a positive number, not {temperature!r}")
        self._policy = policy
        self._play = play
        self._temperature = temperature
        self._value_scale = value_scale
        self.env_kwargs = dict(variant)
        self.settings = {"play": play}
        if play == "sample":
            self.settings["temperature"] = temperature
        if play == "argmax-new" and variant["observation"] != "cards":
            raise ValueError("play=argmax-new needs a policy of observation='cards'")

    @classmethod
    def load(  # type: ignore[no-untyped-def]
        cls, path: str, /, play: str = "sample", temperature: str = "1.0", **unknown: str
    ):
        """Return the player of a policy file; arguments are text, as on a command line.

        Raises:
            ValueError: A setting is unknown or has an invalid value.
            OSError: The file cannot be read.
        """
        if unknown:
            raise ValueError(f"no setting {min(unknown)!r}; there are play and temperature")
        try:
            degree = float(temperature)
        except ValueError:
            raise ValueError(f"temperature is a number, not {temperature!r}") from None
        policy, about = load_policy(path)
        return cls(policy, about["env"], play, degree, about["value_scale"])

    def prepare(self, num_seats: int) -> None:
        """Prepare for games at seats 0..num_seats - 1."""
        self._uniforms = Uniforms(num_seats)
        self._met: list[Counter[tuple[int, int, int]]] = [Counter() for _ in range(num_seats)]
        self._insight: dict[str, np.ndarray] = {}

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat."""
        self._uniforms.start(seat, rng)
        self._met[seat].clear()

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        self._policy.set_training_mode(False)
        with torch.inference_mode():
            logits, values = policy_outputs(self._policy, observation)
            if self._play == "sample":
                # Relative to the likeliest legal action, so that no temperature causes overflow.
                legal = torch.from_numpy(mask != 0)
                top = logits.masked_fill(~legal, -math.inf).amax(dim=1, keepdim=True)
                logits = (logits - top) / self._temperature
            probabilities = masked_log_probs(logits, mask).exp().numpy()
        points = values.numpy() / self._value_scale
        self._insight = {"value": points, "probabilities": probabilities}
        if self._play == "sample":
            return sample_rows(probabilities * mask, self._uniforms.draw(seats))
        best = np.where(mask != 0, probabilities, -1).argmax(axis=1)
        if self._play == "argmax-new":
            return self._avoiding_returns(seats, observation, mask, probabilities, best)
        return best

    def insight(self) -> dict[str, np.ndarray]:
        """Return values and probabilities of the last ``act``; see :meth:`Player.insight`."""
        return self._insight

    def _avoiding_returns(
        self,
        seats: np.ndarray,
        observation: Any,
        mask: np.ndarray,
        probabilities: np.ndarray,
        best: np.ndarray,
    ) -> np.ndarray:
        """Return each seat's likeliest action among those to the positions met least often."""
        states = visible_states(observation)
        successor = states[:1].copy()
        chosen = best.copy()
        for k, seat in enumerate(seats.tolist()):
            met = self._met[seat]
            met[position_key(states[k])] += 1
            legal = np.flatnonzero(mask[k])
            fewest = math.inf
            for action in legal[np.argsort(-probabilities[k, legal], kind="stable")]:
                successor[0] = states[k]
                play(successor[0], int(action))
                times = met[position_key(successor[0])]
                if times < fewest:
                    fewest, chosen[k] = times, action
                if times == 0:
                    break
        return chosen
