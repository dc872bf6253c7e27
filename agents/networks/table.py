"""The policy network that is made for this game.

A table is a set: permuting columns permutes the moves between them and changes nothing else. So

* cards are embedded by id, by their distance to the foundations (the rank minus the height of the
  suit's lower, and of its higher, foundation), and by where the next higher and the next lower card
  of the suit lie: which card goes on which is there to be read, and need not be found out;
* one encoder, shared by all columns, reads the first four cards, the top card and the height,
  which say all of a column, and how much lies on what is wanted;
* the columns' encodings are pooled, and joined by waste and foundations, into a context;
* moves are scored by pairs: a vector of where the card comes from (waste, column or foundation)
  times a vector of where it goes (column or foundation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from agents.networks import kernels
from agents.networks.kernels import (
    CARD_ROWS,
    CARDS_READ,
    NUMBERS,
    PILES,
    ROWS,
    SLOTS,
    WASTE_DEPTH,
    HeadPlaces,
    pair_table,
)
from qv_env.actions import NUM_COLUMNS
from qv_env.cards import NUM_KINDS

_VALUE_HIDDEN = 128


class Weights(NamedTuple):
    """The network's parameters as compiled code and matrix products take them.

    Tables are multiplied by the layers that read their rows, and layers that read the same vector
    are one: ``heads`` are refine_context, pile_source, foundation_target, draw and the value's
    first layer, ``ends`` column_source and column_target.
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
        """Return the same, cut off from autograd."""
        return Weights(*(tensor.detach() for tensor in self))


class Looked(NamedTuple):
    """What :func:`agents.networks.kernels.look` makes of observations."""

    column_index: np.ndarray
    other_index: np.ndarray
    features: Tensor


# oneDNN's product with a bias and a rectifier: on processors with AVX-512 twice as fast as what
# ``torch.mm`` calls, and as exact.
_POINTWISE = (
    torch.ops.mkldnn._linear_pointwise
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, rectify: bool = False) -> Tensor:
    """``x @ weight.T + bias``, and 0 instead of what is negative where ``rectify`` says so."""
    if _POINTWISE is not None and x.dtype == torch.float32:
        return _POINTWISE(x, weight, bias, "relu" if rectify else "none", [], "")
    product = nn.functional.linear(x, weight, bias)
    return product.relu_() if rectify else product


class Saved(NamedTuple):
    """What the way back needs of the way forward."""

    hidden: Tensor
    encoded: Tensor
    middle: Tensor
    context: Tensor
    refined: Tensor
    value_hidden: Tensor


def trunk_forward(
    weights: Weights, looked: Looked, at: HeadPlaces
) -> tuple[Tensor, Tensor, Tensor, Saved]:
    """Compute all of the network but the moves' scores, without autograd.

    Args:
        weights: Of :meth:`TableNetwork.weights`, detached.
        looked: Of :meth:`TableNetwork.look`; its features are completed.
        at: Where the heads' parts are.

    Returns:
        ``ends`` and ``heads``, as :mod:`agents.networks.kernels` describes them, values (n,), and
        what :func:`trunk_backward` needs.
    """
    features = looked.features
    n, column = len(features), len(weights.encoder)
    hidden = features.new_empty(n, NUM_COLUMNS, weights.table.shape[1])
    kernels.sum_columns(
        weights.table.numpy(), weights.table_bias.numpy(), looked.column_index, hidden.numpy()
    )
    encoded = _linear(hidden.flatten(0, 1), weights.encoder, weights.encoder_bias, rectify=True)
    kernels.pool(
        encoded.view(n, NUM_COLUMNS, column).numpy(),
        weights.rows.numpy(),
        looked.other_index,
        features.numpy(),
    )
    middle = _linear(features, weights.context_1, weights.context_1_bias, rectify=True)
    context = _linear(middle, weights.context_2, weights.context_2_bias, rectify=True)
    heads = _linear(context, weights.heads, weights.heads_bias)
    refined = _linear(encoded, weights.refine, weights.refine_bias)
    kernels.refine(refined.view(n, NUM_COLUMNS, column).numpy(), heads.numpy())
    ends = _linear(refined, weights.ends, weights.ends_bias)
    value_hidden = heads[:, at.value :].relu()
    values = torch.addmv(weights.value_bias, value_hidden, weights.value[0])
    saved = Saved(hidden, encoded, middle, context, refined, value_hidden)
    return ends.view(n, NUM_COLUMNS, -1), heads, values, saved


