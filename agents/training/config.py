"""One YAML file a run: what it may say, checked key by key."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from agents.networks.table import NetworkConfig
from agents.players.ppo import PLAYS
from qv_env import MAX_EPISODE_STEPS, deal_number, suite
from qv_env.observation import OBSERVATIONS
from qv_env.suites import SUITE_SIZES, deal_pool

MAX_RUNS = 1_000  # of one command
MATMUL_PRECISIONS = ("highest", "high", "medium")
POLICIES = ("table", "table-plain", "MultiInputPolicy", "MlpPolicy")


Config = TypeVar("Config")


class ConfigError(ValueError):
    """A config is wrong; the message names the key."""


def require(condition: bool, message: str) -> None:
    """Raise a ConfigError with a message unless a condition holds."""
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class EnvConfig:
    """The environment that is trained in.

    Attributes:
        num_envs: Games played at a time.
        max_episode_steps: The step limit, -1 for none.
        num_threads: Threads that step the games.
        observation, memory, stock_visible, take_back, deals: As the environment takes them.
    """

    num_envs: int = 256
    max_episode_steps: int = MAX_EPISODE_STEPS
    num_threads: int = 1
    observation: str = "cards"
    memory: bool = False
    stock_visible: bool = False
    take_back: bool = True
    deals: str | list | None = None

    def __post_init__(self) -> None:
        require(self.num_envs >= 1, "env.num_envs is at least 1")
        require(self.num_threads >= 1, "env.num_threads is at least 1")
        require(
            self.max_episode_steps >= 1 or self.max_episode_steps == -1,
            "env.max_episode_steps is at least 1, or -1 for no limit",
        )
        require(
            self.observation in OBSERVATIONS,
            f"env.observation is one of {', '.join(OBSERVATIONS)}, not {self.observation!r}",
        )
        try:
            deal_pool(self.deals)
        except ValueError as error:
            raise ConfigError(f"env.deals: {error}") from None

    def variant(self) -> dict[str, Any]:
        """The keywords that decide what a player sees and may do."""
        return {
            "observation": self.observation,
            "memory": self.memory,
            "stock_visible": self.stock_visible,
            "take_back": self.take_back,
        }


@dataclass(frozen=True)
class RewardConfig:
    """What the learner is paid: ``scale * reward - step_cost``; evaluation reports the score."""

    scale: float = 0.01
    step_cost: float = 0.0

    def __post_init__(self) -> None:
        require(self.scale > 0, "reward.scale is positive")


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of MaskablePPO, by its own names.

    ``final_learning_rate`` (None: the same) is reached linearly at the end of the run.
    """

    n_steps: int = 64
    batch_size: int = 2048
    n_epochs: int = 3
    learning_rate: float = 1e-3
    final_learning_rate: float | None = None
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    normalize_advantage: bool = True
    target_kl: float | None = None

    def keywords(self) -> dict[str, Any]:
        """MaskablePPO's keywords, but for the learning rate."""
        return {
            key: value
            for key, value in dataclasses.asdict(self).items()
            if not key.endswith("learning_rate")
        }

    def __post_init__(self) -> None:
        for name in ("n_steps", "batch_size", "n_epochs"):
            require(getattr(self, name) >= 1, f"ppo.{name} is at least 1")
        for name in ("learning_rate", "clip_range", "max_grad_norm"):
            require(getattr(self, name) > 0, f"ppo.{name} is positive")
        for name in ("gamma", "gae_lambda"):
            require(0 <= getattr(self, name) <= 1, f"ppo.{name} is in 0..1")
        for name in ("ent_coef", "vf_coef"):
            require(getattr(self, name) >= 0, f"ppo.{name} is not negative")
        for name in ("final_learning_rate", "target_kl"):
            value = getattr(self, name)
            require(value is None or value > 0, f"ppo.{name} is positive or null")


@dataclass(frozen=True)
class EvaluationConfig:
    """Play on held-out deals during training and at its end.

    Attributes:
        suite: A suite's name.
        limit: How many of its deals, from the first; null for all.
        every: Environment steps between evaluations.
        play: ``sample``, ``argmax`` or ``argmax-new`` (never back to a position of the episode).
        temperature: What logits are divided by before sampling.
    """

    suite: str = "dev-200"
    limit: int | None = None
    every: int = 500_000
    play: str = "sample"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        require(self.suite in SUITE_SIZES, f"evaluation.suite is one of {', '.join(SUITE_SIZES)}")
        require(self.limit is None or self.limit >= 1, "evaluation.limit is at least 1, or null")
        require(self.every >= 1, "evaluation.every is at least 1")
        require(self.play in PLAYS, f"evaluation.play is one of {', '.join(PLAYS)}")
        require(self.temperature > 0, "evaluation.temperature is positive")


