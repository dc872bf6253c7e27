"""Quarante Voleurs once more, slow and obvious: what the compiled engine is compared with.

Nothing here comes from ``qv_env``. Cards are pairs (suit, rank), piles are lists with the top card
last, and each rule is written as a person would say it. The layout of action ids, of deal numbers
and of observations is worked out again from their descriptions.
"""

from __future__ import annotations

SUITS = "SHDC"
RANKS = "A23456789TJQK"
SLOT_SUITS = [0, 1, 2, 3, 0, 1, 2, 3]

Card = tuple[int, int]


# ---------------------------------------------------------------------------------------- cards


def as_text(card: Card) -> str:
    suit, rank = card
    return RANKS[rank] + SUITS[suit]


def from_text(text: str) -> Card:
    return SUITS.index(text[1]), RANKS.index(text[0])


def as_number(card: Card) -> int:
    suit, rank = card
    return 13 * suit + rank


def from_number(number: int) -> Card:
    return number // 13, number % 13


def as_id(card: Card | None) -> int:
    return 0 if card is None else as_number(card) + 1


# ---------------------------------------------------------------------------------------- deals

BASE_32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def code_of_number(number: int) -> str:
    digits = ""
    for _ in range(7):
        number, digit = divmod(number, 32)
        digits = BASE_32[digit] + digits
    assert number == 0
    return "FT1-N-" + digits


