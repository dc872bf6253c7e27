"""Learning a value network from games of the ``plan`` player.

The ``plan`` player plays many games with exploration: before some draws it moves to one of its
other best positions instead of the very best one. Games without exploration would teach the network
nothing about the positions that the ``plan`` player rejects, and the ``ppo+plan`` player needs
the values of exactly those. From the positions before each draw, the network then learns to
predict the outcome of the whole game: its score and whether it is won.

The run's folder contains the resolved config, versions, ``value.jsonl`` (one line about the games,
then one for each report: the error on test games, which are not trained on, and R2, the explained
fraction of the outcomes' variance) and ``policy.safetensors``, for ``ppo+plan:FOLDER``. Only the
value head of that policy is trained. The policy head is not; with an initial policy, it no longer
matches the layers below it, which have changed. All deals are training deals; the games, and
therefore the result, do not depend on the number of threads that play them.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn

from agents.networks.files import POLICY_FILE, build_policy, load_policy, save_policy
from agents.networks.policy import TablePolicy
from agents.networks.table import NetworkConfig
from agents.search.planner import Candidates, find_candidates, new_candidates
from agents.search.settings import PlanSettings, load_settings
from agents.search.stage import MAX_LINE, Searches, best_line, game_searches
from agents.training.config import (
    MATMUL_PRECISIONS,
    ConfigError,
    Count,
    Positive,
    SeededConfig,
    Share,
    Steps,
    Threads,
    require,
)
from agents.training.folder import VALUE_FILE, new_run
from qv_env.actions import DRAW
from qv_env.compiling import compiled
from qv_env.deals import HELD_OUT_FROM, deck_of
from qv_env.evaluation.play import game_rng
from qv_env.files import write_text
from qv_env.observation import Encoding, encode
from qv_env.rules import MAX_SCORE, STOCK_CARDS, is_won, new_game, play
from qv_env.schema import OneOf, Whole

VARIANT = {"observation": "cards", "memory": True, "stock_visible": False, "take_back": True}

Width = Annotated[int, Whole(1, 100_000)]

_CHUNK = 64  # games in a thread's unit of work

_WARM_UP = 100  # minibatches over which the learning rate rises

_TESTED = 8192  # positions evaluated at a time


class ValueConfig(SeededConfig):
    """One run.

    Attributes:
        name: Names the run's folder.
        seed: Seeds deals, choices, network and minibatches.
        plan: The plan player's settings file. The player does not search beyond the draw here.
        width, end_width: Beam widths, which replace those of the file.
        games: Number of games to play.
        explore: Probability, before each draw, of moving to a random candidate instead of the best.
        candidates: Number of candidate positions, the best one included.
        test_games: Number of games, the last ones, that are not trained on.
        won_share: The network learns ``(1 - won_share) * score / 1360 + won_share * won``.
        batch_size: Positions in a minibatch.
        passes: How often a position is trained on, on average.
        learning_rate: Adam's; falls linearly to 0.
        report_every: Minibatches between reports.
        initial_policy: A policy file, or a run's folder, with the initial weights; null: random
            weights, for a network of the sizes in ``network``.
        torch_threads, matmul_precision, network: As in ``agents.training.config.RunConfig``.
    """

    plan: str = "configs/search/plan.yaml"
    width: Width = 60
    end_width: Width = 400
    games: Annotated[int, Whole(2, 10_000_000)] = 60_000
    explore: Share = 0.12
    candidates: Annotated[int, Whole(2, 10_000)] = 24
    test_games: Count = 1_000
    won_share: Share = 0.5
    batch_size: Count = 2048
    passes: Positive = 1.2
    learning_rate: Positive = 5e-4
    report_every: Steps = 300
    initial_policy: str | None = None
    torch_threads: Threads = 1
    matmul_precision: Annotated[str, OneOf(MATMUL_PRECISIONS)] = "highest"
    network: NetworkConfig = NetworkConfig()

    @model_validator(mode="after")
    def _check(self) -> ValueConfig:
        require(self.games > self.test_games, "games is more than test_games")
        try:
            load_settings(self.plan)
        except (ValueError, OSError) as error:
            raise ConfigError(f"plan: {error}") from None
        if self.initial_policy is not None:
            self._check_initial_policy(self.initial_policy)
        return self

    def _check_initial_policy(self, path: str) -> None:
        try:
            _, about = load_policy(path)
        except (ValueError, OSError) as error:
            raise ConfigError(f"initial_policy: {error}") from None
        wanted = {"policy": "table", "env": VARIANT, "network": vars(self.network)}
        for key, value in wanted.items():
            require(
                about[key] == value,
                f"initial_policy: {path} has {key}: {about[key]!r}, this run {value!r}",
            )

    def settings(self) -> PlanSettings:
        """Return the plan player's settings for this run."""
        settings = load_settings(self.plan)
        effort = dataclasses.replace(
            settings.effort, ahead=1, width=self.width, end_width=self.end_width
        )
        return PlanSettings(settings.weights, effort)


