"""The play page's server: one table on this machine, over HTTP.

``serve`` listens on 127.0.0.1 and needs the extra ``play`` (Starlette and uvicorn). There is one
table, with one ``Game`` on it; every browser that opens the page sees that table. It is stored
after each change, so a reload or a restarted server goes on where it was. The rules stay in Python:
the page shows a *view* and sends gestures.

The interface
=============

===========================  ==============================================================
request                      JSON body
===========================  ==============================================================
``GET /api/table``
``GET /api/page``
``POST /api/tap``            ``{"version": n, "pile": "c3"}``
``POST /api/double-click``   ``{"version": n, "pile": "c3"}``
``POST /api/drop``           ``{"version": n, "source": "c3", "target": "c7"}``; the target is
                             null where the card was dropped beside all piles
``POST /api/undo``           ``{"version": n}``
``POST /api/new``            ``{"version": n}`` for a random deal; with
                             ``"deal": "FT1-N-AAAAAAV"`` (or a number) that one, with
                             ``"deck": [...]`` 104 cards, 0..51
``POST /api/settings``       ``{"version": n, "automatic_placing": true,
                             "double_clicks": false}``, either or both
``GET /`` and other files    ``PAGE_FILES``: fixed addresses, 404 where a file is not there
===========================  ==============================================================

A *view* is ``qv_env.play.game.Game.view()`` (documented there: columns, foundations, waste, counts,
``accepting`` for the placing help, ...) with two keys more:

* ``version``: an integer that rises with every change of the table, restarts included.
* ``kept``: the name of this game's playthrough file, or null. A game is kept once: when it is won,
  or when another one takes its place and a move had been made.

``GET /api/page`` answers with what stays the same while the server runs: ``layout`` and ``art``,
the drawing as ``qv_env.render`` has it (``layout_json``, ``art_json``), and ``folder``, the folder
of the playthroughs.

Piles are ``stock``, ``w``, ``c1`` .. ``c10``, ``f1`` .. ``f8``. ``Game`` says what the gestures do.
``GET /api/table`` answers with a view. A POST answers with

``{"moved": bool, "points": int, "refusal": str, "notice": str, "table": view}``

and status 200 also where the rules refuse the gesture: then ``moved`` is false, the version stays,
and ``refusal`` names the rule in words for people. ``notice`` is a text to show when a won game
could not be kept yet (it stays on the table and is kept with the next ``new``), else "".

Two browsers, or a gesture sent twice: a request carries the version that its page shows. Where
that is no longer the table's, nothing happens, and the answer is 409 with
``{"error": str, "table": view}``: show that view and let the person look again. So a page sends one
request at a time, and asks for ``/api/table`` when it becomes visible again.

Every other failure is ``{"error": str}``, and nothing has changed:

* 400: the body is not what is asked for (an unknown pile, a deal code with a wrong letter, a key
  that does not belong there); the text says what, and can be shown to people.
* 403: a foreign Host or Origin. 404, 405: no such address, or not by this method.
* 408: the body did not arrive. 413: it is over ``MAX_BODY`` bytes. 415: not ``application/json``.
* 507: the table or the finished game could not be stored, or ``MAX_KEPT`` games are; the text says
  what to do. 500: a mistake in here.

A double click is for the page to tell: send a click as a tap at once. If that tap moved something,
drop the second click; if it was refused, wait with the refusal until no second click can come, and
send ``double-click`` when one does. On the stock every click is a tap of its own, and so it is
everywhere while ``double_clicks`` is off.

What keeps others out
=====================

* Only 127.0.0.1 listens, and ``Host`` has to be ``127.0.0.1:port`` or ``localhost:port``, so no
  name that somebody points here is served.
* A POST needs an ``Origin`` of the same host or ``Sec-Fetch-Site: same-origin``, and JSON as its
  content type. A program that is no browser sends an ``Origin``, too. Reading is refused to pages
  of other origins as well.
* A body is small and arrives soon, announced or chunked; connections and kept games have limits.
* No request names a file: the store's file names are made here, the page's stand in a table.
* Answers carry a strict content security policy: no inline script or style (set styles from
  script, or by classes), nothing from elsewhere, no frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qv_env import render
from qv_env.deals import deal_code, deal_number
from qv_env.files import KEPT_FOLDER, InUseError, default_store
from qv_env.folders import listed, taken
from qv_env.play.game import Game, Outcome
from qv_env.playthroughs.playthrough import PlaythroughError, read_playthrough
from qv_env.render.art import art_json
from qv_env.render.layout import layout_json

ADDRESS = "127.0.0.1"
PORT = 8104  # always the same, so that a page left open finds a restarted server
MAX_BODY = 4096  # bytes of a request's body
MAX_KEPT = 5_000  # playthroughs in the store
MAX_CONNECTIONS = 64
PATIENCE = 2  # seconds that a body may take to arrive
GRACE = 3  # seconds that a request still has when the server is stopped

# Where the page's files are: its own, and those of every page that draws a table.
STATIC = (Path(__file__).parent / "static", render.STATIC)
# The page's files by their addresses: the name in one of STATIC, and the content type.
PAGE_FILES = {
    "/": ("play.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/play.css": ("play.css", "text/css; charset=utf-8"),
    "/play.js": ("play.js", "text/javascript; charset=utf-8"),
    "/table.css": ("table.css", "text/css; charset=utf-8"),
    "/table.js": ("table.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

_TABLE_FILE = "table.json"
_VERSION_BITS = 52  # what JavaScript's numbers hold exactly, with room to count on


class PlayError(ValueError):
    """What keeps the table from being served or stored, in one line."""


class StaleError(Exception):
    """A request was made for a table that has changed since."""


class GestureError(ValueError):
    """A gesture that cannot be: there is no such pile, no such deal."""


# ------------------------------------------------------------------------------------ the table


class Reply(NamedTuple):
    """What a gesture led to: its outcome, a text to show ("" for none), and the view after it."""

    outcome: Outcome
    notice: str
    view: dict[str, Any]


class Table:
    """The one game on the table, and the folder it is stored in. Threads may share it.

    The folder holds ``table.json`` (the game as ``Game.saved`` gives it, with the version) and
    ``playthroughs/`` (finished and abandoned games); one server holds it.

    Args:
        store: The folder; made where it is missing.
        deal: A deal's code or number. It is put on the table unless it lies there, not yet won.
            None: what lies there, or a random deal.

    Raises:
        PlayError: Another server uses the store, or what lies there is no stored table.
        ValueError: The deal is none.
        OSError: The store cannot be read or written.
    """

    def __init__(self, store: Path, deal: int | str | None = None) -> None:
        self.store = store
        self._mutex = threading.Lock()
        self._game: Game
        self._version = 0
        self._kept: str | None = None  # the name of the game's playthrough, where it is kept
        code = None if deal is None else deal_code(deal_number(deal))
        with ExitStack() as stack:
            try:
                stack.enter_context(taken(store, KEPT_FOLDER, mode=0o700))
            except InUseError:
                raise PlayError(f"another server is playing at {store}") from None
            self._open(code)
            self._hold = stack.pop_all()

    def close(self) -> None:
        """Let go of the store."""
        self._hold.close()

    @property
    def folder(self) -> Path:
        """Where finished and abandoned games are kept."""
        return self.store / KEPT_FOLDER

    def view(self) -> dict[str, Any]:
        """Return the view of the table as it stands."""
        with self._mutex:
            return self._view()

    def act(self, version: int, gesture: Callable[[Game], Outcome]) -> Reply:
        """Do a gesture, and store what it changed.

        Raises:
            StaleError: The table has another version.
            PlayError: It could not be stored; nothing has changed.
            GestureError: The gesture raised a ValueError.
        """
        with self._at(version):
            try:
                outcome = gesture(self._game)
            except ValueError as error:
                raise GestureError(str(error)) from None
            if not outcome.moved:
                return Reply(outcome, "", self._view())
            notice = ""
            if self._game.won:
                try:
                    self._keep()
                except (PlayError, OSError) as error:
                    notice = f"The game is won, but it is not kept yet: {_one_line(error)}"
            self._store()
            return Reply(outcome, notice, self._view())

    def new(self, version: int, deal: int | str | None = None, deck: Any = None) -> Reply:
        """Put another game on the table; the present one is kept.

        Raises:
            StaleError: The table has another version.
            PlayError: One of the two could not be stored; nothing has changed.
            GestureError: Deal or deck is none.
        """
        with self._at(version):
            try:
                game = self._game.new(deal, deck)
            except ValueError as error:
                raise GestureError(str(error)) from None
            try:
                self._keep()
            except OSError as error:
                raise PlayError(f"the game could not be kept: {_one_line(error)}") from None
            self._game, self._kept = game, None
            self._store()
            return Reply(Outcome(), "", self._view())

    def settle(self, version: int, settings: dict[str, bool]) -> Reply:
        """Change settings, by the names of ``Game``'s attributes.

        Raises:
            StaleError: The table has another version.
            PlayError: It could not be stored; nothing has changed.
        """
        with self._at(version):
            for name, value in settings.items():
                setattr(self._game, name, value)
            self._store()
            return Reply(Outcome(), "", self._view())

    @contextlib.contextmanager
    def _at(self, version: int) -> Iterator[None]:
        """Hold the table, which has to have this version; what fails leaves it as it was."""
        with self._mutex:
            if version != self._version:
                raise StaleError
            before = self._game.saved(), self._kept, self._version
            try:
                yield
            except BaseException:
                saved, self._kept, self._version = before
                self._game = Game.restored(saved)
                raise

    def _view(self) -> dict[str, Any]:
        return {**self._game.view(), "version": self._version, "kept": self._kept}

    def _open(self, code: str | None) -> None:
        path = self.store / _TABLE_FILE
        if not path.exists():
            self._game = Game(code)
            # Not from 1: a page left over from another store does not fit by chance.
            self._version = secrets.randbelow(1 << _VERSION_BITS)
            self._store()
            return
        try:
            saved = read_playthrough(path)
            self._game = Game.restored(saved)
            self._version, self._kept = _checked_page(saved.extra.get("page"), self._game)
        except PlaythroughError as error:
            text = str(error).removeprefix(f"{path}: ")
            raise PlayError(f"{path}: {text} (move the file away to begin anew)") from None
        if code is not None and (self._game.deal != code or self._game.won):
            self.new(self._version, code)

    def _store(self) -> None:
        """Write the table to its file, one version up."""
        self._version += 1
        page = {"version": self._version, "kept": self._kept is not None}
        try:
            self._game.saved({"page": page}).write(self.store / _TABLE_FILE)
        except OSError as error:
            raise PlayError(f"the table could not be stored: {_one_line(error)}") from None

    def _keep(self) -> None:
        """Write the game's playthrough, if it is not there yet and there is something to keep."""
        folder = self.folder
        name = self._game.file_name
        if self._kept is not None or not self._game.actions:
            return
        if folder.is_dir():
            others = sum(file.name != name for file in listed(folder))
            if others >= MAX_KEPT:
                raise PlayError(f"{folder} holds {others} games; move some of them away")
        self._game.keep(folder)
        self._kept = name


