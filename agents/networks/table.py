"""The policy network for this game: its definition, in plain torch.

The columns are a set: permuting them permutes the moves between them and changes nothing else. So

* cards are embedded by id, by their distance to the foundations (the rank minus the height of the
  suit's lower, and of its higher, foundation), and by the places of the next higher and the next
  lower card of the suit: which card goes on which is an input and need not be learned;
* one encoder, shared by all columns, reads the first four cards, the top card and the height,
  which determine the column, and how many cards lie on those that foundations take next;
* the columns' encodings are pooled and combined with waste and foundations into a context;
* moves are scored by scalar products: a vector of the source (waste, column or foundation) times a
  vector of the target (column or foundation).

:class:`TableNetwork` is an ordinary module that trains with autograd, on any device.
:class:`agents.networks.accelerator.CompiledTableNetwork` has the same parameters and computes the
same, faster, on the CPU; the tests compare the two. To change the network, change it here, and
train it with ``TablePolicy(..., compiled=False)``, which is ``policy: table-plain`` in a training
config; compiled code can follow once the change has proved itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from agents.networks.features import read_features
from agents.networks.layout import NUMBERS, PILES, ROWS, SLOTS, WASTE_DEPTH, pair_table
from qv_env.cards import NUM_KINDS
from qv_env.schema import Strict

VALUE_HIDDEN = 128


Size = Annotated[int, Field(ge=1, le=4096)]


class NetworkConfig(Strict):
    """Sizes of the network's vectors.

    Attributes:
        card: Size of a card's vector.
        hidden: Size of the column encoder's hidden layer.
        column: Size of a column's vector.
        context: Size of the vector of the table as a whole.
        pair: Size of the vectors of a move's source and target.
    """

    card: Size = 32
    hidden: Size = 128
    column: Size = 96
    context: Size = 192
    pair: Size = 48


class TableNetwork(nn.Module):
    """Scores all actions and estimates the value of positions.

    Args:
        num_actions: 192, or 112 where take-backs are not allowed.
        memory: Whether observations hold ``waste`` and ``unseen``.
        config: Sizes.
    """

    _pairs: Tensor

    def __init__(self, num_actions: int, memory: bool, config: NetworkConfig) -> None:
        super().__init__()
        self.memory = memory
        self.num_actions = num_actions
        pairs = torch.from_numpy(pair_table()[:num_actions])
        self.register_buffer("_pairs", pairs, persistent=False)

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
        self.num_features = features  # of the context's input
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
        value = nn.Linear(VALUE_HIDDEN, 1)
        self.value = nn.Sequential(nn.Linear(context, VALUE_HIDDEN), nn.ReLU(), value)
        self.scale = config.pair**-0.5
        for layer in (self.draw, value):  # start near uniform play and value 0
            nn.init.orthogonal_(layer.weight, gain=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, observation: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Score actions and estimate values.

        Args:
            observation: The ``cards`` observation of n games, any integer or float dtype:
                ``columns`` (n, 10, 16), ``foundations`` (n, 8), ``waste_top``, ``waste_size``,
                ``stock_size`` (n, 1); with ``memory`` also ``waste`` (n, 64), ``unseen`` (n, 52).

        Returns:
            Logits of all actions, legal or not, float32 (n, num_actions), and values (n,); in the
            parameters' dtype where that is another.
        """
        observation = {key: array.to(self.rows.device) for key, array in observation.items()}
        features = read_features(observation, self.memory, self.rows.dtype)

        # Cards, and columns as a whole, are sums of rows of the table.
        column_cards = self.rows[features.column_cards].sum(dim=3)  # (n, 10, 5, card)
        whole = self.rows[features.columns].sum(dim=2)  # (n, 10, card)
        piles = self.rows[features.piles].sum(dim=2)  # (n, 9, card)
        below = self.rows[features.below].sum(dim=2)  # (n, 4, card) with memory, else (n, 0, card)
        waste, foundations = piles[:, 0], piles[:, 1:PILES]

        columns = self.encoder(torch.cat([column_cards.flatten(2), whole], dim=2))
        pooled = [columns.mean(dim=1), columns.amax(dim=1)]
        joined = torch.cat([*pooled, waste, features.numbers, below.flatten(1)], dim=1)
        context = self.context(joined)  # (n, context)
        columns = torch.relu(
            self.refine_column(columns) + self.refine_context(context).unsqueeze(1)
        )  # (n, 10, column)

        from_waste, from_foundations = self.pile_source(context).unsqueeze(1).chunk(2, dim=2)
        sources = [
            self.card_source(waste).unsqueeze(1) + from_waste,
            self.column_source(columns),
            self.card_source(foundations) + from_foundations,
        ]
        targets = [self.column_target(columns), self.foundation_target(context).unsqueeze(1)]
        pairs = torch.bmm(torch.cat(sources, dim=1), torch.cat(targets, dim=1).transpose(1, 2))
        scores = torch.cat([self.draw(context), pairs.flatten(1) * self.scale], dim=1)
        return scores.index_select(1, self._pairs), self.value(context).squeeze(1)

    def value_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are used for the value only."""
        return list(self.value.parameters())


def observation_tensors(observation: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return copies of an observation's arrays (environments' may be read-only) as tensors."""
    return {key: torch.from_numpy(np.array(array)) for key, array in observation.items()}
