"""A client that puts a service under load: closed (so many at a time) or open (so many per second, come what may).

An open loop counts a request's time from when it was due, not from when a connection was free: a service that is slow
cannot make its own load lighter.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_CONNECTIONS = 600
PATIENCE = 60.0  # seconds for one answer

Request = tuple[bytes, Any]  # what is sent; what its answer is compared with
Judge = Callable[[Any, int, bytes], bool]  # is the answer right?


@dataclass
class Load:
    """What came back."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[float] = field(default_factory=list)  # seconds until a 200
    refused: list[float] = field(default_factory=list)  # until a 429
    wrong: int = 0

    def summary(self) -> dict[str, Any]:
        texts = {f"p{share}_ms": round(1000 * quantile(self.accepted, share / 100), 2) for share in (50, 95, 99)}
        return {
            "per_second": round(len(self.accepted) / self.seconds, 1),
            **texts,
            "p99_of_refusals_ms": round(1000 * quantile(self.refused, 0.99), 2),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "wrong": self.wrong,
        }


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def post(path: str, body: Any) -> bytes:
    """A request as it goes over the wire."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\n\r\n".encode() + content


class Connection:
    """One connection, kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; status 0: no answer."""
        try:
            async with asyncio.timeout(PATIENCE):
                if self.writer is None:
                    self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
                assert self.reader is not None
                self.writer.write(request)
                head = await self.reader.readuntil(b"\r\n\r\n")
                lower = head.lower()
                place = lower.index(b"content-length:")
                length = int(lower[place + 15 : lower.index(b"\r", place)])
                body = await self.reader.readexactly(length)
                if b"connection: close" in lower:
                    self.close()
                return int(head[9:12]), body
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            self.close()
            return 0, b""

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def _count(load: Load, seconds: float, status: int, right: bool) -> None:
    load.statuses[status] += 1
    load.wrong += not right
    if status == 200:
        load.accepted.append(seconds)
    elif status == 429:
        load.refused.append(seconds)


async def closed(port: int, requests: Sequence[Request], clients: int, seconds: float, judge: Judge) -> Load:
    """So many clients, each with one request at a time."""
    load, until = Load(), time.perf_counter() + seconds

    async def client(first: int) -> None:
        connection, place = Connection(port), first
        while time.perf_counter() < until:
            request, expected = requests[place % len(requests)]
            began = time.perf_counter()
            status, body = await connection.ask(request)
            _count(load, time.perf_counter() - began, status, judge(expected, status, body))
            place += clients
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    load.seconds = time.perf_counter() - began
    return load


async def opened(port: int, requests: Sequence[Request], rate: float, seconds: float, judge: Judge, seed: int) -> Load:
    """So many requests per second, at random moments."""
    load, rng, idle, tasks = Load(), random.Random(seed), [], set()
    made, place = 0, 0

    async def one(connection: Connection, due: float, request: bytes, expected: Any) -> None:
        status, body = await connection.ask(request)
        _count(load, time.perf_counter() - due, status, judge(expected, status, body))
        idle.append(connection)

    began = due = time.perf_counter()
    while due < began + seconds:
        due += rng.expovariate(rate)
        if (pause := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        while not idle and made >= MOST_CONNECTIONS:
            await asyncio.sleep(0.0005)
        if idle:
            connection = idle.pop()
        else:
            connection, made = Connection(port), made + 1
        task = asyncio.ensure_future(one(connection, due, *requests[place % len(requests)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        place += 1
    load.seconds = time.perf_counter() - began
    await asyncio.gather(*tasks)
    for connection in idle:
        connection.close()
    return load
