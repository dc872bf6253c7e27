"""What a run's YAML file may say, and how it is told what it may not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from agents.training.config import ConfigError, RunConfig, load_config, load_configs, parse_config
from agents.training.imitation import ImitationConfig
from qv_env.strict_yaml import yaml_text

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
    ("name=5", "is text of at most 100 characters, not 5"),
    ("name=a/b", "made of letters"),
    ("name=.hidden", "made of letters"),
    ('name=".."', "made of letters"),
    ('name=""', "made of letters"),
    ("seed=-1", "is an integer in 0..2,147,483,647, not"),
    ("seed=2147483648", "is an integer in 0..2,147,483,647, not"),
    ("seed=x", "is an integer in 0..2,147,483,647, not 'x'"),
    ("seed=", "is an integer in 0..2,147,483,647, not null"),
    ("seed=1" + "0" * 400, "is an integer"),
    ("total_steps=0", "is an integer in 1..1,000,000,000,000, not 0"),
    ("total_steps=1.5", "is an integer in 1..1,000,000,000,000, not 1.5"),
    ("total_steps=true", "is an integer in 1..1,000,000,000,000, not true"),
    ("torch_threads=0", "is an integer in 1..1024, not 0"),
    ("matmul_precision=fast", "is one of highest"),
    ("policy=CnnPolicy", "is one of table, table-plain, MultiInputPolicy, MlpPolicy"),
    ("initial_policy=5", "is text or null, not 5"),
    ("critic_warmup_steps=-1", "is an integer in 0..1,000,000,000,000, not -1"),
    ("net_arch=256", "is a list"),
    ("net_arch=[256, 0]", r"\[1\] is an integer in 1..8192, not 0"),
    ("net_arch=[true]", r"\[0\] is an integer in 1..8192, not true"),
    ("network=5", "is a mapping of keys, not 5"),
    ("network.card=0", "is an integer in 1..4096"),
    ("network.pair=9999", "is an integer in 1..4096"),
    ("network.hidden=wide", "is an integer in 1..4096, not 'wide'"),
    ("env=", "is a mapping of keys, not null"),
    ("env.num_envs=0", "is an integer in 1..65,536, not 0"),
    ("env.num_threads=0", "is an integer in 1..1024, not 0"),
    ("env.max_episode_steps=0", "is at least 1, or -1"),
    ("env.max_episode_steps=-2", "is an integer in -1..1,000,000, not -2"),
    ("env.observation=pixels", "is one of cards, onehot"),
    ("env.memory=1", "is true or false, not 1"),
    ("env.stock_visible=no way", "is true or false"),
    ("env.take_back=null", "is true or false"),
    ("env.deals=dev-100", "no suite 'dev-100'"),
    ("env.deals=900:500", "'900:500'"),
    ("env.deals=[]", "deals is an empty list"),
    ("env.deals=[1, nonsense]", r"deals\[1\]"),
    ("env.deals=5", "is text of at most 64 characters or a list or null, not 5"),
    ("reward.scale=0", "is a number above 0 and at most 1,000,000, not 0"),
    ("reward.scale=.nan", "is a number above 0 and at most 1,000,000, not nan"),
    ("reward.step_cost=.inf", "is a number in -1,000,000..1,000,000, not inf"),
    ("ppo.n_steps=0", "is an integer in 1..1,000,000, not 0"),
    ("ppo.batch_size=0", "is an integer in 1..1,000,000, not 0"),
    ("ppo.n_epochs=0", "is an integer in 1..1000, not 0"),
    ("ppo.learning_rate=0", "is a number above 0 and at most 1,000,000, not 0"),
    ("ppo.learning_rate=fast", "is a number above 0 and at most 1,000,000, not 'fast'"),
    ("ppo.learning_rate=true", "is a number above 0 and at most 1,000,000, not true"),
    ("ppo.learning_rate=null", "is a number above 0 and at most 1,000,000, not null"),
    ("ppo.final_learning_rate=-1", "is a number above 0 and at most 1,000,000 or null, not"),
    ("ppo.gamma=1.01", "is a number in 0..1, not"),
    ("ppo.gae_lambda=-0.1", "is a number in 0..1, not"),
    ("ppo.clip_range=0", "is a number above 0 and at most 1,000,000, not 0"),
    ("ppo.ent_coef=-1", "is a number in 0..1,000,000, not -1"),
    ("ppo.vf_coef=-1", "is a number in 0..1,000,000, not -1"),
    ("ppo.max_grad_norm=0", "is a number above 0 and at most 1,000,000, not 0"),
    ("ppo.normalize_advantage=2", "is true or false"),
    ("ppo.target_kl=0", "is a number above 0 and at most 1,000,000 or null, not"),
    ("evaluation.suite=test-1", "is one of dev-200, test-1000, test-10000"),
    ("evaluation.limit=0", "is an integer in 1..1,000,000 or null, not 0"),
    ("evaluation.every=0", "is an integer in 1..1,000,000,000,000, not 0"),
    ("evaluation.play=best", "is one of sample, argmax, argmax-new"),
    ("evaluation.temperature=0", "is a number above 0 and at most 1,000,000, not 0"),
    ("checkpoint.every=0", "is an integer in 1..1,000,000,000,000, not 0"),
    ("checkpoint.keep=0", "is an integer in 1..1000, not 0"),
    ("record.every=0", "is an integer in 1..1,000,000,000,000 or null, not 0"),
    ("record.deals=0", "is an integer in 1..10,000 or a list of at least 1 entry, not 0"),
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


# ---------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.num_envs=65537", "env.num_envs is an integer in 1..65,536, not 65537"),
        ("env.num_envs=1e30", "env.num_envs is an integer in 1..65,536, not 1000"),
        ("env.num_envs=010", "env.num_envs: '010' is 8 to YAML, which reads it in base 8"),
        ("env.num_envs='256'", "env.num_envs is an integer in 1..65,536, not '256'"),
        ("env.num_threads=1025", "env.num_threads is an integer in 1..1024, not 1025"),
        ("env.max_episode_steps=1000001", "max_episode_steps is an integer in -1..1,000,000, not"),
        (f"env.max_episode_steps={2**70}", "max_episode_steps is an integer in -1..1,000,000, not"),
        ("ppo.n_steps=1000001", "ppo.n_steps is an integer in 1..1,000,000, not 1000001"),
        ("ppo.batch_size=1e9", "ppo.batch_size is an integer in 1..1,000,000, not 1000000000"),
        ("ppo.n_epochs=1001", "ppo.n_epochs is an integer in 1..1000, not 1001"),
        ("ppo.learning_rate=1e300", "ppo.learning_rate is a number above 0 and at most 1,000,000"),
        ("reward.scale=1e7", "reward.scale is a number above 0 and at most 1,000,000, not 1000"),
        ("net_arch=[8193]", r"net_arch\[0\] is an integer in 1..8192, not 8193"),
        ("net_arch=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "net_arch is a list of at most 16 entrie"),
        ("torch_threads=1025", "torch_threads is an integer in 1..1024, not 1025"),
        (
            "total_steps=1000000000001",
            "total_steps is an integer in 1..1,000,000,000,000, not 1000",
        ),
        ("evaluation.limit=1e30", "evaluation.limit is an integer in 1..1,000,000 or null, not 1"),
        ("checkpoint.keep=1001", "checkpoint.keep is an integer in 1..1000, not 1001"),
        ("record.deals=10001", "record.deals is an integer in 1..10,000 or a list of"),
        ("env.deals=[34359738368]", r"env.deals\[0\] is an integer in 0..34,359,738,367 or text"),
        ("env.deals=[[1]]", r"env.deals\[0\] is an integer in 0..34,359,738,367 or text .* \[1\]"),
        (f"env.deals={'x' * 9999}", "env.deals is text of at most 64 characters or a list or null"),
        (f"name={'x' * 101}", "name is text of at most 100 characters, not 'xxx"),
        (f"nonsense{'x' * 9999}=1", "unknown key nonsensex"),
    ],
)
def test_numbers_and_texts_have_limits(file, override, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load(file(), override)
    assert "trial.yaml: " in str(caught.value) or str(caught.value).startswith("override ")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "overrides",
    [
        ["ppo.n_steps=1e6"],
        ["ppo.n_steps=1_000_000", "env.num_envs=64"],
        ["policy=MlpPolicy", "env.observation=onehot", "ppo.n_steps=16384", "env.num_envs=1024"],
    ],
)
def test_rollouts_that_no_memory_holds_are_refused(file, overrides):
    message = (
        r"n_steps x env\.num_envs = [0-9,]{8,} positions need [0-9.,]+ GiB of memory, more than"
    )
    with pytest.raises(ConfigError, match=message):
        load(file(), *overrides)


def test_large_rollouts_are_fine(file):
    load(file(), "env.num_envs=65536", "ppo.n_steps=128", "env.memory=true")
    load(file(), "policy=MlpPolicy", "env.observation=onehot", "ppo.n_steps=512")


# ------------------------------------------------------------------------------ files that are odd


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2", "seed: the key stands there twice"),
        ("env: {memory: true, memory: false}", r"env\.memory: the key stands there twice"),
        ("env: &e {memory: true}\nppo: *e", "not YAML: there is an alias"),
        ("name: 2024-13-45x/", "name: made of letters"),
        ("seed: 0b_", "seed: '0b_' is no int"),
        ("seed: !!int abc", "seed: 'abc' is no int"),
        ("seed: " + "9" * 5000, "seed: a number has at most 1000 characters"),
        ("env: " + "[" * 5000, "not YAML: it is nested too deeply"),
        ("env: {num_envs: 010}", r"env\.num_envs: '010' is 8 to YAML"),
        ("1: 2", "a key is a text, not '1'"),
        ("#" * (1 << 18), "the file has more than the 131,072 bytes"),
    ],
)
def test_odd_files_are_refused_by_name(file, text, message):
    with pytest.raises(ConfigError, match=rf"trial\.yaml: .*{message}") as caught:
        load_config(file(text))
    assert len(str(caught.value)) < 300


def test_a_name_that_is_a_date_or_a_number_survives_yaml(file):
    for name in ("2024-01-31", "2024-13-45", "1e5", "10"):
        config = load(file(), f"name='{name}'")
        assert load(file(yaml_text(config.to_dict()), "config.yaml")) == config


def test_the_written_config_is_yamls_own(file):
    config = load(file(), "ppo.learning_rate=1e-5", "env.deals=[FT1-N-AAAAAAV, 3]")
    text = yaml_text(config.to_dict())
    assert text == yaml.safe_dump(config.to_dict(), sort_keys=False)
    assert text.startswith("name: trial\nseed: 0\ntotal_steps: 1000000\ntorch_threads: 2\n")
    assert "  learning_rate: 1.0e-05\n  final_learning_rate: null\n" in text


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
        ("env.deals=[", r"override 'env.deals=\[': not YAML"),
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
        ("[1, x]", "seed is an integer in 0..2,147,483,647, not 'x'"),
        ("²..³", "seed '²..³' is not a range"),
        ("-1..3", "seed '-1..3' is not a range"),
        ("0.." + "9" * 22, "seed names 10000000000000000000000 runs, more than 1000"),
        ("0.." + "9" * 5000, "is not a range"),
        ("0..1..2", "is not a range"),
        ("2147483647..2147483648", "seed is an integer in 0..2,147,483,647, not 2147483648"),
        ("010", "seed: '010' is 8 to YAML"),
        ("[1, -1]", "seed is an integer in 0..2,147,483,647, not -1"),
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


def test_keys_are_accepted_by_their_earlier_names(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("value_only_steps: 7\n")
    (run,) = load_config(path)
    assert run.critic_warmup_steps == 7
    assert "value_only_steps" not in run.to_dict()
    (run,) = load_config(path, ["value_only_steps=9"])
    assert run.critic_warmup_steps == 9
    path.write_text("value_only_steps: 7\ncritic_warmup_steps: 7\n")
    with pytest.raises(ConfigError, match="critic_warmup_steps is given twice"):
        load_config(path)


def test_the_configs_of_the_committed_weights_are_read():
    for path in sorted(ROOT.glob("weights/ppo/seed-*")):
        (run,) = load_config(path / "config.yaml", [f"initial_policy={path}"])
        assert run.critic_warmup_steps == 500_000
        (imitation,) = load_configs(ImitationConfig, path / "imitation" / "config.yaml", [])
        assert (imitation.samples, imitation.expert_fraction) == (1_600_000, 1.0)
