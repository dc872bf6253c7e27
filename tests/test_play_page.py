"""The play page in a real browser: everything that people can do on it; and its command."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path

import pytest

from qv_env.__main__ import main
from qv_env.actions import ACTION_NAMES
from qv_env.deals import deal_number
from qv_env.play import server as module
from qv_env.play.game import UNDO_LIMIT, Game
from qv_env.play.server import create_app
from qv_env.playthroughs.playthrough import read_playthrough
from qv_env.render.art import art_json
from qv_env.render.layout import layout_json
from tests.browser import SIZES

WON = read_playthrough(Path(__file__).parent / "data" / "won.json")
# Tops: 10C 9H 8C 2D AD 8D 10H 8H 4D 4H. The ace of column 5 goes home, then the 2 of column 4; the
# 8 of column 8 goes to the 9 on column 2, and that one to the 10 on column 7.
DEAL = "FT1-N-AAAAABE"
GUARD = 120  # seconds: only a hanging program ever waits as long

both_sizes = pytest.mark.parametrize("size", ["desktop", "phone"])


class Server:
    """A running server with its table."""

    def __init__(self, store: Path, deal: str | None = DEAL, port: int = 0) -> None:
        listener = module.listening(port)
        self.port = listener.getsockname()[1]
        self.host = f"http://127.0.0.1:{self.port}/"
        app = create_app(store, self.port, deal)
        self.table, self.access = app.state.table, app.state.access
        self.address = f"{self.host}?token={self.access.token}"
        self._server = module.uvicorn_server(app)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._listener = listener
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(GUARD)
        assert not self._thread.is_alive()
        self._listener.close()
        self.table.close()

    def play(self, *actions: int | str) -> None:
        """Play without the page."""
        for action in actions:
            reply = self.table.act(self.table.view()["version"], lambda g, a=action: g.play(a))
            assert reply.outcome.moved


class Page:
    """The page as a person uses it."""

    def __init__(self, page, phone: bool) -> None:
        self.page = page
        self.phone = phone
        page.wait_for_selector(".qv-card")
        self._touch = page.context.new_cdp_session(page) if phone else None

    def pile(self, name: str):
        return self.page.locator(f"[data-pile={name}]")

    def label(self, name: str) -> str:
        return self.pile(name).get_attribute("aria-label")

    def at(self, name: str) -> tuple[float, float]:
        """A point on a pile's top card."""
        x, y = self.page.evaluate(
            """(pile) => {
                const hit = document.querySelector(`[data-pile=${pile}] .qv-hit`);
                const { left, bottom, width } = hit.getBoundingClientRect();
                return [left + width / 2, bottom - width / 2];
            }""",
            name,
        )
        return x, y

    def tap(self, name: str) -> None:
        (self.page.touchscreen.tap if self.phone else self.page.mouse.click)(*self.at(name))

    def double(self, name: str) -> None:
        if self.phone:
            self.tap(name)
            self.tap(name)
        else:
            self.page.mouse.dblclick(*self.at(name))

    def double_until(self, name: str, moves: int) -> None:
        """Double click; once more where a busy machine made two clicks of it that do nothing."""
        from playwright.sync_api import TimeoutError as Missed

        for _ in range(20):
            self.double(name)
            with contextlib.suppress(Missed):
                self.wait("moves", moves, timeout=2000)
                return
        raise AssertionError(f"no double click on {name} arrived")

    def touch(self, kind: str, *points: tuple[float, float]) -> None:
        self._touch.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]},
        )

    def take(self, name: str, target: str | tuple[float, float]) -> None:
        """Begin to drag; the card is over the target then."""
        start = self.at(name)
        end = self.at(target) if isinstance(target, str) else target
        if self.phone:
            self.touch("touchStart", start)
            self.touch("touchMove", ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2))
            self.touch("touchMove", end)
        else:
            self.page.mouse.move(*start)
            self.page.mouse.down()
            self.page.mouse.move(*end)

    def let_go(self) -> None:
        if self.phone:
            self.touch("touchEnd")
        else:
            self.page.mouse.up()

    def drag(self, name: str, target: str | tuple[float, float]) -> None:
        self.take(name, target)
        self.let_go()

    def lit(self) -> set[str]:
        piles = self.page.locator(".qv-lit")
        return {pile.get_attribute("data-pile") for pile in piles.all()}

    def text(self, name: str) -> str:
        return self.page.locator(f"#{name}").inner_text()

    def wait(self, name: str, text: object, timeout: int | None = None) -> None:
        """Wait until an element's text contains this one; numbers are the whole text."""
        self.page.wait_for_function(
            """([id, text, whole]) => {
                const found = document.getElementById(id).textContent;
                return whole ? found === text : found.includes(text);
            }""",
            arg=[name, str(text), isinstance(text, int)],
            timeout=timeout,
        )

    def wait_label(self, name: str, text: str) -> None:
        self.page.wait_for_function(
            """([pile, text]) => document.querySelector(`[data-pile=${pile}]`)
                .getAttribute("aria-label").includes(text)""",
            arg=[name, text],
        )

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def click(self, name: str) -> None:
        self.page.locator(f"#{name}").click()


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def serve(store):
    servers = []

    def call(**options) -> Server:
        servers.append(Server(store, **options))
        return servers[-1]

    yield call
    for server in servers:
        with contextlib.suppress(OSError):
            server.stop()