def trunk_backward(
    weights: Weights,
    looked: Looked,
    at: HeadPlaces,
    saved: Saved,
    d_ends: Tensor,
    d_heads: Tensor,
    d_values: Tensor,
    d_cards: Tensor,
    d_cards_bias: Tensor,
) -> Weights:
    """Pass gradients back through :func:`trunk_forward`.

    Args:
        weights, looked, at, saved: As they were there.
        d_ends, d_heads, d_values: Gradients of what it returned; ``d_heads`` is overwritten.
        d_cards, d_cards_bias: Those of the weights that it does not use.

    Returns:
        The weights' gradients.
    """
    hidden, encoded, middle, context, refined, value_hidden = saved
    features = looked.features
    n, column = len(features), len(weights.encoder)
    by_column = (n, NUM_COLUMNS, -1)

    d_ends = d_ends.contiguous().flatten(0, 1)
    d_refined = _linear(d_ends, weights.ends.t())
    kernels.refine_back(
        refined.view(by_column).numpy(), d_refined.view(by_column).numpy(), d_heads.numpy()
    )
    d_value_hidden = torch.outer(d_values, weights.value[0])
    d_heads[:, at.value :] = torch.ops.aten.threshold_backward(d_value_hidden, value_hidden, 0)
    d_heads_bias = d_heads.sum(dim=0)
    d_context = _linear(d_heads, weights.heads.t())
    d_context_2_bias = torch.zeros_like(weights.context_2_bias)
    kernels.rectify_back(context.numpy(), d_context.numpy(), d_context_2_bias.numpy())
    d_middle = _linear(d_context, weights.context_2.t())
    d_context_1_bias = torch.zeros_like(weights.context_1_bias)
    kernels.rectify_back(middle.numpy(), d_middle.numpy(), d_context_1_bias.numpy())
    d_features = _linear(d_middle, weights.context_1.t())
    d_encoded = _linear(d_refined, weights.refine.t())
    d_encoder_bias = torch.zeros_like(weights.encoder_bias)
    d_rows = torch.zeros_like(weights.rows)
    kernels.pool_back(
        encoded.view(by_column).numpy(),
        looked.other_index,
        features.numpy(),
        d_features.numpy(),
        d_encoded.view(by_column).numpy(),
        d_encoder_bias.numpy(),
        d_rows.numpy(),
    )
    d_hidden = _linear(d_encoded, weights.encoder.t()).view(by_column)
    d_table = torch.zeros_like(weights.table)
    d_table_bias = torch.zeros_like(weights.table_bias)
    kernels.sum_columns_back(
        looked.column_index,
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
        context_1=_product_of_rows(d_middle, features),
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
        cards=d_cards,
        cards_bias=d_cards_bias,
    )


class _Trunk(torch.autograd.Function):
    """:func:`trunk_forward` for autograd."""

    @staticmethod
    def forward(
        ctx: Any, looked: Looked, at: HeadPlaces, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ends, heads, values, saved = trunk_forward(Weights(*tensors), looked, at)
        ctx.looked, ctx.at = looked, at
        ctx.save_for_backward(*tensors, *saved)
        return ends, heads, values

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_ends: Tensor, d_heads: Tensor, d_values: Tensor
    ) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        weights, saved = Weights(*tensors[: -len(Saved._fields)]), tensors[-len(Saved._fields) :]
        gradients = trunk_backward(
            weights, ctx.looked, ctx.at, Saved(*saved),
            d_ends, d_heads.clone(memory_format=torch.contiguous_format), d_values,
            torch.zeros_like(weights.cards), torch.zeros_like(weights.cards_bias),
        )  # fmt: skip
        return None, None, *gradients


def _product_of_rows(one: Tensor, other: Tensor) -> Tensor:
    """``one.T @ other``."""
    return _linear(one.t(), other.t())


class _AllScores(torch.autograd.Function):
    """Logits of all actions; see :func:`agents.networks.kernels.score_all`."""

    @staticmethod
    def forward(
        ctx: Any,
        ends: Tensor,
        heads: Tensor,
        cards: Tensor,
        bias: Tensor,
        looked: Looked,
        at: HeadPlaces,
        scale: float,
        num_actions: int,
    ) -> Tensor:
        ctx.scorer = scorer_of(ends, heads, cards, bias, looked, at, scale)
        logits = heads.new_empty(len(heads), num_actions)
        arguments = [*ctx.scorer, logits.numpy()]
        kernels.score_all(*arguments)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_logits: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _new_gradients(*(torch.from_numpy(array) for array in ctx.scorer[:4]))
        arguments = [
            *ctx.scorer,
            d_logits.contiguous().numpy(),
            *(gradient.numpy() for gradient in gradients),
        ]
        kernels.score_all_back(*arguments)
        return *gradients, None, None, None, None


