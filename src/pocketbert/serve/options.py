"""Everything that is decided when a service starts; a worker gets it as JSON on its standard input."""

import ipaddress
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pocketbert.errors import UserError
from pocketbert.serve.limits import LOOPBACK, Limits

MOST_WORKERS = 64
MOST_THREADS = 1_024
SHORTEST_TOKEN = 16  # characters
TOKEN_VARIABLE = "POCKETBERT_TOKEN"


@dataclass(frozen=True)
class ServeOptions:
    """How to serve.

    Args:
        runs, adapters: folders of runs or studies; of runs that keep no encoder of their own.
        host, port: where to listen; 0: any free port.
        workers: processes that answer; more than one are looked after, and replaced when they die.
        threads: of each worker; None: the cores, divided among them.
        token: what a bearer must show.
        allowed_hosts: names, beside those of this machine itself, under which the service may be asked for.
        batch_tokens, batch_wait: how much is computed at once; seconds that a first request waits for others.
        queue_seconds: of work that may wait; more is refused with 429.
        limits: of one request.
    """

    runs: tuple[str, ...]
    adapters: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int | None = None
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    batch_tokens: int = 2_048
    batch_wait: float = 0.001
    queue_seconds: float = 1.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.runs and not self.adapters:
            raise UserError("what shall be served? Name the folder of a run or of a study")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise UserError(f"--workers {self.workers}: expected 1 to {MOST_WORKERS}")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise UserError(f"--threads {self.threads}: expected 1 to {MOST_THREADS:,}")
        if not 0 <= self.port <= 65_535:
            raise UserError(f"--port {self.port}: expected 0 to 65535; 0 is any free one")
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise UserError(f"the token is too short, or not plain ASCII: at least {SHORTEST_TOKEN} characters")

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Names under which it may be asked for; None: any. Where others can reach it, its names are not known here."""
        own = (*LOOPBACK, *(name.lower() for name in self.allowed_hosts))
        return own if is_loopback(self.host) or self.allowed_hosts else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "ServeOptions":
        lists = {name: tuple(value[name]) for name in ("runs", "adapters", "allowed_hosts")}
        return cls(**{**value, **lists, "limits": Limits(**value["limits"])})


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None) -> str | None:
    """From a file, else from the environment: an argument could be read by everyone on the machine."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path}: cannot be read: {error}") from None


def bind(host: str, port: int) -> socket.socket:
    """The socket that everything comes through; no worker owns it, so one that dies takes nothing waiting with it."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host} port {port}: {error}; choose another with --port") from None
    return listener
