"""What senders take as a tensor: torch's, numpy's, or a numpy array of bits with the name of their type.

torch is never imported here: who has a tensor of torch has imported it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

# A torch.Tensor; a numpy array (float32, float16, or bfloat16 by ml_dtypes); or (uint16 array, "bfloat16").
TensorLike = Any
Indices = Union["np.ndarray[Any, Any]", Sequence[int], Any]

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


class Source:
    """A tensor to send: its type and shape by name, and its bytes, row-major, wherever they lie now."""

    def __init__(self, name: str, dtype_name: str, shape: tuple[int, ...]):
        if dtype_name not in ITEM_BYTES:
            raise ValueError(f"{name}: expected float32, float16 or bfloat16, got {dtype_name}")
        self.name = name
        self.dtype_name = dtype_name
        self.shape = shape
        self.nbytes = math.prod(shape) * ITEM_BYTES[dtype_name]

    def copy_into(self, buffer: np.ndarray) -> None:
        """Writes the bytes. buffer: uint8 [nbytes], contiguous. Other threads run meanwhile."""
        raise NotImplementedError

    def bytes(self) -> np.ndarray:
        """The bytes as uint8 [nbytes], in place where the tensor is contiguous and in this host's memory."""
        buffer = np.empty(self.nbytes, np.uint8)
        self.copy_into(buffer)
        return buffer

    def address(self) -> int | None:
        """Where the bytes lie in one piece in this process, if they do."""
        return None


class NumpySource(Source):
    def __init__(self, name: str, array: np.ndarray, dtype_name: str | None = None):
        stored = array.dtype.name
        if dtype_name is not None and ITEM_BYTES.get(dtype_name) != array.itemsize:
            raise ValueError(f"{name}: {stored} cannot hold the bits of {dtype_name}")
        super().__init__(name, dtype_name or stored, array.shape)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        self._array = array

    def copy_into(self, buffer: np.ndarray) -> None:
        if self.nbytes:
            np.copyto(buffer.view(self._array.dtype).reshape(self.shape), self._array)

    def bytes(self) -> np.ndarray:
        return np.ascontiguousarray(self._array).reshape(-1).view(np.uint8)

    def address(self) -> int | None:
        return self._array.ctypes.data if self._array.flags.c_contiguous else None


class TorchSource(Source):
    """On any device. A contiguous one on the CPU goes by numpy's copy, a single memcpy outside the GIL: torch's is
    shared among its threads, which costs more than it gains for a few megabytes and takes cores from the engine."""

    def __init__(self, name: str, tensor: Any):
        super().__init__(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        self._tensor = tensor.detach()
        self._plain = self._tensor.device.type == "cpu" and self._tensor.is_contiguous()

    def copy_into(self, buffer: np.ndarray) -> None:
        if not self.nbytes:
            return
        if self._plain:
            np.copyto(buffer, self.bytes())
            return
        torch = sys.modules["torch"]
        torch.from_numpy(buffer).view(self._tensor.dtype).view(self.shape).copy_(self._tensor)

    def bytes(self) -> np.ndarray:
        if not self._plain or not self.nbytes:
            return super().bytes()
        return self._tensor.view(-1).view(sys.modules["torch"].uint8).numpy()

    def address(self) -> int | None:
        return self._tensor.data_ptr() if self._plain else None


def source(name: str, tensor: TensorLike) -> Source:
    """TypeError where it is none of what is taken, ValueError for a type of number that no weight has."""
    if isinstance(tensor, np.ndarray):
        return NumpySource(name, tensor)
    if isinstance(tensor, tuple) and len(tensor) == 2 and isinstance(tensor[0], np.ndarray):
        return NumpySource(name, *tensor)
    if hasattr(tensor, "detach") and hasattr(tensor, "data_ptr"):
        return TorchSource(name, tensor)
    raise TypeError(f"{name}: expected a torch or numpy tensor, or (array, dtype name), got {type(tensor).__name__}")


class SparseSource:
    """Elements of a tensor: flat indices into all of it, and the values that replace what is there."""

    def __init__(self, name: str, indices: Indices, values: TensorLike, shape: Sequence[int]):
        if hasattr(indices, "detach"):
            indices = indices.detach().cpu().numpy()
        ids = np.asarray(indices)
        self.values = source(name, values)
        self.shape = tuple(map(int, shape))
        size = math.prod(self.shape)
        if ids.ndim != 1 or len(self.values.shape) != 1 or len(ids) != self.values.shape[0]:
            raise ValueError(f"{name}: expected [n] indices and [n] values, got {ids.shape} and {self.values.shape}")
        if len(ids) and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= min(size, 1 << 31)):
            raise ValueError(f"{name}: expected integer indices in [0, {size}) that int32 can hold")
        self.indices = np.ascontiguousarray(ids, dtype="<i4")
        self.name = name
        self.dtype_name = self.values.dtype_name
        self.num_updates = len(ids)
        self.nbytes = self.indices.nbytes + self.values.nbytes

    def address(self) -> None:
        return None  # made for the occasion

    def copy_into(self, buffer: np.ndarray) -> None:
        """Indices, then values. buffer: uint8 [nbytes]."""
        np.copyto(buffer[: self.indices.nbytes], self.indices.view(np.uint8))
        self.values.copy_into(buffer[self.indices.nbytes :])


def spec(sources: Sequence[Source | SparseSource]) -> dict[str, Any]:
    """The part of an update_info that every transport has."""
    info: dict[str, Any] = {
        "names": [s.name for s in sources],
        "dtype_names": [s.dtype_name for s in sources],
        "shapes": [list(s.shape) for s in sources],
    }
    if sources and isinstance(sources[0], SparseSource):
        info["num_updates_list"] = [s.num_updates for s in sources]
    return info
