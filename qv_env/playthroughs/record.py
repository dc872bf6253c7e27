"""Recording: wrappers that write the games of an environment to playthrough files.

``RecordPlaythrough`` wraps a single environment, ``RecordPlaythroughVector`` the native batch; both
support all keywords of the environments, deals and decks. Files are written whole or not at all,
and are numbered in the order in which games end. Numbers that are in use are skipped, so several
runs and processes can share a folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from qv_env.cards import NUM_CARDS
from qv_env.deals import code_of
from qv_env.env import QuaranteVoleursEnv
from qv_env.files import naming, temporary_file
from qv_env.folders import sweep
from qv_env.playthroughs.playthrough import PathLike, Playthrough, PlaythroughError
from qv_env.rules import CARDS_PER_COLUMN, COLUMN_CARDS, Game
from qv_env.variants import Observation
from qv_env.vector import QuaranteVoleursVectorEnv

Pairs: TypeAlias = "Sequence[tuple[int, float]]"


def deck_of_start(game: Game) -> list[int]:
    """Return the deck (104 cards, 0..51) of a game before its first action."""
    deck = np.empty(NUM_CARDS, dtype=np.uint8)
    deck[:COLUMN_CARDS] = game["columns"][:, :CARDS_PER_COLUMN].T.ravel()
    deck[COLUMN_CARDS:] = game["stock"][::-1]
    return [int(card) - 1 for card in deck]


def write_numbered(playthrough: Playthrough, folder: PathLike, prefix: str, number: int) -> int:
    """Write a playthrough as ``PREFIX-NNNNNN.json`` into a folder, with the next free number.

    Args:
        playthrough: The game.
        folder: An existing folder.
        prefix: The start of the file's name.
        number: The first number to try.

    Returns:
        The number of the file.

    Raises:
        OSError: The folder cannot be written to.
    """
    with naming(folder), temporary_file(folder) as temporary:
        with open(temporary, "wb") as file:
            file.write(playthrough.text().encode())
            file.flush()
            os.fsync(file.fileno())
        while True:
            path = Path(folder) / f"{prefix}-{number:06d}.json"
            try:
                os.link(temporary, path)  # unlike a rename, this fails if the file exists
            except FileExistsError:
                number += 1
            except OSError:  # a file system without links: create the name first, then replace it
                if path.exists():
                    number += 1
                    continue
                path.touch(exist_ok=False)
                os.replace(temporary, path)
                return number
            else:
                return number


class _Tape:
    """The record of one game while it is played.

    Args:
        deal: The deal's code, or "" for an explicit deck.
        game: The game before its first action.
    """

    def __init__(self, deal: str, game: Game) -> None:
        self._deal = deal
        self._deck = None if deal else deck_of_start(game)
        self._actions: list[int] = []
        self._values: list[float | None] = []
        self._likeliest: list[Pairs | None] = []

    def append(self, action: int, value: float | None, likeliest: Pairs | None) -> None:
        self._actions.append(action)
        self._values.append(value)
        self._likeliest.append(likeliest)

    def playthrough(self, player: str, score: int, extra: dict[str, Any]) -> Playthrough:
        """Return the game so far; values and likeliest actions are kept if given at every step."""
        values = [value for value in self._values if value is not None]
        likeliest = [pairs for pairs in self._likeliest if pairs is not None]
        steps = len(self._actions)
        playthrough = Playthrough.from_actions(
            self._actions,
            deal=self._deal or None,
            deck=self._deck,
            player=player,
            values=values if steps and len(values) == steps else None,
            likeliest=likeliest if steps and len(likeliest) == steps else None,
            extra=extra,
        )
        if playthrough.score != score:
            raise PlaythroughError(
                f"the actions that were recorded lead to score {playthrough.score}, the game to"
                f" {score}: a wrapper inside the recording one changes actions"
            )
        return playthrough


class _Writer:
    """Counts the games that ended, and writes every n-th."""

    def __init__(self, folder: PathLike, every: int, prefix: str, player: str) -> None:
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ValueError(f"every is a positive integer, not {every!r}")
        if not prefix or prefix != os.path.basename(prefix) or prefix.startswith("."):
            raise ValueError(f"prefix is the start of a file's name, not {prefix!r}")
        if not isinstance(player, str):
            raise ValueError(f"player is a text, not {player!r}")
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        sweep(self._folder)  # not locked: other processes may record here as well
        self._every, self._prefix, self._player = int(every), prefix, player
        self._ended = 0  # games
        self._number = 1  # of the next file, unless it is in use

    def ended(self, tape: _Tape, score: int, truncated: bool) -> None:
        """Count a game that ended, and write it if it is due."""
        self._ended += 1
        if (self._ended - 1) % self._every:
            return
        extra = {"episode": self._ended, "truncated": truncated}
        playthrough = tape.playthrough(self._player, score, extra)
        self._number = 1 + write_numbered(playthrough, self._folder, self._prefix, self._number)


class RecordPlaythrough(
    gym.Wrapper[Observation, np.int64, Observation, np.int64], gym.utils.RecordConstructorArgs
):
    """Writes a playthrough file of every game that ends, or of every n-th.

    A game ends when it is terminated or truncated; a game abandoned by a reset is not written. Wrap
    the environment that ``gym.make`` returns, so that the step limit is seen, and apply wrappers
    that change actions outside this one. Refused actions are not recorded.

    Args:
        env: A ``QuaranteVoleurs-v0``, wrapped or not.
        folder: Folder of the files; created if it is missing.
        every: Write the first game and each ``every``-th after it.
        prefix: Files are ``PREFIX-000001.json`` and so on.
        player: The player's name in the files.

    Raises:
        TypeError: The environment is not a ``QuaranteVoleurs-v0``.
        ValueError: An argument has an invalid value.
        OSError: The folder cannot be created.
    """

    def __init__(
        self,
        env: gym.Env[Observation, np.int64],
        folder: PathLike,
        every: int = 1,
        prefix: str = "game",
        player: str = "",
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, folder=os.fspath(folder), every=every, prefix=prefix, player=player
        )
        super().__init__(env)
        if not isinstance(env.unwrapped, QuaranteVoleursEnv):
            raise TypeError(
                f"only games of QuaranteVoleurs-v0 are recorded, not of {env.unwrapped}"
            )
        self._writer = _Writer(folder, every, prefix, player)
        self._tape: _Tape | None = None
        self._thought: tuple[float | None, Pairs | None] = (None, None)

    def note(self, value: float | None = None, likeliest: Pairs | None = None) -> None:
        """Record the player's estimates before its next action; kept if noted at every step.

        Args:
            value: Its value estimate.
            likeliest: (action, probability) pairs, the likeliest first.
        """
        self._thought = value, likeliest

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new game; see the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        game = self.unwrapped
        assert isinstance(game, QuaranteVoleursEnv)
        self._tape = _Tape(info["deal"], game.state)
        self._thought = None, None
        return observation, info

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one action; see the environment. Writes the file when the game ends.

        Raises:
            OSError: The file cannot be written; the step has been taken nevertheless.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        tape, thought = self._tape, self._thought
        self._thought = None, None
        if tape is not None:
            if not info["refusal"]:
                tape.append(int(action), *thought)
            if terminated or truncated:
                self._tape = None
                self._writer.ended(tape, info["score"], bool(truncated and not terminated))
        return observation, float(reward), terminated, truncated, info


if TYPE_CHECKING:
    _VectorWrapper = gym.vector.VectorWrapper[
        Observation, np.ndarray, Observation, np.ndarray, np.ndarray
    ]
else:  # the class takes no type parameters in older versions of Gymnasium
    _VectorWrapper = gym.vector.VectorWrapper


class RecordPlaythroughVector(_VectorWrapper, gym.utils.RecordConstructorArgs):
    """Writes a playthrough file of every game of a batch that ends, or of every n-th.

    It works in every autoreset mode. With Gymnasium's own vector environments, wrap the single
    environments in :class:`RecordPlaythrough` instead. A game abandoned by a reset is not written,
    and refused actions are not recorded.

    Args:
        env: A ``QuaranteVoleursVectorEnv``, wrapped or not.
        folder: Folder of the files; created if it is missing.
        every: Write the first game and each ``every``-th after it, counted over the whole batch.
        prefix: Files are ``PREFIX-000001.json`` and so on.
        player: The player's name in the files.

    Raises:
        TypeError: The environment is not the native batch.
        ValueError: An argument has an invalid value.
        OSError: The folder cannot be created.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Observation, np.ndarray, np.ndarray],
        folder: PathLike,
        every: int = 1,
        prefix: str = "game",
        player: str = "",
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, folder=os.fspath(folder), every=every, prefix=prefix, player=player
        )
        super().__init__(env)
        if not isinstance(env.unwrapped, QuaranteVoleursVectorEnv):
            raise TypeError(
                f"only the batch QuaranteVoleursVectorEnv is recorded, not {env.unwrapped}; put"
                " RecordPlaythrough around the single environments"
            )
        self._games = env.unwrapped
        self._writer = _Writer(folder, every, prefix, player)
        self._tapes: list[_Tape | None] = [None] * env.num_envs
        self._forget_thoughts()

    def _forget_thoughts(self) -> None:
        self._noted_values: np.ndarray | None = None
        self._noted_likeliest: Sequence[Pairs] | None = None

    def note(
        self,
        values: Sequence[float] | np.ndarray | None = None,
        likeliest: Sequence[Pairs] | None = None,
    ) -> None:
        """Record estimates before the next actions; kept if noted at every step of a game.

        Args:
            values: The value estimate of each environment, (num_envs,).
            likeliest: For each environment (action, probability) pairs, the likeliest first.

        Raises:
            ValueError: The number of entries is not ``num_envs``.
        """
        for name, given in (("values", values), ("likeliest", likeliest)):
            if given is not None and len(given) != self.num_envs:
                raise ValueError(f"{name} has {len(given)} entries for {self.num_envs} games")
        self._noted_values = None if values is None else np.array(values, dtype=np.float64)
        self._noted_likeliest = likeliest

    def action_masks(self) -> np.ndarray:
        """Return which actions are legal now; see the environment."""
        return self._games.action_masks()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new games; see the environment."""
        observation, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        for i in np.flatnonzero(infos["_deal"]).tolist():
            self._begin(i, infos)
        self._forget_thoughts()
        return observation, infos

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one action in every environment, and write files of games that end.

        Raises:
            OSError: A file cannot be written; the step has been taken nevertheless.
        """
        observation, rewards, terminations, truncations, infos = self.env.step(actions)
        values, likeliest = self._noted_values, self._noted_likeliest
        self._forget_thoughts()
        ended = terminations | truncations
        refusals, scores = infos["refusal"], infos["score"]
        final = infos.get("final_info")
        taken = np.asarray(actions).tolist()
        for i, tape in enumerate(self._tapes):
            if tape is None:  # the game ended in the step before: this step reset it
                self._begin(i, infos)
                continue
            last = final if final is not None and ended[i] else None
            if not (refusals if last is None else last["refusal"])[i]:
                tape.append(
                    taken[i],
                    None if values is None else float(values[i]),
                    None if likeliest is None else likeliest[i],
                )
            if ended[i]:
                self._tapes[i] = None
                score = int((scores if last is None else last["score"])[i])
                self._writer.ended(tape, score, bool(truncations[i] and not terminations[i]))
                if self._games.autoreset_mode == AutoresetMode.SAME_STEP:
                    self._begin(i, infos)
        return observation, rewards, terminations, truncations, infos

    def _begin(self, i: int, infos: dict[str, Any]) -> None:
        self._tapes[i] = _Tape(code_of(int(infos["deal"][i])), self._games.arrays.states[i])