def _checked_page(page: Any, game: Game) -> tuple[int, str | None]:
    """The version and the kept file's name, as a table's file has them."""
    if not isinstance(page, dict):
        raise PlaythroughError("the key 'page' is missing")
    version, kept = page.get("version"), page.get("kept")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 1 << 53:
        raise PlaythroughError("page.version is an integer from 0 up")
    if not isinstance(kept, bool):
        raise PlaythroughError("page.kept is true or false")
    return version, game.file_name if kept else None


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())


# ------------------------------------------------------------------------------ who is let in


class Guard:
    """Turns away what does not come from this server's own page; adds the security headers.

    Args:
        app: What is guarded.
        port: Where the server listens.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        names = (ADDRESS, "localhost")
        self._hosts = {f"{name}:{port}" for name in names}
        if port == 80:  # which browsers leave out
            self._hosts |= set(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        refused = self._refused(scope["method"], scope["path"], Headers(scope=scope))
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refused(self, method: str, path: str, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _error(403, "this server is reached as 127.0.0.1 or localhost only")
        origins = headers.getlist("origin")
        sites = headers.getlist("sec-fetch-site")
        reading = method in ("GET", "HEAD")
        if not reading or path.startswith("/api/"):
            # Another port of this machine is the same site, but not the same origin.
            if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
                return _error(403, "another origin may not use this table")
            own = ("same-origin", "none") if reading else ("same-origin",)
            if any(site not in own for site in sites):
                return _error(403, "another site may not use this table")
            if not reading and not origins and not sites:
                return _error(403, "a request that changes the table has to name its Origin")
        if reading and (
            "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        ):
            return _error(400, f"a {method} has no body")
        return None


class RequestError(Exception):
    """A request that is not answered with the table.

    Args:
        status: The HTTP status.
        text: What is wrong.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)


