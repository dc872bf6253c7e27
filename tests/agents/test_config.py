"""What a run's YAML file may say, and how it is told what it may not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from agents.training.config import ConfigError, RunConfig, load_config, parse_config

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path):
    """Writes a config file; returns its path."""

    def write(text: str = "", name: str = "trial.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def load(path: Path, *overrides: str) -> RunConfig:
    (config,) = load_config(path, overrides)
    return config


# ------------------------------------------------------------------------------ files and defaults


def test_an_empty_file_is_the_defaults_and_the_name_is_the_files(file):
    config = load(file())
    assert config == RunConfig(name="trial")
    assert (config.seed, config.policy, config.reward.scale) == (0, "table", 0.01)
    assert load(file("name: other")).name == "other"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.name)
def test_the_projects_configs_load(path):
    for config in load_config(path):
        assert config.name == path.stem
        assert parse_config(config.to_dict()) == config


def test_a_config_survives_yaml(file):
    config = load(
        file(), "ppo.learning_rate=1e-5", "env.deals=[FT1-N-AAAAAAV, 3]", "seed=7",
        "evaluation.limit=null", "ppo.target_kl=0.1", "net_arch=[8, 9]",
    )  # fmt: skip
    again = file(yaml.safe_dump(config.to_dict()), "config.yaml")
    assert load(again) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("- 1", "a config is a mapping of keys, not a list"),
        ("just words", "not a str"),
    ],
)
def test_files_that_are_no_configs_are_refused_by_name(file, text, message):
    path = file(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_binary_one_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml: not YAML"):
        load_config(tmp_path / "binary.yaml")


# ------------------------------------------------------------------------------- keys and values


@pytest.mark.parametrize(
    "key",
    ["nonsense", "network.nonsense", "env.render_mode", "reward.nonsense", "ppo.lr", "evaluation.n",
     "checkpoint.nonsense"],
)  # fmt: skip
def test_unknown_keys_are_refused_at_every_level(file, key):
    with pytest.raises(ConfigError, match=rf"unknown key {key}; there are ") as caught:
        load(file(), f"{key}=1")
    assert "trial.yaml" in str(caught.value)


# (override, what the message says of it; all begin with the dotted key)
WRONG = [
    ("name=5", "is text, not 5"),
    ("name=a/b", "is made of"),
    ("name=.hidden", "is made of"),
    ('name=".."', "is made of"),
    ('name=""', "is made of"),
    ("seed=-1", "is in 0"),
    ("seed=2147483648", "is in 0"),
    ("seed=x", "is an integer, not 'x'"),
    ("seed=", "is an integer, not None"),
    ("seed=1" + "0" * 400, "is an integer"),
    ("total_steps=0", "is at least 1"),
    ("total_steps=1.5", "is an integer, not 1.5"),
    ("total_steps=true", "is an integer, not True"),
    ("torch_threads=0", "is at least 1"),
    ("matmul_precision=fast", "is one of highest"),
    ("policy=CnnPolicy", "is one of table, table-plain, MultiInputPolicy, MlpPolicy"),
    ("initial_policy=5", "is text or null, not 5"),
    ("value_only_steps=-1", "is not negative"),
    ("net_arch=256", "is a list"),
    ("net_arch=[256, 0]", "is a list of positive"),
    ("net_arch=[true]", "is a list of positive"),
    ("network=5", "is a mapping of keys, not 5"),
    ("network.card=0", "is an integer in 1..4096"),
    ("network.pair=9999", "is an integer in 1..4096"),
    ("network.hidden=wide", "is an integer, not 'wide'"),
    ("env=", "is a mapping of keys, not None"),
    ("env.num_envs=0", "is at least 1"),
    ("env.num_threads=0", "is at least 1"),
    ("env.max_episode_steps=0", "is at least 1, or -1"),
    ("env.max_episode_steps=-2", "is at least 1, or -1"),
    ("env.observation=pixels", "is one of cards, onehot"),
    ("env.memory=1", "is true or false, not 1"),
    ("env.stock_visible=no way", "is true or false"),
    ("env.take_back=null", "is true or false"),
    ("env.deals=dev-100", "no suite 'dev-100'"),
    ("env.deals=900:500", "'900:500'"),
    ("env.deals=[]", "deals is an empty list"),
    ("env.deals=[1, nonsense]", r"deals\[1\]"),
    ("env.deals=5", "is text or a list or null"),
    ("reward.scale=0", "is positive"),
    ("reward.scale=.nan", "is a number, not nan"),
    ("reward.step_cost=.inf", "is a number, not inf"),
    ("ppo.n_steps=0", "is at least 1"),
    ("ppo.batch_size=0", "is at least 1"),
    ("ppo.n_epochs=0", "is at least 1"),
    ("ppo.learning_rate=0", "is positive"),
    ("ppo.learning_rate=fast", "is a number, not 'fast'"),
    ("ppo.learning_rate=true", "is a number, not True"),
    ("ppo.learning_rate=null", "is a number, not None"),
    ("ppo.final_learning_rate=-1", "is positive or null"),
    ("ppo.gamma=1.01", "is in 0..1"),
    ("ppo.gae_lambda=-0.1", "is in 0..1"),
    ("ppo.clip_range=0", "is positive"),
    ("ppo.ent_coef=-1", "is not negative"),
    ("ppo.vf_coef=-1", "is not negative"),
    ("ppo.max_grad_norm=0", "is positive"),
    ("ppo.normalize_advantage=2", "is true or false"),
    ("ppo.target_kl=0", "is positive or null"),
    ("evaluation.suite=test-1", "is one of dev-200, test-1000, test-10000"),
    ("evaluation.limit=0", "is at least 1, or null"),
    ("evaluation.every=0", "is at least 1"),
    ("evaluation.play=best", "is one of sample, argmax, argmax-new"),
    ("evaluation.temperature=0", "is positive"),
    ("checkpoint.every=0", "is at least 1"),
    ("checkpoint.keep=0", "is at least 1"),
    ("record.every=0", "is at least 1, or null"),
    ("record.deals=0", "is at least 1, or names"),
]


@pytest.mark.parametrize(("override", "message"), WRONG)
def test_bad_values_are_refused_with_the_keys_name(file, override, message):
    key = override.partition("=")[0]
    with pytest.raises(ConfigError) as caught:
        load(file(), override)
    text = str(caught.value)
    before, _, after = text.partition(f"{key}")
    assert before.endswith("trial.yaml: ")
    assert re.search(message, after), text


def test_every_key_has_a_bad_value_among_these():
    keys = {override.partition("=")[0] for override, _ in WRONG}
    there = set()
    for key, value in RunConfig().to_dict().items():
        there |= {f"{key}.{inner}" for inner in value} if isinstance(value, dict) else {key}
    assert there - keys <= {"network.column", "network.context"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["policy=MlpPolicy"], "policy MlpPolicy needs env.observation: onehot"),
        (["env.observation=onehot"], "policy table needs env.observation: cards"),
        (["policy=MultiInputPolicy", "env.observation=onehot"], "needs env.observation: cards"),
        (["env.num_envs=1", "ppo.n_steps=1", "ppo.batch_size=1"], "n_steps x env.num_envs is at"),
        (["env.num_envs=2", "ppo.n_steps=8", "ppo.batch_size=17"], r"at most .* = 16"),
        (["env.num_envs=1", "ppo.n_steps=33", "ppo.batch_size=16"], "minibatch of one step"),
        (["env.num_envs=1", "ppo.n_steps=32", "ppo.batch_size=1"], "minibatch of one step"),
        (
            ["policy=MlpPolicy", "env.observation=onehot", "evaluation.play=argmax-new"],
            "evaluation.play argmax-new needs env.observation: cards",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(file, overrides, message):
    with pytest.raises(ConfigError, match=message):
        load(file(), *overrides)


def test_values_that_do_go_together(file):
    config = load(file(), "policy=MlpPolicy", "env.observation=onehot", "evaluation.play=argmax")
    assert config.env.variant() == {
        "observation": "onehot", "memory": False, "stock_visible": False, "take_back": True,
    }  # fmt: skip
    # One step a minibatch is fine where its advantage is taken as it is.
    load(file(), "ppo.normalize_advantage=false", "ppo.batch_size=1")


def test_an_evaluation_always_has_a_step_limit(file):
    assert load(file()).evaluation_steps == 500
    assert load(file(), "env.max_episode_steps=77").evaluation_steps == 77
    assert load(file(), "env.max_episode_steps=-1").evaluation_steps == 500


# ------------------------------------------------------------------------------------- overrides


def test_overrides_are_dotted_and_their_values_yaml(file):
    path = file("ppo: {gamma: 0.5, n_steps: 32}\nenv: {num_envs: 64}")
    config = load(
        path, "ppo.learning_rate=3e-4", "env.memory=yes", "env.deals=100:900", "total_steps=2e6",
        "ppo.gamma=1", "evaluation.limit=null", "net_arch=[64, 32]", "name=a-b_c.1",
    )  # fmt: skip
    assert config.ppo.learning_rate == 0.0003
    assert config.ppo.n_steps == 32
    assert (config.env.num_envs, config.env.memory, config.env.deals) == (64, True, "100:900")
    assert config.total_steps == 2_000_000
    assert isinstance(config.total_steps, int)
    assert config.ppo.gamma == 1
    assert isinstance(config.ppo.gamma, float)
    assert config.net_arch == [64, 32]
    assert config.name == "a-b_c.1"
    assert load(path, "ppo.gamma=0.1", "ppo.gamma=0.2").ppo.gamma == 0.2  # the last one counts


@pytest.mark.parametrize("text", ["learning_rate: 3e-4", "learning_rate: 0.0003"])
def test_numbers_in_the_file_may_be_written_as_people_do(file, text):
    assert load(file(f"ppo:\n  {text}")).ppo.learning_rate == 3e-4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "override 'seed' is not key=value"),
        ("=5", "override '=5' is not key=value"),
        ("", "is not key=value"),
        ("env.deals=[", "the value is not YAML"),
        ("seed.first=1", "seed has no keys of its own"),
        ("env..memory=true", "unknown key env."),
    ],
)
def test_overrides_that_are_none_are_refused(file, override, message):
    with pytest.raises(ConfigError, match=message):
        load(file("seed: 3"), override)


# ----------------------------------------------------------------------------------------- seeds


@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        ("5", [5]),
        ("0..4", [0, 1, 2, 3, 4]),
        ("3..3", [3]),
        ("9..11", [9, 10, 11]),
        ("[4, 2]", [4, 2]),
    ],
)
def test_seeds(file, seed, seeds):
    for configs in (load_config(file(), [f"seed={seed}"]), load_config(file(f"seed: {seed}"))):
        assert [config.seed for config in configs] == seeds
        assert len({str({**config.to_dict(), "seed": 0}) for config in configs}) == 1


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ("4..0", "seed '4..0' is not a range"),
        ("0..", "not a range"),
        ("a..b", "not a range"),
        ("[]", "seed is an empty list"),
        ("[1, 1]", "seed names one seed twice"),
        ("[1, 1.0]", "seed names one seed twice"),
        ("[1, x]", "seed is an integer, not 'x'"),
        ("[1, -1]", "seed is in 0"),
    ],
)
def test_bad_seeds_are_refused(file, seed, message):
    with pytest.raises(ConfigError, match=message):
        load_config(file(), [f"seed={seed}"])


def test_too_many_seeds_are_refused_before_any_is_made(file):
    with pytest.raises(ConfigError, match="more than 1000"):
        load_config(file(), ["seed=0..99999999999"])


def test_a_range_of_deals_without_quotes_is_explained(file):
    with pytest.raises(ConfigError, match="in quotes"):
        load_config(file(), ["env.deals=10:20"])
    assert load_config(file(), ['env.deals="10:20"'])[0].env.deals == "10:20"
