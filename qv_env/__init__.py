"""Quarante Voleurs: a hard, fast solitaire with a hidden stock, as a Gymnasium environment.

Importing this package registers ``QuaranteVoleurs-v0``;
``gym.make("qv_env:QuaranteVoleurs-v0")`` imports it first.
"""

import gymnasium as gym

from qv_env._version import __version__
from qv_env.actions import ACTION_NAMES, NUM_ACTIONS, action_name, parse_action
from qv_env.cards import card_text, cards_text, parse_card, parse_cards
from qv_env.deals import deal_code, deal_number, deck_of, parse_code
from qv_env.env import QuaranteVoleursEnv
from qv_env.playthroughs.playthrough import (
    Playthrough,
    PlaythroughError,
    Recorder,
    parse_playthrough,
    read_playthrough,
)
from qv_env.suites import suite
from qv_env.variants import ENV_ID, MAX_EPISODE_STEPS
from qv_env.vector import QuaranteVoleursVectorEnv

__all__ = [
    "ACTION_NAMES",
    "ENV_ID",
    "MAX_EPISODE_STEPS",
    "NUM_ACTIONS",
    "Playthrough",
    "PlaythroughError",
    "QuaranteVoleursEnv",
    "QuaranteVoleursVectorEnv",
    "Recorder",
    "__version__",
    "action_name",
    "card_text",
    "cards_text",
    "deal_code",
    "deal_number",
    "deck_of",
    "parse_action",
    "parse_card",
    "parse_cards",
    "parse_code",
    "parse_playthrough",
    "read_playthrough",
    "suite",
]

if ENV_ID not in gym.registry:
    gym.register(
        id=ENV_ID,
        entry_point="qv_env.env:QuaranteVoleursEnv",
        vector_entry_point="qv_env.vector:QuaranteVoleursVectorEnv",
        max_episode_steps=MAX_EPISODE_STEPS,
    )
