"""A running server: its process, its address, and what the system says about it."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct"
TINY_MODELS = ROOT / "tests" / "data" / "models"
DEFAULT_BINARY = ROOT / "build" / "release" / "unspool"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServerDied(Exception):
    """The process ended before it answered /health; holds its last output."""


class Server:
    """`unspool serve MODEL FLAGS...` on a free port, as `model_name`. Ready once the constructor returns."""

    def __init__(self, binary, model, *flags, model_name="m", env=None, start_timeout_s=60, prefix=()):
        self.model_name = model_name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, read as long as the server lives
        address = ["--served-model-name", model_name, "--host", "127.0.0.1", "--port", str(self.port)]
        self.command = [*map(str, prefix), str(binary), "serve", str(model), *address, *map(str, flags)]
        started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
        try:
            self._wait_until_healthy(started + start_timeout_s)
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - started

    def _wait_until_healthy(self, deadline):
        while True:
            if self.process.poll() is not None:
                raise ServerDied(f"{' '.join(self.command)}\nexited with {self.process.returncode}:\n{self.log()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as reply:
                    if reply.status == 200:
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ServerDied(f"{' '.join(self.command)}\ngave no /health in time:\n{self.log()}")
            time.sleep(0.01)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, timeout_s=30):
        """SIGTERM and wait; the exit status."""
        if self.alive():
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    # What the system says.

    def rss_kb(self):
        return self._status_kb("VmRSS")

    def address_space_kb(self):
        return self._status_kb("VmSize")

    def _status_kb(self, field):
        return int(re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)[1])

    def num_fds(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def num_threads(self):
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def mapped_segments(self):
        """Names of the shared memory of senders that it has mapped."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        return sorted(set(re.findall(r"/dev/shm(/unspool-[0-9a-f]{32})", maps)))

    def children(self):
        """Process ids, of those too that have ended and that nobody has waited for."""
        return sum((path.read_text().split() for path in Path(f"/proc/{self.pid}/task").glob("*/children")), [])

    def cpu_seconds(self):
        """User and system time so far, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # What it says of itself.

    def metrics_text(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as reply:
            return reply.read().decode()

    def metric(self, name, **labels):
        """The sum of a sample's values over all label sets that hold `labels`; 0 if there is none."""
        total = 0.0
        for family in text_string_to_metric_families(self.metrics_text()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    def num_blocks(self):
        """Blocks of the KV cache."""
        return int(re.search(r'num_gpu_blocks="(\d+)"', self.metrics_text())[1])

    def in_flight(self):
        """(running, waiting) by the gauges."""
        return self.metric("vllm:num_requests_running"), self.metric("vllm:num_requests_waiting")

    def wait_until_idle(self, timeout_s):
        """Seconds until both gauges were 0; raises AssertionError past the limit."""
        started = time.monotonic()
        while (gauges := self.in_flight()) != (0, 0):
            assert time.monotonic() - started < timeout_s, f"running and waiting are still {gauges} after {timeout_s} s"
            time.sleep(0.01)
        return time.monotonic() - started