@pytest.fixture
def opened(serve, open_page):
    """Open the page of a new server, or of one that runs."""

    def call(size: str = "desktop", server: Server | None = None, **options) -> Page:
        server = server or serve()
        options = {"reduced_motion": "reduce", **options}
        page = open_page(server.address, size, allowed=(server.host,), **options)
        return Page(page, size == "phone")

    return call


def kept(store: Path) -> list:
    return [read_playthrough(path) for path in sorted((store / "playthroughs").glob("*.json"))]


# --------------------------------------------------------------------------------- playing on it


@both_sizes
def test_a_tap_sends_a_card_home_and_draws(opened, size):
    page = opened(size)
    page.tap("c5")
    page.wait("score", 10)
    assert page.label("f3") == "Foundation 3, diamonds: 1 card, ace of diamonds on top"
    page.tap("c4")
    page.wait("score", 20)
    page.tap("stock")
    page.tap("stock")  # every tap on the stock counts, however fast
    page.wait("moves", 4)
    assert page.label("stock") == "Stock: 62 cards face down"
    assert "2 cards" in page.label("w")
    assert page.text("cards") == "2"
    page.wait("said", "to waste")
    page.wait("said", "ace of diamonds to foundation 3, +10 points")


@both_sizes
def test_the_waste_card_goes_to_a_column_by_a_tap(opened, serve, size):
    server = serve()
    before = WON.actions.index(1)  # waste to column 1
    server.play(*WON.actions[:before])
    page = opened(size, server)
    score = int(page.text("score"))
    page.tap("w")
    page.wait("score", score + 5)


@both_sizes
def test_a_refused_move_names_the_rule(opened, size):
    page = opened(size)
    region = page.page.locator("#message")
    assert region.get_attribute("aria-live") == "polite"
    assert region.get_attribute("role") == "status"
    page.tap("c8")
    page.wait("message", "A foundation takes the next card of its suit only")
    page.drag("c8", "c3")
    page.wait("message", "A column takes a card of its top card's suit only")
    page.drag("c8", "w")
    page.wait("message", "No card is put on the stock")
    page.drag("c5", "f1")
    page.wait("message", "A foundation takes the next card of its suit only")
    assert page.text("moves") == "0"
    # What moves next takes the text away.
    page.tap("c5")
    page.wait("moves", 1)
    page.page.wait_for_function("() => document.getElementById('message').textContent === ''")


