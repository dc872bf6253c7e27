"""What the server's requests carry, and how it answers those that it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from qv_env.strict_json import FormatError, decoded, parse_json

MAX_BODY = 4096  # bytes of a request's body
PATIENCE = 2  # seconds that a body may take to arrive


class RequestError(Exception):
    """A request that is not answered with the table.

    Args:
        status: The HTTP status.
        text: What is wrong.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def error_answer(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the answer that says in one line what is wrong."""
    return JSONResponse({"error": text}, status, headers)


async def read_body(request: Request, keys: dict[str, bool]) -> dict[str, Any]:
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
        body = parse_json(decoded(content))
    except FormatError:
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
