"""A server's client for asyncio."""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from . import _calls
from ._endpoint import Call, Endpoint
from ._http_async import AsyncConnections
from .client import POLL_INTERVAL_S, Client
from .errors import RequestTimeout, UnspoolError
from .results import Generation, Score, WeightInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .sampling import Sampling

T = TypeVar("T")


class AsyncClient:
    """Client, with every call to be awaited; what each does is said there. A call that is cancelled closes its
    connection, and with it ends the request on the server."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float | None = 600):
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._connections = AsyncConnections(Endpoint(url, api_key))

    async def _run(self, call: Call[T]) -> T:
        return await self._connections.run(call, self.timeout_s)

    def with_timeout(self, timeout_s: float | None) -> AsyncClient:
        other = copy.copy(self)
        other.timeout_s = timeout_s
        return other

    async def close(self) -> None:
        await self._connections.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # Tokens.

    async def generate(
        self,
        token_ids: Iterable[int],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        return await self._run(_calls.generate(token_ids, model, extra, sampling))

    async def complete(
        self,
        prompts: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        return await self._run(_calls.complete(prompts, model, extra, sampling))

    async def score(self, sequences: Iterable[Iterable[int]], *, top: int = 0, model: str | None = None) -> list[Score]:
        return await self._run(_calls.score(sequences, top, model))

    async def chat(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        return await self._run(_calls.chat(messages, model, extra, sampling))

    async def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return await self._run(_calls.tokenize(text, add_special_tokens))

    async def detokenize(self, token_ids: Iterable[int]) -> str:
        return await self._run(_calls.detokenize(token_ids))

    # The server.

    async def health(self) -> bool:
        try:
            await self._run(_calls.health())
        except UnspoolError:
            return False
        return True

    async def wait_until_ready(self, timeout_s: float = 120) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RequestTimeout(f"{self.url} is not ready after {timeout_s:g} s")
            if await self.with_timeout(min(left, 5)).health():
                return
            await asyncio.sleep(POLL_INTERVAL_S)

    async def version(self) -> str:
        return await self._run(_calls.version())

    async def models(self) -> list[dict[str, Any]]:
        return await self._run(_calls.models())

    async def server_info(self) -> dict[str, Any]:
        return await self._run(_calls.server_info())

    async def world_size(self) -> int:
        return await self._run(_calls.world_size())

    # Pause, sleep and caches.

    async def pause(self, mode: str = "abort", *, clear_cache: bool = True) -> None:
        return await self._run(_calls.pause(mode, clear_cache))

    async def resume(self) -> bool:
        return await self._run(_calls.resume())

    @asynccontextmanager
    async def paused(self, mode: str = "keep", *, clear_cache: bool = True) -> AsyncIterator[None]:
        await self.pause(mode, clear_cache=clear_cache)
        try:
            yield
        finally:
            await self.resume()

    async def is_paused(self) -> bool:
        return await self._run(_calls.is_paused())

    async def sleep(self, level: int = 1, *, mode: str = "abort") -> None:
        return await self._run(_calls.sleep(level, mode))

    async def wake_up(self, tags: Sequence[str] | None = None) -> bool:
        return await self._run(_calls.wake_up(tags))

    async def is_sleeping(self) -> bool:
        return await self._run(_calls.is_sleeping())

    async def release_kv_cache_memory(self) -> None:
        return await self._run(_calls.release_kv_cache_memory())

    async def reset_prefix_cache(self, *, reset_running_requests: bool = False) -> bool:
        return await self._run(_calls.reset_prefix_cache(reset_running_requests))

    async def abort_requests(self, request_ids: Iterable[str] | None = None) -> int:
        return await self._run(_calls.abort_requests(request_ids))

    # Weights. unspool.senders do these calls in their order.

    async def weight_info(self) -> WeightInfo:
        return await self._run(_calls.weight_info())

    async def update_weight_version(self, version: str) -> None:
        return await self._run(_calls.update_weight_version(version))

    async def weight_checksums(self) -> dict[str, str]:
        return await self._run(_calls.weight_checksums())

    async def compare_weights(self, baseline: Mapping[str, str]) -> list[str]:
        return await self._run(_calls.compare_weights(baseline))

    async def reload_weights(self, directory: str | os.PathLike[str] | None = None) -> None:
        return await self._run(_calls.reload_weights(None if directory is None else os.fspath(directory)))

    async def update_weights_from_directory(self, directory: str | os.PathLike[str]) -> None:
        return await self._run(_calls.update_weights_from_directory(os.fspath(directory)))

    async def init_weight_transfer_engine(self, init_info: Mapping[str, Any] | None = None) -> None:
        return await self._run(_calls.init_weight_transfer_engine(init_info or {}))

    async def start_weight_update(self, *, partial: bool = False, session: str | None = None) -> None:
        return await self._run(_calls.start_weight_update(partial, session))

    async def update_weights(self, update_info: Mapping[str, Any]) -> None:
        return await self._run(_calls.update_weights(update_info))

    async def finish_weight_update(self, version: str | None = None, *, session: str | None = None) -> None:
        return await self._run(_calls.finish_weight_update(version, session))

    async def shutdown_weight_transfer_engine(self) -> None:
        return await self._run(_calls.shutdown_weight_transfer_engine())

    async def collective_rpc(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        return await self._run(_calls.collective_rpc(method, args, kwargs))


# The words are the same; help() finds them here as well.
for _name, _method in vars(AsyncClient).items():
    if not _name.startswith("_"):
        _method.__doc__ = getattr(Client, _name).__doc__