@both_sizes
def test_double_clicks(opened, size):
    page = opened(size)
    page.double_until("c8", 1)
    assert "8 of hearts, 9 of hearts" in page.label("c2")
    page.page.wait_for_function("() => document.getElementById('message').textContent === ''")
    # The first click of two moves the ace, and the second one does not go on with what was below.
    page.double("c5")
    page.wait("score", 10)
    page.click("undo")
    page.wait("moves", 2)
    page.wait("score", 0)
    page.click("undo")
    page.wait_label("c8", "8 of hearts")

    page.click("double-clicks")
    page.page.wait_for_selector("#double-clicks:not(:checked):not([aria-busy])")
    page.double("c8")
    page.wait("message", "A foundation takes")
    assert page.text("moves") == "2"
    page.page.reload()
    page.page.wait_for_selector(".qv-card")
    assert not page.page.locator("#double-clicks").is_checked()


@both_sizes
def test_drag_and_drop_with_placing_help(opened, size):
    page = opened(size)
    game = Game(DEAL)
    page.take("c8", "c2")
    assert page.lit() == set(game.accepting("c8")) == {"c2"}
    page.let_go()
    page.wait("moves", 1)
    assert "from the top 8 of hearts, 9 of hearts" in page.label("c2")
    assert page.lit() == set()
    page.take("c5", "f3")
    assert page.lit() == {"c4", "f3"}
    page.let_go()
    page.wait("score", 10)
    # Taken back, for what there is to lose.
    page.take("f3", "c4")
    assert page.lit() == {"c4"}
    page.let_go()
    page.wait("score", 0)
    assert "ace of diamonds, 2 of diamonds" in page.label("c4")
    # On its own pile, or beside all of them, it stays, and nothing is said.
    page.drag("c2", "c2")
    page.drag("c2", (5, 5))
    page.take("stock", "w")
    assert page.lit() == {"w"}
    assert page.page.locator(".qv-up").count() == 1
    page.let_go()
    page.wait("moves", 4)
    assert page.page.locator(".qv-up").count() == 0
    assert page.label("stock").startswith("Stock: 63")
    assert page.text("message") == ""


def test_the_next_card_is_in_hand_before_the_answer_is_there(opened):
    page = opened(reduced_motion="no-preference")
    held = []
    page.page.route("**/api/drop", lambda route: held.append(route))
    page.drag("c8", "c1")
    page.page.wait_for_function("() => document.querySelectorAll('.qv-up').length === 1")
    page.take("c5", "f3")
    while not held:
        page.page.wait_for_timeout(10)
    held.pop().continue_()
    page.page.unroute("**/api/drop")
    page.wait("message", "A column takes")
    assert page.page.locator(".qv-up").count() == 1  # the ace is still in hand
    assert page.lit() == {"c4", "f3"}
    home = page.page.locator(".qv-cards .qv-card").count()
    page.let_go()
    page.wait("score", 10)
    assert page.page.locator(".qv-up").count() == 0
    assert page.page.locator(".qv-lifted .qv-card").count() == 0
    # No card lies anywhere but on its pile.
    page.page.reload()
    page.page.wait_for_selector(".qv-card")
    assert page.page.locator(".qv-cards .qv-card").count() == home + 1


@both_sizes
def test_automatic_placing(opened, size):
    page = opened(size)
    assert not page.page.locator("#automatic-placing").is_checked()
    page.click("automatic-placing")
    page.page.wait_for_selector("#automatic-placing:checked:not([aria-busy])")
    page.drag("c8", (5, 5))
    page.wait("moves", 1)
    assert "8 of hearts, 9 of hearts" in page.label("c2")
    page.drag("c5", "c10")
    page.wait("score", 10)
    page.drag("c1", "c3")
    page.wait("message", "A column takes")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_card_is_seen_on_its_way(opened, motion):
    page = opened(reduced_motion=motion)
    page.page.evaluate(
        """() => {
            globalThis.glides = 0;
            const animate = Element.prototype.animate;
            Element.prototype.animate = function (...how) {
                globalThis.glides += 1;
                return animate.apply(this, how);
            };
        }"""
    )
    page.tap("stock")
    page.wait("moves", 1)
    drawn = page.page.evaluate("glides")
    page.drag("c8", "c1")  # a refused card glides home
    page.wait("message", "A column takes")
    returned = page.page.evaluate("glides")
    if motion == "reduce":
        assert returned == 0
    else:
        assert 0 < drawn < returned
    page.page.wait_for_function(
        "() => [...document.querySelectorAll('.qv-card')].every((c) => !c.getAnimations().length)"
    )
    assert page.page.locator(".qv-up").count() == 0
    assert page.label("c8").startswith("Column 8: 4 cards, from the top 8 of hearts")


