"""The play page's server: its interface, who is kept out, what is stored, how it stops."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

import qv_env
from qv_env.actions import ACTION_NAMES, COLUMN, FOUNDATION, MOVES, STOCK
from qv_env.deals import HELD_OUT_FROM, deck_of, parse_code
from qv_env.files import default_store
from qv_env.play import connections
from qv_env.play import server as module
from qv_env.play import store as store_module
from qv_env.play.game import GAME_WON, NO_DOUBLE_CLICKS, Game
from qv_env.play.guard import NO_TOKEN, Guard
from qv_env.play.messages import MAX_BODY
from qv_env.play.server import create_app
from qv_env.play.store import PlayError, Table
from qv_env.playthroughs.playthrough import Playthrough, read_playthrough
from qv_env.rules import REFUSALS
from tests.helpers.kills import forks, run_killed

WON = read_playthrough(Path(__file__).parent / "data" / "won.json")
PORT = 8104
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
GUARD = 120  # seconds: only a hanging program ever waits as long
POSTS = ("tap", "double-click", "drop", "undo", "new", "settings")


def client_of(app, base_url: str = ORIGIN, headers: dict | None = None, **options) -> TestClient:
    """Whoever has the token, with no other header than these."""
    headers = {"Authorization": f"Bearer {app.state.access.token}", **(headers or {})}
    return TestClient(app, base_url=base_url, headers=headers, **options)


class Browser:
    """What a page does: it keeps the last view, and sends its version along."""

    def __init__(self, app) -> None:
        self.client = client_of(app, headers={"Origin": ORIGIN})
        self.reload()

    def reload(self) -> dict:
        answer = self.client.get("/api/table")
        assert answer.status_code == 200
        self.view = answer.json()
        return self.view

    def send(self, name: str, status: int = 200, **body) -> dict:
        body = {"version": self.view["version"], **body}
        answer = self.client.post(f"/api/{name}", json=body)
        assert answer.status_code == status, answer.text
        content = answer.json()
        if "table" in content:
            self.view = content["table"]
        return content

    def tap(self, pile: str) -> dict:
        return self.send("tap", pile=pile)

    def play(self, action: int) -> dict:
        move = MOVES[action]
        if move.source == STOCK:
            return self.tap("stock")
        source, target = ACTION_NAMES[action].split(">")
        if move.target == FOUNDATION:
            target = self.view["accepting"][source][0]
        else:
            assert move.target == COLUMN
        return self.send("drop", source=source, target=target)


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def opened(store):
    """Open the store's table as a server does; closed at the end, or by the next opening."""
    apps = []

    def open_table(deal=0, **options):
        for app in apps:
            app.state.table.close()
        apps.append(create_app(store, PORT, deal, **options))
        return apps[-1]

    yield open_table
    for app in apps:
        app.state.table.close()


@pytest.fixture
def app(opened):
    return opened()


@pytest.fixture
def browser(app) -> Browser:
    return Browser(app)


def kept(store: Path) -> list:
    folder = store / "playthroughs"
    return [read_playthrough(path) for path in sorted(folder.glob("*"))] if folder.exists() else []


def table_bytes(store: Path) -> bytes:
    return (store / "table.json").read_bytes()


# ---------------------------------------------------------------------------------- playing


def test_a_view_is_the_games_with_a_version(browser):
    view = browser.view
    version, file = view.pop("version"), view.pop("kept")
    assert view == Game(0).view()
    assert 0 < version < 2**53
    assert file is None


def test_every_gesture(browser):
    def moved(answer) -> str:
        assert (answer["moved"], answer["refusal"], answer["notice"]) == (True, "", "")
        return answer["table"]["last_move"] and answer["table"]["last_move"]["name"]

    version = browser.view["version"]
    assert moved(browser.tap("stock")) == "draw"
    assert browser.view["waste"] == ["JD"]
    assert browser.view["version"] == version + 1
    accepted = browser.view["accepting"]
    source = min(name for name in accepted if name[0] == "c")
    assert moved(browser.send("double-click", pile=source)).startswith(f"{source}>")
    assert moved(browser.send("undo")) == "draw"
    target = accepted[source][-1]
    assert moved(browser.send("drop", source=source, target=target)).startswith(source)
    assert browser.view["moves"] == 3
    assert browser.view["version"] == version + 4
    assert browser.send("drop", source="w", target=None)["moved"] is False
    settings = browser.send("settings", automatic_placing=True)["table"]
    assert (settings["automatic_placing"], settings["double_clicks"]) == (True, True)
    settings = browser.send("settings", double_clicks=False)["table"]
    assert (settings["automatic_placing"], settings["double_clicks"]) == (True, False)
    assert browser.send("double-click", pile="stock")["refusal"] == NO_DOUBLE_CLICKS
    assert browser.reload() == settings


def test_a_refused_gesture_names_the_rule_and_changes_nothing(browser, store):
    before, view = table_bytes(store), browser.view
    answer = browser.send("drop", source="w", target="c1")
    assert answer == {
        "moved": False,
        "points": 0,
        "refusal": REFUSALS[2],
        "notice": "",
        "table": view,
    }
    assert browser.send("undo")["refusal"] == "there is nothing to undo"
    assert browser.send("tap", pile="c1")["refusal"] == REFUSALS[3]
    assert (table_bytes(store), browser.reload()) == (before, view)


