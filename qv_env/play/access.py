"""The token that lets a browser in, and tickets that are exchanged for it once."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from qv_env.files import replacing

TOKEN_FILE = "token"  # in the store

_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)


def stored_token(store: Path) -> str:
    """Return a store's token; a new one is made where there is none.

    It stays the same from start to start, so that a page left open goes on. It is made anew where
    its file is removed, and where what lies there is no token or others could read it.

    Args:
        store: The folder, which is held.

    Returns:
        32 hexadecimal digits.

    Raises:
        OSError: It cannot be read or written.
    """
    path = store / TOKEN_FILE
    try:
        with open(path, "rb") as file:
            own = _is_own(os.fstat(file.fileno()))
            text = file.read(100).decode("ascii", "replace").strip()
        if own and _TOKEN.fullmatch(text):
            return text
    except FileNotFoundError:
        pass
    token = secrets.token_hex(16)
    with replacing(path) as temporary:
        temporary.chmod(0o600)
        temporary.write_text(f"{token}\n", encoding="ascii")
    return token


def _is_own(status: os.stat_result) -> bool:
    """Whether nobody else can have read or written a file."""
    if os.name != "posix":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


class Access:
    """Who may use a table: whoever has its token.

    Args:
        token: The token.

    Attributes:
        token: As above.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """Return a ticket, which is exchanged for the token once.

        The command that opens a browser can be read by all users of the machine, so the token is
        not in it.
        """
        ticket = secrets.token_hex(16)
        self._tickets.add(ticket)
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Return whether a ticket is good; it no longer is then."""
        good = [known for known in self._tickets if _same(known, ticket)]
        self._tickets.difference_update(good)
        return bool(good)

    def admits(self, token: str) -> bool:
        """Return whether this is the token."""
        return _same(self.token, token)


def _same(secret: str, text: str) -> bool:
    return secrets.compare_digest(secret.encode(), text.encode("utf-8", "replace"))