@both_sizes
def test_undo(opened, size):
    page = opened(size)
    undo = page.page.locator("#undo")
    assert undo.get_attribute("aria-disabled") == "true"
    undo.click(force=True)
    page.wait("message", "There is nothing to undo")
    for pile in ("c5", "c4", "stock"):
        page.tap(pile)
    page.wait("moves", 3)
    assert undo.get_attribute("aria-disabled") == "false"
    page.press("Control+z")
    page.wait_label("stock", "64")
    page.press("u")
    page.wait("score", 10)
    page.click("undo")
    page.wait("score", 0)
    assert page.text("moves") == "3"
    page.wait("said", "Undone")
    assert page.label("c5").startswith("Column 5: 4 cards, from the top ace of diamonds")


def test_the_last_hundred_actions_can_be_undone(opened, serve):
    server = serve()
    played = UNDO_LIMIT + 20
    server.play(*WON.actions[:played])
    page = opened(server=server)
    by_hand = 8
    for _ in range(UNDO_LIMIT - by_hand):
        server.table.act(server.table.view()["version"], lambda game: game.undo())
    page.page.reload()
    page.page.wait_for_selector(".qv-card")
    for _ in range(by_hand + 1):  # faster than the server answers: they wait for their turn
        page.press("u")
    page.wait("message", f"Only the last {UNDO_LIMIT} actions can be undone")
    game = Game(DEAL)
    for action in WON.actions[: played - UNDO_LIMIT]:
        game.play(action)
    assert page.text("score") == str(game.score)
    assert server.table.view()["columns"] == game.view()["columns"]
    assert page.text("moves") == str(played)


def test_a_whole_game_is_won_through_the_page(opened, serve, store):
    server = serve()
    page = opened(server=server)
    names = [ACTION_NAMES[a] if a else "stock>w" for a in WON.actions]
    before = ""
    for step, name in enumerate(names, start=1):
        source, target = name.split(">")
        # A card is tapped home; not two from one pile so fast that it is a double click.
        if target == "w" or (target == "f" and source != before):
            page.tap(source)
        else:
            view = server.table.view()
            page.drag(source, view["accepting"][source][0] if target == "f" else target)
        # Taps on the stock need not wait for each other.
        if names[step : step + 1] != ["stock>w"]:
            page.wait("moves", step)
        before = source
    assert page.text("score") == str(WON.score)
    assert page.text("cards") == "104"
    page.wait("message", f"Won: {WON.score} points in {len(WON.actions)} moves.")
    (game,) = kept(store)
    assert (game.won, game.player, game.actions) == (True, "human", WON.actions)
    (file,) = (store / "playthroughs").iterdir()
    page.wait("message", f"It is saved as {file}")
    assert page.page.locator(".qv-won").count() == 1
    # The next one needs no confirmation.
    page.click("new")
    page.wait("moves", 0)
    assert page.page.locator(".qv-won").count() == 0
    assert len(kept(store)) == 1


# ------------------------------------------------------------------------------- deals and codes


