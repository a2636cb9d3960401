"""TRL's trainers on unspool, without vLLM and without a GPU. Written for TRL 1.16.

import unspool.integrations.trl

unspool.integrations.trl.install("ipc")    # before TRL's trainers are imported
from trl import GRPOConfig, GRPOTrainer    # then as with vLLM: use_vllm=True, vllm_mode="server", vllm_server_base_url=...

The server: unspool.launch(model, logprobs_mode="processed_logprobs", max_logprobs=-1, weight_transfer_config={"backend": "ipc"}).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _vllm_modules

if TYPE_CHECKING:
    from ..senders import WeightSender

TRANSPORTS = ("gloo", "ipc", "directory")

# What in TRL looks for vLLM as it is imported, and remembers that there was none.
LOOKED_ALREADY = (
    "trl.generation.vllm_client",
    "trl.generation.vllm_generation",
    "trl.experimental.async_grpo.weight_transfer",
    "trl.experimental.async_distillation.weight_transfer",
)


def install(transport: str = "gloo", **options: Any) -> None:
    """Makes TRL take a server of ours for vLLM's, and carry weights by `transport`. Call it before TRL's trainers are
    imported; another call changes the transport of clients that are made from then on.

    "gloo": TRL's own calls, over torch.distributed in place of NCCL. The server finds the trainer at $VLLM_HOST_IP, by
    default this host's loopback. "ipc": shared memory, for a server on this host. "directory": checkpoints that the server
    reads. options: of SharedMemorySender or DirectorySender, such as directory=.

    RuntimeError where vLLM itself is installed, or TRL has looked for it already.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"expected a transport of {', '.join(TRANSPORTS)}, got {transport!r}")
    if options and transport == "gloo":
        raise ValueError(f"gloo has no options here, since TRL itself opens the group; got {', '.join(options)}")
    if not _vllm_modules.installed():
        if "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None:
            raise RuntimeError("vLLM itself is installed here: TRL uses it, and needs no stand-in")
        early = [name for name in LOOKED_ALREADY if name in sys.modules]
        if early:
            raise RuntimeError(f"{early[0]} was imported before install(), and found no vLLM")
        from . import _gloo_endpoint

        _vllm_modules.install(_gloo_endpoint.trainer_init, _gloo_endpoint.packed_nccl_broadcast_producer)
    from . import _trl_client

    if transport == "gloo":
        _trl_client.use_own_calls()
    else:
        _trl_client.use_sender(lambda url: make_sender(url, transport, **options))


def make_sender(url: str, transport: str, **options: Any) -> WeightSender:
    """The package's own sender to the server at `url`."""
    from .. import client, senders

    kind = {"gloo": senders.GlooSender, "ipc": senders.SharedMemorySender, "directory": senders.DirectorySender}
    return kind[transport](client.Client(url), **options)


def install_async_grpo(transport: str = "gloo", **options: Any) -> None:
    """install(), and what AsyncGRPOTrainer lacks on a CPU: an attention function in place of its CUDA kernel, and the
    look-up of the device's peak. Give the trainer weight_transfer=WeightTransfer(url); without, it uses gloo."""
    install(transport, **options)
    from . import _async_grpo

    _async_grpo.install()


class WeightTransfer:
    """What AsyncGRPOTrainer takes as weight_transfer=: generation is frozen, the weights change, generation goes on.

    Requests in flight stay: what they have drawn stands, and its keys and values are computed again by the new weights.
    url: of the server. transport, options: as for install(), and GlooSender's. The n-th sync's tokens are labelled "n".
    """

    def __init__(self, url: str, transport: str = "ipc", **options: Any):
        if transport not in TRANSPORTS:
            raise ValueError(f"expected a transport of {', '.join(TRANSPORTS)}, got {transport!r}")
        from .. import client

        self._client = client.Client(url)
        self._sender = make_sender(url, transport, **options)
        self._num_syncs = 0

    def init_weight_transfer(self) -> None:
        self._client.wait_until_ready()
        self._sender.init()

    def pause(self) -> None:
        self._client.pause("keep")

    def send_weights(self, iterator: Iterable[tuple[str, Any]]) -> None:
        self._num_syncs += 1
        self._sender.send(iterator, version=str(self._num_syncs))

    def resume(self) -> None:
        self._client.resume()

    def destroy(self) -> None:
        self._sender.close()
        self._client.close()
