"""The table network as a policy of sb3_contrib's MaskablePPO."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import (
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import Tensor, nn

from agents.networks.accelerator import CompiledTableNetwork
from agents.networks.layout import ILLEGAL_LOGIT
from agents.networks.table import NetworkConfig, TableNetwork


def masked_log_probs(logits: Tensor, mask: Tensor | np.ndarray | None) -> Tensor:
    """Return the log-probabilities of actions, illegal ones at about -1e8.

    Args:
        logits: float32 (n, num_actions).
        mask: Non-zero where legal, (n, num_actions), or None where all are.
    """
    if mask is not None:
        if not isinstance(mask, Tensor):
            mask = torch.from_numpy(np.array(mask, dtype=np.bool_))  # environments' are read-only
        mask = mask.reshape(logits.shape).bool()
        logits = torch.where(mask, logits, ILLEGAL_LOGIT)
    return torch.log_softmax(logits, dim=1)


def legal_actions(mask: Tensor | np.ndarray | None, n: int, num_actions: int) -> np.ndarray:
    """Return a mask in the form that the compiled table network uses.

    Args:
        mask: Non-zero where legal, (n, num_actions) or flat, or None where all are.
        n: Number of games.
        num_actions: Number of actions.

    Returns:
        bool (n, num_actions), writable, C-contiguous; ``mask`` itself where it is that.
    """
    if mask is None:
        return np.ones((n, num_actions), dtype=np.bool_)
    array = mask.detach().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    return np.require(array.reshape(n, num_actions), np.bool_, ["C", "W"])


class TablePolicy(MaskableMultiInputActorCriticPolicy):
    """Actor and critic of one :class:`agents.networks.table.TableNetwork`.

    On the CPU, compiled code computes actions and probabilities from positions, and scores legal
    actions only. It computes what sb3_contrib's own distribution does, at a fraction of its cost.

    Args:
        observation_space: The environment's, of ``observation="cards"``.
        action_space: ``Discrete(192)`` or ``Discrete(112)``.
        lr_schedule: Learning rate by remaining progress, 1 to 0.
        network: Keywords of :class:`agents.networks.table.NetworkConfig`.
        compiled: Whether the network is a :class:`CompiledTableNetwork`, as
            :class:`agents.training.ppo.TablePPO` needs it. If not, it is the plain torch network,
            which MaskablePPO trains: for changes to the network that compiled code lacks.
        **kwargs: Further arguments that SB3 passes to a policy.

    Attributes:
        network: The network.
    """

    network: TableNetwork

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        network: dict[str, int] | None = None,
        compiled: bool = True,
        **kwargs: Any,
    ) -> None:
        self._network_config = NetworkConfig(**(network or {}))
        self._network_class = CompiledTableNetwork if compiled else TableNetwork
        super().__init__(observation_space, action_space, lr_schedule, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        self._num_actions = int(self.action_space.n)
        memory = "unseen" in self.observation_space.spaces
        self.network = self._network_class(self._num_actions, memory, self._network_config)
        # SB3's default extractor flattens observations; the network takes them unchanged.
        del self.features_extractor, self.pi_features_extractor, self.vf_features_extractor
        keywords = dict(self.optimizer_kwargs)
        if self.optimizer_class is torch.optim.Adam:
            keywords.setdefault("fused", True)  # one pass over all parameters
        self.optimizer = self.optimizer_class(
            self.network.parameters(), lr=lr_schedule(1), **keywords
        )

    def compiled_network(self) -> CompiledTableNetwork | None:
        """Return the network if its compiled passes apply, else None: plain, or not on the CPU."""
        network = self.network
        return network if isinstance(network, CompiledTableNetwork) and network.compiled else None

    def forward(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Choose actions.

        Returns:
            Actions (n,), values (n, 1) and the actions' log-probabilities (n,).
        """
        compiled = self.compiled_network()
        if compiled is not None:
            n = len(obs["columns"])
            masks = legal_actions(action_masks, n, self._num_actions)
            uniforms = torch.rand(0 if deterministic else n, dtype=torch.float64).numpy()
            actions, log_probs, values = compiled.choose(obs, masks, uniforms)
            return actions, values.unsqueeze(1), log_probs
        logits, values = self.network(obs)
        log_probs = masked_log_probs(logits, action_masks)
        if deterministic:
            actions = log_probs.argmax(dim=1)
        else:
            actions = torch.multinomial(log_probs.exp(), 1).squeeze(1)
        chosen = log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
        return actions, values.unsqueeze(1), chosen

    def evaluate_actions(
        self, obs: PyTorchObs, actions: Tensor, action_masks: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return values (n, 1), log-probabilities of actions (n,), and entropies (n,)."""
        compiled = self.compiled_network()
        if compiled is not None:
            masks = legal_actions(action_masks, len(actions), self._num_actions)
            taken = actions.long().reshape(-1).numpy()
            log_probs, entropies, values = compiled.evaluate(obs, masks, taken)
            return values.unsqueeze(1), log_probs, entropies
        logits, values = self.network(obs)
        log_probs = masked_log_probs(logits, action_masks)
        chosen = log_probs.gather(1, actions.long().view(-1, 1)).squeeze(1)
        entropy = -(log_probs.exp() * log_probs).sum(dim=1)
        return values.unsqueeze(1), chosen, entropy

    def get_distribution(
        self, obs: PyTorchObs, action_masks: np.ndarray | None = None
    ) -> MaskableDistribution:
        """Return the distribution over actions, for sb3_contrib's ``predict``."""
        logits, _ = self.network(obs)
        distribution = self.action_dist.proba_distribution(action_logits=logits)
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution

    def predict_values(self, obs: PyTorchObs) -> Tensor:
        """Return the values of positions (n, 1)."""
        return self.network(obs)[1].unsqueeze(1)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lr_schedule": self._dummy_schedule,
            "network": {**vars(self._network_config)},
            "compiled": self._network_class is CompiledTableNetwork,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
        }


def value_parameters(policy: MaskableActorCriticPolicy) -> list[nn.Parameter]:
    """Return the parameters of a policy that are used for its value only.

    Args:
        policy: A :class:`TablePolicy`, or one of stable-baselines3's own.
    """
    if isinstance(policy, TablePolicy):
        return policy.network.value_parameters()
    layers = (policy.mlp_extractor.value_net, policy.value_net)
    return [parameter for layer in layers for parameter in layer.parameters()]