@both_sizes
def test_the_code_is_shown_copied_and_entered(opened, size):
    page = opened(size, permissions=["clipboard-read", "clipboard-write"], expected="status of 400")
    assert page.text("deal") == DEAL
    page.click("copy")
    page.wait("message", f"{DEAL} is copied")
    assert page.page.evaluate("navigator.clipboard.readText()") == DEAL
    code = page.page.locator("#code")
    code.fill("ft1-n-aaaaaav")
    page.click("deal-it")
    page.wait("deal", "FT1-N-AAAAAAV")
    assert page.label("c1").startswith("Column 1: 4 cards")
    assert page.label("c1").endswith("jack of hearts")
    assert page.page.title() == "FT1-N-AAAAAAV · Quarante Voleurs"
    assert code.input_value() == ""
    for wrong in ("FT1-N-AAAAAA1", "", "<b>x</b>", "99999999999999"):
        code.fill(wrong)
        code.press("Enter")
        page.page.wait_for_function("() => document.getElementById('code-error').textContent")
        assert code.input_value() == wrong
        assert page.text("deal") == "FT1-N-AAAAAAV"
    code.fill("36")
    code.press("Enter")
    page.wait("deal", DEAL)
    assert deal_number(DEAL) == 36
    assert page.text("code-error") == ""
    page.page.evaluate("document.activeElement.blur()")
    page.press("c")
    page.wait("message", f"{DEAL} is copied")


@both_sizes
def test_a_new_deal_asks_where_a_game_would_be_abandoned(opened, size, store):
    page = opened(size)
    dialog = page.page.locator("#abandon")
    page.click("new")  # nothing was played: nothing is asked
    page.page.wait_for_function(f"() => document.getElementById('deal').textContent !== '{DEAL}'")
    assert not dialog.is_visible()
    assert kept(store) == []
    deal = page.text("deal")
    page.tap("stock")
    page.wait("moves", 1)
    page.click("new")
    dialog.wait_for()
    page.click("abandon-no")
    dialog.wait_for(state="hidden")
    page.press("n")
    dialog.wait_for()
    page.press("Escape")
    dialog.wait_for(state="hidden")
    assert (page.text("deal"), page.text("moves")) == (deal, "1")
    page.page.locator("#code").fill(DEAL)
    page.page.locator("#code").press("Enter")
    dialog.wait_for()
    page.click("abandon-yes")
    page.wait("deal", DEAL)
    page.wait("moves", 0)
    page.wait("message", f"saved in {store / 'playthroughs'}")
    assert page.text("folder") == str(store / "playthroughs")
    (game,) = kept(store)
    assert (game.deal, game.actions, game.won) == (deal, (0,), False)


def test_a_reload_and_a_restarted_server_go_on(opened, serve):
    server = serve()
    page = opened(server=server, expected="ERR_CONNECTION_REFUSED")
    page.tap("c5")
    page.wait("score", 10)
    page.page.reload()
    page.page.wait_for_selector(".qv-card")
    page.wait("score", 10)
    server.stop()
    page.tap("stock")
    page.wait("message", "The server does not answer")
    with page.page.expect_event("requestfailed"):  # or it would reach the next server
        page.drag("c8", "c2")
    page.wait("message", "The server does not answer")
    serve(deal=None, port=server.port)
    page.tap("stock")
    page.wait("moves", 2)
    page.click("undo")
    page.click("undo")
    page.wait("score", 0)


def test_the_pages_address_has_a_token(opened, serve, open_page):
    server = serve()
    page = open_page(server.host, allowed=(server.host,), expected="status of 403")
    assert "this table is reached with its token only" in page.locator("body").inner_text()
    assert page.locator("#table").count() == 0
    # The browser is opened with a ticket; what it shows then can be reloaded.
    page.goto(f"{server.host}?ticket={server.access.ticket()}")
    assert page.url == server.address
    Page(page, False).tap("c5")
    page.reload()
    Page(page, False).wait("score", 10)
    # A second tab, by the address that was printed.
    tab = page.context.new_page()
    tab.goto(server.address)
    Page(tab, False).wait("score", 10)


def test_another_tables_server_does_not_let_the_page_in(serve, opened, tmp_path):
    server = serve()
    page = opened(server=server, expected="status of 403")
    server.stop()
    other = Server(tmp_path / "other", port=server.port)
    try:
        page.tap("c5")
        page.wait("message", "This table is reached with its token only")
        page.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait("message", "This table is reached with its token only")
        assert other.table.view()["moves"] == 0
    finally:
        other.stop()


# ---------------------------------------------------------------------------------- two browsers


