"""Writes tests/data/safetensors/sample.safetensors with the format's own library (PyPI safetensors).

The unit tests of src/weights read it and know its values: tensor k of n elements holds the bytes (7 * k + i) % 251.
"""

import ctypes
import math
from pathlib import Path

from safetensors import TensorSpec, serialize_file

TENSORS = [
    ("model.embed_tokens.weight", "bfloat16", [3, 4]),
    ("model.norm.weight", "float32", [5]),
    ("odd.bytes", "uint8", [3]),
    ("half", "float16", [2, 1, 3]),
    ("scalar", "float64", []),
    ("empty", "float32", [0, 4]),
    ("ünïcode", "int64", [2]),
    ("eight", "float8_e4m3fn", [2, 2]),
    ("flags", "bool", [1]),
]
SIZES = {"bfloat16": 2, "float32": 4, "uint8": 1, "float16": 2, "float64": 8, "int64": 8, "float8_e4m3fn": 1, "bool": 1}


def main() -> None:
    path = Path(__file__).resolve().parent.parent / "tests/data/safetensors/sample.safetensors"
    buffers = []  # a spec holds an address alone
    tensors = {}
    for k, (name, dtype, shape) in enumerate(TENSORS):
        size = math.prod(shape) * SIZES[dtype]
        buffers.append((ctypes.c_uint8 * size)(*((7 * k + i) % 251 for i in range(size))))
        address = ctypes.addressof(buffers[-1])
        tensors[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=address, data_len=size)
    path.parent.mkdir(parents=True, exist_ok=True)
    serialize_file(tensors, str(path), {"format": "pt", "note": "sample"})


if __name__ == "__main__":
    main()
