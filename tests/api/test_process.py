"""The process: how it starts, idles, and ends."""

import signal
import threading
import time

import pytest

from harness.client import Refused, complete, raw_post

LONG = {"prompt": [5, 6, 7], "max_tokens": 1900, "ignore_eos": True, "n": 16}


def test_start_and_memory(own_server, smollm2, report):
    server = own_server(smollm2)
    weights = (smollm2 / "model.safetensors").stat().st_size
    report(f"SmolLM2: {server.start_seconds:.2f} s to the first /health, {server.rss_kb() / 1024:.0f} MB resident "
           f"(weights {weights / 2**20:.0f} MB)")  # fmt: skip
    assert server.start_seconds < 10


def test_idle_threads_are_parked(own_server, tiny, sanitized, report):
    server = own_server(tiny)
    complete(server, prompt=[1, 2, 3], max_tokens=20)
    time.sleep(1)
    before = server.cpu_seconds()
    time.sleep(10)
    used = (server.cpu_seconds() - before) / 10
    report(f"idle: {100 * used:.2f} % of a core over ten seconds")
    if not sanitized:
        assert used < 0.01


class Asking(threading.Thread):
    """A request in the background: .answer or .error once it is over."""

    def __init__(self, server, body):
        super().__init__(daemon=True)
        self.server, self.body, self.answer, self.error = server, body, None, None
        self.start()

    def run(self):
        try:
            self.answer = complete(self.server, self.body)
        except (Refused, OSError) as error:
            self.error = error


def running(server, patience):
    deadline = time.monotonic() + 10 * patience
    while server.in_flight()[0] == 0:
        assert time.monotonic() < deadline, "the request never ran"
        time.sleep(0.005)


@pytest.mark.short
def test_sigterm_when_idle(own_server, tiny, patience):
    server = own_server(tiny)
    complete(server, prompt=[1], max_tokens=2)
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < 2 * patience


def test_sigint(own_server, tiny):
    server = own_server(tiny)
    server.signal(signal.SIGINT)
    assert server.process.wait(10) == 0


@pytest.mark.short
def test_sigterm_aborts_at_once(own_server, tiny, patience):
    """--shutdown-timeout 0: clients get their answer as far as it goes, then the process ends."""
    server = own_server(tiny, "--shutdown-timeout", 0)
    asking = Asking(server, LONG)
    running(server, patience)
    assert server.stop() == 0
    asking.join(10)
    assert asking.answer, f"no abort reply: {asking.error}"
    assert "abort" in {choice["finish_reason"] for choice in asking.answer["choices"]}


@pytest.mark.short
def test_sigterm_ends_streams_well(own_server, tiny, patience):
    server = own_server(tiny, "--shutdown-timeout", 0)
    with raw_post(server, "/v1/completions", {**LONG, "stream": True}) as connection:
        running(server, patience)
        server.signal(signal.SIGTERM)
        received = b""
        while piece := connection.recv(1 << 16):
            received += piece
    assert b'"finish_reason":"abort"' in received
    assert b"data: [DONE]" in received
    assert server.process.wait(10) == 0


def test_sigterm_waits_for_what_runs(own_server, tiny, patience):
    server = own_server(tiny, "--shutdown-timeout", 30)
    asking = Asking(server, {**LONG, "max_tokens": 1900, "n": 8})
    running(server, patience)
    assert server.stop(60) == 0
    asking.join(10)
    assert asking.answer, f"no answer: {asking.error}"
    assert {choice["finish_reason"] for choice in asking.answer["choices"]} == {"length"}


@pytest.mark.short
def test_second_sigterm(own_server, tiny, patience):
    """Whoever asks twice does not want to wait."""
    server = own_server(tiny, "--shutdown-timeout", 600)
    requests = [Asking(server, {**LONG, "n": 64}) for _ in range(8)]
    running(server, patience)
    server.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert server.alive(), "the first SIGTERM did not wait for what runs"
    started = time.monotonic()
    server.signal(signal.SIGTERM)
    server.process.wait(10 * patience)
    assert time.monotonic() - started < 3 * patience
    for asking in requests:
        asking.join(10)


def test_port_in_use(binary, tiny, serve):
    import subprocess

    server = serve(tiny)
    command = [binary, "serve", tiny, "--host", "127.0.0.1", "--port", str(server.port)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode != 0
    assert str(server.port) in result.stderr + result.stdout
