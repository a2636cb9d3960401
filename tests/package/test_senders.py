"""Senders against a server that keeps what it is told: bytes, the order of calls, and what is left after a fault."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.server import ROOT


def model(seed=0):
    """Tensors of every kind: types, an odd size, an empty one, one larger than a part, one that is not contiguous."""
    dice = np.random.default_rng(seed)
    bits = dice.integers(0, 1 << 16, (7, 3), dtype=np.uint16)
    return {
        "embedding": dice.standard_normal((64, 33), dtype=np.float32),
        "bf16": (bits, "bfloat16"),
        "half": dice.standard_normal(5).astype(np.float16),
        "transposed": dice.standard_normal((4, 9), dtype=np.float32).T,
        "empty": np.zeros((0, 3), np.float32),
        **{f"layer.{i}": dice.standard_normal((8, 8), dtype=np.float32) for i in range(40)},
    }


def expected(tensors):
    arrays = {name: t[0] if isinstance(t, tuple) else t for name, t in tensors.items()}
    return {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}


def held(fake):
    return {name: data for name, (_, _, data) in fake.weights.items()}


def segments():
    return {path for path in Path("/dev/shm").glob("unspool-*") if re.fullmatch(r"unspool-[0-9a-f]{32}", path.name)}


@pytest.fixture
def client(fake):
    import unspool

    with unspool.Client(fake.url, timeout_s=30) as client:
        yield client


@pytest.fixture
def sender(client):
    import unspool

    before = segments()
    with unspool.SharedMemorySender(client, part_bytes=1024) as sender:
        yield sender
    assert segments() <= before, "a segment is left"


def test_all_of_it(fake, sender):
    tensors = model()
    sent = sender.send(tensors.items(), version="7")
    assert held(fake) == expected(tensors)
    assert fake.version == sent.version == "7"
    assert (sent.num_tensors, sent.nbytes) == (len(tensors), sum(map(len, expected(tensors).values())))
    assert {name: (d, tuple(s)) for name, (d, s, _) in fake.weights.items()} == {
        name: ("bfloat16", t[0].shape) if isinstance(t, tuple) else (t.dtype.name, t.shape)
        for name, t in tensors.items()
    }
    paths = fake.paths()
    assert paths[:2] == ["/init_weight_transfer_engine", "/start_weight_update"]
    assert paths[-1] == "/finish_weight_update" and set(paths[2:-1]) == {"/update_weights"} and len(paths) > 6


def test_memory_is_used_again(fake, sender):
    for seed in range(3):
        sender.send(model(seed).items())
        assert held(fake) == expected(model(seed))
        # Its name is gone, and it is far smaller than the model: parts are taken over while the next are filled.
        assert not segments()
    grown = set(fake.mapped)
    sender.send(model(4).items())
    assert set(fake.mapped) == grown


def test_an_iterator_is_consumed_as_it_goes(fake, sender):
    """At no time are more than a few parts made and not taken over."""
    made = taken = most = 0

    def count(info):
        nonlocal taken
        taken += len(info["names"])

    fake.check_spec = count

    def tensors():
        nonlocal made, most
        for i in range(200):
            most = max(most, made - taken)
            made += 1
            yield f"t{i}", np.full(64, i, np.float32)

    sender.send(tensors())
    assert len(fake.weights) == 200 and most <= 4 * 1024 / 256


def test_a_partial_send(fake, sender):
    sender.send(model().items())
    new = {"half": np.ones(5, np.float16)}
    sender.send(new.items(), partial=True)
    assert held(fake) == expected({**model(), **new})


def test_sparse(fake, sender):
    import unspool

    tensors = model()
    sender.send(tensors.items())
    changes = [
        ("embedding", np.array([2111, 0, 7]), np.array([1, 2, 3], np.float32)),
        ("bf16", [20, 3], (np.array([5, 6], np.uint16), "bfloat16")),
        ("half", np.array([], np.int64), np.array([], np.float16)),
    ]
    sent = sender.send_sparse(changes, version="s")
    assert sent.nbytes == 3 * 8 + 2 * 6
    tensors["embedding"] = tensors["embedding"].copy()
    tensors["embedding"].reshape(-1)[[2111, 0, 7]] = [1, 2, 3]
    tensors["bf16"] = (tensors["bf16"][0].copy(), "bfloat16")
    tensors["bf16"][0].reshape(-1)[[20, 3]] = [5, 6]
    assert held(fake) == expected(tensors) and fake.version == "s"

    for indices in ([64 * 33], [-1], [0.5], [[0]]):
        with pytest.raises(ValueError, match="embedding"):
            sender.send_sparse([("embedding", indices, np.zeros(1, np.float32))])
    with unspool.SharedMemorySender(sender._client) as other:
        with pytest.raises(ValueError, match="shape is not known"):
            other.send_sparse(changes)
        other.send_sparse(changes[:1], shapes={"embedding": (64, 33)})
    assert held(fake) == expected(tensors)


def test_allocated_tensors_are_sent_from_where_they_lie(fake, sender):
    tensors = {name: t for name, t in model().items() if not isinstance(t, tuple)}
    views = sender.allocate({name: (t.shape, t.dtype) for name, t in tensors.items()})
    for name, view in views.items():
        assert view.shape == tensors[name].shape and not view.any()
        view[...] = tensors[name]
    sender.send(views.items())
    assert held(fake) == expected(tensors)
    assert len(fake.mapped) == 1 and sender._ring is None
    # Mixed with others, and changed in place.
    views["half"][...] = 2
    extra = np.arange(6, dtype=np.float32)
    sender.send([*views.items(), ("extra", extra)])
    assert fake.values("half") == np.full(5, 2, np.float16).tobytes() and fake.values("extra") == extra.tobytes()


def test_the_engine_has_let_go(fake, sender):
    """Another sender's init makes it; then one send fails, and the next works, allocated tensors too."""
    import unspool

    views = sender.allocate({"a": ((4, 4), np.float32)})
    views["a"][...] = 1
    sender.send([*views.items(), *model().items()])
    with unspool.SharedMemorySender(sender._client):
        pass
    with pytest.raises(unspool.ApiError):
        sender.send([*views.items(), *model(1).items()])
    views["a"][...] = 2
    sender.send([*views.items(), *model(1).items()])
    assert held(fake) == {**expected(model(1)), "a": views["a"].tobytes()}
    sender.init()
    sender.send([*views.items(), *model(2).items()])
    assert held(fake) == {**expected(model(2)), "a": views["a"].tobytes()}


