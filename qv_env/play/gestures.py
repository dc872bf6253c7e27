"""What a gesture means: the actions that it may be, the best first, or the text that refuses it.

``qv_env.play.game`` describes the gestures. The functions here take a game as it stands (a record
of ``qv_env.rules.STATE``) and change nothing.
"""

from __future__ import annotations

from qv_env.actions import COLUMN, DRAW, FOUNDATION, MOVES, NUM_COLUMNS, STOCK, WASTE, Move
from qv_env.cards import NUM_SUITS
from qv_env.play.piles import Pile, pile_name
from qv_env.rules import (
    LEGAL,
    NO_CARD,
    NOT_NEXT_IN_COLUMN,
    NOT_NEXT_ON_FOUNDATION,
    NOTHING_TO_MOVE,
    ON_AN_ACE,
    REFUSALS,
    STOCK_EMPTY,
    Game,
    accepting_foundation,
    refusal,
    top_card,
)

# What refuses a gesture where the rules of the game have no say.
DRAG_TO_TAKE_BACK = "a card is taken back from a foundation only by dragging it to a column"
NOT_ONTO_STOCK_OR_WASTE = "no card is put on the stock, and only the stock's next one on the waste"
NOT_BETWEEN_FOUNDATIONS = "no card moves from one foundation to another"
STOCK_TO_WASTE_ONLY = "the stock's next card goes to the waste only"

_ACTION_IDS = {move: action for action, move in enumerate(MOVES)}


def tapped(game: Game, pile: Pile) -> list[int] | str:
    """Return what a tap on a pile means: actions, the best first, or what refuses it."""
    if pile.kind == COLUMN:
        return [_to_foundation(pile)]
    return sent_off(game, pile)


def sent_off(game: Game, pile: Pile) -> list[int] | str:
    """Return what moves a pile's card to the best place; a foundation's card stays.

    Returns:
        Actions, the best first, or what refuses the gesture.
    """
    if pile.kind == FOUNDATION:
        return missing(game, pile) or DRAG_TO_TAKE_BACK
    return candidates(game, pile)


def dropped(game: Game, pile: Pile, aim: Pile | None) -> list[int] | str:
    """Return what a drop on another pile means where it is taken at its word.

    Args:
        game: How the game stands.
        pile: Where the card comes from.
        aim: The pile that it is dropped on; None for any foundation.

    Returns:
        One action, legal or not, or what refuses the drop.
    """
    if pile.kind == STOCK:
        return [DRAW] if aim is not None and aim.kind == WASTE else STOCK_TO_WASTE_ONLY
    if aim is None or aim.kind == FOUNDATION:
        if pile.kind == FOUNDATION:
            return NOT_BETWEEN_FOUNDATIONS
        if aim is not None and not _foundation_accepts(game, aim.number, pile):
            return REFUSALS[NOT_NEXT_ON_FOUNDATION]
        return [_to_foundation(pile)]
    if aim.kind != COLUMN:
        return NOT_ONTO_STOCK_OR_WASTE
    return [_ACTION_IDS[Move(*pile, *aim)]]


def is_placed(pile: Pile, aim: Pile | None) -> bool:
    """Return whether automatic placing is for a card that is dropped like this.

    Args:
        pile: Where the card comes from.
        aim: The pile that it is dropped on; None for none, or for any foundation.
    """
    if pile.kind == FOUNDATION:
        return aim is not None and aim.kind == COLUMN
    return pile.kind in (WASTE, COLUMN)


def candidates(game: Game, pile: Pile) -> list[int]:
    """Return all actions that would move a pile's card, legal or not, the best first."""
    if pile.kind == STOCK:
        return [DRAW]
    # Empty columns have height 0, so they come last.
    heights = game["heights"].tolist()
    columns = sorted(range(NUM_COLUMNS), key=lambda c: -heights[c])
    actions = [_ACTION_IDS[Move(*pile, COLUMN, c)] for c in columns if pile != (COLUMN, c)]
    return actions if pile.kind == FOUNDATION else [_to_foundation(pile), *actions]


def first_legal(game: Game, actions: list[int]) -> int | str:
    """Return the first legal one of some actions, or the rules that refuse them all."""
    reasons = set()
    for action in actions:
        reason = int(refusal(game, action))
        if reason == LEGAL:
            return action
        reasons.add(reason)
    if NOT_NEXT_IN_COLUMN in reasons:  # which an ace among the columns is a case of
        reasons.discard(ON_AN_ACE)
    return "; ".join(REFUSALS[reason] for reason in sorted(reasons))


def accepting(game: Game, pile: Pile) -> tuple[str, ...]:
    """Return the names of the piles that accept a pile's card, the best first."""
    legal = (action for action in candidates(game, pile) if refusal(game, action) == LEGAL)
    return tuple(landing(game, action) for action in legal)


def landing(game: Game, action: int) -> str:
    """Return the name of the pile that a legal action's card goes to."""
    move = MOVES[action]
    if move.target != FOUNDATION:
        return pile_name(move.target, move.target_index)
    card_id = top_card(game, move.source, move.source_index)
    return pile_name(FOUNDATION, int(accepting_foundation(game, card_id)))


def missing(game: Game, pile: Pile) -> str:
    """Return why no card can leave a pile; "" where there is one."""
    if top_card(game, *pile) != NO_CARD:
        return ""
    return REFUSALS[STOCK_EMPTY if pile.kind == STOCK else NOTHING_TO_MOVE]


def _to_foundation(pile: Pile) -> int:
    return _ACTION_IDS[Move(*pile, FOUNDATION, 0)]


def _foundation_accepts(game: Game, f: int, pile: Pile) -> bool:
    """Whether a pile's card may be dropped on foundation f."""
    left = accepting_foundation(game, top_card(game, *pile))
    if left < 0:
        return False
    heights = game["foundations"]
    return bool(f % NUM_SUITS == left % NUM_SUITS and heights[f] == heights[left])
