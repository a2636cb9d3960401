"""unspool: a rollout engine for reinforcement learning of language models.

import unspool

with unspool.serve("models/SmolLM2-135M-Instruct", "--max-model-len", 4096) as server:
    requests.post(server.url + "/v1/completions", json={"prompt": "Hello", "max_tokens": 8})
"""

from ._binary import binary
from ._serve import Server, ServerDied, serve

__all__ = ["Server", "ServerDied", "binary", "serve"]
__version__ = "0.1.0"