def test_two_browsers_on_one_game(opened, serve):
    server = serve()
    here = opened(server=server)
    there = opened("phone", server, expected="status of 409")
    here.tap("c5")
    here.wait("score", 10)
    there.tap("stock")
    there.wait("message", "played on in another window")
    there.wait("score", 10)
    assert there.text("moves") == "1"  # the gesture was not made
    there.tap("stock")
    there.wait("moves", 2)
    # The other one looks when it comes to the front again.
    here.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    here.wait("moves", 2)
    here.wait("message", "played on in another window")


# ------------------------------------------------------------------------- keyboard, labels, looks


def test_by_keyboard_alone(opened):
    page = opened()
    focused = "() => document.activeElement.dataset.pile ?? document.activeElement.id"
    for _ in range(4):
        page.press("Tab")
        if page.page.evaluate(focused) == "stock":
            break
    assert page.page.evaluate(focused) == "stock"
    page.press("Enter")
    page.wait("moves", 1)
    page.press(" ")
    page.wait("moves", 2)
    page.press("d")
    page.wait("moves", 3)
    page.press("ArrowDown")
    for _ in range(4):
        page.press("ArrowRight")
    assert page.page.evaluate(focused) == "c5"
    page.press("Enter")  # the ace goes home
    page.wait("score", 10)
    for _ in range(3):
        page.press("ArrowRight")
    page.press("Enter")
    page.wait("message", "A foundation takes")
    page.press(" ")
    page.wait("message", "8 of hearts picked up. It can go to column 2. Space drops it")
    assert page.lit() == {"c2"}
    page.press("Escape")
    page.wait("message", "Put back")
    assert page.lit() == set()
    page.press(" ")
    for _ in range(5):
        page.press("ArrowLeft")
    page.press(" ")
    page.wait("message", "A column takes")
    for _ in range(5):
        page.press("ArrowRight")
    page.press(" ")
    for _ in range(6):
        page.press("ArrowLeft")
    page.press(" ")
    page.wait("moves", 5)
    assert page.label("c2").startswith("Column 2: 5 cards, from the top 8 of hearts")
    assert page.page.evaluate(focused) == "c2"
    page.press("Shift+Enter")  # a double click: the 8 fits nowhere else
    page.wait("message", "a column takes")
    page.press("u")
    page.wait_label("c8", "8 of hearts")
    page.press("ArrowUp")
    assert page.page.evaluate(focused) == "w"
    page.press("Home")
    page.press("End")
    assert page.page.evaluate(focused) == "f8"
    page.press(" ")
    page.wait("message", "There is no card to pick up: foundation 8 is empty")
    page.press("?")
    help_dialog = page.page.locator("#help")
    help_dialog.wait_for()
    page.press("d")  # no gesture while it is open
    page.press("Escape")
    help_dialog.wait_for(state="hidden")
    assert page.text("moves") == "5"


def test_who_clicks_without_a_pointer_taps(opened):
    page = opened()
    page.pile("c5").dispatch_event("click")
    page.wait("score", 10)


