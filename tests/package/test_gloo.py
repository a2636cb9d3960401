"""Weights over gloo: the side process by itself, and the sender with it. Both ends have torch, so these run with the
trainers' tests."""

import json
import socket
import threading
import time
from datetime import timedelta

import numpy as np
import pytest

pytestmark = pytest.mark.torch

TIMEOUT_S = 20


def weights(seed=0):
    import torch

    torch.manual_seed(seed)
    shapes = {"embedding": (300, 17), "norm": (17,), "empty": (0, 4), "scalar": (), "wide": (1000, 300)}
    types = {"embedding": torch.bfloat16, "norm": torch.float16}
    named = {name: torch.randn(shape, dtype=types.get(name, torch.float32)) for name, shape in shapes.items()}
    return {**named, "transposed": torch.randn(8, 5).T, "bytes3": torch.randn(3, dtype=torch.bfloat16)}


def data_of(tensor):
    import torch

    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def expected(tensors):
    return {name: data_of(tensor) for name, tensor in tensors.items()}


def held(fake):
    return {name: data for name, (_, _, data) in fake.weights.items()}


@pytest.fixture
def clients(fake):
    import unspool

    with unspool.Client(fake.url, timeout_s=30) as client:
        yield [client]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("part_bytes", [1, 1 << 30])
def test_send(fake, clients, packed, part_bytes):
    import unspool

    with unspool.GlooSender(
        clients[0], packed=packed, packed_buffer_size_bytes=64, part_bytes=part_bytes, timeout_s=TIMEOUT_S
    ) as sender:
        for seed in range(2):
            sent = sender.send(weights(seed).items(), version=str(seed))
            assert held(fake) == expected(weights(seed)) and fake.version == str(seed)
        assert sent.nbytes == sum(map(len, expected(weights()).values()))
        updates = fake.paths().count("/update_weights")
        assert updates == (2 * (len(weights()) - 1) if part_bytes == 1 else 2)  # the empty one goes with its neighbour


def test_sparse(fake, clients):
    import torch

    import unspool

    tensors = weights()
    with unspool.GlooSender(clients[0], timeout_s=TIMEOUT_S) as sender:
        sender.send(tensors.items())
        changes = [
            ("wide", torch.tensor([299_999, 5]), torch.tensor([1.0, 2.0])),
            ("norm", np.array([], np.int32), torch.empty(0, dtype=torch.float16)),
            ("embedding", [3], torch.tensor([4.0], dtype=torch.bfloat16)),
        ]
        sender.send_sparse(changes)
    for name, indices, values in changes:
        tensors[name].view(-1)[torch.as_tensor(indices, dtype=torch.int64)] = values
    assert held(fake) == expected(tensors)


def test_two_servers(fake, clients):
    from fake_server import FakeServer

    import unspool

    with FakeServer() as second, unspool.Client(second.url) as other:
        with unspool.GlooSender([*clients, other], timeout_s=TIMEOUT_S) as sender:
            sender.send(weights().items(), version="1")
        assert held(fake) == held(second) == expected(weights())
        assert fake.version == second.version == "1"


def test_a_refusal_is_told_at_once_and_the_next_send_works(fake, clients):
    """The server says no before it receives a byte; the broadcast that nobody takes part in is not waited for."""
    from fake_server import Refusal

    import unspool

    with unspool.GlooSender(clients[0], timeout_s=TIMEOUT_S) as sender:
        sender.send(weights().items(), version="old")

        def refuse(info):
            raise Refusal(400, "no such name")

        fake.check_spec = refuse
        began = time.monotonic()
        with pytest.raises(unspool.ApiError, match="no such name"):
            sender.send(weights(1).items(), version="new")
        assert time.monotonic() - began < TIMEOUT_S / 2
        assert held(fake) == expected(weights()) and fake.version == "old"
        fake.check_spec = None
        sender.send(weights(1).items(), version="new")
        assert held(fake) == expected(weights(1)) and fake.version == "new"


def test_a_server_that_never_joins(fake, clients):
    import unspool

    entered = threading.Event()

    def never(body):
        entered.set()
        time.sleep(6)

    fake.init_weight_transfer_engine = never
    began = time.monotonic()
    with pytest.raises(unspool.TransferError):
        unspool.GlooSender(clients[0], timeout_s=1).init()
    assert entered.is_set() and time.monotonic() - began < 20


def test_a_side_process_that_dies(fake, clients):
    import unspool

    with unspool.GlooSender(clients[0], timeout_s=TIMEOUT_S) as sender:
        sender.send(weights().items(), version="old")
        fake.check_spec = lambda info: fake.side.process.kill()
        began = time.monotonic()
        with pytest.raises(unspool.UnspoolError):
            sender.send(weights(1).items())
        assert time.monotonic() - began < TIMEOUT_S
        fake.check_spec = None
        sender.send(weights(1).items(), version="new")
        assert held(fake) == expected(weights(1)) and fake.version == "new"


class Trainer:
    """A side process that has joined our group; rank 0 is ours."""

    def __init__(self):
        from fake_server import SideProcess
        from torch.distributed import TCPStore

        from unspool import _gloo

        self.side = SideProcess()
        self.store = TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=TIMEOUT_S), wait_for_workers=False)
        place = {"master_address": "127.0.0.1", "master_port": self.store.port, "rank": 1, "world_size": 2}
        self.side.socket.sendall(json.dumps({"command": "init", "timeout_s": TIMEOUT_S, **place}).encode() + b"\n")
        self.group = _gloo.join(self.store, 0, 2, "127.0.0.1", TIMEOUT_S)
        assert json.loads(self.side.lines.readline()) == {"ok": True}