# ---------------------------------------------------------------------------------------- games


@dataclass(frozen=True, eq=False)
class PlayedGames:
    """Games that were played.

    Attributes:
        decks: uint8 (n, 104).
        actions: uint8 (total,), the actions of all games, concatenated.
        starts: int64 (n + 1,): game i's actions are ``actions[starts[i] : starts[i + 1]]``.
        draws: int64 (n,), the number of draws in each game.
        scores: int64 (n,), the final scores, 0..1360.
        wins: bool (n,).
    """

    decks: np.ndarray
    actions: np.ndarray
    starts: np.ndarray
    draws: np.ndarray
    scores: np.ndarray
    wins: np.ndarray

    def __len__(self) -> int:
        return len(self.draws)

    def positions(self, first: int, last: int) -> np.ndarray:
        """Return all positions before a draw of games first..last - 1.

        Returns:
            int64 (k, 2): the game's index, and the number of draws made before the position.
        """
        draws = self.draws[first:last]
        begins = np.repeat(np.cumsum(draws) - draws, draws)
        games = np.repeat(np.arange(first, last), draws)
        return np.stack([games, np.arange(draws.sum()) - begins], axis=1)


@compiled
def _play_exploring(
    game: np.ndarray,
    picks: np.ndarray,
    explore: float,
    searches: Searches,
    candidates: Candidates,
    played: np.ndarray,
) -> int:
    """Play a game to its end with exploration.

    Args:
        game: STATE (1,); changed in place.
        picks: float64 (STOCK_CARDS, 2), random numbers in [0, 1): before draw k, the game moves to
            another candidate than the best if the first number is below ``explore``; the second
            number selects that candidate.
        searches: The searches of the game; ``ahead`` is the number of candidates.
        candidates: Scratch space, with room for ``ahead`` candidates.
        played: uint8, receives the actions.

    Returns:
        The number of actions in the game.
    """
    lines, lengths = candidates.lines, candidates.lengths
    total = 0
    draw = 0
    while game[0]["stock_size"] > 0:
        count = find_candidates(game, searches, candidates)
        best = 0
        if count > 1 and picks[draw, 0] < explore:
            best = 1 + int(picks[draw, 1] * (count - 1))
        for k in range(lengths[best]):
            play(game[0], lines[best, k])
            played[total] = lines[best, k]
            total += 1
        if is_won(game[0]):
            return total
        play(game[0], DRAW)
        played[total] = DRAW
        total += 1
        draw += 1
    length = best_line(game, searches, lines[0])
    played[total : total + length] = lines[0, :length]
    return total + length


