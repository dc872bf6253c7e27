"""The viewer's page: what is embedded in it, and every feature of it in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from qv_env import render
from qv_env.actions import ACTION_NAMES, DRAW
from qv_env.deals import deck_of
from qv_env.playthroughs.playthrough import Playthrough, read_playthrough, states
from qv_env.playthroughs.viewer import (
    _SCRIPTS,
    _STYLES,
    STATIC,
    DifferentDealsError,
    aligned,
    embedded_json,
    game_data,
    view_of,
    viewer_data,
    viewer_frame,
    viewer_page,
)
from qv_env.rules import legal_actions, new_game, play
from tests import golden
from tests.browser import wait_until

WON = read_playthrough(Path(__file__).parent / "data" / "won.json")
HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>{{script}}\u2028'\"&amp;"

both_sizes = pytest.mark.parametrize("size", ["desktop", "phone"])


def thoughtful(plain: Playthrough, **changes) -> Playthrough:
    """A game with estimates: the action played, one other legal one, and one that is refused."""
    mask = np.zeros(192, dtype=np.int8)
    likeliest = []
    for state, action in zip(states(plain), plain.actions, strict=False):
        legal_actions(state[0], mask)
        others = [int(a) for a in np.flatnonzero(mask) if a != action][:1]
        refused = int(np.flatnonzero(mask == 0)[0])
        likeliest.append([(action, 0.625), *((a, 0.25) for a in others), (refused, 0.125)])
    arguments = {
        "deal": plain.deal,
        "player": "thinker",
        "values": [700 - 2.5 * k for k in range(len(plain.actions))],
        "likeliest": likeliest,
    }
    return Playthrough.from_actions(plain.actions, **(arguments | changes))


def long_game(steps: int = 500) -> Playthrough:
    """A game that goes to and fro until it has so many steps."""
    game, actions = new_game(deck_of(265)), []
    mask, rng = np.zeros(192, dtype=np.int8), random.Random(0)
    while len(actions) < steps:
        legal_actions(game[0], mask)
        legal = [int(a) for a in np.flatnonzero(mask)]
        moves = [a for a in legal if a != DRAW]
        action = moves[int(rng.random() * len(moves))] if moves else DRAW
        play(game[0], action)
        actions.append(action)
    return Playthrough.from_actions(actions, deal=265, player="to and fro")


def golden_game(count: int = golden.MOVES_PLAYED, **changes) -> Playthrough:
    actions = golden.chosen_actions(golden.DEAL, golden.SEED, count)
    return Playthrough.from_actions(actions, **{"deal": golden.DEAL, "player": "chance"} | changes)


@pytest.fixture
def write(tmp_path):
    """Write a page; return its path."""

    def call(*arguments, **keywords) -> Path:
        path = tmp_path / "page.html"
        path.write_text(viewer_page(*arguments, **keywords), encoding="utf-8")
        return path

    return call


# ----------------------------------------------------------------------------------- the data


def moves_of(data: dict) -> list[tuple]:
    """A game's moves as the page reads them: source, target, card, points, score, name."""
    block = re.search(r'id="table">(.*?)</script>', viewer_frame().before, re.S)
    table = json.loads(block[1])
    moves, score = [], 0
    for action, target, card, points in data["moves"]:
        source, name = table["actions"][action]
        score += points
        moves.append((source, table["piles"][target], table["cards"][card], points, score, name))
    return moves


def test_views_and_moves_lead_through_the_game():
    """The page's way of moving cards, done here: every position is the rules' position."""
    for game in (WON, golden_game()):
        data = game_data(game)
        assert json.loads(json.dumps(data)) == json.loads(json.dumps(data))
        view = data["start"]
        stacks: list[list[str]] = [[] for _ in range(8)]
        positions = list(states(game))
        assert view == view_of(positions[0][0])
        score = 0
        for move, position in zip(moves_of(data), positions[1:], strict=True):
            source, target, card, points, after, _ = move
            score += points
            assert score == after
            taken = card if source == "stock" else pile(view, stacks, source).pop()
            assert taken == card
            view["stock"] -= source == "stock"
            pile(view, stacks, target).append(card)
            for foundation, stack in zip(view["foundations"], stacks, strict=True):
                foundation |= {"cards": len(stack), "top": stack[-1] if stack else ""}
            view |= {"score": after, "moves": view["moves"] + 1}
            assert view == view_of(position[0])


