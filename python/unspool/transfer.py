"""The engine's side process for weights over gloo; the engine starts it. Not for use by hand.

    python -m unspool.transfer --check                        does this Python have torch with gloo?
    python -m unspool.transfer --socket-fd N --memory-fd M    joins a trainer's group and receives for the engine

One JSON object a line over the socket, one command at a time; each is answered by {"ok": true} or {"error": why}:

    {"command": "init", "master_address": str, "master_port": int, "rank": int, "world_size": int, "timeout_s": number}
    {"command": "receive", "tensors": [{"numel": int, "num_updates": int | null, "offset": int, "nbytes": int}, ...],
     "packed": bool, "packed_buffer_size_bytes": int, "size_bytes": int, "timeout_s": number}
    {"command": "close"}

A tensor's bytes (int32 indices, then values, where num_updates is given) land at its offset of the memory file, and
{"received": k} says on the way that the first k are whole. After an error the group is gone: init makes a new one.
What is empty is not broadcast. The end of the socket ends the process, also in the middle of a broadcast.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import mmap
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Between two lines that say how far a transfer is; each wakes a thread of the engine.
PROGRESS_INTERVAL_S = 0.01
# Between two attempts to reach a store that its trainer is about to open.
CONNECT_INTERVAL_S = 0.1
# What torch may take beyond a timeout to report it. Past that the process gives up and dies.
GRACE_S = 2.0


def check() -> str | None:
    """What is missing for gloo, in a sentence. Looks at the files alone: importing torch takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return f"{sys.executable} has no torch, which weight transfer over gloo needs."
    if not (Path(spec.origin).parent / "distributed" / "distributed_c10d.py").is_file():
        return f"the torch of {sys.executable} has no torch.distributed, which weight transfer over gloo needs."
    return None


