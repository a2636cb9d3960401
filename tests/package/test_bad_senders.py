"""Senders that are killed at any moment, that are two at once, or that nobody ever hears of: what is served is one policy,
whole, under its own label; nothing of them stays behind; and whoever sends next finds nothing to wait for."""

import fcntl
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from api.control import DEV, Background, change_weights, greedy, until
from harness.bits import assert_same_answer
from harness.client import stream
from harness.server import ROOT

ENVIRONMENT = {**DEV, "PYTHONPATH": str(ROOT / "python")}
FLAGS = ("--enable-scale-out", "--enable-sleep-mode", "--transfer-python", sys.executable)
IPC = ("--weight-transfer-config", '{"backend":"ipc"}')
GLOO = ("--weight-transfer-config", '{"backend":"gloo"}')
# 6 MB instead of 0.1, so that an update lasts tens of milliseconds and has moments of every kind.
WIDER = 128
STREAM_TOKENS = 300

# Sends the two checkpoints in turn, told when to begin, and tells how long the first took.
SENDER = """
import sys
from pathlib import Path
import unspool
from unspool.senders.safetensors import read_tensors
url, kind, *folders = sys.argv[1:]
policies = [(name, [(t.name, (t._array, t.dtype_name)) for t in read_tensors(Path(f))]) for name, f in zip("BA", folders)]
client = unspool.Client(url, timeout_s=60)
if kind == "gloo":
    import torch
    sender = unspool.GlooSender(client, timeout_s=60, packed_buffer_size_bytes=65536, part_bytes=1 << 20)
else:
    sender = unspool.SharedMemorySender(client, part_bytes=65536)
print("loaded", flush=True)
sys.stdin.readline()
with sender:
    while True:
        for version, tensors in policies:
            print(sender.send(tensors, version=version).seconds, flush=True)
"""


class Sender:
    def __init__(self, server, kind, folders):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", SENDER, server.url, kind, *map(str, folders)]
        self.process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, **pipes)

    def begin(self):
        """Seconds that its first update took; it goes on with the next."""
        assert self.process.stdout.readline() == "loaded\n"
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Asking(Background):
    """One stream after the other, each whole, until it is told to stop."""

    def __init__(self, server):
        self.server, self.num_whole, self.stopped = server, 0, False
        super().__init__(self.ask)

    def ask(self):
        while not self.stopped:
            body = {"prompt": [5, 6, 7], "max_tokens": STREAM_TOKENS, "ignore_eos": True, "return_token_ids": True}
            chunks = stream(self.server, body)
            choices = [choice for chunk in chunks for choice in chunk["choices"]]
            assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length"]
            assert sum(len(choice["token_ids"]) for choice in choices) == STREAM_TOKENS
            self.num_whole += 1


def wider(tensors):
    for name, (dtype, shape, content) in tensors.items():
        if ".mlp." in name:
            axis = 1 if "down_proj" in name else 0
            tensors[name] = (dtype, [n * WIDER if i == axis else n for i, n in enumerate(shape)], content * WIDER)


@pytest.fixture(scope="module")
def policies(tiny, tmp_path_factory):
    """Directories of two checkpoints of one model: A and B."""
    folder = tmp_path_factory.mktemp("policies")
    first = change_weights(tiny, folder / "A", wider)
    config = json.loads((first / "config.json").read_text())
    config["intermediate_size"] *= WIDER
    (first / "config.json").write_text(json.dumps(config))
    return {"A": first, "B": change_weights(first, folder / "B")}


@pytest.fixture(scope="module")
def cold(serve, policies):
    """{version: (answer, checksums)} of servers that were started on them."""
    import unspool

    states = {}
    for version, folder in policies.items():
        server = serve(folder, *FLAGS, env=ENVIRONMENT)
        with unspool.Client(server.url) as client:
            states[version] = greedy(server), client.weight_checksums()
    return states


def tensors_of(policies):
    from unspool.senders.safetensors import read_tensors

    return {
        version: [(item.name, (item._array, item.dtype_name)) for item in read_tensors(folder)]
        for version, folder in policies.items()
    }


def left_in_shared_memory():
    """Names of senders' segments that nobody uses: their lock is free."""
    found = []
    for path in Path("/dev/shm").glob("unspool-" + "[0-9a-f]" * 32):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:  # gone by now
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            found.append(path.name)
        except BlockingIOError:
            pass
        finally:
            os.close(fd)
    return found


def assert_whole(server, client, cold, what):
    """What is served is the policy that the label says, bit for bit."""
    # What a sender said last, before it was killed, may come through while we look: then we look once more.
    for _ in range(2):
        version = client.weight_info().version
        different, answer = client.compare_weights(cold[version][1]), greedy(server)
        if client.weight_info().version == version:
            break
    assert different == [], f"{what}: not the weights of {version}"
    assert_same_answer(cold[version][0], answer, f"{what}: {version}")
    assert client.weight_info().version == version
    return version


KINDS = [("shared memory", 20), pytest.param("gloo", 5, marks=pytest.mark.torch)]


