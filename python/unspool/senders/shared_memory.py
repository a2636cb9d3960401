"""Weights to a server on the same host, through shared memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..client import Client
from ..errors import ApiError
from .base import SessionSender, Sources
from .segment import Segment, sweep
from .tensors import ITEM_BYTES, Source, SparseSource, spec

# Every tensor starts on a cache line of its own.
ALIGNMENT = 64
# Calls at once: the engine finds the next part while it answers for the last, which is what takes time where cores are busy.
POSTERS = 2
# Parts that are filled and not taken over yet: one that the engine packs, one that waits for it, and one on its way.
AHEAD = 3


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


@dataclass
class Part:
    """Tensors that one call brings, in [begin, end) of a segment."""

    segment: Segment
    begin: int
    end: int
    used: int = 0
    items: list[Source | SparseSource] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    posted: Future[None] | None = None

    def add(self, item: Source | SparseSource, offset: int) -> None:
        self.items.append(item)
        self.offsets.append(offset)

    def update_info(self) -> dict[str, Any]:
        nbytes = [item.nbytes for item in self.items]
        return {**spec(self.items), "shm_name": self.segment.name, "offsets": self.offsets, "nbytes": nbytes}


class SharedMemorySender(SessionSender):
    """For a server on this host with --weight-transfer-config '{"backend": "ipc"}'.

    Tensors are copied into shared memory a few at a time while the engine packs those before, and the memory is used
    again and again, so that most of what crosses never leaves the processor's cache. It grows to what the largest tensor
    needs, and a few parts. Tensors made by allocate() lie in shared memory already and are not copied at all.

    part_bytes: how much is copied before the engine is told. Smaller parts cost calls, larger ones overlap less.
    """

    # A call costs both sides 0.3 ms, in which one core copies 3 MB. SmolLM2 in bf16 on 2 idle Genoa cores, medians of 9 in
    # GB/s: parts of 8 MiB 3.5, of 16 MiB 4.8, of 32 MiB 4.9 to 6.2, of 64 MiB 5.5; one call at a time 4.3 to 4.5.
    PART_BYTES = 32 << 20

    def __init__(self, client: Client, *, part_bytes: int = PART_BYTES):
        super().__init__([client])
        self._part_bytes = aligned(part_bytes)
        self._ring: Segment | None = None
        self._allocated: list[Segment] = []
        self._live: deque[Part] = deque()
        self._poster: ThreadPoolExecutor | None = None

    def init(self) -> None:
        sweep()
        self._forget()
        self._client.init_weight_transfer_engine({})
        if self._poster is None:
            self._poster = ThreadPoolExecutor(POSTERS, thread_name_prefix="unspool-sender")
        self._ready = True

    def allocate(self, tensors: Mapping[str, tuple[Sequence[int], Any]]) -> dict[str, Any]:
        """Zeroed tensors in shared memory, by the names they are given, for a trainer to keep its weights in.

            views = sender.allocate({name: (p.shape, p.dtype) for name, p in model.named_parameters()})
            for name, parameter in model.named_parameters():
                parameter.data = views[name].copy_(parameter.data)

        tensors: (shape, dtype) of each; torch's where the dtype is torch's, otherwise numpy's. send() takes them from
        where they lie; they must not change while it runs. They live as long as anything refers to them; after close(),
        init() or a transfer that failed they are tensors like others, and copied. TransferError where there is no room.
        """
        sizes = {name: _nbytes(shape, dtype) for name, (shape, dtype) in tensors.items()}
        segment = Segment(max(1, sum(map(aligned, sizes.values()))))
        self._allocated.append(segment)
        views, offset = {}, 0
        for name, (shape, dtype) in tensors.items():
            views[name] = _view(segment.bytes[offset : offset + sizes[name]], shape, dtype)
            offset += aligned(sizes[name])
        return views

    def close(self) -> None:
        if self._poster is not None:
            self._poster.shutdown()
            self._poster = None
        for segment in [*self._allocated, *([self._ring] if self._ring else [])]:
            segment.close()
        self._allocated, self._ring, self._ready = [], None, False

    def _transfer(self, sources: Sources) -> tuple[int, int]:
        count = nbytes = 0
        part: Part | None = None
        try:
            for item in sources:
                part = self._add(part, item)
                count, nbytes = count + 1, nbytes + item.nbytes
            self._post(part)
            while self._live:
                self._retire()
        except BaseException as error:
            # What is under way must be over before anything else is said.
            errors = [error, *(left.posted.exception() for left in self._live)]
            self._live.clear()
            # It may be that another sender's init has made the engine let go of our segments, whose names are gone.
            self._forget()
            # Of two calls at once the one that failed has ended the session, and the other says no more than that.
            raise next((each for each in errors if each is not None and not _is_without_session(each)), error) from None
        return count, nbytes

    def _forget(self) -> None:
        """No segment that an engine has had is named again. Allocated tensors stay, and are copied from now on."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        for segment in self._allocated:
            if not segment.is_named:
                segment.close()
        self._allocated = [segment for segment in self._allocated if segment.is_named]

    def _add(self, part: Part | None, item: Source | SparseSource) -> Part:
        """Puts the item into the part, or posts that and begins another; the part it is in."""
        for segment in self._allocated:
            address = item.address()
            offset = None if address is None else segment.offset_of(address, item.nbytes)
            if offset is not None:
                if part is None or part.segment is not segment:
                    self._post(part)
                    part = Part(segment, 0, 0)
                part.add(item, offset)
                return part
        if part is None or part.used + aligned(item.nbytes) > part.end - part.begin:
            self._post(part)
            part = self._begin(max(self._part_bytes, aligned(item.nbytes)))
        offset = part.begin + part.used
        item.copy_into(part.segment.bytes[offset : offset + item.nbytes])
        part.add(item, offset)
        part.used += aligned(item.nbytes)
        return part

    def _begin(self, need: int) -> Part:
        """A part of `need` bytes at the lowest place that is free: what was used last is in the cache still."""
        while len(self._live) >= AHEAD or (self._live and self._live[0].posted.done()):
            self._retire()
        while True:
            begin = 0
            for taken in sorted(self._live, key=lambda p: p.begin):
                if taken.segment is self._ring and taken.end > taken.begin:
                    if taken.begin - begin >= need:
                        break
                    begin = max(begin, taken.end)
            if self._ring is not None and begin + need <= len(self._ring):
                return Part(self._ring, begin, begin + need)
            if self._live:
                self._retire()
                continue
            if self._ring is not None:
                self._ring.close()
            # Beside the largest there is room for parts of the usual size.
            self._ring = Segment(need + AHEAD * self._part_bytes)

    def _post(self, part: Part | None) -> None:
        if part is not None and part.items:
            info = {**part.update_info(), "session": self._session}
            part.posted = self._poster.submit(self._client.update_weights, info)
            self._live.append(part)

    def _retire(self) -> None:
        """Waits for the oldest part; raises what the server had against it."""
        part = self._live.popleft()
        part.posted.result()
        part.segment.unlink()


def _is_without_session(error: BaseException) -> bool:
    return isinstance(error, ApiError) and "start_weight_update must be called before" in error.message


def _nbytes(shape: Sequence[int], dtype: Any) -> int:
    name = str(dtype).removeprefix("torch.") if "torch" in str(dtype) else np.dtype(dtype).name
    if name not in ITEM_BYTES:
        raise ValueError(f"expected a dtype of float32, float16 or bfloat16, got {dtype}")
    size = ITEM_BYTES[name]
    for extent in shape:
        size *= int(extent)
    return size


def _view(buffer: np.ndarray, shape: Sequence[int], dtype: Any) -> Any:
    if "torch" in str(dtype):
        return sys.modules["torch"].from_numpy(buffer).view(dtype).view(tuple(shape))
    return buffer.view(dtype).reshape(tuple(shape))
