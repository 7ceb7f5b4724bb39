"""What stands before the application: who may ask, how much, how long; and what every answer carries.

Plain ASGI, in the order of what a refusal costs: the host and the origin, the token, the queue, the size as it is
announced and then as it streams, the time. Nothing of a request is written anywhere.
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pocketbert.serve.batching import Batcher, Overloaded
from pocketbert.serve.metrics import Metrics

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PUBLIC = ("/", "/healthz", "/readyz")  # without a token; what the page is made of, too: it holds nothing of anyone
PUBLIC_FOLDER = "/page/"
QUESTIONS = ("/v1/predict", "/v1/explain", "/v1/attention", "/v1/swap")  # what is posted, as JSON, to a model
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

log = logging.getLogger("pocketbert.serve")


@dataclass(frozen=True)
class Limits:
    """How much one request may be, and how long it may take."""

    body_bytes: int = 2_000_000
    texts: int = 1_000
    words: int = 100  # that are left out one after the other, to explain an answer
    attention_tokens: int = 64
    body_seconds: float = 10.0  # for a body to arrive
    seconds: float = 30.0  # for the answer


class Refused(Exception):
    """An answer that is no result: a status, and a message that says what to do."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, list(headers)


def overloaded(error: Overloaded) -> Refused:
    return Refused(429, str(error), [(b"retry-after", str(error.retry_after).encode())])


class Guard:
    """The application behind its limits.

    Args:
        application: what answers.
        token: what a bearer must show; None: anyone who can connect may ask.
        hosts: names under which the service may be asked for; None: any. A page of a stranger could otherwise give its
            own name our address.
    """

    def __init__(
        self,
        application: Application,
        batcher: Batcher,
        metrics: Metrics,
        limits: Limits,
        *,
        token: str | None = None,
        hosts: tuple[str, ...] | None = LOOPBACK,
    ) -> None:
        self.application, self.batcher, self.metrics, self.limits = application, batcher, metrics, limits
        self.token = None if token is None else token.encode()
        self.hosts = hosts
        self.draining = False
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        began, status, ended = time.perf_counter(), 500, False
        headers: dict[bytes, bytes] = dict(scope["headers"])

        async def answer(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in HEADERS if name not in own]
                if b"content-security-policy" not in own:
                    more.append((b"content-security-policy", CONTENT_POLICY.encode()))
                if self.draining:
                    more.append((b"connection", b"close"))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
                ended = True
            await send(message)

        self.in_progress += 1
        self.metrics.set("pocketbert_requests_in_progress", self.in_progress)
        try:
            try:
                self._check(scope, headers)
                if scope["method"] == "POST":
                    receive = _replay(await self._body(receive, headers), receive)
                async with asyncio.timeout(self.limits.seconds):
                    await self.application(scope, receive, answer)
            except Refused as refused:
                if not ended:
                    await refuse(answer, refused)
            except TimeoutError:
                late = Refused(504, f"no answer within {self.limits.seconds:g} s; send fewer texts, or try again later")
                if not ended:
                    await refuse(answer, late)
            except _Disconnected:
                status = 400
            except Exception as error:
                # The kind of error and where, never its words: they may repeat a text.
                log.error("%s while answering %s", _where(error), scope["path"][:100].encode("ascii", "replace"))
                if not ended:
                    await refuse(answer, Refused(500, "an error of the service; its log says where"))
        finally:
            self.in_progress -= 1
            self.metrics.set("pocketbert_requests_in_progress", self.in_progress)
            self.metrics.set("pocketbert_queue_tokens", self.batcher.tokens)
            self.metrics.answered(route_of(scope["path"]), status, time.perf_counter() - began)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self.hosts is not None and _hostname(host) not in self.hosts:
            raise Refused(421, "asked for under a name that is not this service's; see --allow-host")
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            origin = headers.get(b"origin", b"").decode("latin-1")
            if origin and origin.partition("://")[2].lower() != host.lower():
                raise Refused(403, "a page of another origin may not ask here")
            if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
                raise Refused(403, "a page of another origin may not ask here")
        if self.token is not None and path not in PUBLIC and not path.startswith(PUBLIC_FOLDER):
            self._check_token(headers.get(b"authorization", b""))
        if scope["method"] == "POST" and path in QUESTIONS:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refused(415, "send JSON: Content-Type: application/json", [(b"accept", b"application/json")])
            try:
                self.batcher.check()
            except Overloaded as error:
                raise overloaded(error) from None

    def _check_token(self, given: bytes) -> None:
        kind, _, shown = given.partition(b" ")
        assert self.token is not None
        # The same time for every wrong token, however much of it is right.
        if not hmac.compare_digest(shown.strip(), self.token) or kind.lower() != b"bearer":
            raise Refused(
                401, "this service wants a token: Authorization: Bearer …", [(b"www-authenticate", b"Bearer")]
            )

    async def _body(self, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        """All of it; or, as soon as that is clear, that it is too much or too slow."""
        most = self.limits.body_bytes
        close = [(b"connection", b"close")]
        large = Refused(413, f"a request holds at most {most:,} bytes; send fewer texts at a time", close)
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            raise large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            late = f"the request's body did not arrive within {self.limits.body_seconds:g} s"
            raise Refused(408, late, close) from None


class _Disconnected(Exception):
    """Whoever asked is gone."""


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


async def refuse(send: Send, refused: Refused) -> None:
    """Answer {"error": …}."""
    body = json.dumps({"error": refused.message}, ensure_ascii=False).encode()
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": refused.status, "headers": [kind, length, *refused.headers]})
    await send({"type": "http.response.body", "body": body})


def route_of(path: str) -> str:
    """The route that a path is counted under: a stranger's paths are many."""
    return "/" if path.startswith(PUBLIC_FOLDER) else path


def _hostname(host: str) -> str:
    """Without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _where(error: BaseException) -> str:
    """An error's kind and its lines of code."""
    trace, lines = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f"{type(error).__name__} ({' > '.join(lines[-6:])})"