class Engine:
    """The engine's end of the socket. Its end is ours."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def commands(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self._commands.get()

    def say(self, **fields: Any) -> None:
        with self._lock:
            try:
                self._connection.sendall(json.dumps(fields).encode() + b"\n")
            except OSError:
                os._exit(0)

    def _read(self) -> None:
        # os._exit, since the main thread may stand in a broadcast that nothing else can end.
        try:
            for line in self._connection.makefile("rb"):
                command = json.loads(line)
                if command["command"] == "close":
                    break
                self._commands.put(command)
        except (OSError, ValueError, LookupError, TypeError) as error:
            print(f"unspool.transfer: no command that is understood: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)


@contextmanager
def watchdog(engine: Engine, timeout_s: float, what: str):
    """Ends the process where torch does not keep to a timeout, as when a store takes a connection and never speaks."""

    def give_up():
        engine.say(error=f"no end of {what} within {timeout_s:g} s")
        os._exit(1)

    timer = threading.Timer(timeout_s + GRACE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wait_for_listener(host: str, port: int, deadline: float) -> None:
    """Torch would go on trying beyond its timeout, and say less."""
    while True:
        try:
            left = max(0.001, deadline - time.monotonic())
            socket.create_connection((host, port), left).close()
            return
        except OSError as error:
            if time.monotonic() + CONNECT_INTERVAL_S >= deadline:
                raise TimeoutError(f"no store at {host}:{port}: {error}") from None
        time.sleep(CONNECT_INTERVAL_S)


class Receiver:
    def __init__(self, engine: Engine, memory_fd: int):
        self._engine = engine
        self._memory_fd = memory_fd
        self._memory: mmap.mmap | None = None
        self._store = self._group = None

    def init(self, command: dict[str, Any]) -> None:
        from datetime import timedelta

        from torch.distributed import TCPStore

        from . import _gloo

        self._group = self._store = None
        host, port, timeout_s = command["master_address"], command["master_port"], command["timeout_s"]
        deadline = time.monotonic() + timeout_s
        wait_for_listener(host, port, deadline)
        left = max(0.001, deadline - time.monotonic())
        self._store = TCPStore(host, port, command["world_size"], False, timedelta(seconds=left))
        left = max(0.001, deadline - time.monotonic())
        address = _gloo.local_address(host, port)
        self._group = _gloo.join(self._store, command["rank"], command["world_size"], address, left)

    def receive(self, command: dict[str, Any]) -> None:
        from . import _gloo

        group, self._group = self._group, None  # back where all went well
        if group is None:
            raise RuntimeError("there is no group: init comes first, and again after an error")
        memory = self._mapped(command["size_bytes"])
        deadline = time.monotonic() + command["timeout_s"]
        waiting: deque[tuple[Any, int]] = deque()
        told = time.monotonic()
        for view, whole in self._broadcasts(command, memory):
            if len(waiting) == _gloo.IN_FLIGHT:
                work, count = waiting.popleft()
                work.wait()
                if count and time.monotonic() - told >= PROGRESS_INTERVAL_S:
                    self._engine.say(received=count)
                    told = time.monotonic()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not all tensors within {command['timeout_s']:g} s")
            waiting.append((_gloo.broadcast(group, view, left), whole))
        for work, _ in waiting:
            work.wait()
        self._group = group

    def _mapped(self, size_bytes: int):
        """The memory file as a tensor of bytes: whatever lies in it, its alignment does not matter then."""
        import torch

        if size_bytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        if self._memory is None or len(self._memory) < size_bytes:
            self._memory = mmap.mmap(self._memory_fd, size_bytes)
        return torch.frombuffer(self._memory, dtype=torch.uint8)

    @staticmethod
    def _broadcasts(command: dict[str, Any], memory) -> Iterator[tuple[Any, int]]:
        """(where it goes, how many tensors are whole after it) of each broadcast, in the trainer's order."""
        from . import _gloo

        tensors = command["tensors"]
        sparse = any(tensor["num_updates"] is not None for tensor in tensors)
        if command["packed"] and not sparse:
            for chunk in _gloo.chunks([t["nbytes"] for t in tensors], command["packed_buffer_size_bytes"]):
                begin, end = tensors[chunk[0]]["offset"], tensors[chunk[-1]]["offset"] + tensors[chunk[-1]]["nbytes"]
                if end - begin != sum(tensors[i]["nbytes"] for i in chunk):
                    raise ValueError("the tensors of a packed update must lie one behind the other")
                if end > begin:
                    yield memory[begin:end], chunk[-1] + 1
            return
        for i, tensor in enumerate(tensors):
            begin, end = tensor["offset"], tensor["offset"] + tensor["nbytes"]
            values = begin + 4 * (tensor["num_updates"] or 0)  # behind the int32 indices
            if values > begin:
                yield memory[begin:values], i
            if end > values:
                yield memory[values:end], i + 1


def serve(engine: Engine, memory_fd: int) -> None:
    # Torch's C++ would print a page for every timeout; what went wrong is in our reply.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    from . import _gloo  # and torch with it, seconds before the first command's clock runs

    receiver = Receiver(engine, memory_fd)
    actions = {"init": receiver.init, "receive": receiver.receive}
    for command in engine.commands():
        name = command["command"]
        try:
            with watchdog(engine, float(command["timeout_s"]), name):
                actions[name](command)
        except Exception as error:  # noqa: BLE001, the engine tells whoever asked
            engine.say(error=_gloo.first_line(error))
        else:
            engine.say(ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m unspool.transfer", description="The engine's side process for gloo."
    )
    parser.add_argument("--check", action="store_true", help="exit 0 where this Python has torch with gloo")
    parser.add_argument("--socket-fd", type=int)
    parser.add_argument("--memory-fd", type=int)
    args = parser.parse_args()
    if args.check:
        missing = check()
        if missing:
            print(missing, file=sys.stderr)
        return 1 if missing else 0
    if args.socket_fd is None or args.memory_fd is None:
        parser.error("--socket-fd and --memory-fd are needed")
    # An interrupt at the terminal reaches us as well; when to end is the engine's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(Engine(socket.socket(fileno=args.socket_fd)), args.memory_fd)
    return 0


if __name__ == "__main__":
    sys.exit(main())
