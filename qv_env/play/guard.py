"""Who is let in by the play page's server."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qv_env.play.messages import error_answer

ADDRESS = "127.0.0.1"

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