def play_games(
    config: ValueConfig, threads: int, say: Callable[[str], object] = lambda line: None
) -> PlayedGames:
    """Play a run's games.

    Args:
        config: The run.
        threads: Number of threads that play. The games do not depend on it.
        say: Called with a line about the progress after every 10,000 games or so.
    """
    settings, seed = config.settings(), config.seed
    effort = settings.effort
    deals = np.random.default_rng(seed).integers(0, HELD_OUT_FROM, config.games)

    def played(chunk: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, int, int, bool]]:
        searches = game_searches(
            effort.beam, effort.end_beam, settings.weights, ahead=config.candidates
        )
        candidates = new_candidates(config.candidates)
        room = np.zeros((STOCK_CARDS + 1) * MAX_LINE, dtype=np.uint8)
        results = []
        for deal in chunk.tolist():
            deck = deck_of(deal)
            game = new_game(deck)
            picks = game_rng(seed, deal).random((STOCK_CARDS, 2))
            count = _play_exploring(game, picks, config.explore, searches, candidates, room)
            actions = room[:count].copy()
            draws = int(np.count_nonzero(actions == DRAW))
            results.append((deck, actions, draws, int(game[0]["score"]), bool(is_won(game[0]))))
        return results

    chunks = np.split(deals, range(_CHUNK, len(deals), _CHUNK))
    results: list[tuple[np.ndarray, np.ndarray, int, int, bool]] = []
    pool = ThreadPoolExecutor(threads)  # compiled code releases the GIL
    try:
        for some in pool.map(played, chunks):
            if (len(results) + len(some)) // 10_000 > len(results) // 10_000:
                say(f"{len(results) + len(some)} of {len(deals)} games")
            results += some
    finally:
        pool.shutdown(cancel_futures=True)
    decks, actions, draws, scores, wins = zip(*results, strict=True)
    return PlayedGames(
        np.stack(decks),
        np.concatenate(actions),
        np.cumsum([0, *map(len, actions)]),
        np.array(draws),
        np.array(scores),
        np.array(wins),
    )


@compiled
def _write_positions(
    roots: np.ndarray,
    actions: np.ndarray,
    starts: np.ndarray,
    draws: np.ndarray,
    flags: int,
    rows: np.ndarray,
) -> None:
    """Write the observation of each game before its given draw.

    The games are replayed from ``roots``, which are changed in place.
    """
    for i in range(roots.size):
        at = starts[i]
        left = draws[i]
        while left > 0 or actions[at] != DRAW:
            if actions[at] == DRAW:
                left -= 1
            play(roots[i], actions[at])
            at += 1
        encode(roots[i], flags, rows[i])


# ------------------------------------------------------------------------------------- learning