class Evaluated(NamedTuple):
    """What :func:`agents.networks.kernels.evaluate` finds, which describes the arrays."""

    log_probs: np.ndarray
    entropies: np.ndarray
    starts: np.ndarray
    legal_actions: np.ndarray
    legal_log_probs: np.ndarray


def evaluate_forward(scorer: list[Any], masks: np.ndarray, actions: np.ndarray) -> Evaluated:
    """Evaluate actions; without autograd.

    Args:
        scorer: The first arguments of :func:`agents.networks.kernels.score_all`, up to ``scale``.
        masks: bool (n, num_actions).
        actions: int64 (n,).
    """
    n, real = len(masks), scorer[0].dtype
    found = Evaluated(
        np.empty(n, dtype=real),
        np.empty(n, dtype=real),
        np.empty(n + 1, dtype=np.int64),
        np.empty(masks.size, dtype=np.int16),
        np.empty(masks.size, dtype=real),
    )
    arguments = [*scorer, masks, actions, *found]
    kernels.evaluate(*arguments)
    return found


def evaluate_backward(
    scorer: list[Any],
    actions: np.ndarray,
    found: Evaluated,
    d_log_probs: np.ndarray,
    d_entropies: np.ndarray,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pass gradients back through :func:`evaluate_forward`.

    Args:
        scorer, actions, found: As they were there.
        d_log_probs, d_entropies: Gradients of its first two arrays.

    Returns:
        Gradients of the first four of ``scorer``.
    """
    gradients = _new_gradients(*(torch.from_numpy(array) for array in scorer[:4]))
    arguments = [
        *scorer, actions, *found[1:], d_log_probs, d_entropies,
        *(gradient.numpy() for gradient in gradients),
    ]  # fmt: skip
    kernels.evaluate_back(*arguments)
    return gradients


class _Evaluate(torch.autograd.Function):
    """:func:`evaluate_forward` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        ends: Tensor,
        heads: Tensor,
        cards: Tensor,
        bias: Tensor,
        looked: Looked,
        at: HeadPlaces,
        scale: float,
        masks: np.ndarray,
        actions: np.ndarray,
    ) -> tuple[Tensor, Tensor]:
        ctx.scorer = scorer_of(ends, heads, cards, bias, looked, at, scale)
        ctx.actions, ctx.found = actions, evaluate_forward(ctx.scorer, masks, actions)
        return torch.from_numpy(ctx.found.log_probs), torch.from_numpy(ctx.found.entropies.copy())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_log_probs: Tensor, d_entropies: Tensor) -> tuple[Tensor | None, ...]:
        gradients = evaluate_backward(
            ctx.scorer,
            ctx.actions,
            ctx.found,
            d_log_probs.contiguous().numpy(),
            d_entropies.contiguous().numpy(),
        )
        return *gradients, None, None, None, None, None


def scorer_of(
    ends: Tensor,
    heads: Tensor,
    cards: Tensor,
    bias: Tensor,
    looked: Looked,
    at: HeadPlaces,
    scale: float,
) -> list[Any]:
    """Return the first arguments of :func:`agents.networks.kernels.score_all`."""
    tensors = (ends, heads, cards, bias)
    return [*(tensor.detach().numpy() for tensor in tensors), looked.other_index, at, scale]


