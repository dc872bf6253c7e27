"""Policy files: building, saving and loading policies.

A file contains a description as JSON, the weights, and since version 2 the SHA-256 of both. As the
weights of several variants of the environment have the same shapes, only the hash reveals a
description that was not written together with the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from pydantic import Field, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import Tensor

from agents.networks.policy import TablePolicy
from agents.networks.table import NetworkConfig, observation_tensors
from qv_env.evaluation.players.names import POLICY_FILE
from qv_env.files import write_bytes
from qv_env.observation import OBSERVATIONS
from qv_env.schema import OneOf, Strict, Whole, checked
from qv_env.strict_json import FormatError, parse_json, shown
from qv_env.variants import Variant

_VERSION = 2  # version 1 had no SHA-256

POLICIES = ("table", "table-plain", "MultiInputPolicy", "MlpPolicy")

Layers = Annotated[list[Annotated[int, Whole(1, 8192)]], Field(max_length=16)]


class PolicyVariant(Strict):
    """The variant of the environment for which a policy is made; see ``qv_env.variants``."""

    observation: Annotated[str, OneOf(OBSERVATIONS)]
    memory: bool
    stock_visible: bool
    take_back: bool


def observation_of(kind: str) -> str:
    """Return the environment's ``observation`` that a kind of policy reads."""
    return "onehot" if kind == "MlpPolicy" else "cards"


class PolicyDescription(Strict):
    """The description in a policy file; see :func:`save_policy`."""

    format: Literal["quarante-voleurs-policy"] = "quarante-voleurs-policy"
    version: Annotated[int, Whole(1, _VERSION)] = _VERSION
    policy: Annotated[str, OneOf(POLICIES)]
    network: NetworkConfig
    net_arch: Layers
    env: PolicyVariant
    value_scale: Annotated[float, Field(gt=0, le=1e6)]
    whole_game: Literal[True] | None = None
    sha256: Annotated[str, Field(max_length=64)] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values, without the SHA-256."""
        return self.model_dump(exclude_none=True, exclude={"sha256"})

    def digest(self, weights: Mapping[str, Tensor]) -> str:
        """Return the SHA-256 of this and of weights."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode())
        for key in sorted(weights):
            digest.update(f"{key} {weights[key].dtype} {list(weights[key].shape)}".encode())
            digest.update(weights[key].reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @model_validator(mode="after")
    def _check(self) -> PolicyDescription:
        wanted = observation_of(self.policy)
        if self.env.observation != wanted:
            raise ValueError(f"policy {self.policy} needs env.observation: {wanted}")
        return self


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

    Such a file contains arrays and text only: loading it executes no code from the file.

    Args:
        policy: The policy.
        path: The file; an existing one is replaced atomically.
        kind, network, net_arch, variant: As for :func:`build_policy`.
        value_scale: The value of one point of score in the policy's value estimates.
        whole_game: Whether the values are of the whole game, not of the score still to come.
    """
    about = PolicyDescription(
        policy=kind,
        network=NetworkConfig(**network),
        net_arch=net_arch,
        env=PolicyVariant(**variant),
        value_scale=value_scale,
        whole_game=True if whole_game else None,
    )
    weights = {key: tensor.contiguous() for key, tensor in policy.state_dict().items()}
    said = about.to_dict() | {"sha256": about.digest(weights)}
    write_bytes(path, save(weights, metadata={"about": json.dumps(said)}))


def load_policy(path: str | Path) -> tuple[MaskableActorCriticPolicy, dict[str, Any]]:
    """Return the policy in a file that :func:`save_policy` wrote, and its description.

    The description has ``policy``, ``network``, ``net_arch``, ``env`` (the variant) and
    ``value_scale``, and ``whole_game`` if the values are of the whole game.

    Args:
        path: The file, or the folder of a run.

    Raises:
        ValueError: The file is not a valid policy file; the message says why.
        OSError: It cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        path = path / POLICY_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such policy file")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("about", "null")
            weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not a policy file: {error}") from None
    try:
        said = parse_json(text)
    except FormatError as error:
        raise ValueError(f"{path}: not a policy file: {error}") from None
    kind = PolicyDescription.model_fields["format"].default
    if not isinstance(said, dict) or said.get("format") != kind:
        raise ValueError(f"{path}: not a policy of this project")
    if said.get("version") not in (1, _VERSION):
        raise ValueError(f"{path}: policy format {shown(said.get('version'))}, this is {_VERSION}")
    about = checked(PolicyDescription, said, f"{path}: its description")
    if about.version > 1 and about.sha256 != about.digest(weights):
        raise ValueError(f"{path}: description or weights are not those that were written together")
    for key, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{path}: {shown(key)} holds weights that are not finite")
    values = about.to_dict()
    try:
        policy = build_policy(about.policy, values["network"], about.net_arch, values["env"])
        policy.load_state_dict(weights)
    except (ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{path}: the weights do not fit their description: {message}") from None
    return policy, values


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
