"""Fixtures that start servers, and the options that choose the binary."""

import os
import resource
from collections import OrderedDict
from pathlib import Path

import pytest

from harness.bits import Tally
from harness.server import DEFAULT_BINARY, SMOLLM2, TINY_MODELS, Server

MAX_LIVE_SERVERS = 4
SANITIZER_REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:")


def pytest_addoption(parser):
    parser.addoption(
        "--binary",
        type=Path,
        default=Path(os.environ.get("UNSPOOL_BINARY", DEFAULT_BINARY)),
        help="the server under test (build/release/unspool, or the environment's UNSPOOL_BINARY)",
    )


def pytest_configure(config):
    # A thousand streams are a thousand descriptors here, and a thousand in the server, which inherits the limit.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    config.stash[REPORTED] = []


REPORTED = pytest.StashKey()


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.timeout(0))  # they take as long as they are told
    if config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("nightly") or item.get_closest_marker("torch")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash[REPORTED]:
        terminalreporter.write_line(line)
    if Tally.compared:
        terminalreporter.write_line(f"{Tally.compared:,} log-probs compared by their bits, {Tally.differing:,} differ")


@pytest.fixture(scope="session")
def report(request):
    """report("text"): a line for the end of the run, for what is measured but not asserted."""
    return request.config.stash[REPORTED].append


@pytest.fixture(scope="session")
def binary(request):
    path = request.config.getoption("--binary").absolute()
    if not path.exists():
        pytest.fail(f"{path} does not exist: run ./dev build", pytrace=False)
    return path


@pytest.fixture(scope="session")
def sanitized(binary):
    """Whether the binary is a sanitizer build: slower, and its memory says nothing."""
    return any(name in str(binary) for name in ("asan", "tsan"))


@pytest.fixture(scope="session")
def patience(sanitized):
    """What limits in seconds are multiplied by."""
    return 10 if sanitized else 1


@pytest.fixture(scope="session")
def smollm2():
    if not (SMOLLM2 / "model.safetensors").exists():
        pytest.fail(f"{SMOLLM2} does not exist: run ./dev model", pytrace=False)
    return SMOLLM2


@pytest.fixture(scope="session")
def tiny():
    """The tiny model that most tests use: grouped-query attention, tied head, bf16."""
    return TINY_MODELS / "llama-gqa-tied"


def retire(server):
    """Stops a server, which must end well: exit status 0, and nothing found by a sanitizer."""
    status = server.stop()
    log = server.log()
    found = [name for name in SANITIZER_REPORTS if name in log]
    assert not found, f"{found[0]}\n{log[-20000:]}"
    assert status == 0, f"exit status {status} of {' '.join(server.command)}\n{log[-5000:]}"


@pytest.fixture(scope="session")
def serve(binary, patience):
    """serve(model, *flags, env=None): a server with these flags, shared by all who ask for the same; the least recently
    asked for is stopped when there are many."""
    live = OrderedDict()

    def get(model, *flags, env=None, **more):
        key = (str(model), *map(str, flags), *sorted((env or {}).items()), *sorted(more.items()))
        if key in live and not live[key].alive():
            raise AssertionError(f"a server died: {live.pop(key).log()[-5000:]}")
        if key not in live:
            while len(live) >= MAX_LIVE_SERVERS:
                retire(live.popitem(last=False)[1])
            live[key] = Server(binary, model, *flags, env=env, start_timeout_s=60 * patience, **more)
        live.move_to_end(key)
        return live[key]

    yield get
    for server in live.values():
        retire(server)


@pytest.fixture(scope="session")
def pool_of(binary, patience):
    """pool_of(model, tokens): the flags for a KV cache of that many tokens. How many bytes a block of 16 takes depends on the
    kernels' layout, so the server is asked once a model."""
    bytes_of_block = {}

    def get(model, tokens):
        if model not in bytes_of_block:
            probe = Server(
                binary, model, "--max-model-len", 64, "--kv-cache-memory-bytes", 1 << 25, start_timeout_s=60 * patience
            )
            bytes_of_block[model] = (1 << 25) // probe.num_blocks()
            retire(probe)
        blocks = -(-tokens // 16)
        # The division above loses up to a block in 2^25 bytes' worth; half a block more than enough is still not one more.
        return ("--kv-cache-memory-bytes", blocks * bytes_of_block[model] + bytes_of_block[model] // 2)

    return get


@pytest.fixture
def own_server(binary, patience):
    """Like serve, but a new process for this test alone. Tests that end it themselves may."""
    started = []

    def get(model, *flags, **more):
        started.append(Server(binary, model, *flags, start_timeout_s=60 * patience, **more))
        return started[-1]

    yield get
    for server in started:
        if server.alive():
            retire(server)
