"""Weights by way of a directory that sender and server both reach."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from ..client import Client
from .base import Sources, WeightSender
from .safetensors import read_tensors, write_checkpoint
from .tensors import NumpySource, Source, SparseSource

# Files of a model directory that are weights, or list them.
WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")


class DirectorySender(WeightSender):
    """For any server that can read `directory`; with --weight-directory it must be one of those, or below.

    Each send writes a checkpoint of safetensors into a directory of its own, which appears whole or not at all and holds
    a file STABLE, as prime-rl's trainers mark theirs; then the server loads it.

    model: a model directory; its other files (configuration, tokenizer) are copied, so that each checkpoint can be served
    by itself, and its weights are what a partial or sparse first send changes. keep: how many of this sender's
    checkpoints stay. route: "reload_weights" (/collective_rpc) or "weight_dir" (/update_weights).

    The label changes by a call of its own, after the weights; in between a token may carry the old one, unless the server
    is paused.
    """

    def __init__(
        self,
        client: Client,
        directory: str | os.PathLike[str],
        *,
        model: str | os.PathLike[str] | None = None,
        keep: int = 2,
        route: Literal["reload_weights", "weight_dir"] = "reload_weights",
    ):
        super().__init__(client)
        if keep < 1:
            raise ValueError(f"expected to keep at least the served checkpoint, got keep={keep}")
        self._directory = Path(directory).absolute()
        self._model = None if model is None else Path(model)
        self._keep = keep
        self._load = client.reload_weights if route == "reload_weights" else client.update_weights_from_directory
        self._written: list[Path] = []

    def init(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Nothing to let go of: checkpoints stay, since the server may read the last one again."""

    def _bring(self, sources: Sources, version: str | None, partial: bool) -> tuple[int, int]:
        self.init()
        counts: list[int] = []
        checkpoint = self._write(self._merged(sources, counts) if partial else self._counted(sources, counts))
        try:
            self._load(checkpoint)
        except BaseException:
            shutil.rmtree(checkpoint, ignore_errors=True)
            raise
        if version is not None:
            self._client.update_weight_version(version)
        self._written.append(checkpoint)
        while len(self._written) > self._keep:
            shutil.rmtree(self._written.pop(0), ignore_errors=True)
        return len(counts), sum(counts)

    @staticmethod
    def _counted(sources: Sources, counts: list[int]) -> Iterator[Source | SparseSource]:
        for item in sources:
            counts.append(item.nbytes)
            yield item

    def _merged(self, sources: Sources, counts: list[int]) -> Iterator[Source]:
        """The checkpoint before, with what is new in it. The server takes whole ones only."""
        before = self._written[-1] if self._written else self._model
        if before is None:
            raise ValueError("a directory holds a whole checkpoint: send one first, or name the model")
        new = {item.name: item for item in self._counted(sources, counts)}
        for old in read_tensors(before):
            item = new.pop(old.name, old)
            yield changed(old, item) if isinstance(item, SparseSource) else item
        for item in new.values():
            if isinstance(item, SparseSource):
                raise ValueError(f"{item.name}: {before} has no tensor of that name to change")
            yield item

    def _write(self, sources: Iterator[Source | SparseSource]) -> Path:
        number = 1
        while (target := self._directory / f"weights-{number:06d}").exists():
            number += 1
        draft = self._directory / f".{target.name}.{os.getpid()}"
        try:
            draft.mkdir()
            write_checkpoint(draft, sources)
            if self._model is not None:
                weights = {path for pattern in WEIGHT_FILES for path in self._model.glob(pattern)}
                for path in self._model.iterdir():
                    if path.is_file() and path not in weights:
                        shutil.copy(path, draft)
            (draft / "STABLE").touch()
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return target


def changed(old: NumpySource, item: SparseSource) -> NumpySource:
    """The old tensor with the item's values in their places."""
    if (old.shape, old.dtype_name) != (item.shape, item.dtype_name):
        raise ValueError(
            f"{item.name}: expected {old.dtype_name} {list(old.shape)}, got {item.dtype_name} {list(item.shape)}"
        )
    bits = np.dtype(f"u{old.nbytes // max(1, np.prod(old.shape, dtype=int))}")
    flat = old.bytes().view(bits).copy()
    flat[item.indices] = item.values.bytes().view(bits)
    return NumpySource(old.name, flat.reshape(old.shape), old.dtype_name)