def test_new_games(browser, store):
    browser.tap("stock")
    other = browser.send("new", deal=" ft1-n-aaaaaav ")["table"]
    assert (other["deal"], other["moves"], other["kept"]) == ("FT1-N-AAAAAAV", 0, None)
    assert browser.send("new", deal=22)["table"]["deal"] == "FT1-N-AAAAAAW"
    deck = browser.send("new", deck=deck_of(0).tolist())["table"]
    assert (deck["deal"], deck["columns"]) == ("", Game(0).view()["columns"])
    random = {browser.send("new")["table"]["deal"] for _ in range(20)}
    assert len(random) == 20
    assert max(parse_code(code) for code in random) < HELD_OUT_FROM
    browser.send("settings", automatic_placing=True)
    assert browser.send("new", deal=None)["table"]["automatic_placing"] is True
    # Games without a move are not kept.
    assert [(game.deal, game.actions) for game in kept(store)] == [("FT1-N-AAAAAAA", (0,))]


def test_the_same_deal_again(browser, store):
    browser.tap("stock")
    assert browser.send("new", deal=browser.view["deal"])["table"]["stock"] == 64
    browser.tap("stock")
    browser.tap("stock")
    browser.send("new")
    assert sorted(len(game.actions) for game in kept(store)) == [1, 2]


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("tap", {"pile": "c11"}, "there is no pile 'c11'"),
        ("tap", {"pile": "../c1"}, "there is no pile"),
        ("tap", {"pile": None}, "there is no pile None"),
        ("tap", {"pile": {"a": 1}}, "there is no pile"),
        ("tap", {}, "'pile' is missing"),
        ("tap", {"pile": "c1", "extra": 1}, "there is no 'extra' here, only version, pile"),
        ("double-click", {"pile": "f9"}, "there is no pile 'f9'"),
        ("drop", {"source": "c1"}, "'target' is missing"),
        ("drop", {"target": "c1"}, "'source' is missing"),
        ("drop", {"source": "c1", "target": 3}, "there is no pile 3"),
        ("undo", {"version": "1"}, "version is an integer"),
        ("undo", {"version": True}, "version is an integer"),
        ("undo", {"version": 1.0}, "version is an integer"),
        ("undo", {"version": None}, "version is an integer"),
        ("new", {"deal": "FT1-N-AAAAAA1"}, "'1', which is none of A..Z"),
        ("new", {"deal": "F" * 100}, "deal is a code"),
        ("new", {"deal": 1 << 35}, "outside"),
        ("new", {"deal": ["x"]}, "a code or an integer"),
        ("new", {"deck": [0] * 104}, "AS 104 times"),
        ("new", {"deck": "AS"}, "deck is a list"),
        ("new", {"deal": 0, "deck": [0]}, "both a deal and a deck"),
        ("settings", {"automatic_placing": 1}, "automatic_placing is true or false"),
        ("settings", {"deal": True}, "there is no 'deal' here"),
    ],
)
def test_what_is_asked_for_wrongly(browser, store, name, body, message):
    before = table_bytes(store)
    assert message in browser.send(name, 400, **body)["error"]
    assert table_bytes(store) == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"version": 1, "version": 2}',
        "[" * 4000,
        "nul",
        '"\ud800"',
        "[1]",
        "3",
        "null",
        "NaN",
    ],
)
def test_what_is_no_json_object(browser, store, content):
    before = table_bytes(store)
    answer = browser.client.post(
        "/api/undo",
        content=content.encode("utf-8", "surrogatepass"),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]
    assert table_bytes(store) == before


def test_a_body_without_a_version(browser):
    answer = browser.client.post("/api/undo", json={})
    assert (answer.status_code, answer.json()) == (400, {"error": "'version' is missing"})


# ------------------------------------------------------------------------- who is kept out


def same_after(store, send, status: int) -> None:
    before = table_bytes(store)
    answer = send()
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert table_bytes(store) == before
    for name, value in module.SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost", "127.0.0.1:80",
     "localhost:81", f"localhost.evil.example:{PORT}", f"0.0.0.0:{PORT}", f"[::1]:{PORT}",
     f"user@{HOST}", ""],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/play.js", "/api/table", "/api/undo", "/nothing"])
def test_only_this_machines_names_are_served(app, store, host, path):
    client = client_of(app)
    headers = {"Host": host, "Origin": f"http://{host}"}
    same_after(store, lambda: client.get(path, headers={"Host": host}), 403)
    same_after(store, lambda: client.post(path, headers=headers, json={"version": 0}), 403)


def test_localhost_and_upper_case_are_served(browser):
    for host in (f"localhost:{PORT}", f"LOCALHOST:{PORT}"):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert browser.client.get("/api/table", headers=headers).status_code == 200
        body = {"version": browser.reload()["version"], "pile": "stock"}
        assert browser.client.post("/api/tap", headers=headers, json=body).status_code == 200
    assert browser.reload()["moves"] == 2


def test_on_port_80_browsers_leave_it_out(store):
    app = create_app(store, 80)
    client = client_of(app, "http://127.0.0.1")
    assert client.get("/api/table").status_code == 200
    app.state.table.close()


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": f"https://{HOST}"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:8105"},
    {"Origin": f"http://localhost:{PORT}"},  # not the one this page comes from
    {"Origin": f"{ORIGIN}.evil.example"},
    {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},  # another port
]


