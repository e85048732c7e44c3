"""Connections on which no request comes: uvicorn itself would wait for one for ever, and read headers without end.

Each counts among the connections that the service takes, so that some hundreds of them would lock everybody out.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

LARGEST_HEAD = 1 << 16  # bytes of the lines before a body


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Uvicorn's connection, closed when the head of a request takes too long or is too large."""

    patience_s = 10.0  # a head must have come in one to two such times; idle ones are closed by uvicorn before that
    _timer: asyncio.TimerHandle | None = None
    _last: object = ()  # the last request, if the next one was being waited for when the timer went off
    _head = 0  # bytes of a head that is not whole yet

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        self._head = self._head + len(data) if self._is_waiting and self.cycle is before else 0
        if self._head > LARGEST_HEAD:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def _is_waiting(self) -> bool:
        """Whether no request is being received or answered."""
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        if self._is_waiting and self._last is self.cycle:
            self.transport.close()
            return
        self._last = self.cycle if self._is_waiting else ()
        self._timer = self.loop.call_later(self.patience_s, self._look)


def patient(seconds: float) -> type[Connection]:
    """Connections that wait for so long."""
    return type("Connection", (Connection,), {"patience_s": seconds})
