"""The policy network that is made for this game.

A table is a set: permuting columns permutes the moves between them and changes nothing else. So

* cards are embedded by id together with their distance to the foundations: the rank minus the
  height of the suit's lower, and of its higher, foundation;
* one encoder, shared by all columns, reads the first four cards, the top card and the height,
  which say all of a column;
* the columns' encodings are pooled, and joined by waste and foundations, into a context;
* moves are scored by pairs: a vector of where the card comes from (waste, column or foundation)
  times a vector of where it goes (column or foundation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from qv_env._jit import compiled
from qv_env.actions import COLUMN, FOUNDATION, MOVES, NUM_COLUMNS, NUM_FOUNDATIONS, STOCK, WASTE
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.rules import CARDS_PER_COLUMN, MAX_COLUMN, STOCK_CARDS

# What a card is embedded by: its id, its distance to the lower foundation, to the higher. A
# distance is rank - height, -13..12; one index more stands for "no card". A column's height is
# embedded beside its cards.
_DISTANCES = 2 * NUM_RANKS + 1
_LOWER = NUM_KINDS + 1
_HIGHER = _LOWER + _DISTANCES
_HEIGHT = _HIGHER + _DISTANCES
_NOTHING = _HEIGHT + MAX_COLUMN + 1
_ROWS = _NOTHING + 1

_WASTE_DEPTH = 4  # with `memory`: how many cards under the waste's top are read


def _pair_table() -> np.ndarray:
    """For each action, its place in [draw, sources x targets]: int64 (192,).

    Sources are the waste, the columns, the foundations; targets the columns, then "foundation".
    """
    targets = NUM_COLUMNS + 1
    first = {WASTE: 0, COLUMN: 1, FOUNDATION: 1 + NUM_COLUMNS}
    places = []
    for move in MOVES:
        if move.source == STOCK:
            places.append(0)
            continue
        source = first[move.source] + move.source_index
        target = NUM_COLUMNS if move.target == FOUNDATION else move.target_index
        places.append(1 + source * targets + target)
    return np.array(places, dtype=np.int64)


@compiled
def _sum_rows(table: np.ndarray, indices: np.ndarray, sums: np.ndarray) -> None:
    for k in range(len(indices)):
        a, b, c = indices[k]
        for j in range(table.shape[1]):
            sums[k, j] = table[a, j] + table[b, j] + table[c, j]


@compiled
def _add_rows(gradient: np.ndarray, indices: np.ndarray, sums: np.ndarray) -> None:
    for k in range(len(indices)):
        for i in indices[k]:
            for j in range(gradient.shape[1]):
                gradient[i, j] += sums[k, j]


class _RowSums(torch.autograd.Function):
    """Sums of three rows of a small table, as ``torch.nn.EmbeddingBag`` gives them.

    Torch's own backward pass sorts the indices first, which took a seventh of a training step; a
    table of a hundred rows stays in the cache, and is added to in order, so that results repeat.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.rows = len(table)
        sums = table.new_empty(len(indices), table.shape[1])
        _sum_rows(table.detach().numpy(), indices.numpy(), sums.numpy())
        return sums

    @staticmethod
    def backward(ctx: Any, sums: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        gradient = sums.new_zeros(ctx.rows, sums.shape[1])
        _add_rows(gradient.numpy(), indices.numpy(), sums.contiguous().numpy())
        return gradient, None


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
    """

    _suits: Tensor
    _ranks: Tensor
    _slot_starts: Tensor
    _pairs: Tensor

    def __init__(self, num_actions: int, memory: bool, config: NetworkConfig) -> None:
        super().__init__()
        self.memory = memory
        suits = np.zeros(NUM_KINDS + 1, dtype=np.int64)
        ranks = np.zeros(NUM_KINDS + 1, dtype=np.int64)
        suits[1:], ranks[1:] = np.divmod(np.arange(NUM_KINDS), NUM_RANKS)
        slots = np.arange(NUM_FOUNDATIONS) % NUM_SUITS * NUM_RANKS
        self._constant("suits", suits)
        self._constant("ranks", ranks)
        self._constant("slot_starts", slots)
        self._constant("pairs", _pair_table()[:num_actions])

        card, column, context = config.card, config.column, config.context
        self.rows = nn.Parameter(torch.randn(_ROWS, card) * 0.5)
        self.encoder = nn.Sequential(
            nn.Linear((CARDS_PER_COLUMN + 2) * card, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, column),
            nn.ReLU(),
        )
        features = 2 * column + card + 2 * NUM_SUITS + 2
        if memory:
            features += NUM_KINDS + _WASTE_DEPTH * card
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
        value = nn.Linear(128, 1)
        self.value = nn.Sequential(nn.Linear(context, 128), nn.ReLU(), value)
        self.scale = config.pair**-0.5
        for layer in (self.draw, value):  # start near uniform play and value 0
            nn.init.orthogonal_(layer.weight, gain=0.01)
            nn.init.zeros_(layer.bias)

    def _constant(self, name: str, array: np.ndarray) -> None:
        self.register_buffer(f"_{name}", torch.from_numpy(array), persistent=False)

    def forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Score actions and estimate values.

        Args:
            observation: The ``cards`` observation of n games, any integer or float dtype:
                ``columns`` (n, 10, 16), ``foundations`` (n, 8), ``waste_top``, ``waste_size``,
                ``stock_size`` (n, 1); with ``memory`` also ``waste`` (n, 64), ``unseen`` (n, 52).

        Returns:
            Logits of all actions, legal or not, float32 (n, num_actions), and values (n,).
        """
        columns = observation["columns"].long()
        foundations = observation["foundations"].long()
        waste_size = observation["waste_size"].long()
        n = len(columns)
        lower = torch.minimum(foundations[:, :NUM_SUITS], foundations[:, NUM_SUITS:])
        higher = torch.maximum(foundations[:, :NUM_SUITS], foundations[:, NUM_SUITS:])

        heights = (columns != 0).sum(dim=2, keepdim=True)
        tops = columns.gather(2, (heights - 1).clamp(min=0))
        in_columns = torch.cat([columns[:, :, :CARDS_PER_COLUMN], tops], dim=2)
        on_foundations = torch.where(foundations > 0, self._slot_starts + foundations, 0)
        others = [observation["waste_top"].long(), on_foundations]
        if self.memory:
            below = waste_size - 2 - torch.arange(_WASTE_DEPTH, device=columns.device)
            cards = observation["waste"].long().gather(1, below.clamp(min=0))
            others.append(torch.where(below >= 0, cards, 0))
        ids = torch.cat([in_columns.flatten(1), *others], dim=1)
        cards = self._card_rows(ids, lower, higher)
        own = NUM_COLUMNS * (CARDS_PER_COLUMN + 1)
        height_rows = torch.cat(
            [heights + _HEIGHT, torch.full_like(heights, _NOTHING).expand(-1, -1, 2)], dim=2
        )
        column_rows = torch.cat(
            [
                cards[:, :own].reshape(n, NUM_COLUMNS, CARDS_PER_COLUMN + 1, 3),
                height_rows.unsqueeze(2),
            ],
            dim=2,
        )
        in_columns_sums = self._sums(column_rows).view(n, NUM_COLUMNS, -1)
        vectors = self._sums(cards[:, own:])
        waste = vectors[:, 0]
        slots = vectors[:, 1 : 1 + NUM_FOUNDATIONS]

        encoded = self.encoder(in_columns_sums)
        features = [
            encoded.mean(dim=1),
            encoded.amax(dim=1),
            waste,
            lower / NUM_RANKS,
            higher / NUM_RANKS,
            waste_size / STOCK_CARDS,
            observation["stock_size"] / STOCK_CARDS,
        ]
        if self.memory:
            features += [
                observation["unseen"].float(),
                vectors[:, 1 + NUM_FOUNDATIONS :].flatten(1),
            ]
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

    def _card_rows(self, ids: Tensor, lower: Tensor, higher: Tensor) -> Tensor:
        """The table rows of card ids (n, k), given suits' foundation heights (n, 4): (n, k, 3)."""
        suits = self._suits[ids]
        ranks = self._ranks[ids] + NUM_RANKS
        absent = ids == 0
        none = 2 * NUM_RANKS
        to_lower = torch.where(absent, none, ranks - lower.gather(1, suits))
        to_higher = torch.where(absent, none, ranks - higher.gather(1, suits))
        return torch.stack([ids, _LOWER + to_lower, _HIGHER + to_higher], dim=2)

    def _sums(self, indices: Tensor) -> Tensor:
        """The sums of table rows (..., 3): (..., card)."""
        if self.rows.device.type == "cpu":
            sums = _RowSums.apply(self.rows, indices.reshape(-1, 3))
        else:
            sums = nn.functional.embedding_bag(indices.reshape(-1, 3), self.rows, mode="sum")
        return sums.view(*indices.shape[:-1], -1)


def observation_tensors(observation: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return copies of an observation's arrays (environments' may be read-only) as tensors."""
    return {key: torch.from_numpy(np.array(array)) for key, array in observation.items()}
