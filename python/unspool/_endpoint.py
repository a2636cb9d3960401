"""What both HTTP clients know of a server's address, and of an answer."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from .errors import ApiError, Unreachable

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and what its JSON answer (None where it is empty) means."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None  # sent as JSON, unless None
    query: Sequence[tuple[str, Any]] = ()

    def target(self) -> str:
        pairs = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in self.query]
        return self.path + ("?" + urlencode(pairs) if pairs else "")

    def data(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()

    def result(self, status: int, body: bytes) -> T:
        if status != 200:
            raise ApiError.from_answer(status, self.path, body)
        try:
            answer = json.loads(body) if body else None
        except ValueError:
            raise Unreachable(f"{self.path}: what answers is no JSON, but {body[:100]!r}") from None
        return self.read(answer)


class Endpoint:
    def __init__(self, url: str, api_key: str | None):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a server's address is like http://127.0.0.1:8000, not {url!r}")
        self.url = url.rstrip("/")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = quote(parts.path.rstrip("/"))
        self.netloc = parts.netloc.rpartition("@")[2]
        self.headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self.headers["Authorization"] = f"Bearer {api_key}"


def is_stale(fd: int) -> bool:
    """Whether an idle connection is no use any more. Nothing is owed on it, so what can be read is its end. Asked before
    a request is sent, since a request that may have arrived must not be sent again."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