@dataclass(frozen=True)
class CheckpointConfig:
    """Attributes: ``every``: environment steps between checkpoints; ``keep``: how many are kept."""

    every: int = 200_000
    keep: int = 2

    def __post_init__(self) -> None:
        require(self.every >= 1, "checkpoint.every is at least 1")
        require(self.keep >= 1, "checkpoint.keep is at least 1")


@dataclass(frozen=True)
class RecordConfig:
    """The agent's play on a few fixed deals during training, kept as playthroughs.

    Attributes:
        every: Environment steps between recordings; null for none.
        deals: A list of codes or numbers, or how many deals of the evaluation's suite.
    """

    every: int | None = None
    deals: int | list = 1

    def __post_init__(self) -> None:
        require(self.every is None or self.every >= 1, "record.every is at least 1, or null")
        count = self.deals if isinstance(self.deals, int) else len(self.deals)
        require(count >= 1, "record.deals is at least 1, or names at least one deal")
        try:
            self.numbers(next(iter(SUITE_SIZES)))
        except ValueError as error:
            raise ConfigError(f"record.deals: {error}") from None

    def numbers(self, suite_name: str) -> list[int]:
        """Return the numbers of the deals; ``suite_name`` is the evaluation's suite."""
        if isinstance(self.deals, int):
            return [int(number) for number in suite(suite_name)[: self.deals]]
        return [deal_number(deal) for deal in self.deals]


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Attributes:
        name: Names the run's folder.
        seed: Seeds networks, play and deals.
        total_steps: Environment steps, rounded up to whole rollouts.
        torch_threads: Threads that networks compute with. The ``table`` policy's sums depend on
            their number alone; others' weights repeat with 1 thread.
        matmul_precision: Torch's name for how products of float32 matrices are computed:
            ``highest``, ``high`` or ``medium`` (in bfloat16 with float32 sums where the processor
            can; the ``table`` policy gains nothing by it).
        policy: ``table`` (this game's own network), ``table-plain`` (the same in plain torch,
            trained by MaskablePPO: slower, for changes to the network that its compiled passes
            lack), or stable-baselines3's ``MultiInputPolicy`` or (with ``env.observation:
            onehot``) ``MlpPolicy``.
        network: Sizes of the ``table`` network.
        net_arch: Hidden layers of the other policies.
        initial_policy: A policy file, or a run's folder, whose weights the run begins with; null:
            random ones. Its network and variant of the environment must be the run's.
        value_only_steps: For how many environment steps, from the start, the value alone is learnt
            and the policy stays what it is: for an initial policy that knows no values yet.
    """

    name: str = "run"
    seed: int = 0
    total_steps: int = 1_000_000
    torch_threads: int = 2
    matmul_precision: str = "highest"
    policy: str = "table"
    network: NetworkConfig = field(default_factory=NetworkConfig)
    net_arch: list = field(default_factory=lambda: [256, 256])
    initial_policy: str | None = None
    value_only_steps: int = 0
    env: EnvConfig = field(default_factory=EnvConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    record: RecordConfig = field(default_factory=RecordConfig)

    def __post_init__(self) -> None:
        safe = self.name.replace("-", "").replace("_", "").replace(".", "")
        require(
            safe.isalnum() and not self.name.startswith("."),
            f"name is made of letters, digits, - _ and ., not {self.name!r}",
        )
        require(0 <= self.seed < 1 << 31, "seed is in 0..2^31 - 1")
        require(self.total_steps >= 1, "total_steps is at least 1")
        require(self.value_only_steps >= 0, "value_only_steps is not negative")
        require(self.torch_threads >= 1, "torch_threads is at least 1")
        require(
            self.matmul_precision in MATMUL_PRECISIONS,
            f"matmul_precision is one of {', '.join(MATMUL_PRECISIONS)}",
        )
        require(self.policy in POLICIES, f"policy is one of {', '.join(POLICIES)}")
        require(
            all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in self.net_arch),
            "net_arch is a list of positive integers",
        )
        wanted = "onehot" if self.policy == "MlpPolicy" else "cards"
        require(
            self.env.observation == wanted,
            f"policy {self.policy} needs env.observation: {wanted}",
        )
        rollout = self.ppo.n_steps * self.env.num_envs
        require(rollout >= 2, "ppo.n_steps x env.num_envs is at least 2")
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

    @property
    def evaluation_steps(self) -> int:
        """The step limit of evaluations: the environment's, or, where it has none, the usual one.

        Without any, a player that goes round in circles would never come to an end.
        """
        limit = self.env.max_episode_steps
        return MAX_EPISODE_STEPS if limit == -1 else limit

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain dicts, as YAML or JSON write them."""
        return dataclasses.asdict(self)