@pytest.mark.parametrize("headers", [*FOREIGN, {"Sec-Fetch-Site": "none"}, {}])
@pytest.mark.parametrize("name", POSTS)
def test_a_change_from_elsewhere_is_refused(app, store, name, headers):
    client = client_of(app)
    body = {"version": app.state.table.view()["version"]}
    same_after(store, lambda: client.post(f"/api/{name}", headers=headers, json=body), 403)


@pytest.mark.parametrize("headers", FOREIGN)
def test_other_origins_do_not_read_the_table(app, store, headers):
    client = client_of(app)
    same_after(store, lambda: client.get("/api/table", headers=headers), 403)
    # A link from elsewhere to the page itself is no harm.
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code in (200, 404)


def test_what_browsers_send_from_the_page_is_let_in(app):
    client = client_of(app)
    for headers in ({"Origin": ORIGIN}, {"Sec-Fetch-Site": "same-origin"}):
        body = {"version": app.state.table.view()["version"], "pile": "stock"}
        answer = client.post("/api/tap", headers=headers, json=body)
        assert answer.status_code == 200
    for site in ("same-origin", "none"):
        assert client.get("/api/table", headers={"Sec-Fetch-Site": site}).status_code == 200


@pytest.mark.parametrize(
    "kind",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
     "application/json+x", "text/plain; application/json"],
)  # fmt: skip
@pytest.mark.parametrize("name", POSTS)
def test_only_json_is_read(browser, store, name, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    content = json.dumps({"version": browser.view["version"]}).encode()
    same_after(
        store, lambda: browser.client.post(f"/api/{name}", content=content, headers=headers), 415
    )


def test_json_with_a_charset_is_read(browser):
    content = json.dumps({"version": browser.view["version"], "pile": "stock"}).encode()
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert browser.client.post("/api/tap", content=content, headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("name", POSTS)
def test_only_a_post_changes_the_table(browser, store, name, method):
    before = table_bytes(store)
    answer = browser.client.request(method, f"/api/{name}")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "POST"
    assert table_bytes(store) == before


def test_the_table_is_only_read(browser, store):
    for path in ("/api/table", "/"):
        for method in ("POST", "PUT", "DELETE"):
            same_after(store, lambda m=method, p=path: browser.client.request(m, p, json={}), 405)


@pytest.mark.parametrize(
    "path",
    ["/api", "/api/", "/api/tap/", "/api/save", "/table.json", "/playthroughs",
     "/playthroughs/x.json", "/static/index.html", "/index.html", "/..%2f..%2fetc%2fpasswd",
     "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/play.js/", "/play.js%00",
     "/server.py", "/__init__.py"],
)  # fmt: skip
def test_there_is_no_way_to_any_other_file(browser, store, path):
    same_after(store, lambda: browser.client.get(f"{ORIGIN}{path}"), 404)


def padded(size: int, version: int) -> bytes:
    body = json.dumps({"version": version, "pile": "stock"}).encode()
    return body + b" " * (size - len(body))


def in_pieces(content: bytes):
    for k in range(0, len(content), 500):
        yield content[k : k + 500]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_a_limit(browser, store, chunked):
    headers = {"Content-Type": "application/json"}

    def send(size: int):
        content = padded(size, browser.view["version"])
        if chunked:
            return browser.client.post("/api/tap", content=in_pieces(content), headers=headers)
        return browser.client.post("/api/tap", content=content, headers=headers)

    same_after(store, lambda: send(MAX_BODY + 1), 413)
    same_after(store, lambda: send(100 * MAX_BODY), 413)
    assert send(MAX_BODY).status_code == 200


def test_a_length_that_is_not_true(browser, store):
    headers = {"Content-Type": "application/json"}
    content = padded(MAX_BODY + 1, browser.view["version"])
    for length in ("10", "0"):
        wrong = {**headers, "Content-Length": length}
        send = lambda wrong=wrong: browser.client.post("/api/tap", content=content, headers=wrong)  # noqa: E731
        same_after(store, send, 413)
    for length in ("-1", "x", "9" * 30, "1e3"):
        wrong = {**headers, "Content-Length": length}
        send = lambda wrong=wrong: browser.client.post("/api/tap", content=b"{}", headers=wrong)  # noqa: E731
        same_after(store, send, 413)


def test_reading_takes_no_body(browser, store):
    for path in ("/api/table", "/"):
        same_after(store, lambda p=path: browser.client.request("GET", p, content=b"x"), 400)
        same_after(
            store, lambda p=path: browser.client.request("GET", p, content=in_pieces(b"x")), 400
        )


def test_security_headers_on_all_answers(browser):
    answers = [browser.client.get("/api/table"), browser.client.get("/"), browser.client.get("/x")]
    answers.append(browser.client.post("/api/undo", json={"version": browser.view["version"]}))
    for answer in answers:
        for name, value in module.SECURITY_HEADERS.items():
            assert answer.headers.get_list(name) == [value]
    assert "default-src 'self'" in answers[0].headers["Content-Security-Policy"]
    assert answers[0].headers["Cache-Control"] == "no-store"


def test_a_failure_says_nothing_of_the_inside(app, store, monkeypatch):
    def fail(self, pile):
        raise RuntimeError(f"secret {store}")

    monkeypatch.setattr(Game, "tap", fail)
    client = client_of(app, headers={"Origin": ORIGIN}, raise_server_exceptions=False)
    body = {"version": app.state.table.view()["version"], "pile": "c1"}
    same_after(store, lambda: client.post("/api/tap", json=body), 500)
    assert "secret" not in client.post("/api/tap", json=body).text


# ------------------------------------------------------------------------------- the token

WRONG = [
    {},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer null"},
    {"Authorization": "Bearer " + "0" * 32},
    {"Authorization": b"Bearer \xe9"},
]


@pytest.mark.parametrize("headers", WRONG)
@pytest.mark.parametrize("path", ["/", "/api/table", "/api/page", "/api/tap", "/nothing"])
def test_without_the_token_nobody_is_let_in(app, store, path, headers):
    client = TestClient(app, base_url=ORIGIN)
    answer = client.get(path, headers=headers)
    assert (answer.status_code, answer.json()) == (403, {"error": NO_TOKEN})
    body = {"version": app.state.table.view()["version"], "pile": "stock"}
    headers = {"Origin": ORIGIN, **headers}
    same_after(store, lambda: client.post(path, headers=headers, json=body), 403)
    same_after(store, lambda: client.get(f"{path}?token=&token=x%ff&ticket="), 403)


def test_nearly_the_token_is_not_the_token(app):
    client, token = TestClient(app, base_url=ORIGIN), app.state.access.token
    for wrong in (token[:-1], token + "0", token.upper() + "0", token[::-1] + "x"):
        assert client.get(f"/api/table?token={wrong}").status_code == 403
    for kind in ("Basic", "Token", ""):
        headers = {"Authorization": f"{kind} {token}"}
        assert client.get("/api/table", headers=headers).status_code == 403


def test_the_token_is_in_the_address_or_in_a_header(app):
    client, token = TestClient(app, base_url=ORIGIN), app.state.access.token
    assert client.get(f"/?token={token}").status_code == 200
    assert client.get(f"/api/table?token={token}").status_code == 200
    assert client.get("/api/table", headers={"Authorization": f"bearer {token}"}).status_code == 200
    body = {"version": app.state.table.view()["version"], "pile": "stock"}
    answer = client.post(f"/api/tap?token={token}", headers={"Origin": ORIGIN}, json=body)
    assert answer.json()["moved"]
    assert client.get("/api/table").status_code == 403  # nothing is remembered


def test_what_the_page_loads_has_no_secrets(app):
    client = TestClient(app, base_url=ORIGIN)
    for path in set(module.PAGE_FILES) - {"/"}:
        answer = client.get(path)
        assert answer.status_code == 200
        assert app.state.access.token not in answer.text
    assert app.state.access.token not in client_of(app).get("/").text


def test_the_token_is_kept_for_its_owner_alone(opened, store):
    token = opened().state.access.token
    path = store / "token"
    assert path.read_text() == f"{token}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert opened(None).state.access.token == token  # a page that is open goes on
    tokens = {token}
    for spoil in (
        path.unlink,
        lambda: path.write_text(""),
        lambda: path.write_text("0" * 31),
        lambda: path.write_bytes(b"\xff" * 32),
        lambda: path.chmod(0o644),  # somebody else may have read it
        lambda: path.chmod(0o620),
    ):
        spoil()
        fresh = opened(None).state.access.token
        assert re.fullmatch("[0-9a-f]{32}", fresh)
        assert path.read_text() == f"{fresh}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        tokens.add(fresh)
    assert len(tokens) == 7
    assert {path.name for path in store.iterdir()} == {"table.json", "token"}


def test_a_token_that_cannot_be_read_lets_go_of_the_store(opened, store):
    opened().state.table.close()
    (store / "token").unlink()
    (store / "token").mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match="token"):
            create_app(store)
    (store / "token").rmdir()
    create_app(store).state.table.close()


def test_a_ticket_is_exchanged_once(app):
    client, access = TestClient(app, base_url=ORIGIN, follow_redirects=False), app.state.access
    first, second = access.ticket(), access.ticket()
    assert len({first, second, access.token}) == 3
    for path in (f"/api/table?ticket={first}", f"/?token={first}", f"/play?ticket={first}"):
        assert client.get(path).status_code == 403
    assert client.post(f"/?ticket={first}", headers={"Origin": ORIGIN}).status_code == 403
    for ticket in (second, first):
        answer = client.get(f"/?ticket={ticket}", headers={"Sec-Fetch-Site": "none"})
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/?token={access.token}")
        assert answer.headers["Cache-Control"] == "no-store"
        assert client.get(f"/?ticket={ticket}").status_code == 403
    assert client.get(f"/?ticket={access.ticket()}", headers={"Host": "x"}).status_code == 403


# ------------------------------------------------------------------------------- the page


def test_the_pages_files_have_fixed_addresses(opened, tmp_path):
    static = tmp_path / "static"
    static.mkdir()
    browser = Browser(opened(static=[static]))
    for path, (name, kind) in module.PAGE_FILES.items():
        assert browser.client.get(path).status_code == 404
        (static / name).write_bytes(name.encode())
        answer = browser.client.get(path)
        assert (answer.status_code, answer.content) == (200, name.encode())
        assert answer.headers["Content-Type"] == kind
        assert browser.client.head(path).content == b""
    (static / "other.js").write_text("x")
    assert browser.client.get("/other.js").status_code == 404
    assert set(module.PAGE_FILES) >= {"/", "/play.js", "/play.css"}


# --------------------------------------------------------------------- two browsers, threads


def test_two_browsers_see_one_game(app, store):
    here, there = Browser(app), Browser(app)
    here.tap("stock")
    stale = there.view["version"]
    answer = there.send("tap", 409, pile="stock")
    assert answer["error"] == "the table has changed meanwhile"
    assert answer["table"] == here.view
    assert there.view["stock"] == 63
    assert there.tap("stock")["table"]["stock"] == 62
    for name, body in (("undo", {}), ("new", {}), ("settings", {"double_clicks": False})):
        before = table_bytes(store)
        here.view["version"] = stale
        assert here.send(name, 409, **body)["table"] == there.view
        assert table_bytes(store) == before
    assert here.reload() == there.view


def test_a_version_from_the_future_is_stale_too(browser):
    browser.view["version"] += 1
    assert "error" in browser.send("tap", 409, pile="stock")
    for version in (-1, 0, 10**300):
        browser.view["version"] = version
        browser.send("tap", 409, pile="stock")
    assert browser.reload()["stock"] == 64


def test_a_gesture_sent_twice_is_done_once(browser):
    body = {"version": browser.view["version"], "pile": "stock"}
    statuses = [browser.client.post("/api/tap", json=body).status_code for _ in range(2)]
    assert statuses == [200, 409]
    assert browser.reload()["stock"] == 63


def test_another_stores_page_does_not_fit_by_chance(tmp_path):
    versions = set()
    for name in "abc":
        table = Table(tmp_path / name)
        versions.add(table.view()["version"])
        table.close()
    assert len(versions) == 3


def test_threads_posting_at_once_lose_nothing(app, store):
    threads, draws = 4, 12
    failures, versions = [], []

    def play() -> None:
        try:
            browser = Browser(app)
            done = 0
            while done < draws:
                body = {"version": browser.view["version"], "pile": "stock"}
                answer = browser.client.post("/api/tap", json=body)
                assert answer.status_code in (200, 409), answer.text
                browser.view = answer.json()["table"]
                if answer.status_code == 200:
                    done += 1
                    versions.append(browser.view["version"])
        except BaseException as error:
            failures.append(error)

    first = app.state.table.view()["version"]
    running = [threading.Thread(target=play) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(GUARD)
    assert not failures
    total = threads * draws
    assert sorted(versions) == list(range(first + 1, first + 1 + total))
    view = app.state.table.view()
    assert (view["stock"], len(view["waste"]), view["moves"]) == (64 - total, total, total)
    assert len(read_playthrough(store / "table.json").actions) == total


def test_of_the_same_version_exactly_one_wins(app):
    body = {"version": app.state.table.view()["version"], "pile": "stock"}
    start = threading.Barrier(6)
    statuses = []

    def play() -> None:
        client = client_of(app, headers={"Origin": ORIGIN})
        start.wait(GUARD)
        statuses.append(client.post("/api/tap", json=body).status_code)

    running = [threading.Thread(target=play) for _ in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(GUARD)
    assert sorted(statuses) == [200, 409, 409, 409, 409, 409]
    assert app.state.table.view()["stock"] == 63


# -------------------------------------------------------------------------- what is stored


def test_a_restarted_server_goes_on(opened, store):
    browser = Browser(opened(265))
    for action in (0, 0, 0):
        browser.play(action)
    browser.send("undo")
    browser.send("settings", automatic_placing=True, double_clicks=False)
    before = browser.view
    again = Browser(opened(None))
    assert again.view == before
    assert Browser(opened(265)).view == before  # the deal that lies there anyway
    again = Browser(opened(None))
    assert again.send("undo")["table"]["moves"] == 3
    assert again.view["stock"] == 63
    # A page that stayed open finds its table.
    browser.client = again.client
    browser.view = again.view
    assert browser.tap("stock")["moved"]
    assert kept(store) == []


def test_another_deal_at_the_start_takes_the_tables_place(opened, store):
    browser = Browser(opened(0))
    browser.tap("stock")
    other = Browser(opened("ft1-n-aaaaaav"))
    assert other.view["deal"] == "FT1-N-AAAAAAV"
    assert other.view["version"] > browser.view["version"]
    assert [game.deal for game in kept(store)] == ["FT1-N-AAAAAAA"]
    with pytest.raises(ValueError, match="does not start with"):
        opened("nonsense")
    assert Browser(opened(None)).view == other.view


def test_a_random_deal_at_first(opened):
    assert parse_code(Browser(opened(None)).view["deal"]) < HELD_OUT_FROM


def test_a_won_game_is_kept_once(opened, store):
    browser = Browser(opened(WON.deal))
    browser.tap("stock")
    browser.send("undo")
    for action in WON.actions:
        assert browser.play(action)["moved"]
    view = browser.view
    assert (view["won"], view["score"], view["moves"]) == (True, WON.score, len(WON.actions) + 1)
    [game] = kept(store)
    assert (game.player, game.actions, game.score) == ("human", WON.actions, WON.score)
    assert (game.won, game.extra["undos"], game.extra["moves"]) == (True, 1, view["moves"])
    [path] = (store / "playthroughs").iterdir()
    assert view["kept"] == path.name
    assert browser.tap("w")["refusal"] == GAME_WON
    # After an undo, the game goes on, and what was won stays.
    content = path.read_bytes()
    browser.send("undo")
    assert browser.view["kept"] == path.name
    assert Browser(opened(None)).view == browser.view
    again = Browser(opened(None))
    again.send("new")
    assert again.view["kept"] is None
    assert [file.read_bytes() for file in (store / "playthroughs").iterdir()] == [content]


def test_a_won_deal_asked_for_again_is_dealt_again(opened, store):
    browser = Browser(opened(WON.deal))
    for action in WON.actions:
        browser.play(action)
    assert Browser(opened(None)).view["won"]
    assert Browser(opened(WON.deal)).view["moves"] == 0
    assert len(kept(store)) == 1


def test_kept_games_have_a_limit_and_none_is_lost(opened, store, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_KEPT", 2)
    browser = Browser(opened(0))
    for _ in range(2):
        browser.tap("stock")
        browser.send("new")
    browser.tap("stock")
    before = table_bytes(store)
    answer = browser.send("new", 507)
    assert "holds 2 games; move some of them away" in answer["error"]
    assert table_bytes(store) == before
    assert browser.tap("stock")["moved"]
    [first, _] = (store / "playthroughs").iterdir()
    first.rename(store / first.name)
    browser.send("new")
    assert sorted(len(game.actions) for game in kept(store)) == [1, 2]
    # Games without a move need no room.
    for _ in range(3):
        browser.send("new")


def test_a_won_game_that_cannot_be_kept_stays_on_the_table(opened, store, monkeypatch):
    browser = Browser(opened(WON.deal))
    for action in WON.actions[:-1]:
        browser.play(action)
    monkeypatch.setattr(store_module, "MAX_KEPT", 0)
    (store / "playthroughs").mkdir()
    answer = browser.play(WON.actions[-1])
    assert answer["moved"]
    assert "not kept yet" in answer["notice"]
    assert (answer["table"]["won"], answer["table"]["kept"]) == (True, None)
    browser.send("new", 507)
    monkeypatch.undo()
    again = Browser(opened(None))
    assert again.view["won"]
    again.send("new")
    assert [game.won for game in kept(store)] == [True]


def test_what_cannot_be_stored_has_not_happened(browser, store, monkeypatch):
    before, view = table_bytes(store), browser.view

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Playthrough, "write", fail)
    for name, body in (("tap", {"pile": "stock"}), ("settings", {"double_clicks": False})):
        assert "No space left" in browser.send(name, 507, **body)["error"]
    assert "No space left" in browser.send("new", 507)["error"]
    assert (table_bytes(store), browser.reload()) == (before, view)
    monkeypatch.undo()
    assert browser.tap("stock")["table"]["stock"] == 63
    monkeypatch.setattr(Playthrough, "write", fail)
    assert "could not be kept" in browser.send("new", 507)["error"]
    assert browser.reload()["stock"] == 63


def test_one_server_for_one_store(browser, store):
    with pytest.raises(PlayError, match=f"another server is playing at {re.escape(str(store))}"):
        create_app(store)
    assert browser.tap("stock")["moved"]


def test_the_application_lets_go_of_the_store_at_its_end(store):
    app = create_app(store, PORT)
    with client_of(app) as client:
        assert client.get("/api/table").status_code == 200
    create_app(store, PORT).state.table.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-9], "cut off|not JSON"),
        (lambda text: "", "the file is empty"),
        (lambda text: text.replace('"score":0', '"score":5'), "score is 5"),
        (lambda text: text.replace('"page"', '"pages"'), "the key 'page' is missing"),
        (lambda text: text.replace('"table"', '"tables"'), "no saved game"),
        (lambda text: re.sub(r'"version":\d{3,}', '"version":-1', text), "page.version"),
        (lambda text: re.sub(r'"version":\d{3,}', '"version":1e3', text), "page.version"),
        (lambda text: text.replace('"kept":false', '"kept":"../x"'), "page.kept"),
        (lambda text: text.replace('"game":"', '"game":"/'), "16 hexadecimal digits"),
    ],
)
def test_a_corrupt_table_is_named_and_left_alone(opened, store, change, message):
    Browser(opened(0)).tap("stock")
    path = store / "table.json"
    path.write_text(change(path.read_text()))
    before = path.read_bytes()
    for _ in range(2):  # the store is let go again
        with pytest.raises(PlayError, match=f"^{re.escape(str(path))}: .*({message})"):
            opened(None)
    assert path.read_bytes() == before


