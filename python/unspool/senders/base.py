"""What all weight senders have in common: the interface, and the session on the server."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..client import Client
from ..errors import UnspoolError
from .tensors import Indices, Source, SparseSource, TensorLike, source

# The server answers at once, or it is busy with what has failed; then the session ends with that.
ABANDON_TIMEOUT_S = 10


@dataclass(frozen=True)
class Sent:
    """What a send brought: num_tensors, nbytes of their data, seconds from its start to the new weights being served."""

    num_tensors: int
    nbytes: int
    seconds: float
    version: str | None


Sources = Iterable["Source | SparseSource"]


class WeightSender(ABC):
    """Brings a policy's weights to a server.

        with unspool.SharedMemorySender(client) as sender:
            sender.send(model.named_parameters(), version="1")

    A send is whole or not at all: where it raises, the server has its old weights and the next send works. Requests in
    flight go on meanwhile, and see the new weights from one step to the next. What they and the prefix cache hold of the
    old ones stays, unless the send stands in `with client.paused("keep")`, or client.reset_prefix_cache() comes after it.

    One thread at a time. Errors are UnspoolErrors: ApiError where the server refuses (unknown names, wrong shapes, a
    model that sleeps), TransferError for what fails here, Unreachable and RequestTimeout; TypeError and ValueError for
    what is no tensor of weights.
    """

    def __init__(self, client: Client):
        self._client = client
        self._shapes: dict[str, tuple[int, ...]] = {}

    @abstractmethod
    def init(self) -> None:
        """Makes the transport ready on both sides; entering a `with` block does it. Again, after an error: anew."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of the transport on both sides. The weights stay, and so does the server."""

    @abstractmethod
    def _bring(self, sources: Sources, version: str | None, partial: bool) -> tuple[int, int]:
        """Brings tensors to the server and makes them the served ones; how many, and their bytes."""

    def send(
        self, tensors: Iterable[tuple[str, TensorLike]], *, version: str | None = None, partial: bool = False
    ) -> Sent:
        """Replaces weights.

        tensors: (name, tensor) pairs, as model.named_parameters() gives them; names and shapes are those of the Hugging
        Face checkpoint, whole and unfused. Tensors are torch's (on any device), numpy's, or (uint16 array, "bfloat16");
        float32, float16 and bfloat16 in any mix, which the server casts to what it serves. A tied head may be left out.
        An iterator is consumed as the transfer goes, so what it yields may be made on the way.
        version: the label of tokens drawn from the new weights. partial: weights that are not sent stay as they are;
        otherwise a missing one is an error.
        """
        began = time.perf_counter()

        def remembered() -> Iterator[Source]:
            for name, tensor in tensors:
                item = source(name, tensor)
                self._shapes[name] = item.shape
                yield item

        count, nbytes = self._bring(remembered(), version, partial)
        return Sent(count, nbytes, time.perf_counter() - began, version)

    def send_sparse(
        self,
        changes: Iterable[tuple[str, Indices, TensorLike]],
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        version: str | None = None,
    ) -> Sent:
        """Replaces single elements; all others stay.

        changes: (name, indices, values). indices: [n] integers into the flattened tensor; values: [n], what stands there
        afterwards. shapes: of the whole tensors, by name; what this sender has sent before it knows itself.
        """
        began = time.perf_counter()
        known = {**self._shapes, **(shapes or {})}

        def items() -> Iterator[SparseSource]:
            for name, indices, values in changes:
                if name not in known:
                    raise ValueError(f"{name}: its shape is not known; give it in shapes")
                yield SparseSource(name, indices, values, known[name])

        count, nbytes = self._bring(items(), version, partial=True)
        return Sent(count, nbytes, time.perf_counter() - began, version)

    def __enter__(self) -> WeightSender:
        self.init()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class SessionSender(WeightSender):
    """A sender whose transport lives on, and whose tensors come in a session: start, updates, finish; the same for each
    server that takes part."""

    def __init__(self, clients: Sequence[Client]):
        super().__init__(clients[0])
        self._clients = clients
        self._ready = False
        self._session = ""

    @abstractmethod
    def _transfer(self, sources: Sources) -> tuple[int, int]:
        """Brings tensors into the session that is open, as update_infos of self._session; how many, and their bytes."""

    def _bring(self, sources: Sources, version: str | None, partial: bool) -> tuple[int, int]:
        if not self._ready:
            self.init()
        started = []
        # By its name no call of ours gets into the session of a sender that has taken our place.
        self._session = secrets.token_hex(8)
        try:
            for client in self._clients:
                client.start_weight_update(partial=partial, session=self._session)
                started.append(client)
            done = self._transfer(sources)
            for client in self._clients:
                client.finish_weight_update(version, session=self._session)
        except BaseException:
            # An update that fails ends the session, so here is one that must. Where it has ended this is refused, and
            # the error that led here is the one that counts.
            for client in started:
                with suppress(UnspoolError):
                    client.with_timeout(ABANDON_TIMEOUT_S).update_weights({"session": self._session})
            if started:
                self._session_failed()
            raise
        return done

    def _session_failed(self) -> None:
        """Lets go of what does not outlive a failed session on the server's side."""
