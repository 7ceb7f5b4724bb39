"""uvicorn's HTTP protocol, which leaves two things to those before it: headers that never end, half-closed connections.

A connection that takes too long, or too much, for the headers of a request is closed: thousands of such would hold
all there are. One whose other side has said all and still listens gets its answer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 64_000
MOST_CONNECTIONS = 2_000  # open at once; those beyond are closed at once

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: 46\r\n"
    b'connection: close\r\n\r\n{"error":"the headers of a request are limited"}'
)
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: 45\r\n"
    b'connection: close\r\n\r\n{"error":"the headers did not arrive in time"}'
)


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose headers are bounded in time and size, and may be half-closed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._other_side_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between_requests():
            if self._header_timer is None:
                self._wait_for_headers()
            self._header_bytes += len(data)
            # The parser is asked first: a whole request with a large body may arrive at once.
            super().data_received(data)
            if self._between_requests() and self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._header_bytes = 0
        super().on_headers_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """True keeps the way back open: for a request that is here as a whole and has no answer yet."""
        self._other_side_ended = True
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._other_side_ended and not self.pipeline and not self.transport.is_closing():
            self.transport.close()

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_headers(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            if self._header_bytes:
                self.transport.write(_TOO_SLOW)
            self.transport.close()
