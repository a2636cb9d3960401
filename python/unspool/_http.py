"""HTTP/1.1 over kept connections, for threads that wait."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from typing import TypeVar

from ._endpoint import Call, Endpoint, is_stale
from .errors import RequestTimeout, Unreachable

T = TypeVar("T")


class Connections:
    """As many connections as calls run at once; one that has answered waits for the next. Any thread may call."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def run(self, call: Call[T], timeout_s: float | None) -> T:
        """The call's result. ApiError, Unreachable or RequestTimeout."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        connection = self._take()
        try:
            status, body = self._exchange(connection, call, deadline)
        except TimeoutError:
            connection.close()
            raise RequestTimeout(f"{self.endpoint.url}{call.path}: no answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"{self.endpoint.url}{call.path}: {error or type(error).__name__}") from error
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # the server keeps it as well
            with self._lock:
                self._idle.append(connection)
        return call.result(status, body)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if not is_stale(connection.sock.fileno()):
                return connection
            connection.close()
        if self.endpoint.tls:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self.endpoint.host, self.endpoint.port, context=context)
        return http.client.HTTPConnection(self.endpoint.host, self.endpoint.port)

    def _exchange(self, connection, call: Call, deadline: float | None) -> tuple[int, bytes]:
        def limit():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            return left

        connection.timeout = limit()
        if connection.sock is None:
            connection.connect()
            # A request is two writes, head and body; the second must not wait for the first's acknowledgement.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.settimeout(limit())
        connection.request(call.method, self.endpoint.prefix + call.target(), call.data(), self.endpoint.headers)
        connection.sock.settimeout(limit())
        # Our own reference: the connection lets go of its socket where the server closes.
        sock = connection.sock
        with connection.getresponse() as response:
            parts = []
            while True:
                sock.settimeout(limit())
                part = response.read1(1 << 20)
                if not part:
                    if response.length:  # read1() does not mind
                        raise http.client.IncompleteRead(b"", response.length)
                    return response.status, b"".join(parts)
                parts.append(part)