def test_the_store_is_for_its_owner_and_made_where_it_is_missing(tmp_path):
    store = tmp_path / "a" / "b"
    table = Table(store)
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert sorted(path.name for path in store.iterdir()) == ["table.json"]
    table.close()
    table.close()


def test_the_default_store(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_store() == tmp_path / "quarante-voleurs"
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert default_store() == tmp_path / ".local" / "share" / "quarante-voleurs"


# ---------------------------------------------------------------------- a server of its own

SERVE = """
import sys
from pathlib import Path
from qv_env.play.server import PlayError, serve

try:
    serve(Path(sys.argv[1]), int(sys.argv[2]), ready=lambda address: print(address, flush=True))
except PlayError as error:
    sys.exit(f"error: {error}")
print("stopped", flush=True)
"""


class Server:
    """A real server in a process of its own."""

    def __init__(self, store: Path, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(store), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(qv_env.__file__).parents[1],
        )
        self.address = self.process.stdout.readline().strip()
        parts = urlsplit(self.address)
        self.port, self.token = parts.port or 0, parts.query.removeprefix("token=")

    def request(self, method: str, path: str, **options) -> tuple[int, dict]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)
        origin = f"http://127.0.0.1:{self.port}"
        headers = {
            "Origin": origin,
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.token}",
            **options.pop("headers", {}),
        }
        try:
            connection.request(method, path, headers=headers, **options)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def tap(self, version: int) -> tuple[int, dict]:
        return self.request(
            "POST", "/api/tap", body=json.dumps({"version": version, "pile": "stock"})
        )

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=GUARD)
        return self.process.returncode, out, err


