"""Configs of runs: one YAML file each, validated key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, Field, model_validator

from agents.networks.files import POLICIES, Layers, observation_of
from agents.networks.table import NetworkConfig
from agents.players.ppo import PLAYS
from qv_env import MAX_EPISODE_STEPS, NUM_ACTIONS, deal_number, suite
from qv_env.observation import OBSERVATIONS, Encoding
from qv_env.schema import OneOf, Strict, Whole, checked
from qv_env.strict_json import FormatError, shown
from qv_env.strict_yaml import parse_yaml, read_yaml
from qv_env.suites import NUM_DEALS, SUITE_SIZES, deal_pool

MAX_RUNS = 1_000  # runs of one command
MAX_BUFFER = 32 << 30  # bytes of the positions that a run keeps in memory
MATMUL_PRECISIONS = ("highest", "high", "medium")


class ConfigError(ValueError):
    """A config is not valid; the message names the key."""


class RunError(Exception):
    """A run cannot start or resume; the message gives the reason."""


def require(condition: bool, message: str) -> None:
    """Raise a ConfigError with a message unless a condition holds."""
    if not condition:
        raise ConfigError(message)


def _name(name: str) -> str:
    safe = re.sub("[-_.]", "", name)
    require(
        safe.isalnum() and not name.startswith("."),
        f"made of letters, digits, - _ and ., not {shown(name)}",
    )
    return name


# Kinds of values.
Count = Annotated[int, Whole(1, 1_000_000)]
Steps = Annotated[int, Whole(1, 10**12)]
Threads = Annotated[int, Whole(1, 1024)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
NotNegative = Annotated[float, Field(ge=0, le=1e6)]
Deals = list[
    Annotated[int, Whole(0, NUM_DEALS - 1)] | Annotated[str, Field(max_length=64)]
]  # numbers and codes


def require_room(count: int, env: EnvConfig, what: str) -> None:
    """Check that the positions that a run keeps do not need an excessive amount of memory.

    Args:
        count: Number of positions, each stored with its mask and about 40 bytes of other data.
        env: Determines the size of an observation.
        what: The keys that determine the number, for the message.

    Raises:
        ConfigError: The positions need more than ``MAX_BUFFER`` bytes.
    """
    seen = Encoding(env.observation, memory=env.memory, stock_visible=env.stock_visible).size
    size = count * (seen + 4 * NUM_ACTIONS + 40)
    require(
        size <= MAX_BUFFER,
        f"{what} = {count:,} positions need {size / 2**30:,.1f} GiB of memory, more than the"
        f" {MAX_BUFFER >> 30} that a run may use for them",
    )


class EnvConfig(Strict):
    """The environment used for training.

    Attributes:
        num_envs: Number of games played in parallel.
        max_episode_steps: The step limit, -1 for none.
        num_threads: Threads that step the games.
        observation, memory, stock_visible, take_back, deals: As the environment takes them.
    """

    num_envs: Annotated[int, Whole(1, 65_536)] = 256
    max_episode_steps: Annotated[int, Whole(-1, 1_000_000)] = MAX_EPISODE_STEPS
    num_threads: Threads = 1
    observation: Annotated[str, OneOf(OBSERVATIONS)] = "cards"
    memory: bool = False
    stock_visible: bool = False
    take_back: bool = True
    deals: Annotated[str, Field(max_length=64)] | Deals | None = None

    @model_validator(mode="after")
    def _check(self) -> EnvConfig:
        require(
            self.max_episode_steps != 0, "env.max_episode_steps is at least 1, or -1 for no limit"
        )
        try:
            deal_pool(self.deals)
        except ValueError as error:
            raise ConfigError(f"env.deals: {error}") from None
        return self

    def variant(self) -> dict[str, Any]:
        """Return the keywords that determine the observation and the legal actions."""
        return {
            "observation": self.observation,
            "memory": self.memory,
            "stock_visible": self.stock_visible,
            "take_back": self.take_back,
        }


class RewardConfig(Strict):
    """The learner's reward: ``scale * reward - step_cost``; evaluation reports the real score."""

    scale: Positive = 0.01
    step_cost: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0


class PPOConfig(Strict):
    """Hyperparameters of MaskablePPO, under its own names.

    The learning rate changes linearly over the run, from ``learning_rate`` to
    ``final_learning_rate`` (None: it is constant).
    """

    n_steps: Count = 64
    batch_size: Count = 2048
    n_epochs: Annotated[int, Whole(1, 1000)] = 3
    learning_rate: Positive = 1e-3
    final_learning_rate: Positive | None = None
    gamma: Share = 0.99
    gae_lambda: Share = 0.95
    clip_range: Positive = 0.2
    ent_coef: NotNegative = 0.01
    vf_coef: NotNegative = 0.5
    max_grad_norm: Positive = 0.5
    normalize_advantage: bool = True
    target_kl: Positive | None = None

    def keywords(self) -> dict[str, Any]:
        """Return MaskablePPO's keywords, except for the learning rate."""
        return self.model_dump(exclude={"learning_rate", "final_learning_rate"})