def _new_gradients(
    ends: Tensor, heads: Tensor, cards: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(ends),
        torch.zeros_like(heads),
        torch.zeros_like(cards),
        torch.zeros_like(bias),
    )


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network's vectors.

    Attributes:
        card: Of a card.
        hidden: Of the column encoder's hidden layer.
        column: Of a column.
        context: Of the table as a whole.
        pair: Of a move's source and target.
    """

    card: int = 32
    hidden: int = 128
    column: int = 96
    context: int = 192
    pair: int = 48

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 4096:
                raise ValueError(f"network.{name} is an integer in 1..4096, not {value!r}")


class TableNetwork(nn.Module):
    """Scores all actions and estimates the value of positions.

    Args:
        num_actions: 192, or 112 where take-backs are not allowed.
        memory: Whether observations hold ``waste`` and ``unseen``.
        config: Sizes.

    Attributes:
        use_compiled: Whether compiled code takes the place of :meth:`plain_forward` where the
            network is on the CPU.
    """

    use_compiled: bool = True
    _pairs: Tensor

    def __init__(self, num_actions: int, memory: bool, config: NetworkConfig) -> None:
        super().__init__()
        self.memory = memory
        self._constant("pairs", pair_table()[:num_actions])

        card, column, context = config.card, config.column, config.context
        self.rows = nn.Parameter(torch.randn(ROWS, card) * 0.5)
        self.encoder = nn.Sequential(
            nn.Linear(SLOTS * card, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, column),
            nn.ReLU(),
        )
        features = 2 * column + card + NUMBERS
        if memory:
            features += NUM_KINDS + WASTE_DEPTH * card
        self.context = nn.Sequential(
            nn.Linear(features, context), nn.ReLU(), nn.Linear(context, context), nn.ReLU()
        )
        self.refine_column = nn.Linear(column, column)
        self.refine_context = nn.Linear(context, column)
        self.column_source = nn.Linear(column, config.pair)
        self.column_target = nn.Linear(column, config.pair)
        self.card_source = nn.Linear(card, config.pair)
        self.pile_source = nn.Linear(context, 2 * config.pair)  # waste, foundations
        self.foundation_target = nn.Linear(context, config.pair)
        self.draw = nn.Linear(context, 1)
        value = nn.Linear(_VALUE_HIDDEN, 1)
        self.value = nn.Sequential(nn.Linear(context, _VALUE_HIDDEN), nn.ReLU(), value)
        self.scale = config.pair**-0.5
        sizes = [column, config.pair, config.pair, config.pair, 1, _VALUE_HIDDEN]
        self.at = HeadPlaces(*np.cumsum(sizes).tolist())
        self._numbers_at = 2 * column + card  # where the numbers among the features begin
        self._num_features = features
        for layer in (self.draw, value):  # start near uniform play and value 0
            nn.init.orthogonal_(layer.weight, gain=0.01)
            nn.init.zeros_(layer.bias)

    def _constant(self, name: str, array: np.ndarray) -> None:
        self.register_buffer(f"_{name}", torch.from_numpy(array), persistent=False)

    @property
    def compiled(self) -> bool:
        """Whether compiled code runs, and :meth:`choose` and :meth:`evaluate` can be called."""
        return self.use_compiled and self.rows.device.type == "cpu"

    def forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Score actions and estimate values.

        Args:
            observation: The ``cards`` observation of n games, any integer or float dtype:
                ``columns`` (n, 10, 16), ``foundations`` (n, 8), ``waste_top``, ``waste_size``,
                ``stock_size`` (n, 1); with ``memory`` also ``waste`` (n, 64), ``unseen`` (n, 52).

        Returns:
            Logits of all actions, legal or not, float32 (n, num_actions), and values (n,).
        """
        if not self.compiled:
            return self.plain_forward(observation)
        weights = self.weights()
        looked = self.look(observation)
        ends, heads, values = _Trunk.apply(looked, self.at, *weights)
        logits = _AllScores.apply(
            ends, heads, weights.cards, weights.cards_bias,
            looked, self.at, self.scale, len(self._pairs),
        )  # fmt: skip
        return logits, values

    @torch.no_grad()
    def choose(
        self,
        observation: Mapping[str, Tensor],
        masks: np.ndarray,
        uniforms: np.ndarray,
        weights: Weights | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw actions, without gradients; with compiled code alone.

        Args:
            observation: As for :meth:`forward`.
            masks: Which actions are legal, bool (n, num_actions); where none is, all are taken to
                be.
            uniforms: float64 (n,) in [0, 1), one random number a game; or (0,) for the likeliest
                actions.
            weights: What :meth:`weights` returns, detached, where the caller has it.

        Returns:
            Actions int64 (n,), their log-probabilities (n,) and values (n,).

        Raises:
            ValueError: The network gives no numbers; training has diverged.
        """
        if weights is None:
            weights = self.weights()
        looked = self.look(observation)
        ends, heads, values, _ = trunk_forward(weights.detached(), looked, self.at)
        scorer = scorer_of(
            ends, heads, weights.cards, weights.cards_bias, looked, self.at, self.scale
        )
        actions = torch.empty(len(values), dtype=torch.int64)
        log_probs = torch.empty_like(values)
        arguments = [*scorer, masks, uniforms, actions.numpy(), log_probs.numpy()]
        kernels.choose(*arguments)
        if not torch.isfinite(log_probs).all():
            raise ValueError("the network's scores are no numbers: training has diverged")
        return actions, log_probs, values

    def evaluate(
        self, observation: Mapping[str, Tensor], masks: np.ndarray, actions: np.ndarray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Evaluate actions that were taken; with compiled code alone.

        Args:
            observation: As for :meth:`forward`.
            masks: Which actions are legal, bool (n, num_actions); where none is, all are taken to
                be.
            actions: int64 (n,).

        Returns:
            The actions' log-probabilities (n,), the distributions' entropies (n,), values (n,).
        """
        weights = self.weights()
        looked = self.look(observation)
        ends, heads, values = _Trunk.apply(looked, self.at, *weights)
        log_probs, entropies = _Evaluate.apply(
            ends, heads, weights.cards, weights.cards_bias,
            looked, self.at, self.scale, masks, actions,
        )  # fmt: skip
        return log_probs, entropies, values

    def look(self, observation: Mapping[str, Tensor]) -> Looked:
        """Return observations, as for :meth:`forward`, as compiled code takes them."""
        n = len(observation["columns"])
        arrays: list[Any] = [
            observation[key].to("cpu", torch.uint8).contiguous().numpy()
            if self.memory or key not in ("waste", "unseen")
            else np.empty((n, 0), dtype=np.uint8)
            for key in (
                "columns", "foundations", "waste_top", "waste_size", "stock_size", "waste", "unseen"
            )
        ]  # fmt: skip
        column_index = np.empty((n, NUM_COLUMNS, kernels.COLUMN_ROWS), dtype=np.uint16)
        others = PILES + WASTE_DEPTH if self.memory else PILES
        other_index = np.empty((n, others, CARD_ROWS), dtype=np.uint16)
        features = self.rows.new_empty(n, self._num_features, device="cpu")
        arrays += [column_index, other_index, features.numpy(), self._numbers_at]
        kernels.look(*arrays)
        return Looked(column_index, other_index, features)

    def weights(self) -> Weights:
        """Return the parameters as compiled code takes them; autograd goes back from there."""
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

    def plain_forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What :meth:`forward` computes, in torch's own operations: on other devices than the CPU.

        Args:
            observation: As for :meth:`forward`.

        Returns:
            As :meth:`forward`.
        """
        looked = self.look(observation)
        device = self.rows.device
        starts = torch.arange(SLOTS).repeat_interleave(CARD_ROWS)[: kernels.COLUMN_ROWS] * ROWS
        index = torch.from_numpy(looked.column_index.astype(np.int64)) - starts
        in_columns = self.rows[index.to(device)]
        of_cards = in_columns[:, :, : CARD_ROWS * CARDS_READ].unflatten(2, (CARDS_READ, CARD_ROWS))
        of_columns = in_columns[:, :, CARD_ROWS * CARDS_READ :]
        sums = torch.cat([of_cards.sum(dim=3).flatten(2), of_columns.sum(dim=2)], dim=2)
        others = torch.from_numpy(looked.other_index.astype(np.int64)).to(device)
        vectors = self.rows[others].sum(dim=2)
        waste, slots = vectors[:, 0], vectors[:, 1:PILES]
        numbers = looked.features[:, self._numbers_at :].to(device)
        numbers = numbers[:, : NUMBERS + (NUM_KINDS if self.memory else 0)]

        encoded = self.encoder(sums)
        below = vectors[:, PILES:].flatten(1)
        features = [encoded.mean(dim=1), encoded.amax(dim=1), waste, numbers, below]
        context = self.context(torch.cat(features, dim=1))

        refined = torch.relu(
            self.refine_column(encoded) + self.refine_context(context).unsqueeze(1)
        )
        from_waste, from_slots = self.pile_source(context).unsqueeze(1).chunk(2, dim=2)
        sources = torch.cat(
            [
                self.card_source(waste).unsqueeze(1) + from_waste,
                self.column_source(refined),
                self.card_source(slots) + from_slots,
            ],
            dim=1,
        )
        targets = torch.cat(
            [self.column_target(refined), self.foundation_target(context).unsqueeze(1)], dim=1
        )
        pairs = torch.bmm(sources, targets.transpose(1, 2)) * self.scale
        scores = torch.cat([self.draw(context), pairs.flatten(1)], dim=1)
        return scores.index_select(1, self._pairs), self.value(context).squeeze(1)


def _linear_layers(layers: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in layers if isinstance(layer, nn.Linear)]


def observation_tensors(observation: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return copies of an observation's arrays (environments' may be read-only) as tensors."""
    return {key: torch.from_numpy(np.array(array)) for key, array in observation.items()}