@pytest.fixture
def served(store):
    servers = []

    def start(port: int = 0) -> Server:
        servers.append(Server(store, port))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate(timeout=GUARD)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_server_stops_cleanly_and_goes_on_where_it_was(served, number):
    server = served()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}", server.address)
    status, view = server.request("GET", "/api/table")
    assert status == 200
    status, answer = server.tap(view["version"])
    assert (status, answer["moved"]) == (200, True)
    assert server.stop(number) == (0, "stopped\n", "")
    again = served(server.port)
    assert again.address == server.address
    assert again.request("GET", "/api/table") == (200, answer["table"])
    assert again.stop(number) == (0, "stopped\n", "")


def test_a_real_server_stops_although_a_browser_holds_on(served):
    server = served()
    server.request("GET", "/api/table")
    idle = socket.create_connection(("127.0.0.1", server.port), GUARD)
    slow = socket.create_connection(("127.0.0.1", server.port), GUARD)
    host = f"127.0.0.1:{server.port}"
    slow.sendall(
        f"POST /api/tap HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
        f"Authorization: Bearer {server.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
    )
    server.request("GET", "/api/table")  # by now the two have been taken
    assert server.stop() == (0, "stopped\n", "")
    assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
    idle.close()
    slow.close()


def test_a_real_server_keeps_others_out(served):
    server = served()
    _, view = server.request("GET", "/api/table")
    body = json.dumps({"version": view["version"], "pile": "stock"})
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert server.request("POST", "/api/tap", body=body, headers=headers)[0] == 403
    assert server.request("GET", "/api/table", headers={"Host": f"x:{server.port}"})[0] == 403
    large = padded(MAX_BODY + 1, view["version"])
    assert server.request("POST", "/api/tap", body=large)[0] == 413
    chunks = in_pieces(padded(20 * MAX_BODY, view["version"]))
    assert server.request("POST", "/api/tap", body=chunks, encode_chunked=True)[0] == 413
    assert server.request("GET", "/api/table") == (200, view)
    assert server.stop() == (0, "stopped\n", "")


