"""Policy files: building, saving and loading policies."""

from __future__ import annotations

import json
import math
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

from agents.networks.policy import TablePolicy
from agents.networks.table import observation_tensors
from qv_env.evaluation.players.names import POLICY_FILE
from qv_env.files import write_bytes
from qv_env.variants import Variant

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
        kind: ``table``, ``table-plain`` (the same network without compiled code),
            ``MultiInputPolicy`` or ``MlpPolicy``.
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
    if kind == "table-plain":
        return TablePolicy, {"network": dict(network), "compiled": False}
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