async def _body(request: Request, keys: dict[str, bool]) -> dict[str, Any]:
    """The JSON object that a request carries.

    Args:
        request: The request.
        keys: What it may hold, and whether it has to; ``version`` it always has to.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != (
        "application/json"
    ):
        raise RequestError(415, "the body is application/json")
    too_large = RequestError(413, f"a body has at most {MAX_BODY} bytes")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 9 or int(length) > MAX_BODY:
        raise too_large
    content = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():  # longer than announced, or not announced
                content += chunk
                if len(content) > MAX_BODY:
                    raise too_large
    except TimeoutError:
        raise RequestError(408, "the body did not arrive in time") from None
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise RequestError(400, "the body is a JSON object")
    keys = {"version": True, **keys}
    for key in body:
        if key not in keys:
            raise RequestError(400, f"there is no {key[:40]!r} here, only {', '.join(keys)}")
    for key, needed in keys.items():
        if needed and key not in body:
            raise RequestError(400, f"{key!r} is missing")
    if isinstance(body["version"], bool) or not isinstance(body["version"], int):
        raise RequestError(400, "version is an integer")
    return body


# ------------------------------------------------------------------------------ the application


def create_app(
    store: Path, port: int = PORT, deal: int | str | None = None, static: Sequence[Path] = STATIC
) -> Starlette:
    """Return the application; it holds the store until it is shut down (``app.state.table``).

    Args:
        store: The folder of the table and the playthroughs; made where it is missing.
        port: Where it will be served: the port that ``Host`` and ``Origin`` have to name.
        deal: A deal's code or number to play; None: what lies on the table, or a random deal.
        static: The folders of the page's files.

    Raises:
        PlayError: Another server uses the store, or what lies there is no stored table.
        ValueError: The deal is none.
        OSError: The store cannot be read or written.
    """
    table = Table(store, deal)

    async def answer(act: Callable[[], Reply]) -> Response:
        reply = await run_in_threadpool(act)
        outcome = reply.outcome
        return JSONResponse(
            {
                "moved": outcome.moved,
                "points": outcome.points,
                "refusal": outcome.refusal,
                "notice": reply.notice,
                "table": reply.view,
            }
        )

    async def show(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(table.view))

    async def page(request: Request) -> Response:
        return JSONResponse(
            {"layout": layout_json(), "art": art_json(), "folder": str(table.folder)}
        )

    async def tap(request: Request) -> Response:
        body = await _body(request, {"pile": True})
        return await answer(lambda: table.act(body["version"], lambda game: game.tap(body["pile"])))

    async def double_click(request: Request) -> Response:
        body = await _body(request, {"pile": True})
        return await answer(
            lambda: table.act(body["version"], lambda game: game.double_click(body["pile"]))
        )

    async def drop(request: Request) -> Response:
        body = await _body(request, {"source": True, "target": True})
        return await answer(
            lambda: table.act(
                body["version"], lambda game: game.drop(body["source"], body["target"])
            )
        )

    async def undo(request: Request) -> Response:
        body = await _body(request, {})
        return await answer(lambda: table.act(body["version"], lambda game: game.undo()))

    async def new(request: Request) -> Response:
        body = await _body(request, {"deal": False, "deck": False})
        return await answer(lambda: table.new(body["version"], body.get("deal"), body.get("deck")))

    async def settings(request: Request) -> Response:
        body = await _body(request, {"automatic_placing": False, "double_clicks": False})
        version = body.pop("version")
        for name, value in body.items():
            if not isinstance(value, bool):
                raise RequestError(400, f"{name} is true or false")
        return await answer(lambda: table.settle(version, body))

    def file(request: Request) -> Response:
        name, media_type = PAGE_FILES[request.url.path]
        for folder in static:
            with contextlib.suppress(FileNotFoundError):
                return Response((folder / name).read_bytes(), media_type=media_type)
        return _error(404, "this file of the page is not installed")

    async def stale(request: Request, error: Exception) -> Response:
        view = await run_in_threadpool(table.view)
        return JSONResponse({"error": "the table has changed meanwhile", "table": view}, 409)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        table.close()

    app = Starlette(
        routes=[
            Route("/api/table", show, methods=["GET"]),
            Route("/api/page", page, methods=["GET"]),
            Route("/api/tap", tap, methods=["POST"]),
            Route("/api/double-click", double_click, methods=["POST"]),
            Route("/api/drop", drop, methods=["POST"]),
            Route("/api/undo", undo, methods=["POST"]),
            Route("/api/new", new, methods=["POST"]),
            Route("/api/settings", settings, methods=["POST"]),
            *(Route(path, file, methods=["GET"]) for path in PAGE_FILES),
        ],
        middleware=[Middleware(Guard, port=port)],
        exception_handlers={
            StaleError: stale,
            RequestError: _request_error,
            PlayError: _play_error,
            GestureError: _gesture_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_gone,
            Exception: _failure,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.table = table
    return app


def _request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _error(error.status, str(error))


def _play_error(request: Request, error: Exception) -> Response:
    return _error(507, str(error))


def _gesture_error(request: Request, error: Exception) -> Response:
    return _error(400, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, dict(error.headers or {}))


def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


def _failure(request: Request, error: Exception) -> Response:
    # Made outside of Guard, so the headers are added here. uvicorn logs what went wrong.
    return _error(500, "the server failed; its terminal says why", SECURITY_HEADERS)


# ------------------------------------------------------------------------------------- serving


def serve(
    store: Path | None = None,
    port: int = PORT,
    deal: int | str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; then return, with all stored. Main thread only.

    Args:
        store: The folder of the table and the playthroughs; None for ``default_store()``.
        port: Where to listen on 127.0.0.1; 0 for any free port.
        deal: A deal's code or number to play; None: what lies on the table, or a random deal.
        ready: Called with the page's address once connections are taken; None prints it.

    Raises:
        PlayError: The port is taken, another server uses the store, or what lies there is no
            stored table.
        ValueError: The deal is none.
        OSError: The store cannot be read or written.
    """
    store = default_store() if store is None else store
    with contextlib.closing(_listening(port)) as listener:
        port = listener.getsockname()[1]
        app = create_app(store, port, deal)
        try:
            server = uvicorn.Server(
                uvicorn.Config(
                    app,
                    http="h11",
                    loop="asyncio",
                    ws="none",
                    lifespan="on",
                    log_level="warning",
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    limit_concurrency=MAX_CONNECTIONS,
                    timeout_graceful_shutdown=GRACE,
                )
            )
            with _stopped_by_signals(server):
                (ready or _announce)(f"http://{ADDRESS}:{port}/")
                server.run(sockets=[listener])
        finally:
            app.state.table.close()


def _announce(address: str) -> None:
    print(f"The table is at {address} (Ctrl-C stops the server)", flush=True)


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(MAX_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise PlayError(f"port {port} of {ADDRESS} cannot be used: {reason}") from None
    return listener


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the server and do nothing else.

    uvicorn stops at them, too, but raises them again when it has stopped; by then these handlers
    stand in their place again, and there is nothing left to stop.
    """

    def stop(number: int, frame: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