def pile(view, stacks, name: str) -> list[str]:
    if name == "w":
        return view["waste"]
    index = int(name[1:]) - 1
    return view["columns"][index] if name[0] == "c" else stacks[index]


def test_views_are_those_of_the_table_for_people():
    from qv_env.play.game import Game

    game = Game(deal=21)
    view = view_of(new_game(deck_of(21))[0])
    assert {key: game.view()[key] for key in view} == view


def test_thoughts_name_their_piles():
    data = game_data(thoughtful(WON))
    for move, thoughts in zip(moves_of(data), data["likeliest"], strict=True):
        name, probability, source, target = thoughts[0]
        assert (source, target, name, probability) == (move[0], move[1], move[5], 0.625)
        assert thoughts[-1][2:] == [None, None]  # refused: no arrow to draw


def test_two_games_draw_at_the_same_moments():
    one, other = WON.actions, [DRAW, *(a for a in WON.actions[:100] if a == DRAW)]
    moments = aligned(one, other)
    assert moments[0] == (0, 0)
    assert moments[-1] == (len(one), len(other))
    draws = [np.cumsum([0, *(a == DRAW for a in actions)]) for actions in (one, other)]
    for (a, b), (c, d) in pairwise(moments):
        assert (c - a, d - b) in ((1, 0), (0, 1), (1, 1))
        assert draws[0][c] == draws[1][d] or d == len(other) or c == len(one)


@pytest.mark.parametrize(
    ("one", "other", "moments"),
    [
        ([], [], [(0, 0)]),
        ([5, 5], [], [(0, 0), (1, 0), (2, 0)]),
        ([5, 0], [0], [(0, 0), (1, 0), (2, 1)]),
        ([0], [5, 0, 5], [(0, 0), (0, 1), (1, 2), (1, 3)]),
        ([5], [0, 0], [(0, 0), (1, 0), (1, 1), (1, 2)]),
    ],
)
def test_alignment(one, other, moments):
    assert aligned(one, other) == moments


def test_games_of_different_deals_do_not_stand_side_by_side():
    with pytest.raises(DifferentDealsError, match=f"{WON.deal} and {golden_game().deal}"):
        viewer_page(WON, golden_game())


def test_a_deal_and_its_deck_are_the_same_deal():
    deck = deck_of(golden.DEAL).tolist()
    page = viewer_page(golden_game(), golden_game(20, deal=None, deck=deck))
    assert "moments" in page


def test_a_step_that_is_not_there():
    with pytest.raises(ValueError, match="no step 228; the last one is 227"):
        viewer_page(WON, step=228)