def test_a_real_server_says_what_keeps_it_from_serving(served, store, tmp_path):
    server = served()
    other = Server(store, server.port)
    out, err = other.process.communicate(timeout=GUARD)
    assert (other.process.returncode, out) == (1, "")
    assert re.fullmatch(rf"error: port {server.port} of 127\.0\.0\.1 cannot be used: .+\n", err)
    other = Server(store, 0)
    _, err = other.process.communicate(timeout=GUARD)
    assert err == f"error: another server is playing at {store}\n"
    assert server.stop() == (0, "stopped\n", "")


def test_what_is_no_port():
    with pytest.raises(PlayError, match=r"port 65536 of 127\.0\.0\.1 cannot be used"):
        module.serve(port=65536)


# ------------------------------------------------------------------ connections that do nothing


class Quick:
    """A server in this process; its connections can be counted."""

    def __init__(self, app) -> None:
        self.listener = module.listening(0)
        self.port = self.listener.getsockname()[1]
        self.head = f"Host: 127.0.0.1:{self.port}\r\n"
        self.server = module.uvicorn_server(app)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), GUARD)

    def wait_for(self, connections: int) -> None:
        deadline = time.monotonic() + GUARD
        while len(self.server.server_state.connections) != connections:
            assert time.monotonic() < deadline, "the server holds on to a connection"
            time.sleep(0.01)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(GUARD)
        self.listener.close()


