"""A server's client. AsyncClient is the same for asyncio."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from . import _calls
from ._endpoint import Call, Endpoint
from ._http import Connections
from .errors import RequestTimeout, UnspoolError
from .results import Generation, Score, WeightInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .sampling import Sampling

T = TypeVar("T")

# Between two questions whether a server answers by now.
POLL_INTERVAL_S = 0.05


class Client:
    """Calls a server's routes. Threads may share one; connections are kept and used again.

    url: like "http://127.0.0.1:8000". api_key: the server's --api-key. timeout_s: seconds a call may take, None for ever;
    with_timeout() for one call.

    Every call raises ApiError where the server refuses, Unreachable where there is none, RequestTimeout past the timeout;
    all are UnspoolErrors. Nothing is sent twice. Pause, sleep, caches and weights are routes that a server has with
    VLLM_SERVER_DEV_MODE=1 in its environment (unspool.launch sets it).
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float | None = 600):
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._connections = Connections(Endpoint(url, api_key))

    def _run(self, call: Call[T]) -> T:
        return self._connections.run(call, self.timeout_s)

    def with_timeout(self, timeout_s: float | None) -> Client:
        """The same client, and the same connections, with another timeout."""
        other = copy.copy(self)
        other.timeout_s = timeout_s
        return other

    def close(self) -> None:
        """Closes the connections that are kept."""
        self._connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Tokens.

    def generate(
        self,
        token_ids: Iterable[int],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        """Token ids in, token ids out (/inference/v1/generate; the server needs --enable-scale-out, which launch sets).

        token_ids: one prompt, [p] ids. sampling: see unspool.sampling; log-probs of the sampled tokens are always asked
        for. extra: more fields of the body, as cache_salt, priority, request_id. n outputs, each with weight_versions.
        """
        return self._run(_calls.generate(token_ids, model, extra, sampling))

    def complete(
        self,
        prompts: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        """Continues one prompt or many, texts or token ids (/v1/completions).

        Outputs are prompt-major: all n of the first, then of the second. Their text is set, and prompt_token_ids too.
        """
        return self._run(_calls.complete(prompts, model, extra, sampling))

    def score(self, sequences: Iterable[Iterable[int]], *, top: int = 0, model: str | None = None) -> list[Score]:
        """The log-probs of given sequences of token ids, as a teacher or a reference model gives them; one Score each, in
        their order. top: how many of the likeliest tokens beside (the server's --max-logprobs allows more than 20)."""
        return self._run(_calls.score(sequences, top, model))

    def chat(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generation:
        """The next message of a conversation, [{"role": .., "content": ..}, ..], by the model's chat template
        (/v1/chat/completions). extra: tools, chat_template_kwargs and what else that route takes."""
        return self._run(_calls.chat(messages, model, extra, sampling))

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The token ids of a text."""
        return self._run(_calls.tokenize(text, add_special_tokens))

    def detokenize(self, token_ids: Iterable[int]) -> str:
        """The text of token ids."""
        return self._run(_calls.detokenize(token_ids))

    # The server.

    def health(self) -> bool:
        """Whether it answers, and its engine lives. It may be asleep, or without weights: see weight_info()."""
        try:
            self._run(_calls.health())
        except UnspoolError:
            return False
        return True

    def wait_until_ready(self, timeout_s: float = 120) -> None:
        """Returns once health() is true; RequestTimeout after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RequestTimeout(f"{self.url} is not ready after {timeout_s:g} s")
            if self.with_timeout(min(left, 5)).health():
                return
            time.sleep(POLL_INTERVAL_S)

    def version(self) -> str:
        """The version of vLLM whose API the server speaks, as "0.32.0"."""
        return self._run(_calls.version())

    def models(self) -> list[dict[str, Any]]:
        """What /v1/models lists; id and max_model_len among its fields."""
        return self._run(_calls.models())

    def server_info(self) -> dict[str, Any]:
        """The configuration, as /server_info?config_format=json has it."""
        return self._run(_calls.server_info())

    def world_size(self) -> int:
        """How many ranks the server takes in a transfer's group."""
        return self._run(_calls.world_size())

    # Pause, sleep and caches.

    def pause(self, mode: str = "abort", *, clear_cache: bool = True) -> None:
        """Stops generation; new requests wait for resume(). mode: what becomes of those in flight.

        "abort": they end with finish_reason "abort" and what they have. "wait": they run to their end, and this returns
        then. "keep": they freeze, and go on after resume(); with clear_cache their context is computed again by the
        weights of then, without it they keep keys of the old weights.
        """
        return self._run(_calls.pause(mode, clear_cache))

    def resume(self) -> bool:
        """Goes on. Whether kept requests do so with keys and values of older weights. ApiError 409 while memory sleeps."""
        return self._run(_calls.resume())

    @contextmanager
    def paused(self, mode: str = "keep", *, clear_cache: bool = True) -> Iterator[None]:
        """pause(), and resume() at the block's end, also where it fails: the usual bracket around new weights."""
        self.pause(mode, clear_cache=clear_cache)
        try:
            yield
        finally:
            self.resume()

    def is_paused(self) -> bool:
        """Whether generation is stopped, by a pause or a sleep."""
        return self._run(_calls.is_paused())

    def sleep(self, level: int = 1, *, mode: str = "abort") -> None:
        """Pauses, and gives memory back (the server needs --enable-sleep-mode). level 0: nothing; 1: cache and weights,
        which come back by themselves; 2: the weights are gone, and must be sent or reloaded after waking."""
        return self._run(_calls.sleep(level, mode))

    def wake_up(self, tags: Sequence[str] | None = None) -> bool:
        """Brings memory back: all of it, or of "weights", "kv_cache", "scheduling" those named. Whether nothing is asleep
        any more; then generation goes on."""
        return self._run(_calls.wake_up(tags))

    def is_sleeping(self) -> bool:
        """Whether memory is asleep, or generation paused."""
        return self._run(_calls.is_sleeping())

    def release_kv_cache_memory(self) -> None:
        """Gives the cache's memory back while paused; wake_up(["kv_cache"]) brings it again."""
        return self._run(_calls.release_kv_cache_memory())

    def reset_prefix_cache(self, *, reset_running_requests: bool = False) -> bool:
        """Nothing computed so far can be hit again. False, and nothing done, while a request holds cache, unless
        reset_running_requests: then they are computed again."""
        return self._run(_calls.reset_prefix_cache(reset_running_requests))

    def abort_requests(self, request_ids: Iterable[str] | None = None) -> int:
        """Ends the requests of these ids, or all, with what they have. How many were meant."""
        return self._run(_calls.abort_requests(request_ids))

    # Weights. unspool.senders do these calls in their order.

    def weight_info(self) -> WeightInfo:
        """The version's label, and whether there are weights to generate with."""
        return self._run(_calls.weight_info())

    def update_weight_version(self, version: str) -> None:
        """Labels the tokens drawn from now on; the weights stay."""
        return self._run(_calls.update_weight_version(version))

    def weight_checksums(self) -> dict[str, str]:
        """The SHA-256 (hex) of each parameter as it is served."""
        return self._run(_calls.weight_checksums())

    def compare_weights(self, baseline: Mapping[str, str]) -> list[str]:
        """The names whose checksums are not those of `baseline`, sorted."""
        return self._run(_calls.compare_weights(baseline))

    def reload_weights(self, directory: str | os.PathLike[str] | None = None) -> None:
        """Loads a directory of safetensors that the server can read, all or nothing; without one, what it was started
        with. Empties the prefix cache."""
        return self._run(_calls.reload_weights(None if directory is None else os.fspath(directory)))

    def update_weights_from_directory(self, directory: str | os.PathLike[str]) -> None:
        """The same through /update_weights {"weight_dir"}, as prime-rl does it."""
        return self._run(_calls.update_weights_from_directory(os.fspath(directory)))

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any] | None = None) -> None:
        """Makes the transport ready; for gloo it answers once the group has been joined."""
        return self._run(_calls.init_weight_transfer_engine(init_info or {}))

    def start_weight_update(self, *, partial: bool = False, session: str | None = None) -> None:
        """Opens a session. partial: it may end without all of the model's tensors. session: its name; updates (as
        update_info["session"]) and finish that give another are refused, and change nothing."""
        return self._run(_calls.start_weight_update(partial, session))

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Brings tensors into the open session: names, dtype_names, shapes and what the transport needs
        (docs/adr/0006). Answers once they are taken over. After an error the session is gone."""
        return self._run(_calls.update_weights(update_info))

    def finish_weight_update(self, version: str | None = None, *, session: str | None = None) -> None:
        """Makes the session's tensors the served ones, between two steps, all of them; their tokens are labelled
        `version` from then on."""
        return self._run(_calls.finish_weight_update(version, session))

    def shutdown_weight_transfer_engine(self) -> None:
        """Lets go of the transport: its group or its shared memory."""
        return self._run(_calls.shutdown_weight_transfer_engine())

    def collective_rpc(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Calls a worker's method by its name; one result a worker."""
        return self._run(_calls.collective_rpc(method, args, kwargs))
