"""Starts a server as a child process."""

import socket
import subprocess
import time
import urllib.error
import urllib.request

from ._binary import binary


class ServerDied(RuntimeError):
    """The server ended before it answered; its own words are on standard error."""


class Server:
    """A running server. Leaving a `with` block, or stop(), ends it."""

    def __init__(self, process, url):
        self.process = process
        self.url = url

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self, timeout_s=30):
        """SIGTERM; running requests get --shutdown-timeout seconds. The exit status."""
        self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def serve(model, *flags, host="127.0.0.1", port=None, timeout_s=120):
    """Runs `unspool serve MODEL FLAGS...` on a free port (or `port`) and returns once it answers."""
    if port is None:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    command = [binary(), "serve", str(model), "--host", host, "--port", str(port), *map(str, flags)]
    server = Server(subprocess.Popen(command), f"http://{host}:{port}")
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(server.url + "/health", timeout=5):
                return server
        except (urllib.error.URLError, OSError):
            if server.process.poll() is not None:
                raise ServerDied(f"{' '.join(command)} exited with {server.process.returncode}") from None
            if time.monotonic() > deadline:
                server.stop()
                raise ServerDied(f"no answer from {server.url} within {timeout_s} s") from None
            time.sleep(0.02)
