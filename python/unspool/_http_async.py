"""HTTP/1.1 over kept connections, for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple, TypeVar

from ._endpoint import Call, Endpoint, is_stale
from .errors import RequestTimeout, Unreachable

T = TypeVar("T")

# Of a line of an answer's head; asyncio's default. What is longer is no answer of ours.
LINE_LIMIT_BYTES = 1 << 16


class Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    loop: asyncio.AbstractEventLoop


class AsyncConnections:
    """As many connections as calls run at once; one that has answered waits for the next, on the event loop it was
    made on."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self._idle: list[Connection] = []

    async def run(self, call: Call[T], timeout_s: float | None) -> T:
        """The call's result. ApiError, Unreachable or RequestTimeout."""
        try:
            status, body = await asyncio.wait_for(self._exchange(call), timeout_s)
        except (TimeoutError, asyncio.TimeoutError):  # noqa: UP041, two types before Python 3.11
            raise RequestTimeout(f"{self.endpoint.url}{call.path}: no answer within {timeout_s} s") from None
        except asyncio.IncompleteReadError as error:
            raise Unreachable(f"{self.endpoint.url}{call.path}: the connection ended before the answer") from error
        except (OSError, ValueError) as error:
            raise Unreachable(f"{self.endpoint.url}{call.path}: {error}") from error
        return call.result(status, body)

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            if not connection.loop.is_closed():
                connection.writer.close()

    async def _take(self) -> Connection:
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:
                continue
            if not is_stale(connection.writer.get_extra_info("socket").fileno()):
                return connection
            connection.writer.close()
        context = ssl.create_default_context() if self.endpoint.tls else None
        reader, writer = await asyncio.open_connection(
            self.endpoint.host, self.endpoint.port, ssl=context, limit=LINE_LIMIT_BYTES
        )
        return Connection(reader, writer, loop)

    async def _exchange(self, call: Call) -> tuple[int, bytes]:
        connection = await self._take()
        keep = False
        try:
            connection.writer.write(self._request(call))
            await connection.writer.drain()
            status, headers = await read_head(connection.reader)
            body, keep = await read_body(connection.reader, headers)
            return status, body
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.writer.close()

    def _request(self, call: Call) -> bytes:
        data = call.data()
        headers = {"Host": self.endpoint.netloc, **self.endpoint.headers, "Content-Length": len(data)}
        lines = [f"{call.method} {self.endpoint.prefix}{call.target()} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


async def read_line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n")).decode("latin-1").strip()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers, their names in lower case."""
    while True:
        version, status, *_ = [*(await read_line(reader)).split(maxsplit=2), "", ""]
        if not version.startswith("HTTP/1.") or not status.isdigit():
            raise ValueError("what answers does not speak HTTP/1.1")
        headers = {}
        while line := await read_line(reader):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if int(status) >= 200:
            return int(status), headers


async def read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> tuple[bytes, bool]:
    """The body, and whether another request may follow."""
    keep = headers.get("connection", "").lower() != "close"
    if "chunked" in headers.get("transfer-encoding", "").lower():
        parts = []
        while size := int((await read_line(reader)).partition(";")[0], 16):
            parts.append(await reader.readexactly(size))
            await read_line(reader)
        while await read_line(reader):
            pass
        return b"".join(parts), keep
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"])), keep
    return await reader.read(), False