class ValueLearner:
    """Trains a network to predict the outcomes of games.

    Positions are stored as games and replayed for each minibatch, which takes about a hundredth of
    the memory that stored observations would.

    Args:
        config: The run.
        games: Its games.
    """

    def __init__(self, config: ValueConfig, games: PlayedGames) -> None:
        self.config = config
        torch.set_num_threads(config.torch_threads)
        torch.set_float32_matmul_precision(config.matmul_precision)
        torch.manual_seed(config.seed)
        if config.initial_policy is None:
            policy: Any = build_policy("table", vars(config.network), [], VARIANT)
        else:
            policy, _ = load_policy(config.initial_policy)
        assert isinstance(policy, TablePolicy)
        self.policy = policy
        self._encoding = Encoding("cards", memory=True, stock_visible=False)
        self._optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, eps=1e-5)
        self._rng = np.random.default_rng([config.seed, len(games)])
        self._games = games
        self._roots = np.concatenate([new_game(deck) for deck in games.decks])
        share = config.won_share
        self._targets = ((1 - share) * games.scores / MAX_SCORE + share * games.wins).astype(
            np.float32
        )
        cut = len(games) - config.test_games
        self._learnt, self._tested = games.positions(0, cut), games.positions(cut, len(games))
        self.minibatches = max(1, int(config.passes * len(self._learnt) / config.batch_size))
        self.done = 0
        self._losses: list[float] = []
        head = policy.network.value[-1]
        assert isinstance(head, nn.Linear)
        with torch.no_grad():
            head.bias.fill_(float(self._targets[self._learnt[:, 0]].mean(dtype=np.float64)))

    def learn(self) -> None:
        """Train on one minibatch."""
        config = self.config
        rate = min(1.0, (self.done + 1) / _WARM_UP) * (1 - self.done / self.minibatches)
        for group in self._optimizer.param_groups:
            group["lr"] = config.learning_rate * rate
        chosen = self._learnt[self._rng.integers(0, len(self._learnt), config.batch_size)]
        observation, targets = self._batch(chosen)
        _, values = self.policy.network(observation)
        loss = ((values - targets) ** 2).mean()
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self._optimizer.step()
        self._losses.append(loss.item())
        self.done += 1

    def report(self) -> dict[str, Any]:
        """Return the loss over the minibatches since the last report, and the test error."""
        errors, outcomes = [], []
        with torch.no_grad():
            for first in range(0, len(self._tested), _TESTED):
                observation, targets = self._batch(self._tested[first : first + _TESTED])
                _, values = self.policy.network(observation)
                errors.append((values - targets).double() ** 2)
                outcomes.append(targets.double())
        error = float(torch.cat(errors).mean())
        variance = float(torch.cat(outcomes).var(correction=0))
        losses, self._losses = self._losses, []
        return {
            "minibatches": self.done,
            "loss": round(float(np.mean(losses)), 5) if losses else None,
            "test_error": round(error, 5),
            "test_r2": round(1 - error / variance, 4) if variance else None,
        }

    def save(self, path: Path) -> None:
        """Write the policy's file."""
        save_policy(
            self.policy,
            path,
            "table",
            vars(self.config.network),
            [],
            VARIANT,
            1 / MAX_SCORE,
            whole_game=True,
        )

    def _batch(self, positions: np.ndarray) -> tuple[dict[str, Tensor], Tensor]:
        """Return the observations of positions (k, 2) of the games, and their targets (k,)."""
        games, draws = positions[:, 0], positions[:, 1]
        rows = np.zeros((len(positions), self._encoding.size), dtype=np.uint8)
        _write_positions(
            self._roots[games],
            self._games.actions,
            self._games.starts[games],
            draws,
            self._encoding.flags,
            rows,
        )
        views: Any = self._encoding.views(rows)
        observation = {key: torch.from_numpy(view) for key, view in views.items()}
        return observation, torch.from_numpy(self._targets[games])


def learn_values(
    config: ValueConfig, folder: Path, threads: int, say: Callable[[str], object] = print
) -> None:
    """Execute a run and write its files to a folder.

    Args:
        config: The run.
        folder: The run's folder; created if missing.
        threads: Number of threads that play the games.
        say: Called with progress messages: the lines of ``value.jsonl``, and the number of games
            played so far.

    Raises:
        RunError: The folder contains files other than those of this run's start.
        InUseError: Another run is using the folder.
        OSError: The folder cannot be written to.
    """
    started = time.monotonic()
    lines: list[str] = []

    def log(row: dict[str, Any]) -> None:
        row["seconds"] = round(time.monotonic() - started, 1)
        lines.append(json.dumps(row))
        write_text(folder / VALUE_FILE, "".join(line + "\n" for line in lines))
        say(lines[-1])

    with new_run(folder, config.to_dict()):
        games = play_games(config, threads, say)
        log(
            {
                "games": len(games),
                "positions": int(games.draws.sum()),
                "mean_score": round(float(games.scores.mean()), 2),
                "wins": int(games.wins.sum()),
            }
        )
        learner = ValueLearner(config, games)
        while learner.done < learner.minibatches:
            learner.learn()
            if learner.done % config.report_every == 0 or learner.done == learner.minibatches:
                log(learner.report())
                learner.save(folder / POLICY_FILE)