def split_mix_64(state: int):
    """Yield the outputs of SplitMix64, in Python's unlimited integers."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        yield z ^ (z >> 31)


def deck_of_number(number: int) -> list[int]:
    """The shuffled deck of a deal number, as card numbers 0..51."""
    deck = [i % 52 for i in range(104)]
    outputs = split_mix_64(number)
    for i in range(103, 0, -1):
        j = ((next(outputs) // 2**32) * (i + 1)) // 2**32
        deck[i], deck[j] = deck[j], deck[i]
    return deck


# -------------------------------------------------------------------------------------- actions


def list_moves(take_back: bool = True) -> list[tuple[str, int, str, int]]:
    """Every action in order of its id: from which pile to which, each a kind and a number."""
    moves = [("stock", 0, "waste", 0)]
    moves += [("waste", 0, "column", c) for c in range(10)]
    moves += [("waste", 0, "foundation", -1)]
    moves += [("column", c, "foundation", -1) for c in range(10)]
    for source in range(10):
        for target in range(10):
            if source != target:
                moves.append(("column", source, "column", target))
    if take_back:
        for slot in range(8):
            moves += [("foundation", slot, "column", c) for c in range(10)]
    return moves


MOVES = list_moves()


def name_of_action(action: int) -> str:
    source, s, target, t = MOVES[action]
    if source == "stock":
        return "draw"
    left = {"waste": "w", "column": f"c{s + 1}", "foundation": f"f{s + 1}"}[source]
    right = f"c{t + 1}" if target == "column" else "f"
    return f"{left}>{right}"


# ------------------------------------------------------------------------------------- the game

NOTHING_LEFT = "the stock is empty and is not dealt again"
EMPTY_PILE = "there is no card to move: that pile is empty"
FOUNDATION_RULE = "a foundation takes the next card of its suit only, from the ace up to the king"
COLUMN_RULE = "a column takes a card of its top card's suit only, exactly one rank lower"
ACE_RULE = "nothing can be put on an ace in a column"


class Table:
    """One game on a table."""

    def __init__(self, deck: list[int]) -> None:
        cards = [from_number(int(number)) for number in deck]
        self.columns: list[list[Card]] = [[] for _ in range(10)]
        for k, card in enumerate(cards[:40]):
            self.columns[k % 10].append(card)
        self.stock = cards[40:][::-1]
        self.waste: list[Card] = []
        self.foundations: list[list[Card]] = [[] for _ in range(8)]
        self.score = 0
        self.moves = 0
        self.waste_to_column = 0
        self.taken_back = 0

    # what there is

    def pile(self, kind: str, index: int) -> list[Card]:
        if kind == "stock":
            return self.stock
        if kind == "waste":
            return self.waste
        return self.columns[index] if kind == "column" else self.foundations[index]

    def foundation_cards(self) -> int:
        return sum(len(pile) for pile in self.foundations)

    def won(self) -> bool:
        return self.foundation_cards() == 104

    # what may be done

    def slot_for(self, card: Card) -> int | None:
        """The leftmost foundation that takes a card."""
        suit, rank = card
        for slot in range(8):
            if SLOT_SUITS[slot] == suit and len(self.foundations[slot]) == rank:
                return slot
        return None

    def objection(self, action: int) -> str:
        """The rule that forbids an action, or an empty text."""
        source, s, target, t = MOVES[action]
        pile = self.pile(source, s)
        if not pile:
            return NOTHING_LEFT if source == "stock" else EMPTY_PILE
        if target == "waste":
            return ""
        suit, rank = pile[-1]
        if target == "foundation":
            return "" if self.slot_for((suit, rank)) is not None else FOUNDATION_RULE
        if not self.columns[t]:
            return ""
        top_suit, top_rank = self.columns[t][-1]
        if top_rank == 0:
            return ACE_RULE
        return "" if top_suit == suit and top_rank == rank + 1 else COLUMN_RULE

    def mask(self, take_back: bool = True) -> list[int]:
        return [int(not self.objection(action)) for action in range(192 if take_back else 112)]

    def play(self, action: int) -> int:
        """Make a legal move; return by how much the score changed."""
        assert not self.objection(action)
        source, s, target, t = MOVES[action]
        card = self.pile(source, s).pop()
        if target == "foundation":
            slot = self.slot_for(card)
            assert slot is not None
            self.foundations[slot].append(card)
        else:
            self.pile(target, t).append(card)
        before = self.score
        if target == "foundation":
            self.score += 10
        elif (source, target) == ("waste", "column"):
            self.score += 5
            self.waste_to_column += 1
        elif source == "foundation":
            self.score = max(0, self.score - 15)
            self.taken_back += 1
        self.moves += 1
        return self.score - before

    # what is seen

    def observation(self, memory: bool = False, stock_visible: bool = False) -> dict:
        """The ``cards`` observation, as lists of numbers."""

        def padded(pile: list[Card], length: int) -> list[int]:
            return [as_id(card) for card in pile] + [0] * (length - len(pile))

        seen = {
            "columns": [padded(column, 16) for column in self.columns],
            "foundations": [len(pile) for pile in self.foundations],
            "waste_top": [as_id(self.waste[-1] if self.waste else None)],
            "waste_size": [len(self.waste)],
            "stock_size": [len(self.stock)],
        }
        if memory:
            seen["waste"] = padded(self.waste, 64)
            seen["unseen"] = [self.stock.count(from_number(number)) for number in range(52)]
        if stock_visible:
            seen["stock"] = padded(self.stock[::-1], 64)
        return seen

    def text(self, show_stock: bool = True) -> str:
        """The position as lines of text, in the form that the package reads."""

        def line(cards: list[Card]) -> str:
            return " ".join(as_text(card) for card in cards)

        stock = line(self.stock[::-1]) if show_stock else f"{len(self.stock)} unseen"
        lines = [
            f"score {self.score}",
            f"moves {self.moves}",
            "foundations " + " ".join(str(len(pile)) for pile in self.foundations),
            f"stock {stock}".rstrip(),
            f"waste {line(self.waste)}".rstrip(),
        ]
        lines += [f"column {c + 1} {line(self.columns[c])}".rstrip() for c in range(10)]
        return "\n".join(lines) + "\n"


def decode_onehot(bits, memory: bool = False, stock_visible: bool = False) -> dict:
    """Read a one-hot vector back into the content of the ``cards`` observation.

    Sections, in order: ten columns (four bottom cards and the top card, 52 bits each, then 17 bits
    of height), eight foundations (14 bits each), waste top (52), waste and stock size (65 each);
    with memory the waste (64 x 52) and the unseen cards (52 x 2: one or more, two); with a visible
    stock its 64 x 52.
    """
    bits = [int(bit) for bit in bits]
    at = 0

    def take(length: int) -> list[int]:
        nonlocal at
        part = bits[at : at + length]
        assert len(part) == length, "the vector is too short"
        at += length
        return part

    def card() -> int:
        part = take(52)
        assert sum(part) <= 1
        return part.index(1) + 1 if 1 in part else 0

    def number(length: int) -> int:
        part = take(length)
        assert sum(part) == 1
        return part.index(1)

    columns = []
    for _ in range(10):
        bottom, top, height = [card() for _ in range(4)], card(), number(17)
        assert bottom.count(0) == max(0, 4 - height)
        cards = [c for c in bottom if c]
        while len(cards) < height:  # from the fifth card on, a column runs down in suit
            cards.append(cards[-1] - 1)
        assert top == (cards[-1] if cards else 0)
        columns.append(cards + [0] * (16 - height))
    seen = {
        "columns": columns,
        "foundations": [number(14) for _ in range(8)],
        "waste_top": [card()],
        "waste_size": [number(65)],
        "stock_size": [number(65)],
    }
    if memory:
        seen["waste"] = [card() for _ in range(64)]
        unseen = [take(2) for _ in range(52)]
        assert [0, 1] not in unseen
        seen["unseen"] = [sum(pair) for pair in unseen]
    if stock_visible:
        seen["stock"] = [card() for _ in range(64)]
    assert at == len(bits), "the vector is too long"
    return seen


# --------------------------------------------------------------------------------- ways to play


def choose(table: Table, policy: str, rng) -> int:
    """An action that a policy picks; ``rng`` is Python's ``random.Random``.

    ``random``: any legal action; ``take_back``: mostly back from the foundations; ``eager``: to a
    foundation where possible, then waste to column, then anything but take-backs; ``draw``: the
    stock first, so that games end stuck.
    """
    legal = [action for action in range(192) if not table.objection(action)]
    to_foundation = [a for a in legal if MOVES[a][2] == "foundation"]
    back = [a for a in legal if MOVES[a][0] == "foundation"]
    from_waste = [a for a in legal if MOVES[a][0] == "waste"]
    if policy == "take_back" and back and rng.random() < 0.5:
        return rng.choice(back)
    if policy in ("eager", "take_back") and to_foundation:
        return rng.choice(to_foundation)
    if policy == "eager" and from_waste and rng.random() < 0.5:
        return rng.choice(from_waste)
    if policy == "draw" and 0 in legal:
        return 0
    others = [a for a in legal if a not in back]
    if policy in ("eager", "draw") and others:
        return rng.choice(others)
    return rng.choice(legal)


def easy_deck() -> list[int]:
    """A deck that is won by moving to the foundations whatever goes there, and drawing otherwise.

    Columns hold the aces to fives, low cards on top; the stock brings the rest in order.
    """
    low_to_high = [13 * suit + rank for rank in range(13) for suit in range(4) for _ in range(2)]
    columns, stock = low_to_high[:40], low_to_high[40:]
    return columns[::-1] + stock
