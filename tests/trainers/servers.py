"""How trainers want their server."""

import sys

from harness.server import ROOT

# PYTHONPATH: for gloo's side process, which is of the package.
DEV = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(ROOT / "python")}
# In the trainer's own float32, and with log-probs of what was really sampled from.
# Long enough a context that a tiny model is still at work when a test looks.
EXACT = ("--dtype", "float32", "--logprobs-mode", "processed_logprobs", "--max-logprobs", -1, "--max-model-len", 2048)
LONG = 1900


def transfer(backend):
    """Flags for weights that come over `backend`; gloo's side process is this Python."""
    return ("--weight-transfer-config", f'{{"backend": "{backend}"}}', "--transfer-python", sys.executable)