class EvaluationConfig(Strict):
    """Play on held-out deals during training and at its end.

    Attributes:
        suite: A suite's name.
        limit: Evaluate on this many of its deals, the first ones; null: on all.
        every: Environment steps between evaluations.
        play: ``sample``, ``argmax`` or ``argmax-new`` (never return to an earlier position).
        temperature: Logits are divided by it before sampling.
    """

    suite: Annotated[str, OneOf(tuple(SUITE_SIZES))] = "dev-200"
    limit: Count | None = None
    every: Steps = 500_000
    play: Annotated[str, OneOf(tuple(PLAYS))] = "sample"
    temperature: Positive = 1.0


class CheckpointConfig(Strict):
    """Attributes: ``every``: environment steps between checkpoints; ``keep``: how many are kept."""

    every: Steps = 200_000
    keep: Annotated[int, Whole(1, 1000)] = 2


class RecordConfig(Strict):
    """The agent's play on a few fixed deals during training, kept as playthroughs.

    Attributes:
        every: Environment steps between recordings; null: no recordings.
        deals: A list of codes or numbers, or how many of the evaluation suite's first deals.
    """

    every: Steps | None = None
    deals: Annotated[int, Whole(1, 10_000)] | Annotated[Deals, Field(min_length=1)] = 1

    @model_validator(mode="after")
    def _check(self) -> RecordConfig:
        try:
            self.numbers(next(iter(SUITE_SIZES)))
        except ValueError as error:
            raise ConfigError(f"record.deals: {error}") from None
        return self

    def numbers(self, suite_name: str) -> list[int]:
        """Return the numbers of the deals; ``suite_name`` is the evaluation's suite."""
        if isinstance(self.deals, int):
            return [int(number) for number in suite(suite_name)[: self.deals]]
        return [deal_number(deal) for deal in self.deals]


