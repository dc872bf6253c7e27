"""The addresses of the play page's server, and what answers there.

``qv_env.play.server`` describes the interface.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from qv_env import render
from qv_env.play.game import Game, Outcome
from qv_env.play.guard import SECURITY_HEADERS
from qv_env.play.messages import RequestError, error_answer, read_body
from qv_env.play.store import GestureError, PlayError, Reply, StaleError, Table
from qv_env.render.art import art_json
from qv_env.render.layout import layout_json

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


class Api:
    """What pages ask of a table, and do to it.

    Args:
        table: The table.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def routes(self) -> list[Route]:
        """Return the addresses below ``/api/``."""
        return [
            Route("/api/table", self._view, methods=["GET"]),
            Route("/api/page", self._page, methods=["GET"]),
            Route("/api/tap", self._tap, methods=["POST"]),
            Route("/api/double-click", self._double_click, methods=["POST"]),
            Route("/api/drop", self._drop, methods=["POST"]),
            Route("/api/undo", self._undo, methods=["POST"]),
            Route("/api/new", self._new, methods=["POST"]),
            Route("/api/settings", self._settings, methods=["POST"]),
        ]

    async def stale(self, request: Request, error: Exception) -> Response:
        """Answer a request that was made for a table that has changed since."""
        view = await run_in_threadpool(self._table.view)
        return JSONResponse({"error": "the table has changed meanwhile", "table": view}, 409)

    async def _view(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._table.view))

    async def _page(self, request: Request) -> Response:
        folder = str(self._table.folder)
        return JSONResponse({"layout": layout_json(), "art": art_json(), "folder": folder})

    async def _tap(self, request: Request) -> Response:
        body = await read_body(request, {"pile": True})
        return await self._act(body, lambda game: game.tap(body["pile"]))

    async def _double_click(self, request: Request) -> Response:
        body = await read_body(request, {"pile": True})
        return await self._act(body, lambda game: game.double_click(body["pile"]))

    async def _drop(self, request: Request) -> Response:
        body = await read_body(request, {"source": True, "target": True})
        return await self._act(body, lambda game: game.drop(body["source"], body["target"]))

    async def _undo(self, request: Request) -> Response:
        return await self._act(await read_body(request, {}), lambda game: game.undo())

    async def _new(self, request: Request) -> Response:
        body = await read_body(request, {"deal": False, "deck": False})
        deal, deck = body.get("deal"), body.get("deck")
        return await _answer(lambda: self._table.new(body["version"], deal, deck))

    async def _settings(self, request: Request) -> Response:
        body = await read_body(request, {"automatic_placing": False, "double_clicks": False})
        version = body.pop("version")
        for name, value in body.items():
            if not isinstance(value, bool):
                raise RequestError(400, f"{name} is true or false")
        return await _answer(lambda: self._table.settle(version, body))

    async def _act(self, body: Mapping[str, Any], gesture: Callable[[Game], Outcome]) -> Response:
        return await _answer(lambda: self._table.act(body["version"], gesture))


async def _answer(act: Callable[[], Reply]) -> Response:
    """Do what was asked for, and answer with what it led to."""
    reply = await run_in_threadpool(act)
    return JSONResponse(
        {
            "moved": reply.outcome.moved,
            "points": reply.outcome.points,
            "refusal": reply.outcome.refusal,
            "notice": reply.notice,
            "table": reply.view,
        }
    )


def page_routes(folders: Sequence[Path]) -> list[Route]:
    """Return the addresses of the page's files.

    Args:
        folders: Where the files are looked for, in this order.
    """

    def file(request: Request) -> Response:
        name, media_type = PAGE_FILES[request.url.path]
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                return Response((folder / name).read_bytes(), media_type=media_type)
        return error_answer(404, "this file of the page is not installed")

    return [Route(path, file, methods=["GET"]) for path in PAGE_FILES]


# -------------------------------------------------------------------------------- what goes wrong


def _request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_answer(error.status, str(error))


def _play_error(request: Request, error: Exception) -> Response:
    return error_answer(507, str(error))


def _gesture_error(request: Request, error: Exception) -> Response:
    return error_answer(400, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_answer(error.status_code, error.detail, dict(error.headers or {}))


def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


def _failure(request: Request, error: Exception) -> Response:
    # Made outside of Guard, so the headers are added here. uvicorn logs what went wrong.
    return error_answer(500, "the server failed; its terminal says why", SECURITY_HEADERS)


def error_handlers(api: Api) -> dict[Any, Callable[[Request, Exception], Any]]:
    """Return what answers where a request led to an exception, by the exception's class."""
    return {
        StaleError: api.stale,
        RequestError: _request_error,
        PlayError: _play_error,
        GestureError: _gesture_error,
        HTTPException: _http_error,
        ClientDisconnect: _client_gone,
        Exception: _failure,
    }