@both_sizes
def test_every_pile_says_what_lies_there(opened, serve, size):
    server = serve()
    server.play(*WON.actions[:30])
    page = opened(size, server)
    view = server.table.view()
    piles = page.page.locator("#table [role=button]").all()
    assert len(piles) == 20
    assert sum(pile.get_attribute("tabindex") == "0" for pile in piles) == 1
    for pile in piles:
        assert pile.get_attribute("aria-label")
    for c, column in enumerate(view["columns"]):
        assert f"{len(column)} card" in page.label(f"c{c + 1}")
    assert str(view["stock"]) in page.label("stock")
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll("button, input")].filter((e) =>
            !(e.ariaLabel || e.innerText?.trim() || e.labels?.length)).map((e) => e.id)"""
    )
    assert nameless == []


@both_sizes
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen(opened, serve, size, scheme):
    server = serve()
    server.play(*WON.actions[:60])
    page = opened(size, server, scheme=scheme)
    width, height = SIZES[size]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.page.locator("#table").bounding_box()
    assert table["y"] + table["height"] <= height
    assert table["width"] >= 0.6 * width
    for button in page.page.locator("button:visible, input:visible").all():
        box = button.bounding_box()
        least = 40 if size == "phone" and button.get_attribute("type") != "checkbox" else 24
        assert min(box["width"], box["height"]) >= least, button
    for switch in page.page.locator(".switch").all():
        assert switch.bounding_box()["height"] >= 40
    dark = page.page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 128"
    )
    assert dark == (scheme == "dark")


def test_texts_are_no_markup(tmp_path, open_page):
    server = Server(tmp_path / "<img src=x onerror=alert(1)>")
    try:
        page = Page(open_page(server.address, allowed=(server.host,)), False)
        page.wait("folder", "<img src=x onerror=alert(1)>")
        assert page.page.locator("img").count() == 0
    finally:
        server.stop()


def test_the_page_draws_by_the_one_layout(store):
    from starlette.testclient import TestClient

    app = create_app(store, 8104, 0)
    try:
        address = f"/api/page?token={app.state.access.token}"
        answer = TestClient(app, base_url="http://127.0.0.1:8104").get(address)
    finally:
        app.state.table.close()
    assert answer.json() == {
        "layout": layout_json(),
        "art": art_json(),
        "folder": str(store / "playthroughs"),
    }


# ------------------------------------------------------------------------------------ the command


def test_play_serves_until_it_is_stopped(store):
    command = [sys.executable, "-m", "qv_env", "play", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--deal", "21", "--store", str(store)], stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert re.fullmatch(
            r"The table is at http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32} \(Ctrl-C stops the"
            r" server\)\n",
            line,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(GUARD) == 0
    finally:
        process.kill()
        process.communicate()
    assert read_playthrough(store / "table.json").deal == "FT1-N-AAAAAAV"


def test_play_opens_the_browser(store, monkeypatch, capsys):
    opened = []
    calls = []

    def serve(*arguments):
        calls.append(arguments)
        *_, ready, browse = arguments
        ready("http://127.0.0.1:1/?token=x")
        browse("http://127.0.0.1:1/?ticket=y")

    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(module, "serve", serve)
    assert main(["play", "--store", str(store)]) == 0
    assert opened == ["http://127.0.0.1:1/?ticket=y"]
    assert calls[0][:3] == (store, module.PORT, None)
    assert "http://127.0.0.1:1/?token=x " in capsys.readouterr().out
    monkeypatch.setattr(module, "serve", lambda *arguments: calls.append(arguments))
    assert main(["play", "--store", str(store), "--no-browser"]) == 0
    assert calls[1][-1] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--deal", "FT1-N-AAAAAA1"], "FT1-N-AAAAAA1"),
        (["--port", "x"], "--port: 'x' is not an integer in 0..65535"),
        (["--port", "70000"], "--port: 70000 is more than 65535"),
        (["--terminal", "--port", "1"], "not for --terminal"),
    ],
)
def test_play_says_what_is_wrong(store, capsys, arguments, text):
    assert main(["play", "--no-browser", "--store", str(store), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert text in captured.err


def test_play_without_the_extra(store, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "qv_env.play.server", None)
    import qv_env.play

    monkeypatch.delattr(qv_env.play, "server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "qv_env.play.server")
    assert main(["play", "--store", str(store)]) == 2
    assert capsys.readouterr().err.endswith(
        "the play page needs Starlette and uvicorn: pip install 'qv-env[play]'"
        " (--terminal plays without them)\n"
    )


def test_play_in_the_terminal(store, monkeypatch, capsys):
    def typed():
        yield "draw\n"
        yield "c5>f\n"
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", typed())
    assert main(["play", "--terminal", "--deal", DEAL, "--store", str(store)]) == 0
    out = capsys.readouterr().out
    (game,) = kept(store)
    assert [ACTION_NAMES[action] for action in game.actions] == ["draw", "c5>f"]
    assert f"kept as {store / 'playthroughs'}" in out
