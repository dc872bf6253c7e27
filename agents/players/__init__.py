"""This repository's own players, by name, in addition to those of ``qv_env.evaluation.players``.

=====================  =====================================================================
``plan``               a search over the visible moves between two draws; ``plan:FILE`` uses
                       another settings file than ``configs/search/plan.yaml``; ``width=``,
                       ``depth=``, ``end_width=``, ``end_depth=`` set the effort of the search
``sample``             evaluates the ``plan`` player's best positions by play-outs on sampled
                       stocks; ``sample:FILE`` uses another settings file than
                       ``configs/search/sample.yaml``; ``games=``, ``candidates=``, ``width=``
                       and so on set the number of play-outs and their effort
``ppo:PATH``           a trained policy: a run's folder, or its ``policy.safetensors``; with
                       ``play=`` sample (default), argmax or argmax-new (argmax that never
                       returns to a position of the episode), ``temperature=`` for sample
``ppo+plan:PATH``      the ``plan`` player, with a policy's value network as a second evaluation
                       of its best positions; with ``weight=``, ``candidates=`` and the ``plan``
                       player's numbers (best with the network of ``agents.value``)
=====================  =====================================================================
"""

from __future__ import annotations

from qv_env.evaluation.players import PLAYERS as PACKAGE_PLAYERS
from qv_env.evaluation.players import Player, PlayerKind, PlayerSpec

# The module of each player is imported when one is created, so that torch is loaded only if needed.


def _plan(spec: PlayerSpec) -> Player:
    from agents.players.plan import PlanPlayer

    return PlanPlayer.load(spec.path, **spec.options)


def _sample(spec: PlayerSpec) -> Player:
    from agents.players.sample import SamplePlayer

    return SamplePlayer.load(spec.path, **spec.options)


def _ppo(spec: PlayerSpec) -> Player:
    if not spec.path:
        raise ValueError(f"player {spec.text!r} names no policy: ppo:PATH")
    from agents.players.ppo import PPOPlayer

    return PPOPlayer.load(spec.path, **spec.options)


def _ppo_plan(spec: PlayerSpec) -> Player:
    from agents.players.ppo_plan import PPOPlanPlayer

    return PPOPlanPlayer.load(spec.path, **spec.options)


PLAYERS = PACKAGE_PLAYERS.extended(
    "agents.players:PLAYERS",
    {
        "plan": PlayerKind("plan[:FILE][,key=value...]", _plan),
        "ppo": PlayerKind("ppo:PATH[,play=...][,temperature=T]", _ppo),
        "sample": PlayerKind("sample[:FILE][,key=value...]", _sample),
        "ppo+plan": PlayerKind("ppo+plan:PATH[,key=value...]", _ppo_plan),
    },
)
make_player = PLAYERS.make

__all__ = ["PLAYERS", "Player", "make_player"]