@pytest.fixture
def trainer():
    trainer = Trainer()
    yield trainer
    if trainer.side.process.poll() is None:
        trainer.side.process.kill()
    trainer.side.close()


def receive(nbytes, **fields):
    tensor = {"dtype": "float32", "numel": nbytes // 4, "num_updates": None, "offset": 0, "nbytes": nbytes}
    common = {"packed": False, "packed_buffer_size_bytes": 1, "size_bytes": nbytes, "timeout_s": TIMEOUT_S}
    return {"command": "receive", "tensors": [tensor], **common, **fields}


def test_the_process_ends_with_its_socket_in_the_middle_of_a_broadcast(trainer):
    trainer.side.socket.sendall(json.dumps(receive(64)).encode() + b"\n")
    time.sleep(0.3)
    assert trainer.side.process.poll() is None
    began = time.monotonic()
    trainer.side.socket.shutdown(socket.SHUT_RDWR)
    assert trainer.side.process.wait(TIMEOUT_S / 2) == 0
    assert time.monotonic() - began < TIMEOUT_S / 4


def test_close_ends_it(trainer):
    trainer.side.socket.sendall(b'{"command": "close"}\n')
    assert trainer.side.process.wait(TIMEOUT_S / 2) == 0


@pytest.mark.parametrize("line", [b"no JSON", b"[]", b"{}"])
def test_nonsense_ends_it(trainer, line):
    trainer.side.socket.sendall(line + b"\n")
    assert trainer.side.process.wait(TIMEOUT_S / 2) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (receive(64, timeout_s=1), "imed out"),  # a broadcast that never comes
        (receive(64, size_bytes=1 << 40), "mmap"),  # more than the memory has
        ({"command": "reload", "timeout_s": 1}, "reload"),
    ],
)
def test_errors_are_told_and_a_new_group_works(trainer, command, words):
    import os

    import torch
    from torch.distributed import TCPStore

    from unspool import _gloo

    os.ftruncate(trainer.side.memory, 4096)
    (answer,) = trainer.side.ask(**command)
    assert words in answer["error"] and "\n" not in answer["error"]
    store = TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=TIMEOUT_S), wait_for_workers=False)
    place = {"master_address": "127.0.0.1", "master_port": store.port, "rank": 1, "world_size": 2}
    joined = []
    thread = threading.Thread(target=lambda: joined.append(_gloo.join(store, 0, 2, "127.0.0.1", TIMEOUT_S)))
    thread.start()
    assert trainer.side.ask(command="init", timeout_s=TIMEOUT_S, **place) == [{"ok": True}]
    thread.join()
    data = torch.arange(16, dtype=torch.float32)
    work = _gloo.broadcast(joined[0], data, TIMEOUT_S)
    assert trainer.side.ask(**receive(64)) == [{"ok": True}]
    work.wait()
    assert os.pread(trainer.side.memory, 64, 0) == data.numpy().tobytes()


def test_without_a_group():
    from fake_server import SideProcess

    side = SideProcess()
    (answer,) = side.ask(**receive(64))
    assert "init" in answer["error"]
    assert side.close() == 0


@pytest.mark.parametrize("silent", [True, False], ids=["a store that never answers", "nobody there"])
def test_no_store(silent):
    from fake_server import SideProcess

    side = SideProcess()
    side.ask(**receive(64))  # torch is loaded by now
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if not silent:
            listener.close()
        began = time.monotonic()
        place = {"master_address": "127.0.0.1", "master_port": port, "rank": 1, "world_size": 2}
        (answer,) = side.ask(command="init", timeout_s=1, **place)
    assert "error" in answer and time.monotonic() - began < 10
    if silent:  # torch does not come back from there, so the process has given itself up
        assert side.process.wait(10) == 1
    else:
        assert side.close() == 0


def test_progress(trainer):
    """{"received": k} in the order of the tensors, and what is received is whole."""
    import os

    import torch

    from unspool import _gloo

    sizes = [4, 3 << 20, 6, 1 << 20]
    tensors, offset = [], 1  # nothing is aligned
    for size in sizes:
        tensors.append({"numel": size, "num_updates": None, "offset": offset, "nbytes": size})
        offset += size
    os.ftruncate(trainer.side.memory, offset)
    command = receive(0, tensors=tensors, size_bytes=offset)
    trainer.side.socket.sendall(json.dumps(command).encode() + b"\n")
    data = [torch.randint(0, 256, (size,), dtype=torch.uint8) for size in sizes]
    for tensor in data[:-1]:
        _gloo.broadcast(trainer.group, tensor, TIMEOUT_S).wait()
        time.sleep(0.05)
    counts = [json.loads(trainer.side.lines.readline())["received"]]
    for place, tensor in zip(tensors[: counts[0]], data, strict=False):
        assert os.pread(trainer.side.memory, place["nbytes"], place["offset"]) == tensor.numpy().tobytes()
    work = _gloo.broadcast(trainer.group, data[-1], TIMEOUT_S)
    while "received" in (answer := json.loads(trainer.side.lines.readline())):
        counts.append(answer["received"])
    work.wait()
    assert answer == {"ok": True} and counts == sorted(counts) and 0 < counts[0] < 4
