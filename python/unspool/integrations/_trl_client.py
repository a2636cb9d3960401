"""How TRL's VLLMClient carries weights: by its own calls, or by a sender of ours."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from trl.generation.vllm_client import VLLMClient

if TYPE_CHECKING:
    from ..senders import WeightSender

METHODS = (
    "init_communicator",
    "_start_weight_update",
    "_finish_weight_update",
    "update_named_params",
    "close_communicator",
)
ORIGINALS = {name: getattr(VLLMClient, name) for name in METHODS}


def use_own_calls() -> None:
    """TRL's code as it is, but for the one check that the trainer's device is CUDA."""

    def init_communicator(self: Any, device: Any = 0) -> None:
        # "cuda" without an index passes the check, and is where TRL touches no device.
        ORIGINALS["init_communicator"](self, "cuda")

    patch(ORIGINALS | {"init_communicator": init_communicator})


def use_sender(make_sender: Callable[[str], WeightSender]) -> None:
    """Updates go through make_sender(url), each of them a whole session of its own."""

    def init_communicator(self: Any, device: Any = 0) -> None:
        self.communicator = make_sender(self.base_url)
        self.communicator.init()
        atexit.register(self.close_communicator)

    def start_weight_update(self: Any) -> None:
        self._collected = []

    def finish_weight_update(self: Any) -> None:
        self.communicator.send(self._collected)

    def update_named_params(self: Any, metadata: Any, named_params: Iterable[tuple[str, Any]]) -> None:
        # Inside weight_update(), one call brings a few tensors; they are sent together when it ends.
        if self._updating_weights:
            self._collected += named_params
        else:
            self.communicator.send(named_params)

    def close_communicator(self: Any) -> None:
        if self.communicator is not None:
            self.communicator.close()
            self.communicator = None

    patch(
        {
            "init_communicator": init_communicator,
            "_start_weight_update": start_weight_update,
            "_finish_weight_update": finish_weight_update,
            "update_named_params": update_named_params,
            "close_communicator": close_communicator,
        }
    )


def patch(methods: dict[str, Any]) -> None:
    for name, function in methods.items():
        setattr(VLLMClient, name, function)
