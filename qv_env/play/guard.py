"""Who is let in by the play page's server."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qv_env.play.access import Access
from qv_env.play.messages import error_answer

ADDRESS = "127.0.0.1"
NO_TOKEN = (
    "this table is reached with its token only: open the address that the server's terminal shows,"
    " the one with ?token="
)

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


class Guard:
    """Turns away what does not come from this server's own page; adds the security headers.

    Args:
        app: What is guarded.
        port: Where the server listens.
        access: Who is let in.
        public: The addresses that need no token.
    """

    def __init__(
        self, app: ASGIApp, port: int, access: Access, public: Collection[str] = ()
    ) -> None:
        self._app = app
        self._access = access
        self._public = frozenset(public)
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

        request = Request(scope)
        answer = self._foreign(request) or self._without_token(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _foreign(self, request: Request) -> Response | None:
        """What refuses a request that the page does not make."""
        method, path, headers = request.method, request.scope["path"], request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return error_answer(403, "this server is reached as 127.0.0.1 or localhost only")
        origins = headers.getlist("origin")
        sites = headers.getlist("sec-fetch-site")
        reading = method in ("GET", "HEAD")
        if not reading or path.startswith("/api/"):
            # Another port of this machine is the same site, but not the same origin.
            if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
                return error_answer(403, "another origin may not use this table")
            own = ("same-origin", "none") if reading else ("same-origin",)
            if any(site not in own for site in sites):
                return error_answer(403, "another site may not use this table")
            if not reading and not origins and not sites:
                return error_answer(403, "a request that changes the table has to name its Origin")
        if reading and (
            "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        ):
            return error_answer(400, f"a {method} has no body")
        return None

    def _without_token(self, request: Request) -> Response | None:
        """What answers a request that has no token."""
        path, query = request.scope["path"], request.query_params
        tokens = query.getlist("token")
        for value in request.headers.getlist("authorization"):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == "bearer":
                tokens.append(token.strip())
        if path in self._public or any(self._access.admits(token) for token in tokens):
            return None
        if path == "/" and request.method == "GET" and self._access.redeem(query.get("ticket", "")):
            return RedirectResponse(f"/?token={self._access.token}", 303)
        return error_answer(403, NO_TOKEN)