# ----------------------------------------------------------------------------------- the page


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def tags_of(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    return parser


def test_nothing_in_a_file_becomes_markup():
    hostile = golden_game(
        player=HOSTILE,
        extra={HOSTILE: [HOSTILE], "lone": "\ud800"},
    )
    plain, page = viewer_page(golden_game()), viewer_page(hostile, titles=(HOSTILE, ""))
    assert [tag for tag, _ in tags_of(page).tags] == [tag for tag, _ in tags_of(plain).tags]
    page.encode()  # a lone surrogate stays an escape
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert block is not None
    assert not set(block[1]) & set("<>&\u2028\u2029")
    data = json.loads(block[1])
    assert data["games"][0]["player"] == HOSTILE


def test_a_frame_shows_any_game():
    """Pages of many games have the frame once: with a game's data it is that game's page."""
    frame, hostile = viewer_frame(), golden_game(player=HOSTILE + "{{data}}{{table}}")
    for arguments in ((WON,), (hostile,), (golden_game(), golden_game(20), ("a", "b"), 3.0, 7)):
        data = viewer_data(*arguments)
        assert frame.page(data) == frame.before + data + frame.after == viewer_page(*arguments)
        content = json.loads(data)
        assert [game["player"] for game in content["games"]] == [
            game.player for game in arguments[:2]
        ]
    assert content["games"][1]["title"] == "b"
    assert (content["speed"], content["step"]) == (3.0, 7)
    assert content["moments"] == [
        list(pair) for pair in aligned(*(g.actions for g in arguments[:2]))
    ]
    assert "{{" not in frame.before + frame.after


def test_embedded_json_is_the_same_value():
    value = {"a": [HOSTILE, 1.5, None, "é\u2029\U0001f0a1"], "\udcff": True}
    assert json.loads(embedded_json(value)) == value


def test_the_policy_allows_what_the_page_has_and_no_more():
    page = viewer_page(WON)
    parsed = tags_of(page)
    policy = next(
        attributes["content"]
        for tag, attributes in parsed.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    style, script = (
        re.search(pattern, page, re.S)[1]
        for pattern in (r"<style>(.*?)</style>", r"<script>(.*?)</script>")
    )
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for _, attributes in parsed.tags:
        assert not {"style", "onclick", "onload", "onerror"} & set(attributes)
    outside = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name space: nothing is fetched from it


def test_sources_neither_end_their_element_nor_set_markup():
    for path in (*STATIC.iterdir(), *render.STATIC.iterdir()):
        text = path.read_text(encoding="utf-8")
        if path in (*_SCRIPTS, *_STYLES):
            assert "</" not in text
            assert "<!--" not in text
        for call in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert call not in text, path.name


# ------------------------------------------------------------------------------- in a browser


def step_of(page) -> int:
    return int(page.get_by_role("slider").get_attribute("aria-valuenow"))


def enter_step(page, step: int) -> None:
    page.locator("#step").fill(str(step))
    page.locator("#step").press("Enter")


def wait_for_step(page, condition: str) -> None:
    wait_until(page, f"document.querySelector('#timeline').ariaValueNow {condition}")


def label(page, pile: str, table: int = 0) -> str:
    return page.locator(f'[data-pile="{pile}"]').nth(table).get_attribute("aria-label")


@both_sizes
def test_the_table_shows_each_position(open_page, write, size):
    page = open_page(write(WON), size)
    assert page.title() == f"{WON.player} · Quarante Voleurs"
    assert page.locator("#deal").inner_text() == WON.deal
    assert label(page, "stock") == "Stock: 64 cards face down"
    assert label(page, "w") == "Waste: empty"
    assert label(page, "f2") == "Foundation 2, hearts: empty"
    assert label(page, "c1").startswith("Column 1: 4 cards, from the top ")
    assert page.locator(".qv-cards .qv-card").count() == 40
    page.locator("#last").click()
    assert step_of(page) == len(WON.actions)
    assert label(page, "f8") == "Foundation 8, clubs: 13 cards, king of clubs on top"
    assert label(page, "stock") == "Stock: empty"
    assert page.locator(".qv-won-text").text_content() == (
        f"{WON.score} points in {len(WON.actions)} moves"
    )
    # Back at the deal, all is as it was.
    page.locator("#first").click()
    assert page.locator(".qv-won").count() == 0
    assert label(page, "stock") == "Stock: 64 cards face down"
    assert page.locator(".qv-frame").count() == 0


@both_sizes
def test_buttons_and_step_field(open_page, write, size):
    page = open_page(write(WON), size)
    for button, step in (("forward", 1), ("forward", 2), ("back", 1), ("last", 227), ("back", 226)):
        page.locator(f"#{button}").click()
        assert step_of(page) == step
    enter_step(page, 90)
    assert step_of(page) == 90
    assert page.locator(".head").inner_text().split() == [
        *WON.player.split(), "cards", "19/104", "score", "250", "moves", "90",
    ]  # fmt: skip
    assert page.locator("#said").inner_text().startswith("Step 90, draw: drew the 6 of hearts")
    enter_step(page, 9999)
    assert step_of(page) == 227
    assert page.get_by_role("button", name="One step on").is_disabled()


@both_sizes
def test_play_and_pause(open_page, write, size):
    page = open_page(write(WON), size)
    page.get_by_role("button", name="Play").click()
    wait_for_step(page, ">= 2")
    page.get_by_role("button", name="Pause").click()
    step = step_of(page)
    assert step < 227
    page.locator("#forward").click()  # no clock is ticking any more
    assert step_of(page) == step + 1
    page.get_by_label("Speed").select_option("32")
    enter_step(page, 220)
    page.get_by_role("button", name="Play").click()
    wait_for_step(page, "== 227")
    page.get_by_role("button", name="Play").click()  # it stopped at the end, and begins again
    wait_for_step(page, "< 200")


def gliding_after(page, button: str) -> int:
    """How many cards are on their way right after a click, before any time passes."""
    click = f"document.getElementById('{button}').click()"
    return page.evaluate(f"() => {{ {click}; return document.getAnimations().length; }}")


@both_sizes
def test_cards_glide_to_where_they_lie(open_page, write, size):
    page = open_page(write(WON), size)
    for button in ("forward", "forward", "forward", "back", "forward"):
        assert gliding_after(page, button) >= 1
        assert page.locator(".qv-frame").count() == 1
        wait_until(page, "document.getAnimations().length == 0")
        shown = page.locator(".qv-cards .qv-card").count()
        view = view_of(list(states(WON))[step_of(page)][0])
        piles = [*view["columns"], view["waste"][-1:], *(f["top"] for f in view["foundations"])]
        assert shown == sum(len(pile) if isinstance(pile, list) else bool(pile) for pile in piles)
    assert gliding_after(page, "last") == 0  # a leap is not animated


def test_no_gliding_for_who_prefers_less_motion(open_page, write):
    page = open_page(write(WON), reduced_motion="reduce")
    assert gliding_after(page, "forward") == 0


@both_sizes
def test_time_line(open_page, write, size):
    page = open_page(write(thoughtful(WON)), size)
    line = page.get_by_role("slider", name="Time line")
    box = line.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.click(box["x"] + box["width"] / 2, middle)
    assert abs(step_of(page) - 227 / 2) <= 1
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, middle, steps=5)
    assert step_of(page) > 150
    page.mouse.move(box["x"] + box["width"] + 50, middle, steps=2)
    page.mouse.up()
    assert step_of(page) == 227
    assert line.get_attribute("aria-valuetext") == page.locator("#move-227").get_attribute(
        "aria-label"
    )
    assert page.locator("#timeline .score.line").count() == 1
    assert page.locator("#timeline .estimate.line").count() == 1
    assert [text.split(",")[0] for text in page.locator("#timeline .lane").all_text_contents()] == [
        "score",
        "value",
    ]


@both_sizes
def test_keys(open_page, write, size):
    page = open_page(write(thoughtful(WON)), size)
    press = page.keyboard.press
    for key, step in (
        ("ArrowRight", 1), ("n", 2), ("ArrowLeft", 1), ("p", 0), ("ArrowDown", 10),
        ("PageDown", 20), ("ArrowUp", 10), ("PageUp", 0), ("End", 227), ("Home", 0),
    ):  # fmt: skip
        press(key)
        assert step_of(page) == step, key
    speed = page.locator("#speed")
    press("+")
    assert speed.input_value() == "8"
    press("-")
    press("-")
    assert speed.input_value() == "2"
    press("g")
    page.keyboard.type("42")
    press("Enter")
    press("Escape")
    assert step_of(page) == 42
    assert page.locator(".qv-arrow").count() >= 1
    press("l")
    assert page.locator(".qv-arrow").count() == 0
    press("l")
    press("?")
    assert page.get_by_role("dialog").is_visible()
    press("Escape")
    assert not page.get_by_role("dialog").is_visible()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Close").click()
    press("Home")
    page.locator("#timeline").focus()
    press(" ")
    page.get_by_role("button", name="Pause").wait_for()
    press(" ")
    page.get_by_role("button", name="Play").wait_for()


@both_sizes
def test_space_presses_the_button_that_has_the_focus(open_page, write, size):
    page = open_page(write(WON), size)
    page.locator("#forward").focus()
    page.keyboard.press(" ")
    assert step_of(page) == 1
    assert page.get_by_role("button", name="Play").is_visible()


@both_sizes
def test_move_list(open_page, write, size):
    page = open_page(write(WON), size)
    moves = page.get_by_role("listbox", name="Moves")
    names = moves.locator(".name").all_inner_texts()
    assert names == ["the deal", *(ACTION_NAMES[a] for a in WON.actions)]
    moves.get_by_role("option").nth(90).click()
    assert step_of(page) == 90
    assert moves.get_by_role("option", selected=True).get_attribute("data-step") == "90"
    assert moves.get_attribute("aria-activedescendant") == "move-90"
    row = moves.get_by_role("option").nth(91).inner_text().split()
    assert row == ["91", "c6>f", "8♦", "+10", "260"]
    moves.focus()
    page.keyboard.press("ArrowDown")
    assert step_of(page) == 91
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert step_of(page) == 89


@both_sizes
def test_what_the_player_thought(open_page, write, size):
    game = thoughtful(WON)
    page = open_page(write(game, step=90), size)
    assert step_of(page) == 90
    panel = page.get_by_role("region", name="What thinker thought")
    assert "Value 475 before step 91" in panel.inner_text()
    bars = panel.get_by_role("listitem")
    assert bars.first.inner_text().split() == ["c6>f", "62.5", "%", "played"]
    assert bars.count() == 3
    # Arrows for what the rules allow; the refused one is listed only.
    assert page.locator(".qv-badge").all_text_contents() == ["25%", "63%"]
    assert page.locator(".qv-badge.qv-chosen").text_content() == "63%"
    page.locator("#arrows-label").click()
    assert page.locator(".qv-badge").count() == 0
    page.locator("#last").click()
    assert "ends here" in panel.inner_text()


def test_without_thoughts_nothing_of_them_is_shown(open_page, write):
    page = open_page(write(WON))
    assert page.locator(".thinking").count() == 0
    assert not page.locator("#arrows-label").is_visible()
    assert page.locator("#timeline .estimate").count() == 0


@both_sizes
def test_two_games_side_by_side(open_page, write, size):
    one, other = golden_game(), golden_game(60, player="the same, given up")
    page = open_page(write(one, other, titles=("a.json", "b.json")), size)
    tables = [page.get_by_role("group", name=f"Table of game {letter}") for letter in "AB"]
    boxes = [table.bounding_box() for table in tables]
    if size == "desktop":
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    else:
        assert boxes[0]["y"] + boxes[0]["height"] < boxes[1]["y"]
    enter_step(page, 50)
    assert label(page, "stock") == label(page, "stock", 1)
    page.locator("#last").click()
    counts = page.locator(".head .numbers").all_inner_texts()
    assert [text.split()[-1] for text in counts] == ["100", "60"]
    page.get_by_role("listbox", name="Moves of B").get_by_role("option").nth(7).click()
    assert page.locator("#said").inner_text().count("Step 7") == 2
    assert page.locator("#timeline .score.line").count() == 2


@both_sizes
def test_hostile_texts_are_texts(open_page, write, size):
    hostile = golden_game(player=HOSTILE, extra={HOSTILE: {"x": HOSTILE}})
    page = open_page(write(hostile, hostile, titles=(HOSTILE, HOSTILE)), size)
    assert page.locator(".player").first.text_content() == HOSTILE
    assert "onerror" in page.title()
    assert page.locator("img").count() == 0
    single = open_page(write(hostile, titles=(HOSTILE, "")), size)
    single.locator("summary").click()
    assert single.locator(".notes dt").all_text_contents() == ["file", HOSTILE]
    assert HOSTILE in single.locator(".notes dd").first.text_content()
    assert single.locator("img").count() == 0


@both_sizes
def test_a_long_game(open_page, write, size):
    game = long_game()
    page = open_page(write(game), size)
    page.keyboard.press("End")
    assert step_of(page) == 500
    assert page.get_by_role("listbox").get_by_role("option").count() == 501
    for step, position in enumerate(states(game)):
        if step % 50 == 0:
            page.evaluate("step => { location.hash = step; }", step)
            wait_for_step(page, f"== {step}")
            heights = [int(h) for h in position[0]["heights"]]
            shown = [label(page, f"c{c + 1}") for c in range(10)]
            counts = [0 if "empty" in text else int(text.split()[2]) for text in shown]
            assert counts == heights


def test_a_game_without_a_move(open_page, write):
    page = open_page(write(Playthrough.from_actions([], deal=21)))
    assert page.locator(".player").inner_text() == "unnamed player"
    page.get_by_role("button", name="Play").click()
    page.keyboard.press("ArrowRight")
    assert step_of(page) == 0


@both_sizes
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_and_width(open_page, write, size, scheme):
    page = open_page(write(thoughtful(WON), step=120), size, scheme)
    ground, text = page.evaluate(
        """() => { const style = getComputedStyle(document.body);
           return [style.backgroundColor, style.color].map((c) =>
             c.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)); }"""
    )
    assert (ground > text) == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Touch targets, and a table as wide as there is room.
    if size == "phone":
        assert page.locator(".qv-table").bounding_box()["width"] == 390
        assert min(b.bounding_box()["height"] for b in page.locator(".dock button").all()) >= 40
    else:
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_all_can_be_reached_by_tab(open_page, write):
    page = open_page(write(thoughtful(WON), step=5))
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        on = "document.activeElement"
        reached.append(page.evaluate(f"{on}.id || {on}.className"))
    wanted = ["help-open", "moves", "timeline", "first", "back", "play", "forward", "last", "step"]
    assert [name for name in reached if name in wanted][: len(wanted)] == wanted
    assert {"speed", "arrows"} <= set(reached)


# ------------------------------------------------------------------- the table as the play page's


TABLE_PAGE = """<!doctype html><meta charset="utf-8"><style>{css} #t {{ width: 800px }}</style>
<div id="t"></div><script>{js}</script>"""


@pytest.fixture
def table(open_page, tmp_path):
    """A page with an interactive table on it, as ``table``, and the view of deal 21."""
    from qv_env.render.art import art_json
    from qv_env.render.layout import layout_json

    path = tmp_path / "table.html"
    css, js = (
        (render.STATIC / f"table.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
    )
    path.write_text(TABLE_PAGE.format(css=css, js=js), encoding="utf-8")
    page = open_page(path)
    view = view_of(new_game(deck_of(21))[0]) | {"won": False}
    page.evaluate(
        """([layout, art, view]) => {
            globalThis.pressed = [];
            globalThis.table = QVTable.create(document.getElementById('t'), layout, art,
              { interactive: true, onPress: (pile) => pressed.push(pile) });
            globalThis.view = view;
            table.show(view);
        }""",
        [layout_json(), art_json(), view],
    )
    return page


def centre(page, pile: str) -> tuple[float, float]:
    box = page.locator(f'[data-pile="{pile}"]').bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] - 20


def test_piles_are_found_by_point(table):
    for pile in ("stock", "w", "f1", "f8", "c1", "c7", "c10"):
        assert table.evaluate("(p) => globalThis.table.pileAt(...p)", centre(table, pile)) == pile
    assert table.evaluate("globalThis.table.pileAt(5000, 10)") is None
    x, _ = centre(table, "c4")
    assert table.evaluate("(p) => globalThis.table.pileAt(...p)", [x, 480]) == "c4"


def test_piles_are_gone_through_by_keys(table):
    table.keyboard.press("Tab")
    focused = "document.activeElement.dataset.pile"
    assert table.evaluate(focused) == "stock"
    for key, pile in (
        ("ArrowRight", "w"), ("ArrowDown", "c2"), ("End", "c10"), ("ArrowLeft", "c9"),
        ("ArrowUp", "f7"), ("Home", "stock"), ("ArrowLeft", "stock"),
    ):  # fmt: skip
        table.keyboard.press(key)
        assert table.evaluate(focused) == pile
    table.keyboard.press("Enter")
    table.keyboard.press("ArrowRight")
    table.keyboard.press(" ")
    assert table.evaluate("pressed") == ["stock", "w"]
    assert table.locator('[role="button"]').count() == 20
    assert table.locator('[tabindex="0"]').count() == 1


def test_a_card_in_hand(table):
    x, y = centre(table, "c3")
    before = table.locator(".qv-cards .qv-card").count()
    table.evaluate("(p) => { globalThis.hand = table.lift('c3', ...p); }", [x, y])
    table.evaluate("(p) => hand.move(...p)", [x + 100, y + 50])
    assert table.locator(".qv-lifted .qv-card").count() == 1
    table.evaluate("table.highlight(['c4', 'f1'])")
    assert table.locator(".qv-lit").count() == 2
    table.evaluate("hand.putBack(50)")
    assert table.locator(".qv-cards .qv-card").count() == before
    table.evaluate("table.show(view)")
    assert table.locator(".qv-lit").count() == 0
    assert table.evaluate("table.lift('f1', 0, 0)") is None
    # The stock's next card is lifted face down, and is not one of the table's.
    table.evaluate("() => { globalThis.hand = table.lift('stock', 0, 0); }")
    assert table.locator(".qv-lifted .qv-card").count() == 1
    table.evaluate("hand.putBack(0)")
    assert table.locator(".qv-lifted .qv-card").count() == 0


def test_a_table_can_go(table):
    table.evaluate("table.destroy()")
    assert table.locator("svg").count() == 0
