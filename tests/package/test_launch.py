"""Servers that a program starts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.server import ROOT


@pytest.fixture(autouse=True)
def use_binary(binary, monkeypatch):
    monkeypatch.setenv("UNSPOOL_BINARY", str(binary))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_launch(tiny):
    import unspool

    with unspool.launch(tiny, max_num_seqs=4, served_model_name=["a", "b"], max_model_len=None) as server:
        client = unspool.Client(server.url)
        assert {model["id"] for model in client.models()} == {"a", "b"}
        assert client.generate([5], max_tokens=1).outputs and not client.is_paused()
        assert server.process.poll() is None
    assert server.process.returncode == 0


def test_flags():
    from unspool._serve import arguments

    assert arguments(
        {"max_num_seqs": 4, "enable_sleep_mode": True, "enable_prefix_caching": False, "dtype": None, "a": {"b": [1]}}
    ) == ["--max-num-seqs", "4", "--enable-sleep-mode", "--a", '{"b": [1]}']


def test_without_development_routes(tiny, monkeypatch):
    import unspool

    monkeypatch.delenv("VLLM_SERVER_DEV_MODE", raising=False)
    with unspool.launch(tiny, dev_mode=False, enable_scale_out=False) as server:
        client = unspool.Client(server.url)
        for call, status in [(client.is_paused, 404), (lambda: client.generate([5]), 403)]:
            with pytest.raises(unspool.ApiError) as caught:
                call()
            assert caught.value.status == status


def test_a_server_that_does_not_start(tiny, capfd):
    import unspool

    with pytest.raises(unspool.ServerDied, match="exited with 1"):
        unspool.launch(tiny / "nothing")
    with pytest.raises(unspool.ServerDied, match="within 0 s"):
        unspool.serve(tiny, timeout_s=0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_parent(tiny, number):
    """Even where nothing in the parent can stop it, and though the thread that started it is over."""
    program = (
        "import sys, threading, time, unspool\n"
        "servers = []\n"
        "thread = threading.Thread(target=lambda: servers.append(unspool.launch(sys.argv[1])))\n"
        "thread.start(); thread.join(); time.sleep(0.3)\n"
        "print(servers[0].process.pid, servers[0].process.poll(), flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", program, str(tiny)]
    # What the server says must not go to the pipe: who reads it would wait for the server, too.
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        while not (line := parent.stdout.readline()).endswith(" None\n"):
            assert line, "the parent ended"
        pid = int(line.split()[0])
        assert alive(pid)
        parent.send_signal(number)
        assert gone(pid)
