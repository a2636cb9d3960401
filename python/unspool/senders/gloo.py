"""Weights to servers on other hosts, broadcast over torch.distributed's gloo."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..client import Client
from ..errors import ApiError, TransferError, UnspoolError
from .base import SessionSender, Sources
from .tensors import Source, SparseSource, spec

if TYPE_CHECKING:
    import torch

# Beyond a transfer's timeout the server may take this long to report it.
ANSWER_S = 15


def aside(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Runs it on a thread of its own. A daemon: nothing can end a broadcast whose peers are gone but its timeout, and
    the program need not wait for that."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as error:  # noqa: BLE001, for whoever waits
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="unspool-sender").start()
    return future


class GlooSender(SessionSender):
    """For servers with --weight-transfer-config '{"backend": "gloo"}', on any host; this process needs torch.

    client: of one server, or a list of several: each gets every tensor, and all of them take part in each broadcast.
    master_address, master_port: where servers find this process; by default the address that faces the first of them,
    and a free port. timeout_s: of joining, and of each transfer; past it TransferError or ApiError, and the next send
    begins with a new group. packed: small tensors ride together, in chunks of packed_buffer_size_bytes.
    part_bytes: how much one /update_weights announces; an iterator is read that far ahead.

    This process is rank 0 of a group that belongs to the sender alone; torch.distributed's default group is not touched.
    """

    def __init__(
        self,
        client: Client | Sequence[Client],
        *,
        master_address: str | None = None,
        master_port: int = 0,
        timeout_s: float = 300,
        packed: bool = True,
        packed_buffer_size_bytes: int = 4 << 20,
        part_bytes: int = 256 << 20,
    ):
        super().__init__([client] if isinstance(client, Client) else list(client))
        self._master = (master_address, master_port)
        self._timeout_s = timeout_s
        self._packing = {"packed": packed, "packed_buffer_size_bytes": packed_buffer_size_bytes}
        self._part_bytes = part_bytes
        self._store = self._group = None

    def init(self) -> None:
        from torch.distributed import TCPStore

        from .. import _gloo

        self._drop_group()
        address, port = self._master
        if address is None:
            server = urlsplit(self._client.url)
            address = _gloo.local_address(server.hostname, server.port or 80)
        world_size = 1 + len(self._clients)
        limit = timedelta(seconds=self._timeout_s)
        # It does not wait here for the others, whose port is not known before it is open; the group does.
        self._store = TCPStore(address, port, world_size, True, limit, wait_for_workers=False)
        posts = []
        for rank, client in enumerate(self._clients, 1):
            place = {"master_address": address, "master_port": self._store.port, "rank_offset": rank}
            info = {**place, "world_size": world_size, **self._packing}
            posts.append(aside(self._patient(client).init_weight_transfer_engine, info))
        joined = aside(_gloo.join, self._store, 0, world_size, address, self._timeout_s)
        self._settle(posts, joined)
        self._group = joined.result()
        self._ready = True

    def close(self) -> None:
        if self._ready:
            for client in self._clients:
                with suppress(UnspoolError):  # gone, or closed by another sender's init: either way it has let go
                    client.shutdown_weight_transfer_engine()
        self._drop_group()

    def _transfer(self, sources: Sources) -> tuple[int, int]:
        count = nbytes = 0
        for part in self._parts(sources):
            info = {**spec(part), **self._packing, "session": self._session}
            posts = [aside(self._patient(client).update_weights, info) for client in self._clients]
            self._settle(posts, aside(self._broadcast, self._group, part))
            count, nbytes = count + len(part), nbytes + sum(item.nbytes for item in part)
        return count, nbytes

    def _parts(self, sources: Sources) -> Iterator[list[Source | SparseSource]]:
        part: list[Source | SparseSource] = []
        for item in sources:
            part.append(item)
            if sum(other.nbytes for other in part) >= self._part_bytes:
                yield part
                part = []
        if part:
            yield part

    def _broadcast(self, group: Any, part: list[Source | SparseSource]) -> None:
        from .. import _gloo

        deadline = time.monotonic() + self._timeout_s
        waiting: deque[Any] = deque()
        for tensor in self._pieces(part):
            if len(waiting) == _gloo.IN_FLIGHT:
                waiting.popleft().wait()
            waiting.append(_gloo.broadcast(group, tensor, max(0.001, deadline - time.monotonic())))
        for work in waiting:
            work.wait()

    def _pieces(self, part: list[Source | SparseSource]) -> Iterator[torch.Tensor]:
        """What is broadcast, in its order. A buffer is filled again once the broadcast after its own has begun and its own
        is over; what is empty is left out."""
        import numpy as np
        import torch

        from .. import _gloo

        if isinstance(part[0], SparseSource):
            for item in part:
                yield from (torch.from_numpy(b) for b in (item.indices.view(np.uint8), item.values.bytes()) if len(b))
            return
        limit = self._packing["packed_buffer_size_bytes"] if self._packing["packed"] else 0
        buffers: deque[np.ndarray] = deque(np.empty(0, np.uint8) for _ in range(_gloo.IN_FLIGHT + 1))
        for chunk in _gloo.chunks([item.nbytes for item in part], limit):
            size = sum(part[i].nbytes for i in chunk)
            if not size:
                continue
            if len(chunk) == 1:
                yield torch.from_numpy(part[chunk[0]].bytes())
                continue
            if len(buffers[0]) < size:
                buffers[0] = np.empty(size, np.uint8)
            offset = 0
            for i in chunk:
                part[i].copy_into(buffers[0][offset : offset + part[i].nbytes])
                offset += part[i].nbytes
            yield torch.from_numpy(buffers[0][:size])
            buffers.rotate(-1)

    def _settle(self, posts: list[Future[None]], ours: Future[Any]) -> None:
        """Waits for the servers' answers and for our own side. Where one fails the group is of no more use, and what a
        server says of it tells more than a connection that broke."""
        everything = [ours, *posts]
        wait(everything, self._timeout_s + ANSWER_S, FIRST_EXCEPTION)
        if all(f.done() and f.exception() is None for f in everything):
            return
        if ours.done() and ours.exception() is not None:
            wait(posts, ANSWER_S, FIRST_EXCEPTION)
        self._drop_group()
        failed = [f.exception() for f in [*posts, ours] if f.done() and f.exception() is not None]
        if not failed:
            raise TransferError(f"no end of the transfer within {self._timeout_s:g} s")
        first = next((error for error in failed if isinstance(error, ApiError)), failed[0])
        if isinstance(first, RuntimeError):  # torch's
            from .. import _gloo

            raise TransferError(f"the group of rank 0 of {1 + len(posts)}: {_gloo.first_line(first)}") from first
        raise first

    def _session_failed(self) -> None:
        self._drop_group()  # the server has ended its member

    def _patient(self, client: Client) -> Client:
        return client.with_timeout(self._timeout_s + ANSWER_S)

    def _drop_group(self) -> None:
        self._group = self._store = None
        self._ready = False
