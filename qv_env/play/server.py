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
``GET /?token=...``          the page; its other files have the fixed addresses in
                             ``PAGE_FILES``, and are 404 where a file is not there
===========================  ==============================================================

All of them but the page's other files need the table's token: as ``?token=...`` in the address, or
as a header ``Authorization: Bearer ...``. The page's own address has it, and the page sends it on.

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
* 403: a foreign Host or Origin, or no token. 404, 405: no such address, or not by this method.
* 408: the body did not arrive. 413: it is over ``MAX_BODY`` bytes. 415: not ``application/json``.
* 507: the table or the finished game could not be stored, or ``MAX_KEPT`` games are; the text says
  what to do. 500: a mistake in here.

A double click is for the page to tell: send a click as a tap at once. If that tap moved something,
drop the second click; if it was refused, wait with the refusal until no second click can come, and
send ``double-click`` when one does. On the stock every click is a tap of its own, and so it is
everywhere while ``double_clicks`` is off.

What keeps others out
=====================

* Other users of this machine lack the token: 128 random bits, in a file of the store that only its
  owner reads. It is no cookie, since browsers send those to every port of 127.0.0.1, whoever
  listens there. It stays the same when the server is restarted; without its file there is a new
  one. The browser is opened with a ticket instead, which is exchanged for the token once.
* Only 127.0.0.1 listens, and ``Host`` has to be ``127.0.0.1:port`` or ``localhost:port``, so no
  name that somebody points here is served.
* A POST needs an ``Origin`` of the same host or ``Sec-Fetch-Site: same-origin``, and JSON as its
  content type. A program that is no browser sends an ``Origin``, too. Reading is refused to pages
  of other origins as well.
* A body is small and arrives soon, announced or chunked; connections and kept games have limits.
* A connection is cut off whose request's head does not arrive soon, or whose answer is not read.
* No request names a file: the store's file names are made here, the page's stand in a table.
* Answers carry a strict content security policy: no inline script or style (set styles from
  script, or by classes), nothing from elsewhere, no frames.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from qv_env.files import default_store
from qv_env.play.access import Access, stored_token
from qv_env.play.connections import Connection
from qv_env.play.guard import ADDRESS, SECURITY_HEADERS, Guard
from qv_env.play.routes import PAGE_FILES, STATIC, Api, error_handlers, page_routes
from qv_env.play.store import PlayError, Table

__all__ = [
    "PAGE_FILES",
    "PORT",
    "SECURITY_HEADERS",
    "STATIC",
    "PlayError",
    "Table",
    "create_app",
    "serve",
]

PORT = 8104  # always the same, so that a page left open finds a restarted server
MAX_CONNECTIONS = 64
GRACE = 3  # seconds that a request still has when the server is stopped
# The files that the page loads, which hold nothing of the table and need no token.
PUBLIC = frozenset(PAGE_FILES) - {"/"}


def create_app(
    store: Path, port: int = PORT, deal: int | str | None = None, static: Sequence[Path] = STATIC
) -> Starlette:
    """Return the application; it holds the store until it is shut down (``app.state.table``).

    What lets requests in is ``app.state.access``, with the token that the store keeps.

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
    try:
        access = Access(stored_token(store))
    except BaseException:
        table.close()
        raise
    api = Api(table)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        table.close()

    app = Starlette(
        routes=[*api.routes(), *page_routes(static)],
        middleware=[Middleware(Guard, port=port, access=access, public=PUBLIC)],
        exception_handlers=error_handlers(api),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.table = table
    app.state.access = access
    return app


# ------------------------------------------------------------------------------------- serving


def serve(
    store: Path | None = None,
    port: int = PORT,
    deal: int | str | None = None,
    ready: Callable[[str], None] | None = None,
    browse: Callable[[str], object] | None = None,
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; then return, with all stored. Main thread only.

    Args:
        store: The folder of the table and the playthroughs; None for ``default_store()``.
        port: Where to listen on 127.0.0.1; 0 for any free port.
        deal: A deal's code or number to play; None: what lies on the table, or a random deal.
        ready: Called with the page's address, token included, once connections are taken; None
            prints it.
        browse: Opens a browser; called after that, in a thread of its own, with an address that
            leads to the page once. (What a program is started with is no secret.) None opens none.

    Raises:
        PlayError: The port is taken, another server uses the store, or what lies there is no
            stored table.
        ValueError: The deal is none.
        OSError: The store cannot be read or written.
    """
    store = default_store() if store is None else store
    with contextlib.closing(listening(port)) as listener:
        port = listener.getsockname()[1]
        app = create_app(store, port, deal)
        try:
            server = uvicorn_server(app)
            with _stopped_by_signals(server):
                page, access = f"http://{ADDRESS}:{port}/", app.state.access
                (ready or _announce)(f"{page}?token={access.token}")
                if browse is not None:  # some browsers keep their caller waiting
                    once = f"{page}?ticket={access.ticket()}"
                    threading.Thread(target=browse, args=(once,), daemon=True).start()
                server.run(sockets=[listener])
        finally:
            app.state.table.close()


def uvicorn_server(app: Starlette) -> uvicorn.Server:
    """Return the server that :func:`serve` runs: the limits of connections are set here."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
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


def _announce(address: str) -> None:
    print(f"The table is at {address} (Ctrl-C stops the server)", flush=True)


def listening(port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        port: On 127.0.0.1; 0 for any free port.

    Raises:
        PlayError: The port cannot be used.
    """
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
