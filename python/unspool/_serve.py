"""Starts a server as a child process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ._binary import binary

# What the child runs before it becomes the server, after which the request stands. Not subprocess's preexec_fn: that would
# run Python in a fork of a program with threads.
BIND = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerDied(RuntimeError):
    """The server ended before it answered; its own words are on standard error."""


class Server:
    """A running server. Leaving a `with` block, or stop(), ends it."""

    def __init__(self, process: subprocess.Popen, url: str):
        self.process = process
        self.url = url

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self, timeout_s: float = 30) -> int:
        """SIGTERM; running requests get --shutdown-timeout seconds. The exit status."""
        self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def serve(
    model: str | os.PathLike[str],
    *flags: object,
    host: str = "127.0.0.1",
    port: int | None = None,
    timeout_s: float = 120,
    env: Mapping[str, str] | None = None,
) -> Server:
    """Runs `unspool serve MODEL FLAGS...` on a free port (or `port`) and returns once it answers. env: more variables of
    its environment. The server ends with this process, however this ends."""
    if port is None:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    command = [binary(), "serve", os.fspath(model), "--host", host, "--port", str(port), *map(str, flags)]
    server = Server(start_bound(command, {**os.environ, **(env or {})}), f"http://{host}:{port}")
    deadline = time.monotonic() + timeout_s
    try:
        while not answers(server.url):
            if server.process.poll() is not None:
                raise ServerDied(f"{' '.join(command)} exited with {server.process.returncode}")
            if time.monotonic() > deadline:
                raise ServerDied(f"no answer from {server.url} within {timeout_s} s")
            time.sleep(0.02)
    except BaseException:
        server.stop()
        raise
    return server


def launch(
    model: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    timeout_s: float = 120,
    env: Mapping[str, str] | None = None,
    dev_mode: bool = True,
    enable_scale_out: bool = True,
    **flags: Any,
) -> Server:
    """serve() for a trainer: with the routes that it needs, and flags by their names.

        unspool.launch("models/policy", max_num_seqs=64, dtype="float32", weight_transfer_config={"backend": "ipc"})

    dev_mode: pause, sleep and weight updates, for whoever reaches `host`. enable_scale_out: token ids in and out.
    flags: max_num_seqs=64 is --max-num-seqs 64, True a bare flag, False and None none; a list gives its values one behind
    the other, a dict goes as JSON. Raises ServerDied where the server refuses its flags or is not ready in timeout_s.
    """
    words = arguments({"enable_scale_out": enable_scale_out, **flags})
    variables = {**({"VLLM_SERVER_DEV_MODE": "1"} if dev_mode else {}), **(env or {})}
    return serve(model, *words, host=host, port=port, timeout_s=timeout_s, env=variables)


def arguments(flags: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if isinstance(value, dict):
            words.append(json.dumps(value))
        elif isinstance(value, (list, tuple)):
            words += map(str, value)
        elif value is not True:
            words.append(str(value))
    return words


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def start_bound(command: list[str], env: Mapping[str, str]) -> subprocess.Popen:
    """A child that gets SIGTERM when this process dies, even by SIGKILL.

    The kernel ties the signal to the thread that started the child, so a thread of its own does, and lives as long.
    """
    started: list[subprocess.Popen | BaseException] = []
    ready = threading.Event()

    def run() -> None:
        try:
            started.append(subprocess.Popen([sys.executable, "-ISc", BIND, str(os.getpid()), *command], env=env))
        except BaseException as error:  # noqa: BLE001, raised below
            started.append(error)
        ready.set()
        if isinstance(started[0], subprocess.Popen):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=run, name="unspool-server", daemon=True).start()
    ready.wait()
    if isinstance(started[0], BaseException):
        raise started[0]
    return started[0]
