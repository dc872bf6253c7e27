"""The table network on the CPU, accelerated: compiled passes and oneDNN's matrix products.

:class:`CompiledTableNetwork` is :class:`agents.networks.table.TableNetwork`, the definition, with
another ``forward``, and with methods that draw and evaluate actions and score the legal ones only.
What makes it fast:

* the first layer is multiplied into the table of cards, so that a column's hidden layer is a sum
  of rows;
* layers that read the same vector are one matrix product, and matrix products use oneDNN;
* everything between matrix products is compiled (:mod:`agents.networks.kernels`);
* gradients are computed without autograd, except from :class:`Weights` to the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from agents.networks import kernels
from agents.networks.kernels import Evaluation, FeatureArrays, HeadOffsets, Scorer, ScorerGradients
from agents.networks.layout import CARD_ROWS, PILES, SLOTS, WASTE_DEPTH
from agents.networks.table import VALUE_HIDDEN, NetworkConfig, TableNetwork
from qv_env.actions import NUM_COLUMNS


class Weights(NamedTuple):
    """The network's parameters in the form that kernels and matrix products use.

    Layers that read the table's rows are multiplied by the table, and layers that read the same
    vector are one. All are real (float32 or float64); a layer's weights are (outputs, inputs).
    Letters: ``features`` is the width of the context's input, ``end`` that of the heads.

    Attributes:
        table: (6 * ROWS, hidden): the table's rows times the encoder's first layer, slot by slot.
        table_bias: (hidden,), of that layer.
        rows: (ROWS, card): the table.
        encoder: (column, hidden): the encoder's second layer.
        encoder_bias: (column,).
        context_1: (context, features): the context's first layer.
        context_1_bias: (context,).
        context_2: (context, context): the context's second layer.
        context_2_bias: (context,).
        heads: (end, context): refine_context, pile_source, foundation_target, draw, and the
            value's first layer.
        heads_bias: (end,).
        refine: (column, column): refine_column.
        refine_bias: (column,).
        ends: (2 * pair, column): column_source and column_target.
        ends_bias: (2 * pair,).
        value: (1, 128): the value's last layer.
        value_bias: (1,).
        cards: (ROWS, pair): the table's rows times card_source.
        cards_bias: (pair,).
    """

    table: Tensor
    table_bias: Tensor
    rows: Tensor
    encoder: Tensor
    encoder_bias: Tensor
    context_1: Tensor
    context_1_bias: Tensor
    context_2: Tensor
    context_2_bias: Tensor
    heads: Tensor
    heads_bias: Tensor
    refine: Tensor
    refine_bias: Tensor
    ends: Tensor
    ends_bias: Tensor
    value: Tensor
    value_bias: Tensor
    cards: Tensor
    cards_bias: Tensor

    def detached(self) -> Weights:
        """Return the same tensors, detached from autograd."""
        return Weights(*(tensor.detach() for tensor in self))


class Activations(NamedTuple):
    """Activations kept for the backward pass; real, all of them rectified.

    Attributes:
        hidden: (n, 10, hidden): the encoder's hidden layer.
        encoded: (10 * n, column): the encoded columns.
        middle: (n, context): the context's hidden layer.
        context: (n, context).
        refined: (10 * n, column): the refined columns.
        value_hidden: (n, 128): the value's hidden layer.
    """

    hidden: Tensor
    encoded: Tensor
    middle: Tensor
    context: Tensor
    refined: Tensor
    value_hidden: Tensor


# oneDNN's matrix product with a bias and a rectifier: on processors with AVX-512 it is twice as
# fast as what ``torch.mm`` calls, and as exact.
_POINTWISE = (
    torch.ops.mkldnn._linear_pointwise
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, rectify: bool = False) -> Tensor:
    """``x @ weight.T + bias``, with negative entries set to 0 if ``rectify``."""
    if _POINTWISE is not None and x.dtype == torch.float32:
        return _POINTWISE(x, weight, bias, "relu" if rectify else "none", [], "")
    product = nn.functional.linear(x, weight, bias)
    return product.relu_() if rectify else product


def _product_of_rows(one: Tensor, other: Tensor) -> Tensor:
    """``one.T @ other``."""
    return _linear(one.t(), other.t())


# --------------------------------------------------------------- everything but scores of moves


def trunk_forward(
    weights: Weights, features: FeatureArrays, offsets: HeadOffsets
) -> tuple[Tensor, Tensor, Tensor, Activations]:
    """Compute everything but the scores of moves, without autograd.

    Args:
        weights: Of :meth:`CompiledTableNetwork.weights`, detached.
        features: Of :meth:`CompiledTableNetwork.read_features`; its ``context`` is completed.
        offsets: Where the heads' parts begin.

    Returns:
        ``ends`` (n, 10, 2 * pair) and ``heads`` (n, offsets.end) for a :class:`Scorer`, values
        (n,), and the activations that :func:`trunk_backward` needs.
    """
    joined = torch.from_numpy(features.context)
    n, column = len(joined), len(weights.encoder)
    hidden = joined.new_empty(n, NUM_COLUMNS, weights.table.shape[1])
    kernels.sum_columns(
        weights.table.numpy(), weights.table_bias.numpy(), features.column_index, hidden.numpy()
    )
    encoded = _linear(hidden.flatten(0, 1), weights.encoder, weights.encoder_bias, rectify=True)
    kernels.pool(encoded.view(n, NUM_COLUMNS, column).numpy(), weights.rows.numpy(), features)
    middle = _linear(joined, weights.context_1, weights.context_1_bias, rectify=True)
    context = _linear(middle, weights.context_2, weights.context_2_bias, rectify=True)
    heads = _linear(context, weights.heads, weights.heads_bias)
    refined = _linear(encoded, weights.refine, weights.refine_bias)
    kernels.refine(refined.view(n, NUM_COLUMNS, column).numpy(), heads.numpy())
    ends = _linear(refined, weights.ends, weights.ends_bias)
    value_hidden = heads[:, offsets.value :].relu()
    values = torch.addmv(weights.value_bias, value_hidden, weights.value[0])
    activations = Activations(hidden, encoded, middle, context, refined, value_hidden)
    return ends.view(n, NUM_COLUMNS, -1), heads, values, activations


def trunk_backward(
    weights: Weights,
    features: FeatureArrays,
    offsets: HeadOffsets,
    activations: Activations,
    gradients: ScorerGradients,
    d_values: Tensor,
) -> Weights:
    """Pass gradients back through :func:`trunk_forward`.

    Args:
        weights, features, offsets: As in :func:`trunk_forward`.
        activations: What it returned.
        gradients: Those of ``ends`` and ``heads`` (its array is overwritten); those of ``cards``
            and ``bias`` are passed through.
        d_values: (n,), gradients of the values.

    Returns:
        The weights' gradients.
    """
    hidden, encoded, middle, context, refined, value_hidden = activations
    joined = torch.from_numpy(features.context)
    n, column = len(joined), len(weights.encoder)
    by_column = (n, NUM_COLUMNS, -1)

    d_ends = torch.from_numpy(gradients.ends).flatten(0, 1)
    d_heads = torch.from_numpy(gradients.heads)
    d_refined = _linear(d_ends, weights.ends.t())
    kernels.refine_back(
        refined.view(by_column).numpy(), d_refined.view(by_column).numpy(), d_heads.numpy()
    )
    d_value_hidden = torch.outer(d_values, weights.value[0])
    d_heads[:, offsets.value :] = torch.ops.aten.threshold_backward(d_value_hidden, value_hidden, 0)
    d_heads_bias = d_heads.sum(dim=0)
    d_context = _linear(d_heads, weights.heads.t())
    d_context_2_bias = torch.zeros_like(weights.context_2_bias)
    kernels.rectify_back(context.numpy(), d_context.numpy(), d_context_2_bias.numpy())
    d_middle = _linear(d_context, weights.context_2.t())
    d_context_1_bias = torch.zeros_like(weights.context_1_bias)
    kernels.rectify_back(middle.numpy(), d_middle.numpy(), d_context_1_bias.numpy())
    d_joined = _linear(d_middle, weights.context_1.t())
    d_encoded = _linear(d_refined, weights.refine.t())
    d_encoder_bias = torch.zeros_like(weights.encoder_bias)
    d_rows = torch.zeros_like(weights.rows)
    kernels.pool_back(
        encoded.view(by_column).numpy(),
        features,
        d_joined.numpy(),
        d_encoded.view(by_column).numpy(),
        d_encoder_bias.numpy(),
        d_rows.numpy(),
    )
    d_hidden = _linear(d_encoded, weights.encoder.t()).view(by_column)
    d_table = torch.zeros_like(weights.table)
    d_table_bias = torch.zeros_like(weights.table_bias)
    kernels.sum_columns_back(
        features.column_index,
        hidden.numpy(),
        d_hidden.numpy(),
        d_table.numpy(),
        d_table_bias.numpy(),
    )
    return Weights(
        table=d_table,
        table_bias=d_table_bias,
        rows=d_rows,
        encoder=_product_of_rows(d_encoded, hidden.flatten(0, 1)),
        encoder_bias=d_encoder_bias,
        context_1=_product_of_rows(d_middle, joined),
        context_1_bias=d_context_1_bias,
        context_2=_product_of_rows(d_context, middle),
        context_2_bias=d_context_2_bias,
        heads=_product_of_rows(d_heads, context),
        heads_bias=d_heads_bias,
        refine=_product_of_rows(d_refined, encoded),
        refine_bias=d_heads_bias[:column].clone(),
        ends=_product_of_rows(d_ends, refined),
        ends_bias=d_ends.sum(dim=0),
        value=(d_values @ value_hidden).unsqueeze(0),
        value_bias=d_values.sum().view(1),
        cards=torch.from_numpy(gradients.cards),
        cards_bias=torch.from_numpy(gradients.bias),
    )


class _Trunk(torch.autograd.Function):
    """:func:`trunk_forward` for autograd."""

    @staticmethod
    def forward(
        ctx: Any, features: FeatureArrays, offsets: HeadOffsets, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ends, heads, values, activations = trunk_forward(Weights(*tensors), features, offsets)
        ctx.features, ctx.offsets = features, offsets
        ctx.save_for_backward(*tensors, *activations)
        return ends, heads, values

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_ends: Tensor, d_heads: Tensor, d_values: Tensor
    ) -> tuple[Tensor | None, ...]:
        count = len(Weights._fields)
        weights = Weights(*ctx.saved_tensors[:count])
        activations = Activations(*ctx.saved_tensors[count:])
        gradients = ScorerGradients(
            d_ends.contiguous().numpy(),
            d_heads.clone(memory_format=torch.contiguous_format).numpy(),
            torch.zeros_like(weights.cards).numpy(),
            torch.zeros_like(weights.cards_bias).numpy(),
        )
        return (
            None,
            None,
            *trunk_backward(weights, ctx.features, ctx.offsets, activations, gradients, d_values),
        )


# ----------------------------------------------------------------------------- scores of actions


def _new_gradients(scorer: Scorer) -> ScorerGradients:
    """Gradients for a kernel to write or add to, in memory aligned for matrix products."""
    ends, heads, cards, bias = (torch.from_numpy(array) for array in scorer[:4])
    return ScorerGradients(
        torch.empty_like(ends).numpy(),
        torch.empty_like(heads).numpy(),
        torch.zeros_like(cards).numpy(),
        torch.zeros_like(bias).numpy(),
    )


def evaluate_forward(scorer: Scorer, masks: np.ndarray, actions: np.ndarray) -> Evaluation:
    """Evaluate actions, without autograd.

    Args:
        scorer: What actions are scored by.
        masks: bool (n, num_actions).
        actions: int64 (n,).
    """
    n, real = len(masks), scorer.heads.dtype
    evaluation = Evaluation(
        log_probs=np.empty(n, dtype=real),
        entropies=np.empty(n, dtype=real),
        starts=np.empty(n + 1, dtype=np.int64),
        legal_actions=np.empty(masks.size, dtype=np.int16),
        legal_log_probs=np.empty(masks.size, dtype=real),
    )
    kernels.evaluate(scorer, masks, actions, evaluation)
    return evaluation


def evaluate_backward(
    scorer: Scorer,
    actions: np.ndarray,
    evaluation: Evaluation,
    d_log_probs: np.ndarray,
    d_entropies: np.ndarray,
) -> ScorerGradients:
    """Pass gradients back through :func:`evaluate_forward`.

    Args:
        scorer, actions: As in :func:`evaluate_forward`.
        evaluation: What it returned.
        d_log_probs, d_entropies: real (n,), gradients of its first two arrays.

    Returns:
        The scorer's gradients; the parts of the heads for columns and value are uninitialized.
    """
    gradients = _new_gradients(scorer)
    kernels.evaluate_back(scorer, actions, evaluation, d_log_probs, d_entropies, gradients)
    return gradients


class _AllScores(torch.autograd.Function):
    """:func:`kernels.score_all` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        ends: Tensor,
        heads: Tensor,
        cards: Tensor,
        bias: Tensor,
        network: CompiledTableNetwork,
        features: FeatureArrays,
    ) -> Tensor:
        ctx.scorer = network.scorer(ends, heads, cards, bias, features)
        logits = heads.new_empty(len(heads), network.num_actions)
        kernels.score_all(ctx.scorer, logits.numpy())
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_logits: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _new_gradients(ctx.scorer)
        kernels.score_all_back(ctx.scorer, d_logits.contiguous().numpy(), gradients)
        return *map(torch.from_numpy, gradients), None, None


