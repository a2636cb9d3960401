"""TRL's trainers on unspool, without vLLM and without a GPU. Written for TRL 1.16.

import unspool.integrations.trl

unspool.integrations.trl.install(transport="ipc")   # before what uses vLLM in TRL is imported
from trl import GRPOConfig, GRPOTrainer             # then as ever: use_vllm=True, vllm_mode="server"
"""

import importlib.util
import sys

from . import _vllm_modules

# What in TRL looks for vLLM as it is imported, and remembers that there was none.
_IMPORTED_TOO_EARLY = (
    "trl.generation.vllm_client",
    "trl.generation.vllm_generation",
    "trl.experimental.async_grpo.weight_transfer",
)


TRANSPORTS = ("ipc", "gloo")


def install(transport="gloo"):
    """Makes TRL take a server of ours for vLLM's. Call it before TRL's trainers are imported; again, it does nothing."""
    if _vllm_modules.installed():
        return
    if "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None:
        raise RuntimeError("vLLM itself is installed here: TRL can use it, and needs no stand-in for it")
    early = [name for name in _IMPORTED_TOO_EARLY if name in sys.modules]
    if early:
        raise RuntimeError(f"{early[0]} was imported already, and found no vLLM: call install() before it")
    _vllm_modules.install(None, None)
