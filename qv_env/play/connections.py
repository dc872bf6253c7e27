"""Connections that have to get on: uvicorn's, with deadlines for what the other side owes."""

from __future__ import annotations

import asyncio
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_PATIENCE = 2  # seconds that a request's head may take to arrive
PEER_PATIENCE = 10  # seconds that its body may take, and the reading of the answer


class Owed(Enum):
    """What keeps a connection busy."""

    NOTHING = "the server is at work, or uvicorn's own limit for idle connections runs"
    HEAD = "the other side has to send a request's head"
    REST = "the other side has to send the rest of a request, or to read its answer"


class Connection(H11Protocol):
    """One connection of the play page's server.

    uvicorn counts connections, but waits without end for the head of a request, for the rest of a
    body when the request is answered already, and for a peer that does not read. Here a connection
    that waits for the other side is cut off after a while, however much trickles in meanwhile.
    """

    _owed = Owed.NOTHING
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        self._watch()  # by now an answer may have been read
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        """Hear that the other side does not read."""
        super().pause_writing()
        self._watch()

    def on_response_complete(self) -> None:
        """Go on after an answer."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _owed_now(self) -> Owed:
        answered = self.cycle is None or self.cycle.response_complete
        if self.transport.get_write_buffer_size():
            return Owed.REST
        if self.conn.their_state is h11.IDLE and answered:
            return Owed.HEAD if self.timeout_keep_alive_task is None else Owed.NOTHING
        if self.conn.their_state is not h11.SEND_BODY and not answered:
            return Owed.NOTHING
        return Owed.REST

    def _watch(self) -> None:
        """Set the deadline anew where something else is owed than before."""
        owed = self._owed_now()
        if owed is self._owed:
            return
        self._owed = owed
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if owed is not Owed.NOTHING:
            patience = HEAD_PATIENCE if owed is Owed.HEAD else PEER_PATIENCE
            self._deadline = self.loop.call_later(patience, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if self._owed_now() is Owed.NOTHING:  # nobody tells when an answer has been read
            self._owed = Owed.NOTHING
        else:
            self.transport.abort()
