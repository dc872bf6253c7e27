"""The report: its claim in each case, its contents, and that texts stay texts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from agents.players import make_player
from agents.training.report import Report, claim, play_text, write_report
from qv_env.evaluation.benchmark import run_benchmark
from qv_env.evaluation.players.greedy import GreedyPlayer
from qv_env.evaluation.stats import Interval, PairedDifference
from qv_env.evaluation.summary import PlayerSummary

CURVE = [
    {
        "steps": steps,
        "seconds": steps / 2_000,
        "mean_score": 100 + steps / 500,
        "low": 90 + steps / 500,
        "high": 110 + steps / 500,
        "wins": 0,
        "deals": 200,
        "play": "sample 1.0",
        "suite": "dev-200",
    }
    for steps in (50_000, 100_000)
]


@pytest.fixture(scope="module")
def results():
    agent = GreedyPlayer()
    agent.settings = {"play": "argmax-new"}
    players = {"agent": agent, "greedy": GreedyPlayer(), "random": make_player("random")}
    return run_benchmark(players, range(20), "0:20")


def summary(player, estimate, low, high):
    interval, nothing = Interval(estimate, low, high), Interval(0, 0, 0)
    return PlayerSummary(
        player, {}, {}, 1000, (0,), interval, 0.3, 0, 1000, nothing, nothing, 300.0, 0.5, None
    )


def said(low, estimate, high):
    difference = PairedDifference(Interval(estimate, low, high), 600, 390, 10, 0.00123)
    agent, greedy = summary("ppo", 380.0, 371.0, 389.0), summary("greedy", 345.0, 337.0, 353.0)
    return claim(difference, agent, greedy, "the 1,000 deals of test-1000")


def test_a_better_agent():
    text = said(29.0, 35.0, 41.0)
    assert text.startswith("ppo beats greedy. On the 1,000 deals of test-1000,")
    assert "+35.0 points (95 % interval +29.0 to +41.0). The interval lies above 0." in text
    assert "ppo scores 380.0 (371.0 to 389.0) on average and greedy 345.0 (337.0 to 353.0)" in text
    assert "ahead on 600 deals, behind on 390, level on 10" in text
    assert "p = 0.0012" in text


def test_a_worse_agent():
    text = said(-41.0, -35.0, -29.0)
    assert text.startswith("ppo does not beat greedy: it scores less.")
    assert "-35.0 points (95 % interval -41.0 to -29.0). The interval lies below 0." in text


@pytest.mark.parametrize(
    ("low", "estimate", "high"), [(-2, 3, 8), (-8, -3, 2), (0, 0, 0), (0, 2, 4), (-4, -2, 0)]
)
def test_an_agent_that_is_not_told_apart(low, estimate, high):
    text = said(low, estimate, high)
    assert text.startswith("ppo and greedy are not told apart.")
    assert "includes 0" in text
    assert "beat" not in text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"play": "sample", "temperature": 1.0},
            "sampled from the policy's probabilities, as they",
        ),
        ({"play": "sample", "temperature": 0.5}, "at temperature 0.5 (play=sample"),
        ({"play": "argmax"}, "Kind of play: argmax: it takes the likeliest action, even where"),
        ({"play": "argmax-new"}, "does not return to a position already seen"),
        ({"play": "other"}, "Kind of play: play=other."),
        ({}, "Kind of play: no settings."),
    ],
)
def test_the_kind_of_play_is_named(settings, text):
    assert text in play_text(settings)


class _Page(HTMLParser):
    """Collects a page's tags, attributes and texts, and sees that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [v for k, v in attributes if k in ("src", "srcset", "href")]
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(path):
    page = _Page()
    page.feed(path.read_text("utf-8"))
    page.close()
    assert page.open == []
    return page


def test_the_report_has_all_it_should(tmp_path, results):
    path = write_report(
        tmp_path / "report",
        Report(
            title="Quick run",
            results=results,
            agent="agent",
            curve=CURVE,
            config={"seed": 0, "name": "quick"},
            playthrough_path="runs/my quick/game.json",
            commands=["make train", "python -m agents.benchmark greedy"],
            notes=["trained on two cores"],
        ),
    )
    assert path == tmp_path / "report" / "report.html"
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["learning.png", "report.html", "report.md", "scores.png"]

    page = read_page(path)
    html, markdown = "".join(page.text), path.with_name("report.md").read_text("utf-8")
    for text in (html, markdown):
        assert "agent and greedy are not told apart" in text
        assert "agent beats random" in text
        assert "the 20 deals of 0:20" in text
        assert "does not return to a position already seen" in text
        assert ".venv/bin/python -m qv_env show 'runs/my quick/game.json'" in text
        assert "make train" in text
        assert "trained on two cores" in text
        assert '"name": "quick"' in text
        assert "Training took 100,000 steps in 50 seconds" in text
        assert "on deals of dev-200" in text
    assert page.tags.count("tr") == 4
    assert re.findall(r"!\[[^\]]*\]\((.*)\)", markdown) == ["scores.png", "learning.png"]
    # Nothing is loaded from elsewhere; each plot is there for both backgrounds.
    assert len(page.links) == 4
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "prefers-color-scheme: dark" in path.read_text("utf-8")


def test_a_report_may_leave_things_out(tmp_path, results):
    path = write_report(
        tmp_path, Report(title="Short", results=results, agent="agent", baselines=["random"])
    )
    page = read_page(path)
    assert page.tags.count("img") == 1
    assert "".join(page.text).strip().startswith("Short")
    assert not (tmp_path / "learning.png").exists()
    assert "Settings" not in page.text


def test_texts_stay_texts(tmp_path):
    name = "<script>alert('1')</script> & \"$x_y$\""
    results = run_benchmark({name: GreedyPlayer(), "greedy": GreedyPlayer()}, [1, 2], "<b>")
    path = write_report(
        tmp_path,
        Report(
            title="</title><script>",
            results=results,
            agent=name,
            baselines=["greedy"],
            curve=[{"steps": 1, "mean_score": 1.0, "play": "<script>", "suite": "<script>"}],
            config={"a": "</pre><script>", "path": tmp_path},
            playthrough_path="<script>.json",
            commands=["echo '</code><script>' ```"],
            notes=["<script>alert(2)</script> `code`"],
        ),
    )
    page = read_page(path)
    assert "script" not in page.tags
    assert name in "".join(page.text)
    markdown = (tmp_path / "report.md").read_text("utf-8")
    outside_code = re.sub(r"^(`{3,})\n.*?^\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    assert "<" not in outside_code
    assert "````\necho '</code><script>' ```\n````" in markdown


@pytest.mark.parametrize(
    ("agent", "baselines", "message"),
    [
        ("nobody", ["greedy"], "no player 'nobody'"),
        ("agent", ["greedy", "nobody"], "no player 'nobody'"),
        ("agent", [], "at least one baseline"),
    ],
)
def test_players_that_are_not_there_are_refused(tmp_path, results, agent, baselines, message):
    with pytest.raises(ValueError, match=message):
        write_report(tmp_path, Report(title="t", results=results, agent=agent, baselines=baselines))
    assert list(tmp_path.iterdir()) == []
