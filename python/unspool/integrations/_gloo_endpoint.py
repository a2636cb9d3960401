"""The trainer's side of a weight group as TRL opens and feeds it, over gloo.

The two functions have the names and arguments of vLLM's, which use NCCL; docs/adr/0006-weights-through-shared-memory.md says
what goes over the wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed import TCPStore

from .. import _gloo

# vLLM's limits: of a rendezvous and a transfer, and of a packed chunk. The server counts with the same where init_info
# does not say otherwise, and TRL's does not.
TIMEOUT_S = 300
PACKED_BUFFER_SIZE_BYTES = 1 << 30


class Endpoint:
    """The trainer's side of the group. TRL lets go of group.store and group.socket when it is done."""

    def __init__(self, store: TCPStore, process_group: Any):
        self.group = SimpleNamespace(store=store, socket=None)
        self.process_group = process_group


def trainer_init(init_info: dict[str, Any]) -> Endpoint:
    """Opens the store at master_address:master_port and returns once world_size - 1 workers have joined."""
    address, world_size = init_info["master_address"], init_info["world_size"]
    limit = timedelta(seconds=TIMEOUT_S)
    store = TCPStore(address, init_info["master_port"], world_size, True, limit, wait_for_workers=False)
    return Endpoint(store, _gloo.join(store, 0, world_size, address, TIMEOUT_S))


def packed_nccl_broadcast_producer(
    iterator: Iterable[Any],
    group: Endpoint,
    src: int,
    post_iter_func: Callable[[Any], torch.Tensor],
    buffer_size_bytes: int = PACKED_BUFFER_SIZE_BYTES,
    num_buffers: int = _gloo.IN_FLIGHT,
) -> None:
    """Broadcasts the tensors that post_iter_func makes of the iterator's items, in chunks of whole tensors."""
    if src != 0:
        raise ValueError(f"the trainer is rank 0 of its group, not {src}")
    waiting: deque[Any] = deque()
    for chunk in chunks(map(post_iter_func, iterator), buffer_size_bytes):
        if len(waiting) == num_buffers:
            waiting.popleft().wait()
        waiting.append(_gloo.broadcast(group.process_group, chunk, TIMEOUT_S))
    for work in waiting:
        work.wait()


def chunks(tensors: Iterable[torch.Tensor], limit: int) -> Iterator[torch.Tensor]:
    """Bytes of each chunk. As _gloo.chunks, for tensors that are not all there at once."""
    parts: list[torch.Tensor] = []
    total = 0
    for tensor in tensors:
        parts.append(tensor.detach().contiguous().view(-1).view(torch.uint8))
        total += len(parts[-1])
        if total > limit:
            yield torch.cat(parts)
            parts, total = [], 0
    if total:
        yield torch.cat(parts)
