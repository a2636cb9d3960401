"""A server's routes of weight transfer without the server: what senders say is taken by the words of ADR 6, and kept.

Strict where the engine is: order of calls, sizes, the segment's owner, mode, lock and name. Gloo goes through the real
side process, `python -m unspool.transfer`.
"""

import fcntl
import json
import math
import mmap
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from harness.server import ROOT

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class SideProcess:
    """The engine's end of `python -m unspool.transfer`."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        self.memory = os.memfd_create("weights")
        command = [sys.executable, "-m", "unspool.transfer"]
        command += ["--socket-fd", str(theirs.fileno()), "--memory-fd", str(self.memory)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno(), self.memory], env=environment)
        theirs.close()
        self.socket = ours
        self.lines = ours.makefile("rb")

    def ask(self, **command):
        """All its lines up to the last; none where it ends before."""
        self.socket.sendall(json.dumps(command).encode() + b"\n")
        answers = []
        for line in self.lines:
            answers.append(json.loads(line))
            if "received" not in answers[-1]:
                break
        return answers

    def close(self):
        self.lines.close()
        self.socket.close()
        status = self.process.wait(10)
        os.close(self.memory)
        return status


class FakeServer:
    def __init__(self):
        self.weights = {}  # name: (dtype name, shape, bytes)
        self.version = "default"
        self.calls = []  # (method, path with query, parsed body)
        self.refuse = {}  # path: (status, message), once
        self.check_spec = None  # called with each update_info; may raise Refusal
        self.update_timeout_s = 20
        self.initialised = False
        self.staged = None
        self.partial = False
        self.mapped = {}
        self.side = None
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"server_state": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.http.shutdown()
        self.http.server_close()
        self.let_go()

    def let_go(self):
        self.mapped.clear()
        if self.side:
            self.side.close()
            self.side = None

    def paths(self):
        return [path for _, path, _ in self.calls]

    def values(self, name):
        """The bytes of a weight."""
        return self.weights[name][2]

    # Routes.

    def answer(self, method, path, body):
        self.calls.append((method, path, body))
        route = path.partition("?")[0]
        if route in self.refuse:
            raise Refusal(*self.refuse.pop(route))
        action = getattr(self, route.strip("/").replace("/", "_"), None)
        if action is None:
            raise Refusal(404, "Not Found")
        with self.lock:
            return action(body)

    def health(self, body):
        return None

    def weight_info(self, body):
        return {"weight_version": self.version}

    def update_weight_version(self, body):
        self.version = body["new_version"]

    def init_weight_transfer_engine(self, body):
        info = body["init_info"]
        self.staged = None
        self.let_go()
        if "master_address" in info:
            self.packing = {name: info[name] for name in ("packed", "packed_buffer_size_bytes")}
            self.side = SideProcess()
            place = {name: info[name] for name in ("master_address", "master_port", "world_size")}
            *_, last = self.side.ask(command="init", rank=info["rank_offset"], timeout_s=self.update_timeout_s, **place)
            if "error" in last:
                raise Refusal(504, last["error"])
        self.initialised = True

    def shutdown_weight_transfer_engine(self, body):
        self.let_go()

    def start_weight_update(self, body):
        if self.staged is not None:
            raise Refusal(500, "already active. Call finish_weight_update first.")
        self.staged, self.partial = {}, bool((body or {}).get("partial"))
        self.session = (body or {}).get("session")

    def update_weights(self, body):
        if self.staged is None:
            raise Refusal(500, "start_weight_update must be called before update_weights.")
        self.check_session(body["update_info"])
        try:
            self.take(body["update_info"])
        except BaseException:
            self.staged = None
            raise

    def finish_weight_update(self, body):
        if self.staged is None:
            raise Refusal(500, "finish_weight_update called without a matching start_weight_update.")
        self.check_session(body or {})
        missing = sorted(set(self.weights) - set(self.staged))
        if missing and not self.partial:
            raise Refusal(400, f"missing: {', '.join(missing)}")
        self.weights |= self.staged
        self.staged = None
        self.version = (body or {}).get("weight_version") or self.version

    def check_session(self, said):
        if said.get("session") != self.session:
            raise Refusal(409, "another trainer's session")

    # Data.

    def take(self, info):
        if not {"names", "dtype_names", "shapes"} <= info.keys():
            raise Refusal(400, "update_info: names, dtype_names and shapes are needed")
        if self.check_spec:
            self.check_spec(info)
        counts = info.get("num_updates_list") or [None] * len(info["names"])
        tensors = []
        for name, dtype, shape, count in zip(info["names"], info["dtype_names"], info["shapes"], counts, strict=True):
            item = ITEM_BYTES[dtype]
            tensors.append(
                (name, dtype, shape, count, math.prod(shape) * item if count is None else count * (4 + item))
            )
        pieces = self.from_side(info, tensors) if self.side else self.from_segment(info, tensors)
        for (name, dtype, shape, count, _), data in zip(tensors, pieces, strict=True):
            self.staged[name] = (dtype, shape, data if count is None else self.patched(name, dtype, count, data))

    def patched(self, name, dtype, count, data):
        bits = np.dtype(f"u{ITEM_BYTES[dtype]}")
        whole = np.frombuffer(self.staged.get(name, self.weights[name])[2], bits).copy()
        whole[np.frombuffer(data[: 4 * count], np.int32)] = np.frombuffer(data[4 * count :], bits)
        return whole.tobytes()

    def from_segment(self, info, tensors):
        name = info["shm_name"]
        if name not in self.mapped:
            assert re.fullmatch(r"/unspool-[0-9a-f]{32}", name), name
            path = Path("/dev/shm" + name)
            status = path.stat()
            assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.geteuid())
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    raise AssertionError("nobody holds the segment's lock")
                except BlockingIOError:
                    pass
                self.mapped[name] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            path.unlink()
        memory = self.mapped[name]
        for tensor, offset, nbytes in zip(tensors, info["offsets"], info["nbytes"], strict=True):
            if nbytes != tensor[4] or offset + nbytes > len(memory):
                raise Refusal(400, f"{tensor[0]}: {nbytes} bytes at {offset} of {len(memory)}, expected {tensor[4]}")
            yield memory[offset : offset + nbytes]

    def from_side(self, info, tensors):
        described, size = [], 0
        for _, dtype, shape, count, nbytes in tensors:
            place = {"offset": size, "nbytes": nbytes, "num_updates": count}
            described.append({"dtype": dtype, "numel": math.prod(shape), **place})
            size += nbytes
        os.ftruncate(self.side.memory, max(size, os.fstat(self.side.memory).st_size))
        packing = {name: info.get(name, value) for name, value in self.packing.items()}
        *_, last = self.side.ask(
            command="receive", tensors=described, size_bytes=size, timeout_s=self.update_timeout_s, **packing
        )
        if "error" in last:
            raise Refusal(504, last["error"])
        return [os.pread(self.side.memory, place["nbytes"], place["offset"]) for place in described]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_state = None

    def handle_one(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            status, answer = 200, self.server_state.answer(self.command, self.path, body)
        except Refusal as refusal:
            status, answer = refusal.status, {"error": {"message": str(refusal), "type": "Refusal", "param": "p"}}
        except Exception as error:  # noqa: BLE001, the test reads it as the server's answer
            status, answer = 500, {"error": {"message": repr(error), "type": "Fault", "param": None}}
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = handle_one

    def log_message(self, *arguments):
        pass