class SeededConfig(Strict):
    """Keys that the configs of all kinds of runs have.

    Attributes:
        name: Names the run's folder.
        seed: Seeds networks, play and deals.
        renamed: Maps earlier names of keys, which are still accepted, to their current names.
    """

    renamed: ClassVar[Mapping[str, str]] = {}

    name: Annotated[str, Field(max_length=100), AfterValidator(_name)] = "run"
    seed: Annotated[int, Whole(0, (1 << 31) - 1)] = 0

    @model_validator(mode="before")
    @classmethod
    def _take_earlier_names(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        taken: dict[Any, Any] = {}
        for key, value in data.items():
            name = cls.renamed.get(key, key) if isinstance(key, str) else key
            require(name not in taken, f"{name} is given twice, once by its earlier name")
            taken[name] = value
        return taken

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain dicts, which can be written as YAML or JSON."""
        return self.model_dump()


class RunConfig(SeededConfig):
    """One training run.

    Attributes:
        name, seed: See :class:`SeededConfig`.
        total_steps: Environment steps, rounded up to whole rollouts.
        torch_threads: Number of threads for the network's computations. Training of the ``table``
            policy is reproducible with any fixed number, that of other policies with 1 thread.
        matmul_precision: Torch's setting for products of float32 matrices: ``highest``, ``high``
            or ``medium`` (bfloat16 products with float32 sums, if the processor supports them; no
            advantage for the ``table`` policy).
        policy: ``table`` (the network designed for this game), ``table-plain`` (the same network in
            plain torch, trained by MaskablePPO: slower, for experiments with changes that the
            compiled version does not have), or stable-baselines3's ``MultiInputPolicy`` or (with
            ``env.observation: onehot``) ``MlpPolicy``.
        network: Sizes of the ``table`` network.
        net_arch: Hidden layers of the other policies.
        initial_policy: A policy file, or a run's folder, with the initial weights; null: random
            weights. Its network and environment variant must be the same as the run's.
        critic_warmup_steps: Number of environment steps, from the start, in which only the critic
            (the value) is trained: for an initial policy whose values are untrained.
    """

    renamed: ClassVar[Mapping[str, str]] = {"value_only_steps": "critic_warmup_steps"}

    total_steps: Steps = 1_000_000
    torch_threads: Threads = 2
    matmul_precision: Annotated[str, OneOf(MATMUL_PRECISIONS)] = "highest"
    policy: Annotated[str, OneOf(POLICIES)] = "table"
    network: NetworkConfig = NetworkConfig()
    net_arch: Layers = Field(default_factory=lambda: [256, 256])
    initial_policy: str | None = None
    critic_warmup_steps: Annotated[int, Whole(0, 10**12)] = 0
    env: EnvConfig = EnvConfig()
    reward: RewardConfig = RewardConfig()
    ppo: PPOConfig = PPOConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    record: RecordConfig = RecordConfig()

    @model_validator(mode="after")
    def _check(self) -> RunConfig:
        wanted = observation_of(self.policy)
        require(
            self.env.observation == wanted,
            f"policy {self.policy} needs env.observation: {wanted}",
        )
        rollout = self.ppo.n_steps * self.env.num_envs
        require(rollout >= 2, "ppo.n_steps x env.num_envs is at least 2")
        require_room(rollout, self.env, "ppo.n_steps x env.num_envs")
        require(
            self.ppo.batch_size <= rollout,
            f"ppo.batch_size is at most ppo.n_steps x env.num_envs = {rollout}",
        )
        smallest = rollout % self.ppo.batch_size or self.ppo.batch_size
        require(
            smallest > 1 or not self.ppo.normalize_advantage,
            "ppo.batch_size leaves a minibatch of one step, whose advantage cannot be normalized",
        )
        require(
            self.evaluation.play != "argmax-new" or self.env.observation == "cards",
            "evaluation.play argmax-new needs env.observation: cards",
        )
        return self

    @property
    def evaluation_steps(self) -> int:
        """The step limit of evaluations: the environment's, or the default if it has none.

        Without a limit, the game of a player that moves in cycles would never end.
        """
        limit = self.env.max_episode_steps
        return MAX_EPISODE_STEPS if limit == -1 else limit


Config = TypeVar("Config", bound=SeededConfig)


def parse_config(data: Any) -> RunConfig:
    """Return the config that plain dicts describe.

    Raises:
        ConfigError: A key is unknown, or its value is not valid.
    """
    return _parsed(RunConfig, data)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> list[RunConfig]:
    """Return the training runs that a YAML file and overrides describe: :func:`load_configs`."""
    return load_configs(RunConfig, path, overrides)


def load_configs(kind: type[Config], path: str | Path, overrides: Sequence[str]) -> list[Config]:
    """Return the runs that a YAML file and ``key=value`` overrides describe.

    ``seed`` may be a list, or a range such as ``0..4``, which gives one run per seed. If the file
    has no ``name``, the runs are named after the file.

    Args:
        kind: The class of the configs.
        path: The YAML file.
        overrides: ``key=value`` with dotted keys, such as ``ppo.learning_rate=3e-4``; values are
            read as YAML.

    Raises:
        ConfigError: The file or an override is not valid; the message names it and the key.
    """
    path = Path(path)
    try:
        data = read_yaml(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except FormatError as error:
        raise ConfigError(str(error)) from None
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a config is a mapping of keys, not a {type(data).__name__}")
    for override in overrides:
        _override(data, override)
    data.setdefault("name", path.stem)
    try:
        seeds = _seeds(data.get("seed", 0))
        configs = [_parsed(kind, {**data, "seed": seed}) for seed in seeds]
        require(
            len({config.seed for config in configs}) == len(configs), "seed names one seed twice"
        )
        return configs
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _parsed(kind: type[Config], data: Any) -> Config:
    try:
        return checked(kind, data)
    except FormatError as error:
        raise ConfigError(str(error)) from None


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {shown(override)} is not key=value")
    try:
        value = parse_yaml(text, key)
    except FormatError as error:
        raise ConfigError(f"override {shown(override)}: {error}") from None
    *sections, last = key.split(".")
    for section in sections:
        inner = data.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {shown(override)}: {section} has no keys of its own")
        data = inner
    data[last] = value


_RANGE = re.compile(r"\s*([0-9]{1,40})\s*\.\.\s*([0-9]{1,40})\s*")


def _seeds(seeds: Any) -> list[Any]:
    if isinstance(seeds, str) and ".." in seeds:
        match = _RANGE.fullmatch(seeds)
        first, last = map(int, match.groups()) if match else (0, -1)
        require(first <= last, f"seed {shown(seeds)} is not a range such as 0..4")
        count = last - first + 1
        require(count <= MAX_RUNS, f"seed names {count} runs, more than {MAX_RUNS}")
        return list(range(first, last + 1))
    if isinstance(seeds, list):
        require(bool(seeds), "seed is an empty list")
        require(len(seeds) <= MAX_RUNS, f"seed names {len(seeds)} runs, more than {MAX_RUNS}")
        return seeds
    return [seeds]