@pytest.fixture
def quick(store, monkeypatch):
    """A server of little patience."""
    monkeypatch.setattr(connections, "HEAD_PATIENCE", 0.2)
    monkeypatch.setattr(connections, "PEER_PATIENCE", 0.3)
    # The port is not known before, and here it does not matter who asks.
    monkeypatch.setattr(Guard, "_foreign", lambda self, request: None)
    server = Quick(create_app(store, PORT, 0))
    yield server
    server.close()


def trickle(connection: socket.socket, data: bytes = b"x") -> None:
    """Send a little again and again, until the other side has had enough."""
    connection.settimeout(0.05)
    deadline = time.monotonic() + GUARD
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < deadline:
            connection.sendall(data)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(100_000):
                    return
        raise AssertionError("the server waits for ever")


def test_half_open_requests_shut_nobody_out(served):
    server = served()
    _, view = server.request("GET", "/api/table")
    with contextlib.ExitStack() as stack:
        half_open = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), GUARD))
            for _ in range(module.MAX_CONNECTIONS)
        ]
        starts = (b"", b"G", b"GET /api/table HTTP/1.1\r\nHost: 127.0.0.1", b"POST / HTTP/1.1\r\n")
        for k, connection in enumerate(half_open):
            connection.sendall(starts[k % len(starts)])
        for connection in half_open:
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""
        assert server.request("GET", "/api/table") == (200, view)
        assert server.tap(view["version"])[0] == 200
    assert server.stop() == (0, "stopped\n", "")


