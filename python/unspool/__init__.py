"""unspool: a rollout engine for reinforcement learning of language models.

import unspool

with unspool.launch("models/SmolLM2-135M-Instruct", weight_transfer_config={"backend": "ipc"}) as server:
    client = unspool.Client(server.url)
    with unspool.SharedMemorySender(client) as sender:
        for step in range(100):
            group = client.generate(prompt_ids, n=8, max_tokens=64)
            train(model, group)
            with client.paused("keep"):
                sender.send(model.named_parameters(), version=str(step))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._binary import binary
    from ._serve import Server, ServerDied, launch, serve
    from .async_client import AsyncClient
    from .client import Client
    from .errors import ApiError, RequestTimeout, TransferError, Unreachable, UnspoolError
    from .results import Generation, Output, Score, VersionSpan, WeightInfo
    from .routed_experts import decode_routed_experts
    from .senders import DirectorySender, GlooSender, SharedMemorySender, WeightSender

__version__ = "0.1.0"

# Imported when they are first used: the server's command and its side process start without numpy.
_HOME = {
    "binary": "_binary",
    "AsyncClient": "async_client",
    "Client": "client",
    **dict.fromkeys(("Server", "ServerDied", "launch", "serve"), "_serve"),
    **dict.fromkeys(("ApiError", "RequestTimeout", "TransferError", "Unreachable", "UnspoolError"), "errors"),
    **dict.fromkeys(("Generation", "Output", "Score", "VersionSpan", "WeightInfo"), "results"),
    "decode_routed_experts": "routed_experts",
    **dict.fromkeys(("DirectorySender", "GlooSender", "SharedMemorySender", "WeightSender"), "senders"),
}

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "DirectorySender",
    "Generation",
    "GlooSender",
    "Output",
    "RequestTimeout",
    "Score",
    "Server",
    "ServerDied",
    "SharedMemorySender",
    "TransferError",
    "Unreachable",
    "UnspoolError",
    "VersionSpan",
    "WeightInfo",
    "WeightSender",
    "binary",
    "decode_routed_experts",
    "launch",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("." + _HOME[name], __name__), name)