@pytest.mark.parametrize(("kind", "kills"), KINDS)
def test_killed_at_any_moment(own_server, policies, cold, report, patience, kind, kills):
    import unspool

    server = own_server(policies["A"], *FLAGS, *(GLOO if kind == "gloo" else IPC), env=ENVIRONMENT)
    dice = random.Random(kills)
    folders = policies["B"], policies["A"]
    make = unspool.GlooSender if kind == "gloo" else unspool.SharedMemorySender
    tensors = tensors_of(policies)
    sender = Sender(server, kind, folders)
    served = []
    with unspool.Client(server.url, timeout_s=60) as client:
        client.update_weight_version("A")
        asking = Asking(server)
        for kill in range(kills):
            seconds = sender.begin()
            following = Sender(server, kind, folders) if kill + 1 < kills else None  # loads meanwhile
            time.sleep(dice.random() * 2 * seconds)
            sender.kill()
            served.append(assert_whole(server, client, cold, f"after kill {kill}"))
            began = time.monotonic()
            with make(client) as own:
                assert not left_in_shared_memory()
                assert not server.mapped_segments()
                if kind == "gloo" or kill % 4 == 0:
                    other = "B" if served[-1] == "A" else "A"
                    own.send(tensors[other], version=other)
                    assert assert_whole(server, client, cold, f"the sender after kill {kill}") == other
            assert time.monotonic() - began < 20 * patience, "the next sender waited"
            sender = following
        asking.stopped = True
        asking.wait(60 * patience)
        until(lambda: not server.mapped_segments(), 5 * patience, "a segment is mapped still")
    assert not server.children()
    cut = server.log().count("The weight update was dropped")
    report(f"{kind}: {kills} kills, {cut} within a session; A served after {served.count('A')} of them")
    assert cut > 0 and asking.num_whole > 0


def test_two_at_once(own_server, policies, cold, report):
    """Each takes the other's place whenever it likes. A send that worked was one policy's, and one that did not was none."""
    import unspool

    server = own_server(policies["A"], *FLAGS, *IPC, env=ENVIRONMENT)
    deadline = time.monotonic() + 3
    tensors = tensors_of(policies)

    def send_over_and_over(version):
        dice, counts = random.Random(version), {"sent": 0, "refused": 0}
        with unspool.Client(server.url, timeout_s=60) as client:
            while time.monotonic() < deadline:
                try:
                    with unspool.SharedMemorySender(client, part_bytes=1 << 20) as sender:
                        for _ in range(dice.randrange(1, 4)):
                            sender.send(tensors[version], version=version)
                            counts["sent"] += 1
                except unspool.ApiError as error:
                    assert error.status in (400, 409, 500), error
                    counts["refused"] += 1
                time.sleep(dice.random() * 0.02)
        return counts

    both = [Background(lambda version=version: send_over_and_over(version)) for version in policies]
    with unspool.Client(server.url, timeout_s=60) as client:
        checked = 0
        while any(sender.is_alive() for sender in both):
            checksums = client.weight_checksums()
            assert checksums in [state[1] for state in cold.values()], "weights of two policies"
            checked += 1
        counts = [sender.wait(60) for sender in both]
        report(f"two senders at once: {counts}, {checked} checks")
        assert all(count["sent"] for count in counts)
        with unspool.SharedMemorySender(client) as sender:
            sender.send(tensors["B"], version="B")
        assert assert_whole(server, client, cold, "one of them alone") == "B"
    assert not left_in_shared_memory()


@pytest.mark.torch
@pytest.mark.parametrize("silent", [True, False], ids=["a store that never answers", "nobody there"])
def test_a_store_that_never_answers(own_server, policies, cold, silent):
    """An error within the timeout; nobody waits for it but who asked."""
    import unspool

    timeout_s = 8
    flags = (*FLAGS, *GLOO, "--weight-transfer-timeout", timeout_s)
    server = own_server(policies["A"], *flags, env=ENVIRONMENT)
    with unspool.Client(server.url, timeout_s=60) as client, socket.create_server(("127.0.0.1", 0)) as listener:
        client.update_weight_version("A")
        info = {"master_address": "127.0.0.1", "master_port": listener.getsockname()[1]}
        if not silent:
            listener.close()
        began = time.monotonic()
        init = Background(lambda: client.init_weight_transfer_engine({**info, "rank_offset": 1, "world_size": 2}))
        while init.is_alive():
            asked = time.monotonic()
            assert assert_whole(server, client, cold, "meanwhile") == "A"
            assert time.monotonic() - asked < timeout_s / 2
            time.sleep(0.1)
        with pytest.raises(unspool.ApiError) as caught:
            init.wait(1)
        assert caught.value.status == 504 and "gloo" in str(caught.value)
        assert time.monotonic() - began < timeout_s + 2
        assert not server.children()
        with unspool.GlooSender(client, timeout_s=30) as sender:
            sender.send(tensors_of(policies)["B"], version="B")
        assert assert_whole(server, client, cold, "the next session") == "B"
