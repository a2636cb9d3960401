"""What both ends of a gloo transfer share: how a group is joined, and what is broadcast in which order.

Needs torch; nothing else in the package imports this module before a transfer over gloo is asked for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from datetime import timedelta

import torch
from torch.distributed import AllreduceOptions, BroadcastOptions, PrefixStore, ProcessGroupGloo, Store

# Broadcasts that are under way at once: the next one's headers travel while this one's bytes do. Gloo's threads beyond
# two would only take cores from the engine.
IN_FLIGHT = 2


def local_address(peer: str, port: int) -> str:
    """The address of this host that reaches `peer`. A datagram socket finds the route without sending anything."""
    family, kind, _, _, address = socket.getaddrinfo(peer, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return probe.getsockname()[0]


def join(store: Store, rank: int, world_size: int, address: str, timeout_s: float) -> ProcessGroupGloo:
    """The group, once every member has joined. `address`: of this host, where others reach it; the environment's
    GLOO_SOCKET_IFNAME names an interface instead. Left to itself gloo takes what the host's name resolves to, which is
    often the loopback. No default group of torch.distributed is made or needed."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    place = {"interface": interface} if interface else {"hostname": address}
    options = ProcessGroupGloo._Options()
    options._timeout = timedelta(seconds=timeout_s)
    options._threads = IN_FLIGHT
    options._devices = [ProcessGroupGloo.create_device(**place)]
    group = ProcessGroupGloo(PrefixStore("unspool", store), rank, world_size, options)
    # The reference's groups begin with this as well; it fails here, and not in the first update, where a link is dead.
    warm_up = AllreduceOptions()
    warm_up.timeout = timedelta(seconds=timeout_s)
    group.allreduce([torch.zeros(1)], warm_up).wait()
    return group


def broadcast(group: ProcessGroupGloo, tensor: torch.Tensor, timeout_s: float):
    """Starts a broadcast from rank 0; the work to wait for."""
    options = BroadcastOptions()
    options.rootRank = 0
    options.timeout = timedelta(seconds=timeout_s)
    return group.broadcast([tensor], options)


def chunks(sizes: Sequence[int], limit: int) -> Iterator[range]:
    """The tensors of each packed chunk: it ends once its bytes are more than `limit`, as in the reference."""
    begin = total = 0
    for i, size in enumerate(sizes):
        total += size
        if total > limit:
            yield range(begin, i + 1)
            begin, total = i + 1, 0
    if begin < len(sizes):
        yield range(begin, len(sizes))


def first_line(error: BaseException) -> str:
    """What an error says, without torch's stack of C++."""
    return f"{type(error).__name__}: {str(error).strip() or 'no more is known'}".splitlines()[0]
