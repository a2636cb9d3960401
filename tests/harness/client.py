"""Requests to a server: one, many at once, and streams."""

import asyncio
import json
import socket
import urllib.error
import urllib.request

import aiohttp


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {str(body)[:500]}")
        self.status = status
        self.body = body


def request(server, method, path, body=None, headers=None, timeout_s=120):
    """(status, headers, parsed JSON or text) of one request. `body`: a dict is sent as JSON, bytes as they are."""
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    message = urllib.request.Request(server.url + path, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(message, timeout=timeout_s) as reply:
            return reply.status, reply.headers, parsed(reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers, parsed(error.headers, error.read())


def no_constant(name):
    raise ValueError(f"{name} in JSON")


def parsed(headers, data):
    if "json" in headers.get("Content-Type", ""):
        return json.loads(data, parse_constant=no_constant)
    return data.decode()


def complete(server, body=None, path="/v1/completions", **fields):
    """The parsed 200 answer of a completion; Refused otherwise."""
    status, _, answer = request(server, "POST", path, {"model": server.model_name, **(body or {}), **fields})
    if status != 200:
        raise Refused(status, answer)
    return answer


def refused(server, body=None, path="/v1/completions", **fields):
    """(status, error object) of a completion that must not succeed."""
    status, _, answer = request(server, "POST", path, {"model": server.model_name, **(body or {}), **fields})
    assert status >= 400, f"{status}: {answer}"
    return status, answer["error"]


def session(timeout_s=600):
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=timeout_s), read_bufsize=2**20
    )


async def complete_async(http, server, body, path="/v1/completions"):
    async with http.post(server.url + path, json={"model": server.model_name, **body}) as reply:
        answer = json.loads(await reply.read(), parse_constant=no_constant)
        if reply.status != 200:
            raise Refused(reply.status, answer)
        return answer


async def stream_async(http, server, body, path="/v1/completions", on_chunk=None):
    """The parsed chunks of a stream, which must end in [DONE]."""
    chunks = []
    async with http.post(server.url + path, json={"model": server.model_name, "stream": True, **body}) as reply:
        if reply.status != 200:
            raise Refused(reply.status, await reply.text())
        async for line in reply.content:
            line = line.strip()
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]":
                return chunks
            chunks.append(json.loads(line[6:], parse_constant=no_constant))
            if on_chunk:
                on_chunk(chunks[-1])
    raise AssertionError(f"the stream ended without [DONE] after {len(chunks)} chunks")


def complete_many(server, bodies, width=None, path="/v1/completions"):
    """Answers of all bodies in order, at most `width` at once (all, if None)."""

    async def run():
        gate = asyncio.Semaphore(width or len(bodies))
        async with session() as http:

            async def one(body):
                async with gate:
                    return await complete_async(http, server, body, path)

            return await asyncio.gather(*map(one, bodies))

    return asyncio.run(run())


def stream_many(server, bodies, path="/v1/completions", on_chunk=None):
    """Chunks of all streams, run at once."""

    async def run():
        async with session() as http:
            return await asyncio.gather(*(stream_async(http, server, body, path, on_chunk) for body in bodies))

    return asyncio.run(run())


def stream(server, body=None, path="/v1/completions", **fields):
    return stream_many(server, [{**(body or {}), **fields}], path)[0]


def raw_post(server, path, body, leave_out=0):
    """A connected socket on which the request has been sent, but for its last bytes; the caller reads or closes it."""
    data = json.dumps({"model": server.model_name, **body}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(head.encode() + data[: len(data) - leave_out])
    return connection


def exchange(server, data, timeout_s=10):
    """The first line that comes back for raw bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s) as connection:
        connection.sendall(data)
        return connection.makefile("rb").readline().decode().strip()
