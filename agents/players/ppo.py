"""A trained policy as a player."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import Tensor

from agents.config import PLAYS
from agents.networks import observation_tensors
from agents.players.base import Player, Uniforms, sample_rows
from agents.policies import TablePolicy, masked_log_probs
from qv_env.env import Variant
from qv_env.files import write_bytes
from qv_env.observation import visible_states
from qv_env.rules import Game, play

POLICY_FILE = "policy.safetensors"
_FORMAT = "quarante-voleurs-policy"
_VERSION = 1


def build_policy(
    kind: str,
    network: Mapping[str, int],
    net_arch: list[int],
    variant: Mapping[str, Any],
) -> MaskableActorCriticPolicy:
    """Return a new policy for a variant of the environment.

    Args:
        kind: ``table``, ``MultiInputPolicy`` or ``MlpPolicy``.
        network: Sizes of the ``table`` network.
        net_arch: Hidden layers of the others.
        variant: ``observation``, ``memory``, ``stock_visible``, ``take_back``.
    """
    made = Variant(**variant, deals=None)
    policy_class, keywords = policy_class_of(kind, network, net_arch)
    return policy_class(made.encoding.space, made.action_space, lambda _: 1e-3, **keywords)


def policy_class_of(
    kind: str, network: Mapping[str, int], net_arch: list[int]
) -> tuple[type[MaskableActorCriticPolicy], dict[str, Any]]:
    """Return the class and the keywords of a kind of policy; see :func:`build_policy`."""
    if kind == "table":
        return TablePolicy, {"network": dict(network)}
    from sb3_contrib.ppo_mask.policies import MlpPolicy, MultiInputPolicy

    classes = {"MlpPolicy": MlpPolicy, "MultiInputPolicy": MultiInputPolicy}
    return classes[kind], {"net_arch": list(net_arch)}


def save_policy(
    policy: MaskableActorCriticPolicy,
    path: Path,
    kind: str,
    network: Mapping[str, int],
    net_arch: list[int],
    variant: Mapping[str, Any],
    value_scale: float,
    *,
    whole_game: bool = False,
) -> None:
    """Write a policy's weights, with what is needed to rebuild it, as a safetensors file.

    Such a file holds arrays and text only: loading it runs no code of its own.

    Args:
        policy: The policy.
        path: The file; replaced at once, when all is written.
        kind, network, net_arch, variant: As for :func:`build_policy`.
        value_scale: What one point of score counts in the values that the policy estimates.
        whole_game: Whether its values are of the whole game, not of what is still to come.
    """
    about: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "policy": kind,
        "network": dict(network),
        "net_arch": list(net_arch),
        "env": dict(variant),
        "value_scale": value_scale,
    }
    if whole_game:
        about["whole_game"] = True
    weights = {key: tensor.contiguous() for key, tensor in policy.state_dict().items()}
    write_bytes(path, save(weights, metadata={"about": json.dumps(about)}))


def load_policy(path: str | Path) -> tuple[MaskableActorCriticPolicy, dict[str, Any]]:
    """Return the policy of a file that :func:`save_policy` wrote, and what the file says of it.

    What it says: ``policy``, ``network``, ``net_arch``, ``env`` (the variant), ``value_scale``;
    ``whole_game`` where the values are of the whole game.

    Args:
        path: The file, or a run's folder that holds it.

    Raises:
        ValueError: The file is no such policy; the message says why.
        OSError: It cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        path = path / POLICY_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such policy file")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "null"))
            weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a policy file: {error}") from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError(f"{path}: not a policy of this project")
    if about.get("version") != _VERSION:
        raise ValueError(f"{path}: policy format {about.get('version')!r}, this is {_VERSION}")
    try:
        policy = build_policy(about["policy"], about["network"], about["net_arch"], about["env"])
        policy.load_state_dict(weights)
        about["value_scale"] = float(about["value_scale"])
        if not 0 < about["value_scale"] < math.inf:
            raise ValueError(f"value_scale is {about['value_scale']}")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: the weights do not fit their description: {error}") from None
    return policy, about


def policy_outputs(policy: MaskableActorCriticPolicy, observation: Any) -> tuple[Tensor, Tensor]:
    """Return logits of all actions (n, num_actions) and values (n,) of a batch of observations."""
    if isinstance(policy, TablePolicy):
        logits, values = policy.network(observation_tensors(observation))
        return logits, values
    if isinstance(policy.observation_space, spaces.Dict):
        tensors: Any = observation_tensors(observation)
    else:
        tensors = torch.from_numpy(np.array(observation))  # a copy: batches' may be read-only
    distribution = policy.get_distribution(tensors).distribution
    assert distribution is not None
    return distribution.logits, policy.predict_values(tensors).squeeze(1)


def position_key(game: Game) -> bytes:
    """What two positions of one episode share when they are the same.

    Positions that differ only in the order of columns, or of a suit's two foundations, are the
    same. Within an episode the sizes of stock and waste say what lies in them.
    """
    foundations = game["foundations"].reshape(2, -1)
    columns = sorted(column.tobytes() for column in game["columns"])
    sizes = bytes((int(game["waste_size"]), int(game["stock_size"])))
    return b"".join([*columns, np.sort(foundations, axis=0).tobytes(), sizes])


class PPOPlayer(Player):
    """Plays by a policy network.

    Args:
        policy: A policy of sb3_contrib's MaskablePPO.
        variant: The variant of the environment that it plays.
        play: ``sample`` draws from the policy's distribution; ``argmax`` takes the likeliest
            action; ``argmax-new`` the likeliest that leads to a position not yet met in the
            episode (where there is none, to the one met least often).
        temperature: For ``sample``: what logits are divided by.
        value_scale: What one point of score counts in the policy's value estimates.

    Raises:
        ValueError: ``play`` or ``temperature`` is none that there is.
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
            ValueError: A setting is unknown or has a value that it cannot have.
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
        """Get ready for games at seats 0..num_seats - 1."""
        self._uniforms = Uniforms(num_seats)
        self._met: list[Counter[bytes]] = [Counter() for _ in range(num_seats)]
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
                # From the likeliest legal action down: nothing overflows, however cold it is.
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
        """The values and probabilities of the last ``act``; see :meth:`Player.insight`."""
        return self._insight

    def _avoiding_returns(
        self,
        seats: np.ndarray,
        observation: Any,
        mask: np.ndarray,
        probabilities: np.ndarray,
        best: np.ndarray,
    ) -> np.ndarray:
        """Each seat's likeliest action that leads to a position met least often."""
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
