"""Stand-ins for the modules of vLLM that TRL imports to drive a server.

TRL talks to the server over HTTP and needs vLLM in its own process for three things: to see that it is there, to learn its
own address, and to open and feed the group that carries weights. Only those are here. What runs a model inside the trainer
(TRL's colocate mode) is named, since TRL imports it, and says on use that it is not there.
"""

import importlib.machinery
import os
import socket
import sys
import types

# In TRL 1.16's window of 0.22.0 to 0.31.0; from 0.28.0 on, `packed` is part of init_info and the trainer's side of the group
# is two functions.
VERSION = "0.31.0"


def get_ip():
    """This host's address for the server: VLLM_HOST_IP as for vLLM, or loopback, where both are on one host."""
    return os.environ.get("VLLM_HOST_IP", "127.0.0.1")


def get_open_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class _InProcess:
    """A class of vLLM's engine, of which there is none in this process."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            f'vllm.{type(self).__name__} runs a model inside the trainer (vllm_mode="colocate"); unspool serves it from a '
            'process of its own: vllm_mode="server"'
        )


class LLM(_InProcess):
    pass


class RequestOutput(_InProcess):
    pass


class SamplingParams(_InProcess):
    pass


class StructuredOutputsParams(_InProcess):
    pass


def install(trainer_init, packed_nccl_broadcast_producer):
    """Puts the modules into sys.modules; the arguments are the trainer's side of the weight group."""
    contents = {
        "vllm": {
            "__version__": VERSION,
            "LLM": LLM,
            "RequestOutput": RequestOutput,
            "SamplingParams": SamplingParams,
        },
        "vllm.utils": {},
        "vllm.utils.network_utils": {"get_ip": get_ip, "get_open_port": get_open_port},
        "vllm.sampling_params": {"StructuredOutputsParams": StructuredOutputsParams},
        "vllm.distributed": {},
        "vllm.distributed.weight_transfer": {},
        "vllm.distributed.weight_transfer.nccl_common": {"trainer_init": trainer_init},
        "vllm.distributed.weight_transfer.packed_tensor": {
            "packed_nccl_broadcast_producer": packed_nccl_broadcast_producer
        },
    }
    for name, attributes in contents.items():
        module = types.ModuleType(name, __doc__)
        # importlib.util.find_spec, with which TRL looks for vLLM, refuses a module without a spec.
        module.__spec__ = importlib.machinery.ModuleSpec(name, loader=None, is_package=True)
        module.__path__ = []
        module.__dict__.update(attributes)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def installed():
    """Whether the modules in place are these."""
    return getattr(sys.modules.get("vllm"), "LLM", None) is LLM
