"""Senders against the server itself: what it serves afterwards are the bits that were sent."""

import sys

import numpy as np
import pytest

from api.control import DEV, change_weights, greedy
from harness.bits import assert_same_answer
from harness.server import ROOT

FLAGS = ("--enable-scale-out", "--enable-sleep-mode")
ENVIRONMENT = {**DEV, "PYTHONPATH": str(ROOT / "python")}


@pytest.fixture(scope="module")
def other(tiny, tmp_path_factory):
    return change_weights(tiny, tmp_path_factory.mktemp("weights") / "other")


def tensors_of(folder):
    from unspool.senders.safetensors import read_tensors

    return [(item.name, (np.array(item._array), item.dtype_name)) for item in read_tensors(folder)]


def widened(tensors):
    """The same values in float32, which the server casts back."""
    for name, (bits, _) in tensors:
        yield name, (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.fixture(scope="module")
def cold(serve, other):
    """Answer and checksums of a server that was started on the other checkpoint."""
    import unspool

    server = serve(other, *FLAGS, env=ENVIRONMENT)
    with unspool.Client(server.url) as client:
        return greedy(server), client.weight_checksums()


KINDS = ["shared memory", "directory", pytest.param("gloo", marks=pytest.mark.torch)]


@pytest.fixture(params=KINDS)
def setup(request, serve, tiny, tmp_path):
    """(server, client, sender)"""
    import unspool

    backend = "gloo" if request.param == "gloo" else "ipc"
    flags = ("--weight-transfer-config", f'{{"backend": "{backend}"}}', "--transfer-python", sys.executable)
    server = serve(tiny, *FLAGS, *flags, env=ENVIRONMENT)
    with unspool.Client(server.url) as client:
        sender = {
            "shared memory": lambda: unspool.SharedMemorySender(client, part_bytes=8192),
            "directory": lambda: unspool.DirectorySender(client, tmp_path / "weights"),
            "gloo": lambda: unspool.GlooSender(client, timeout_s=60, packed_buffer_size_bytes=4096),
        }[request.param]()
        with sender:
            yield server, client, sender
        client.wake_up()
        client.reload_weights()
        client.reset_prefix_cache()
        client.update_weight_version("default")


def test_a_send_is_a_cold_start(setup, tiny, other, cold):
    server, client, sender = setup
    first, checksums = greedy(server), client.weight_checksums()
    for cycle in range(2):
        sender.send(tensors_of(other) if cycle else widened(tensors_of(other)), version=f"other {cycle}")
        client.reset_prefix_cache()
        assert client.compare_weights(cold[1]) == []
        assert_same_answer(cold[0], greedy(server), "the other weights")
        assert client.weight_info().version == f"other {cycle}"
        sender.send(tensors_of(tiny), version="first")
        client.reset_prefix_cache()
        assert client.compare_weights(checksums) == []
        assert_same_answer(first, greedy(server), "the first weights again")


def test_parts_of_it(setup, tiny, other, cold):
    """Half of the tensors whole, the other half by the elements that differ: together the other checkpoint."""
    server, client, sender = setup
    old, new = tensors_of(tiny), tensors_of(other)
    sender.send(old)
    sender.send(new[::2], partial=True)
    changes = []
    for (name, (before, dtype_name)), (_, (after, _)) in zip(old[1::2], new[1::2], strict=True):
        indices = np.flatnonzero(before.reshape(-1) != after.reshape(-1))
        changes.append((name, indices[::-1], (after.reshape(-1)[indices][::-1], dtype_name)))
    sender.send_sparse(changes, version="sparse")
    client.reset_prefix_cache()
    assert client.compare_weights(cold[1]) == [] and client.weight_info().version == "sparse"
    assert_same_answer(cold[0], greedy(server), "the other weights, in parts")


def test_faults(setup, tiny, other, cold):
    import unspool

    server, client, sender = setup
    checksums, new = client.weight_checksums(), tensors_of(other)

    def breaks():
        yield new[0]
        raise RuntimeError("no more")

    wrong = [(name, (array[..., None], dtype)) for name, (array, dtype) in new]
    for faulty, error in [
        (new[:-1], unspool.ApiError),  # one is missing
        ([*new, ("nothing.weight", new[0][1])], unspool.ApiError),
        (wrong, unspool.ApiError),
        (breaks(), RuntimeError),
    ]:
        with pytest.raises(error) as caught:
            sender.send(faulty, version="faulty")
        if error is unspool.ApiError:
            assert 400 <= caught.value.status < 500, caught.value
        assert client.compare_weights(checksums) == [] and client.weight_info().version == "default"
    sender.send(new)
    assert client.compare_weights(cold[1]) == []


def test_asleep(setup, other, cold):
    """Refused while the weights sleep; after a sleep of level 2 a send is what brings them back."""
    import unspool

    server, client, sender = setup
    client.sleep(2)
    with pytest.raises(unspool.ApiError) as caught:
        sender.send(tensors_of(other))
    assert caught.value.status == 409
    client.wake_up(["weights"])
    sender.send(tensors_of(other))
    client.wake_up(["kv_cache"])
    assert_same_answer(cold[0], greedy(server), "sent after a sleep")


def test_a_stream_goes_on(setup, other):
    """Kept over a send: one answer, two spans of versions."""
    import asyncio

    import unspool

    server, client, sender = setup

    async def main():
        async with unspool.AsyncClient(server.url) as asking:
            drawn = server.metric("vllm:generation_tokens_total")
            call = asyncio.create_task(asking.generate([5, 6, 7], max_tokens=1900, ignore_eos=True))
            while server.metric("vllm:generation_tokens_total") == drawn:
                await asyncio.sleep(0)
            async with asking.paused("keep"):
                await asyncio.to_thread(sender.send, tensors_of(other), version="new")
            return await call

    (output,) = asyncio.run(main()).outputs
    assert [span.version for span in output.weight_versions] == ["default", "new"]
    assert output.weight_versions[0].end == output.weight_versions[1].start and output.weight_versions[1].end == 1900