class _Evaluate(torch.autograd.Function):
    """:func:`evaluate_forward` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        ends: Tensor,
        heads: Tensor,
        cards: Tensor,
        bias: Tensor,
        network: CompiledTableNetwork,
        features: FeatureArrays,
        masks: np.ndarray,
        actions: np.ndarray,
    ) -> tuple[Tensor, Tensor]:
        ctx.scorer = network.scorer(ends, heads, cards, bias, features)
        ctx.actions, ctx.evaluation = actions, evaluate_forward(ctx.scorer, masks, actions)
        entropies = ctx.evaluation.entropies.copy()
        return torch.from_numpy(ctx.evaluation.log_probs), torch.from_numpy(entropies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_log_probs: Tensor, d_entropies: Tensor) -> tuple[Tensor | None, ...]:
        gradients = evaluate_backward(
            ctx.scorer,
            ctx.actions,
            ctx.evaluation,
            d_log_probs.contiguous().numpy(),
            d_entropies.contiguous().numpy(),
        )
        return *map(torch.from_numpy, gradients), None, None, None, None


# ---------------------------------------------------------------------------------- the network


class CompiledTableNetwork(TableNetwork):
    """The table network with compiled passes, which run where its parameters are on the CPU.

    Its parameters are those of the plain network, and so are its results, up to rounding. On other
    devices :meth:`forward` is the plain one.

    Args:
        num_actions: 192, or 112 where take-backs are not allowed.
        memory: Whether observations hold ``waste`` and ``unseen``.
        config: Sizes.

    Attributes:
        offsets: Where the heads' parts begin.
    """

    def __init__(self, num_actions: int, memory: bool, config: NetworkConfig) -> None:
        super().__init__(num_actions, memory, config)
        sizes = [config.column, config.pair, config.pair, config.pair, 1, VALUE_HIDDEN]
        self.offsets = HeadOffsets(*np.cumsum(sizes).tolist())
        self.numbers_at = 2 * config.column + config.card  # in the context's features

    @property
    def compiled(self) -> bool:
        """Whether compiled code runs, and :meth:`choose` and :meth:`evaluate` can be called."""
        return self.rows.device.type == "cpu"

    def forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Score actions and estimate values; see :meth:`TableNetwork.forward`."""
        if not self.compiled:
            return super().forward(observation)
        weights = self.weights()
        features = self.read_features(observation)
        ends, heads, values = _Trunk.apply(features, self.offsets, *weights)
        logits = _AllScores.apply(ends, heads, weights.cards, weights.cards_bias, self, features)
        return logits, values

    @torch.no_grad()
    def choose(
        self,
        observation: Mapping[str, Tensor],
        masks: np.ndarray,
        uniforms: np.ndarray,
        weights: Weights | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw actions, without gradients; on the CPU only.

        Args:
            observation: As for :meth:`forward`.
            masks: Which actions are legal, bool (n, num_actions); where none is, all are equally
                likely.
            uniforms: float64 (n,) in [0, 1), one random number per game; or (0,) for the likeliest
                actions.
            weights: The result of :meth:`weights`, detached, if the caller has it.

        Returns:
            Actions int64 (n,), their log-probabilities (n,) and values (n,).

        Raises:
            ValueError: Logits are not finite: training has diverged.
        """
        if weights is None:
            weights = self.weights()
        features = self.read_features(observation)
        ends, heads, values, _ = trunk_forward(weights.detached(), features, self.offsets)
        scorer = self.scorer(ends, heads, weights.cards, weights.cards_bias, features)
        actions = torch.empty(len(values), dtype=torch.int64)
        log_probs = torch.empty_like(values)
        kernels.choose(scorer, masks, uniforms, actions.numpy(), log_probs.numpy())
        if not torch.isfinite(log_probs).all():
            raise ValueError("the network's logits are not finite: training has diverged")
        return actions, log_probs, values

    def evaluate(
        self, observation: Mapping[str, Tensor], masks: np.ndarray, actions: np.ndarray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Evaluate actions that were taken; on the CPU only.

        Args:
            observation: As for :meth:`forward`.
            masks: Which actions are legal, bool (n, num_actions); where none is, all are equally
                likely.
            actions: int64 (n,).

        Returns:
            The actions' log-probabilities (n,), the distributions' entropies (n,), values (n,).
        """
        weights = self.weights()
        features = self.read_features(observation)
        ends, heads, values = _Trunk.apply(features, self.offsets, *weights)
        log_probs, entropies = _Evaluate.apply(
            ends, heads, weights.cards, weights.cards_bias, self, features, masks, actions
        )
        return log_probs, entropies, values

    def read_features(self, observation: Mapping[str, Tensor]) -> FeatureArrays:
        """Return the features of observations, as for :meth:`forward`.

        In ``context``, only the numbers are written; :func:`trunk_forward` writes the rest.
        """
        n = len(observation["columns"])
        arrays = kernels.Observation(
            *(
                observation[key].to("cpu", torch.uint8).contiguous().numpy()
                if self.memory or key not in ("waste", "unseen")
                else np.empty((n, 0), dtype=np.uint8)
                for key in kernels.Observation._fields
            )
        )
        others = PILES + WASTE_DEPTH if self.memory else PILES
        features = FeatureArrays(
            column_index=np.empty((n, NUM_COLUMNS, kernels.COLUMN_ROWS), dtype=np.uint16),
            other_index=np.empty((n, others, CARD_ROWS), dtype=np.uint16),
            context=self.rows.new_empty(n, self.num_features).numpy(),
        )
        kernels.read_features(arrays, features, self.numbers_at)
        return features

    def scorer(
        self, ends: Tensor, heads: Tensor, cards: Tensor, bias: Tensor, features: FeatureArrays
    ) -> Scorer:
        """Return the arrays from which actions are scored.

        Args:
            ends: (n, 10, 2 * pair), of :func:`trunk_forward`.
            heads: (n, offsets.end), of :func:`trunk_forward`.
            cards: (ROWS, pair), of :class:`Weights`.
            bias: (pair,), its ``cards_bias``.
            features: Those that the first two were computed from.
        """
        return Scorer(
            ends.detach().numpy(),
            heads.detach().numpy(),
            cards.detach().numpy(),
            bias.detach().numpy(),
            features.other_index,
            self.offsets,
            self.scale,
        )

    def weights(self) -> Weights:
        """Return the parameters in the form that kernels use; autograd records the computation."""
        reader, encoder = _linear_layers(self.encoder)
        first, second = _linear_layers(self.context)
        value_hidden, value = _linear_layers(self.value)
        slots = reader.weight.view(len(reader.weight), SLOTS, -1).permute(1, 2, 0)
        heads = [
            self.refine_context, self.pile_source, self.foundation_target, self.draw, value_hidden
        ]  # fmt: skip
        ends = [self.column_source, self.column_target]
        return Weights(
            table=torch.matmul(self.rows, slots).flatten(0, 1),
            table_bias=reader.bias,
            rows=self.rows,
            encoder=encoder.weight,
            encoder_bias=encoder.bias,
            context_1=first.weight,
            context_1_bias=first.bias,
            context_2=second.weight,
            context_2_bias=second.bias,
            heads=torch.cat([layer.weight for layer in heads]),
            heads_bias=torch.cat([layer.bias for layer in heads]),
            refine=self.refine_column.weight,
            refine_bias=self.refine_column.bias,
            ends=torch.cat([layer.weight for layer in ends]),
            ends_bias=torch.cat([layer.bias for layer in ends]),
            value=value.weight,
            value_bias=value.bias,
            cards=self.rows @ self.card_source.weight.t(),
            cards_bias=self.card_source.bias,
        )


def _linear_layers(layers: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in layers if isinstance(layer, nn.Linear)]
