"""Weights as a trainer holds them, and the shared memory it sends them in (docs/adr/0006-weights-through-shared-memory.md)."""

import _posixshmem
import fcntl
import json
import mmap
import os
import random
import secrets
import struct
from pathlib import Path
from typing import NamedTuple

ITEM_BYTES = {"bfloat16": 2, "float32": 4}


class Tensor(NamedTuple):
    dtype: str
    shape: list
    data: bytes

    def widened(self):
        """The same values in float32."""
        if self.dtype == "float32":
            return self
        halves = struct.unpack(f"<{len(self.data) // 2}H", self.data)
        return Tensor("float32", self.shape, struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves)))

    def elements(self):
        size = ITEM_BYTES[self.dtype]
        return [self.data[at : at + size] for at in range(0, len(self.data), size)]


def read_checkpoint(folder):
    """{name: Tensor} of a model's one safetensors file."""
    data = (folder / "model.safetensors").read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    dtypes = {"BF16": "bfloat16", "F32": "float32"}
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
        if name != "__metadata__":
            begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
            tensors[name] = Tensor(dtypes[entry["dtype"]], entry["shape"], data[begin:end])
    return tensors


class Segment:
    """A segment of shared memory as a sender keeps it: locked while it is used."""

    def __init__(self, mode=0o600):
        self.name = f"/unspool-{secrets.token_hex(16)}"
        self.path = Path("/dev/shm" + self.name)
        self.fd = _posixshmem.shm_open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=mode)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def write(self, data):
        os.ftruncate(self.fd, max(len(data), 1))
        if data:
            with mmap.mmap(self.fd, len(data)) as memory:
                memory[:] = data

    def has_name(self):
        return self.path.exists()

    def close(self):
        os.close(self.fd)
        self.path.unlink(missing_ok=True)


def dense(segment, tensors, gap=0, **more):
    """The update_info of whole tensors, which are written to the segment, `gap` bytes apart."""
    data, offsets, sizes = bytearray(), [], []
    for tensor in tensors.values():
        offsets.append(len(data))
        sizes.append(len(tensor.data))
        data += tensor.data + bytes(gap)
    segment.write(data)
    return {**described(tensors), "shm_name": segment.name, "offsets": offsets, "nbytes": sizes, **more}


def sparse(segment, old, new, **more):
    """The update_info of what differs between two sets of tensors, in no order."""
    data, offsets, sizes, counts = bytearray(), [], [], []
    for name, tensor in new.items():
        before, after = old[name].elements(), tensor.elements()
        changed = [i for i in range(len(after)) if before[i] != after[i]]
        random.Random(name).shuffle(changed)
        part = struct.pack(f"<{len(changed)}i", *changed) + b"".join(after[i] for i in changed)
        offsets.append(len(data))
        sizes.append(len(part))
        counts.append(len(changed))
        data += part
    segment.write(data)
    places = {"shm_name": segment.name, "offsets": offsets, "nbytes": sizes, "num_updates_list": counts}
    return {**described(new), **places, **more}


def described(tensors):
    return {
        "names": list(tensors),
        "dtype_names": [tensor.dtype for tensor in tensors.values()],
        "shapes": [tensor.shape for tensor in tensors.values()],
    }