@pytest.mark.parametrize("fault", ["refused at start", "refused at an update", "refused at finish", "the iterator"])
def test_a_fault_leaves_the_old_weights(fake, sender, fault):
    import unspool

    sender.send(model().items(), version="old")
    new = model(1)
    error = unspool.ApiError

    def tensors():
        yield from new.items()
        if fault == "the iterator":
            raise RuntimeError("no more")

    if fault == "the iterator":
        error = RuntimeError
    elif fault == "refused at an update":

        def check(info):
            from fake_server import Refusal

            if "layer.20" in info["names"]:
                raise Refusal(400, "no such name")

        fake.check_spec = check
    else:
        path = "/start_weight_update" if fault == "refused at start" else "/finish_weight_update"
        fake.refuse[path] = (409, "asleep")
    with pytest.raises(error) as caught:
        sender.send(tensors(), version="new")
    if error is unspool.ApiError:
        assert caught.value.status in (400, 409) and caught.value.type == "Refusal" and caught.value.param == "p"
    assert held(fake) == expected(model()) and fake.version == "old"
    fake.check_spec = None
    sender.send(new.items(), version="new")
    assert held(fake) == expected(new) and fake.version == "new"


def test_what_is_no_weight(fake, sender):
    for tensor, error in [
        (np.zeros(3), ValueError),
        (np.zeros(3, np.int32), ValueError),
        ((np.zeros(3, np.float32), "bfloat16"), ValueError),
        ([1.0], TypeError),
    ]:
        with pytest.raises(error, match="bad"):
            sender.send([("bad", tensor)])
    sender.send(model().items())
    assert held(fake) == expected(model())


def test_segments_that_a_crash_left_are_swept(fake, sender):
    """Only ours, and only where nobody holds the lock."""
    left = Path("/dev/shm/unspool-" + "0" * 32)
    foreign = Path("/dev/shm/unspool-not-a-segment")
    program = (
        "import os, sys; from unspool.senders.segment import Segment; s = Segment(4096);"
        "print(s.name, flush=True); sys.stdin.read(); os._exit(9)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, **pipes)
    alive = Path("/dev/shm" + process.stdout.readline().strip())
    try:
        left.touch(0o600)
        foreign.touch(0o600)
        sender.init()
        assert alive.exists() and foreign.exists() and not left.exists()
        process.communicate()
        assert alive.exists()
        sender.init()
        assert not alive.exists()
    finally:
        process.kill()
        foreign.unlink()


def test_a_fork_does_not_hold_the_lock():
    """Else a data loader that outlives its trainer would keep the engine's memory."""
    import fcntl

    from unspool.senders.segment import Segment

    segment = Segment(4096)
    path = Path("/dev/shm" + segment.name)
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        there.send(b"x")
        there.recv(1)
        os._exit(0)
    there.close()
    try:
        with open(path, "rb") as file:
            assert here.recv(1) == b"x"
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            segment.is_named = False  # so that close() lets go of the lock alone
            segment.close()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        here.close()
        os.waitpid(child, 0)
        path.unlink()


def test_no_room(fake, sender):
    import unspool

    with pytest.raises(unspool.TransferError, match="no room"):
        sender.allocate({"huge": ((1 << 44,), np.float32)})
    assert not segments()