def parse_config(data: Any) -> RunConfig:
    """Return the config that plain dicts describe.

    Raises:
        ConfigError: A key is unknown, or its value one that it cannot have.
    """
    return _parse(RunConfig, data, "")


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> list[RunConfig]:
    """Return the training runs that a YAML file and overrides describe: :func:`load_configs`."""
    return load_configs(RunConfig, path, overrides)


def load_configs(kind: type[Config], path: str | Path, overrides: Sequence[str]) -> list[Config]:
    """Return the runs that a YAML file and ``key=value`` overrides describe.

    ``seed`` may be a list, or a range such as ``0..4``: one run each; else there is one run. The
    run's name is the file's unless it says another.

    Args:
        kind: What a run is: a dataclass with the fields ``name`` and ``seed``.
        path: The YAML file.
        overrides: ``key=value`` with dotted keys, such as ``ppo.learning_rate=3e-4``; values are
            read as YAML.

    Raises:
        ConfigError: The file or an override is wrong; the message names it and the key.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a config is a mapping of keys, not a {type(data).__name__}")
    for override in overrides:
        _override(data, override)
    data.setdefault("name", path.stem)
    try:
        seeds = _seeds(data.get("seed", 0))
        configs: list[Config] = [_parse(kind, {**data, "seed": seed}, "") for seed in seeds]
        require(
            len({c.seed for c in configs}) == len(configs),  # type: ignore[attr-defined]
            "seed names one seed twice",
        )
        return configs
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r} is not key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: the value is not YAML") from None
    *sections, last = key.split(".")
    for section in sections:
        inner = data.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {override!r}: {section} has no keys of its own")
        data = inner
    data[last] = value


def _seeds(seeds: Any) -> list[Any]:
    if isinstance(seeds, str) and ".." in seeds:
        first, _, last = seeds.partition("..")
        if first.strip().isdigit() and last.strip().isdigit() and int(first) <= int(last):
            seeds = range(int(first), int(last) + 1)
            require(len(seeds) <= MAX_RUNS, f"seed names {len(seeds)} runs, more than {MAX_RUNS}")
            return list(seeds)
        raise ConfigError(f"seed {seeds!r} is not a range such as 0..4")
    if isinstance(seeds, list):
        require(bool(seeds), "seed is an empty list")
        return seeds
    return [seeds]


def _parse(kind: type, data: Any, where: str) -> Any:
    """Build a config dataclass of plain dicts, checking every key and type."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where.rstrip('.')} is a mapping of keys, not {data!r}")
    hints = typing.get_type_hints(kind)
    unknown = [key for key in data if key not in hints]
    if unknown:
        raise ConfigError(f"unknown key {where}{unknown[0]}; there are {', '.join(hints)}")
    values = {}
    for key, value in data.items():
        hint = hints[key]
        if dataclasses.is_dataclass(hint):
            values[key] = _parse(typing.cast(type, hint), value, f"{where}{key}.")
        else:
            values[key] = _value(hint, value, f"{where}{key}")
    try:
        return kind(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _value(hint: Any, value: Any, where: str) -> Any:
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for choice in choices:
        if choice is type(None) and value is None:
            return None
        if choice is bool and isinstance(value, bool):
            return value
        if choice in (int, float) and not isinstance(value, bool):
            try:  # YAML 1.1 reads 3e-4 as text
                number = float(value) if isinstance(value, (int, float, str)) else None
            except (ValueError, OverflowError):
                number = None
            if number is not None and number - number == 0:  # neither infinite nor NaN
                if choice is float:
                    return number
                if number.is_integer():
                    return int(number) if not isinstance(value, int) else value
        if choice in (str, list) and isinstance(value, choice):
            return value
    names = {type(None): "null", int: "an integer", float: "a number", bool: "true or false"}
    names |= {str: "text", list: "a list"}
    wanted = " or ".join(names[choice] for choice in choices)
    if where == "env.deals":
        wanted += " (a range in quotes: YAML reads lo:hi without them as a number)"
    raise ConfigError(f"{where} is {wanted}, not {value!r}")


class RunError(Exception):
    """A run cannot start or go on; the message says why."""
