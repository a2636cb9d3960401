"""Safetensors files, as far as checkpoints of weights need them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .tensors import NumpySource, Source

NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
DTYPES = {"F32": ("<f4", "float32"), "F16": ("<f2", "float16"), "BF16": ("<u2", "bfloat16")}
# A file's header stands before its data and tells all of it, so that much is held back until it can be written.
SHARD_BYTES = 2 << 30


def write_checkpoint(directory: Path, sources: Iterable[Source], shard_bytes: int = SHARD_BYTES) -> None:
    """model.safetensors, or shards with an index where it would be larger than shard_bytes."""
    shard: list[Source] = []
    size = total = 0
    place: dict[str, str] = {}

    def write() -> None:
        name = f"model-{len(set(place.values())) + 1:05d}.safetensors"
        write_file(directory / name, shard)
        for item in shard:
            if item.name in place:
                raise ValueError(f"{item.name}: given twice")
            place[item.name] = name
        shard.clear()

    for item in sources:
        if shard and size + item.nbytes > shard_bytes:
            write()
            size = 0
        shard.append(item)
        size, total = size + item.nbytes, total + item.nbytes
    if not place:
        write_file(directory / "model.safetensors", shard)
        return
    write()
    index = {"metadata": {"total_size": total}, "weight_map": place}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def write_file(path: Path, sources: list[Source]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for item in sources:
        if item.name in header:
            raise ValueError(f"{item.name}: given twice")
        span = [offset, offset + item.nbytes]
        header[item.name] = {"dtype": NAMES[item.dtype_name], "shape": list(item.shape), "data_offsets": span}
        offset += item.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for item in sources:
            file.write(item.bytes().data)


def read_tensors(directory: Path) -> Iterator[NumpySource]:
    """Every tensor of a checkpoint, mapped from its file."""
    for path in sorted(directory.glob("*.safetensors")):
        data = np.memmap(path, np.uint8, "r")
        size = int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8 : 8 + size].tobytes())
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            if tensor["dtype"] not in DTYPES:
                raise ValueError(f"{path}: {name} is {tensor['dtype']}, expected {', '.join(DTYPES)}")
            dtype, dtype_name = DTYPES[tensor["dtype"]]
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            yield NumpySource(name, data[begin:end].view(dtype).reshape(tensor["shape"]), dtype_name)