@pytest.mark.parametrize(
    "start",
    ["", "GET / HTTP/1.1\r\nX-Long: ", "GET /icon.svg HTTP/1.1\r\n{head}\r\nGET / HTTP/1.1"],
)
def test_a_head_that_trickles_in_is_cut_off(quick, start):
    with quick.connect() as connection:
        connection.sendall(start.format(head=quick.head).encode())
        trickle(connection)
    quick.wait_for(0)


def test_the_rest_of_a_request_that_is_answered_is_cut_off(quick):
    with quick.connect() as connection:
        request = f"POST /api/tap HTTP/1.1\r\n{quick.head}Content-Length: 1000000\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")  # it has no token
        trickle(connection)
    quick.wait_for(0)


def test_who_does_not_read_is_cut_off(quick):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(GUARD)
        connection.connect(("127.0.0.1", quick.port))
        quick.wait_for(1)
        connection.settimeout(0.1)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(5000):
                connection.sendall(f"GET /table.js HTTP/1.1\r\n{quick.head}\r\n".encode())
        quick.wait_for(0)


def test_who_plays_is_not_cut_off(quick, monkeypatch):
    tap = Game.tap

    def slow(self, pile):
        time.sleep(1)  # longer than any patience
        return tap(self, pile)

    monkeypatch.setattr(Game, "tap", slow)
    token = (quick.server.config.app.state.table.store / "token").read_text().strip()
    client = http.client.HTTPConnection("127.0.0.1", quick.port, timeout=GUARD)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    client.request("GET", "/api/table", headers=headers)
    version = json.loads(client.getresponse().read())["version"]
    [connection] = quick.server.server_state.connections
    time.sleep(1)  # a browser keeps its connection
    for _ in range(2):
        body = json.dumps({"version": version, "pile": "stock"})
        client.request("POST", "/api/tap", body, headers)
        answer = json.loads(client.getresponse().read())
        assert answer["moved"]
        version = answer["table"]["version"]
        assert quick.server.server_state.connections == {connection}
    client.close()
    quick.wait_for(0)


BROWSE = """
import os, signal, sys, urllib.error, urllib.request
from pathlib import Path
from qv_env.play.server import serve

def browse(address):
    with urllib.request.urlopen(address) as answer:
        print(answer.url, answer.headers["Content-Type"], flush=True)
    try:
        urllib.request.urlopen(address)
    except urllib.error.HTTPError as error:
        print(error.code, flush=True)
        error.close()
    os.kill(os.getpid(), signal.SIGTERM)

serve(Path(sys.argv[1]), 0, ready=print, browse=browse)
"""


def test_a_browser_is_opened_with_a_ticket(store):
    done = subprocess.run(
        [sys.executable, "-c", BROWSE, str(store)],
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=True,
        cwd=Path(qv_env.__file__).parents[1],
    )
    address, again, refused = done.stdout.splitlines()
    assert again == f"{address} text/html; charset=utf-8"
    assert refused == "403"


# ----------------------------------------------------------------------------------------- kills

PLAYING = """
import json
import random
from starlette.testclient import TestClient
from qv_env.deals import deal_code
from qv_env.play.game import Game
from qv_env.play.server import create_app

ORIGIN = "http://127.0.0.1:8104"
Game(0).tap("stock")  # loads what is compiled, once for all sessions

def session(folder, k):
    app = create_app(folder / "store", 8104, None if k else 0)
    headers = {"Origin": ORIGIN, "Authorization": f"Bearer {app.state.access.token}"}
    client = TestClient(app, base_url=ORIGIN, headers=headers)
    chance = random.Random(k)

    def told(view):
        print(json.dumps([k, view["version"], view["deal"], view["moves"]]), flush=True)
        return view["version"]

    version = told(client.get("/api/table").json())
    for n in range(6):
        if chance.random() < 0.4:
            body, verb = {"deal": deal_code(100 * k + n + 1)}, "new"
        else:
            body, verb = {"pile": "stock"}, "tap"
        answer = client.post(f"/api/{verb}", json={"version": version, **body})
        assert answer.status_code == 200, answer.text
        version = told(answer.json()["table"])
    app.state.table.close()
"""


@forks
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_servers_lose_and_double_no_game(tmp_path, seed):
    told = [json.loads(line) for line in run_killed(PLAYING, tmp_path, seed, kills=9, moments=45)]
    moves: dict[str, int] = {}
    for before, now in itertools.pairwise(told):
        _, version, deal, made = before
        if now[0] == before[0]:  # of one session
            assert now[1] == version + 1
        else:  # what was asked for when the kill came was done, or it was not
            assert now[1] - version in (0, 1)
            if now[1] == version:
                assert now[2:] == [deal, made]
        moves[deal] = max(moves.get(deal, 0), made)
        moves[now[2]] = max(moves.get(now[2], 0), now[3])
    (_, _, last, _) = told[-1]
    games = {game.deal: game.extra["moves"] for game in kept(tmp_path / "store")}
    assert len(games) == len(kept(tmp_path / "store"))
    moved = {deal: count for deal, count in moves.items() if count and deal != last}
    for deal, count in moved.items():
        assert games[deal] - count in (0, 1)
    assert set(games) - {last} >= set(moved)
    assert len(moved) >= 4
    names = {path.name for path in (tmp_path / "store").iterdir()}
    assert names == {"table.json", "token", "playthroughs"}
