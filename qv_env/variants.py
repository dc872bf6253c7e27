"""What the single environment and the batch share: their variants, and checks of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from qv_env.actions import NUM_ACTIONS, NUM_ACTIONS_WITHOUT_TAKE_BACK
from qv_env.deals import checked_deck, deal_number, deck_of
from qv_env.observation import Encoding
from qv_env.suites import DealPool, Deals, deal_pool

ENV_ID = "QuaranteVoleurs-v0"
MAX_EPISODE_STEPS = 500  # unless ``max_episode_steps`` says otherwise

RENDER_MODES = ("ansi", "rgb_array", "human")
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}

Observation = np.ndarray | dict[str, np.ndarray]


class Variant:
    """A variant of the environment: its keywords, checked, and what follows from them.

    Args:
        observation: ``"cards"`` or ``"onehot"``.
        memory: Whether the observation contains the whole waste and the counts of unseen cards.
        stock_visible: Whether the observation contains the stock's order.
        take_back: Whether foundation cards may be taken back.
        deals: The pool of deals (see ``qv_env.suites.deal_pool``).

    Raises:
        ValueError: A keyword has an invalid value; the message names it.
    """

    def __init__(
        self, observation: str, memory: bool, stock_visible: bool, take_back: bool, deals: Deals
    ) -> None:
        flags = {"memory": memory, "stock_visible": stock_visible, "take_back": take_back}
        for name, value in flags.items():
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{name} is True or False, not {value!r}")
        self.encoding = Encoding(observation, bool(memory), bool(stock_visible))
        self.num_actions = NUM_ACTIONS if take_back else NUM_ACTIONS_WITHOUT_TAKE_BACK
        self.action_space = spaces.Discrete(self.num_actions)
        self.pool: DealPool = deal_pool(deals)


def checked_render_mode(render_mode: str | None) -> str | None:
    """Return the render mode, or raise a ValueError if there is no such mode."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode is None or one of {RENDER_MODES}, not {render_mode!r}")
    return render_mode


def chosen_deal(options: dict[str, Any] | None) -> tuple[int, np.ndarray] | None:
    """Return the number (-1 for an explicit deck) and the deck that reset options ask for.

    Args:
        options: ``{"deal": code_or_number}``, ``{"deck": [...]}``, ``{}`` or None.

    Returns:
        The deal's number and its deck, uint8 (104,); None if the options name neither.

    Raises:
        ValueError: The deal or the deck is not valid, or an option is unknown; the message says
            why.
    """
    if options is None:
        return None
    if not isinstance(options, dict):
        raise ValueError(f"reset options are a dict, not {options!r}")
    if not options:
        return None
    unknown = sorted(str(key) for key in options if key not in ("deal", "deck"))
    if unknown:
        raise ValueError(f"no reset option {unknown[0]!r}; there are 'deal' and 'deck'")
    if len(options) == 2:
        raise ValueError("reset takes a 'deal' or a 'deck', not both")
    if "deck" in options:
        return -1, checked_deck(options["deck"])
    number = deal_number(options["deal"])
    return number, deck_of(number)


def writable(value: Any) -> Any:
    """Return a value in which read-only arrays are replaced by copies.

    Unpickling without copying (protocol 5 with out-of-band buffers, as in Ray) yields such arrays.

    Args:
        value: An array; a tuple (or named tuple) or dict, whose values are treated likewise; or
            anything else, which is returned unchanged.
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    if isinstance(value, dict):
        return {key: writable(part) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = map(writable, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
