"""Clients that go away: what they asked for is dropped within a second, and nothing is left of them."""

import random
import socket
import struct
import time

import pytest

from harness.chat import CHAT, CHATML, HI
from harness.client import complete, raw_post

LONG = {"prompt": [5, 6, 7, 8], "max_tokens": 1800, "ignore_eos": True}


def reset(connection):
    """Closes with RST, as a killed process on another host seems to."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def wait_for(condition, timeout_s, what):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@pytest.mark.short
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("close", [socket.socket.close, reset], ids=["close", "reset"])
@pytest.mark.parametrize("path", ["/v1/completions", CHAT])
def test_running(serve, tiny, patience, path, stream, close):
    server = serve(tiny, "--chat-template", CHATML)
    connection = raw_post(server, path, {**LONG, "messages": HI, "n": 8, "stream": stream})
    wait_for(lambda: server.in_flight()[0] > 0, 10 * patience, "the request never ran")
    close(connection)
    assert server.wait_until_idle(1 * patience) < 1 * patience


@pytest.mark.short
def test_queued(serve, tiny, patience):
    server = serve(tiny, "--max-num-seqs", 1)
    running = raw_post(server, "/v1/completions", LONG)
    queued = [raw_post(server, "/v1/completions", LONG) for _ in range(5)]
    # The one that runs may have ended by now, and the first of the queue have taken its place.
    wait_for(lambda: server.in_flight()[1] >= 4, 10 * patience, "the requests were never queued")
    for connection in queued[:3]:
        connection.close()
    wait_for(
        lambda: server.in_flight()[1] <= 2, 1 * patience, "queued requests of clients that went away are still there"
    )
    for connection in [running, *queued]:
        connection.close()
    server.wait_until_idle(1 * patience)


@pytest.mark.short
def test_half_a_request(serve, tiny, patience):
    """A body that never ends is not waited for by others."""
    server = serve(tiny)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        complete(server, prompt=[1, 2], max_tokens=2)
    server.wait_until_idle(1 * patience)


def kill_one(server, dice):
    connection = raw_post(
        server, "/v1/completions", {**LONG, "n": dice.choice([1, 4]), "stream": dice.random() < 0.7, "logprobs": 5}
    )
    time.sleep(dice.random() * 0.03)
    if dice.random() < 0.5:
        connection.settimeout(0.01)
        try:
            connection.recv(1 << 12)
        except TimeoutError:
            pass
    dice.choice([socket.socket.close, reset])(connection)


def test_two_hundred_killed_sockets(own_server, tiny, patience, sanitized, report):
    server = own_server(tiny)
    dice = random.Random(8)
    complete(server, prompt=[1, 2, 3], max_tokens=4)
    fds = server.num_fds()
    resident = {}
    for count in range(1, 201):
        kill_one(server, dice)
        if count in (50, 200):
            server.wait_until_idle(2 * patience)
            resident[count] = server.rss_kb()
    # The connection that read the gauges may be closing still.
    wait_for(lambda: server.num_fds() <= fds, 2 * patience, f"{server.num_fds()} descriptors, {fds} before")
    grown = resident[200] - resident[50]
    report(f"200 killed sockets: {grown} kB more between the 50th and the 200th")
    if not sanitized:
        assert grown < 5 * 1024
    complete(server, prompt=[1, 2, 3], max_tokens=4)
