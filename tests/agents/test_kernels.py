"""What the table network reads: plain and compiled, beside a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agents.networks import kernels, layout
from agents.networks.accelerator import CompiledTableNetwork
from agents.networks.features import read_features
from agents.networks.layout import (
    ABOVE,
    BELOW,
    CARD_ROWS,
    CARDS_READ,
    HEIGHT,
    HIGHER,
    LOWER,
    NEIGHBOURS,
    NUMBERS,
    OVER,
    PILES,
    ROWS,
    WANTED,
    WASTE_DEPTH,
)
from agents.networks.table import NetworkConfig, observation_tensors
from qv_env import deck_of
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.observation import Encoding, encode
from qv_env.rules import new_game, play

TINY = NetworkConfig(card=2, hidden=3, column=2, context=3, pair=2)


def positions(memory, games=24, every=9):
    """Observations of every ninth position of games that greedy plays."""
    encoding = Encoding("cards", memory, stock_visible=False)
    rows = []
    for episode in play_deals(GreedyPlayer(), range(games), record=True):
        game = new_game(deck_of(episode.deal))[0]
        for step, action in enumerate(episode.actions):
            if step % every == 0:
                rows.append(np.zeros(encoding.size, dtype=np.uint8))
                encode(game, encoding.flags, rows[-1])
            play(game, action)
    return encoding.views(np.array(rows))


def suit(card):
    return (card - 1) // 13


def rank(card):  # 0..12
    return (card - 1) % 13


class Table:
    """One observation, as a person would look at it."""

    def __init__(self, observation, i, memory):
        self.columns = [[int(c) for c in column if c] for column in observation["columns"][i]]
        self.heights = [int(height) for height in observation["foundations"][i]]
        self.waste_top = int(observation["waste_top"][i, 0])
        self.waste = [int(card) for card in observation["waste"][i] if card] if memory else []
        self.unseen = [int(count) for count in observation["unseen"][i]] if memory else [0] * 52
        self.stock_size = int(observation["stock_size"][i, 0])
        self.waste_size = int(observation["waste_size"][i, 0])

    def lower(self, s):
        return min(self.heights[s], self.heights[s + 4])

    def higher(self, s):
        return max(self.heights[s], self.heights[s + 4])

    def wanted(self):
        """Cards that foundations take next."""
        return {13 * (k % 4) + height + 1 for k, height in enumerate(self.heights) if height < 13}

    def over_in_columns(self, card):
        """How many cards lie on the nearer copy; None where there is none in a column."""
        places = [c[::-1].index(card) for c in self.columns if card in c]
        return min(places, default=None)

    def over_in_waste(self, card):
        if card == self.waste_top:
            return 0
        return self.waste[::-1].index(card) if card in self.waste else None

    def lies(self, card):
        """Where a card lies, as the network tells places apart."""
        above = self.over_in_columns(card)
        column = 0 if above is None else min(above, 3) + 1
        below_top = self.over_in_waste(card)
        if below_top == 0:
            elsewhere = 1
        elif below_top is not None and below_top < WASTE_DEPTH:
            elsewhere = 2
        else:
            elsewhere = 3 if self.unseen[card - 1] else 0
        return 4 * column + elsewhere

    def rows_of(self, card):
        """The five rows of a card, 0 for none."""
        if card == 0:
            none = NEIGHBOURS - 1
            return [0, LOWER + 26, HIGHER + 26, ABOVE + none, BELOW + none]
        s, r = suit(card), rank(card)
        no_such = NEIGHBOURS - 2
        return [
            card,
            LOWER + 13 + r - self.lower(s),
            HIGHER + 13 + r - self.higher(s),
            ABOVE + (self.lies(card + 1) if r < 12 else no_such),
            BELOW + (self.lies(card - 1) if r > 0 else no_such),
        ]


def over_lower(pile):
    """Cards of a pile that lie, at whatever distance, on a lower one of their suit."""
    return sum(
        any(suit(below) == suit(card) and below < card for below in pile[:k])
        for k, card in enumerate(pile)
    )


def plain_features(observation, memory):
    """What plain torch reads: rows of columns (n, 10, 28) and of piles (n, m, 5), and numbers."""
    features = read_features(observation_tensors(observation), memory)
    columns = torch.cat([features.column_cards.flatten(2), features.columns], dim=2)
    piles = torch.cat([features.piles, features.below], dim=1)
    return columns.numpy(), piles.numpy(), features.numbers.numpy()


def compiled_features(observation, memory):
    """The same, as compiled code reads it."""
    network = CompiledTableNetwork(192, memory, TINY)
    features = network.read_features(observation_tensors(observation))
    numbers = features.context[:, network.numbers_at :][:, : NUMBERS + (52 if memory else 0)]
    slots = np.arange(kernels.COLUMN_ROWS) // CARD_ROWS * ROWS  # each slot has rows of its own
    return features.column_index - slots, features.other_index.astype(int), numbers


@pytest.mark.parametrize("read", [plain_features, compiled_features])
@pytest.mark.parametrize("memory", [False, True])
def test_positions_are_read_as_a_person_would(memory, read):
    observation = positions(memory)
    column_rows, pile_rows, numbers = read(observation, memory)
    assert numbers.shape[1] == NUMBERS + (52 if memory else 0)
    seen = set()
    for i in range(len(numbers)):
        table = Table(observation, i, memory)
        for c, column in enumerate(table.columns):
            rows = column_rows[i, c]
            read = [*(column + [0] * 4)[:4], column[-1] if column else 0]
            for slot, card in enumerate(read):
                part = rows[CARD_ROWS * slot : CARD_ROWS * (slot + 1)]
                assert part.tolist() == table.rows_of(card)
            whole = rows[CARD_ROWS * CARDS_READ :]
            above = [k for k, card in enumerate(column[::-1]) if card in table.wanted()]
            nearest = above[0] if above else 16
            expected = [HEIGHT + len(column), WANTED + nearest, OVER + over_lower(column)]
            assert whole.tolist() == expected
            seen |= {("column", len(column)), ("wanted", nearest), ("over", over_lower(column))}
        foundations = [13 * (k % 4) + h if h else 0 for k, h in enumerate(table.heights)]
        below = table.waste[::-1][1 : 1 + WASTE_DEPTH] if memory else []
        piles = [table.waste_top, *foundations, *below]
        others = pile_rows[i]
        assert len(others) == PILES + (WASTE_DEPTH if memory else 0)
        for index, card in zip(others, piles + [0] * (len(others) - len(piles)), strict=True):
            assert index.tolist() == table.rows_of(card)

        expected = [table.lower(s) / 13 for s in range(4)] + [
            table.higher(s) / 13 for s in range(4)
        ]
        expected += [table.waste_size / 64, table.stock_size / 64]
        for s in range(4):
            for height in (table.lower(s), table.higher(s)):
                card = 13 * s + height + 1
                column = table.over_in_columns(card) if height < 13 else None
                waste = table.over_in_waste(card) if height < 13 else None
                expected.append(0 if column is None else 1 / (1 + column))
                expected.append(0 if waste is None else 1 / (1 + waste))
                expected.append(float(height < 13 and column is None and waste is None))
        empty = sum(not column for column in table.columns)
        expected += [empty / 3, float(empty > 0), over_lower(table.waste) / 16]
        assert len(expected) == NUMBERS
        np.testing.assert_allclose(numbers[i, :NUMBERS], expected, rtol=1e-6)
        if memory:
            assert numbers[i, NUMBERS : NUMBERS + 52].tolist() == table.unseen
        seen |= {("empty", empty > 0), ("full", 13 in table.heights)}
    # The positions are worth it.
    assert {("empty", True), ("column", 0), ("wanted", 16), ("wanted", 0), ("over", 3)} <= seen


@pytest.mark.parametrize("read", [plain_features, compiled_features])
def test_a_finished_foundation_wants_nothing(read):
    observation = {key: array[:1].copy() for key, array in positions(memory=False).items()}
    observation["foundations"][0] = 13
    column_rows, _, numbers = read(observation, memory=False)
    assert (numbers[0, 10 : 10 + 24] == 0).all()
    assert (column_rows[0, :, -2] == WANTED + 16).all()


@pytest.mark.parametrize("memory", [False, True])
def test_plain_and_compiled_code_read_the_same(memory):
    observation = positions(memory, games=60, every=3)
    observation["columns"][::5, 3] = 0  # and some that no game leads to
    observation["foundations"][::7, 2] = 13
    plain, compiled = plain_features(observation, memory), compiled_features(observation, memory)
    for one, other in zip(plain[:2], compiled[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(plain[2], compiled[2], rtol=1e-6)


def test_each_row_of_the_tables_is_for_one_thing():
    starts = [0, LOWER, HIGHER, ABOVE, BELOW, HEIGHT, WANTED, OVER, ROWS]
    sizes = [53, 27, 27, NEIGHBOURS, NEIGHBOURS, 17, 17, 16]
    assert np.diff(starts).tolist() == sizes
    assert kernels.COLUMN_ROWS % 4 == 0  # they are added up by fours
    assert torch.iinfo(torch.int16).max > layout.SLOTS * ROWS
