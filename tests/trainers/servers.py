"""How trainers want their server."""

DEV = {"VLLM_SERVER_DEV_MODE": "1"}
# In the trainer's own float32, and with log-probs of what was really sampled from.
EXACT = ("--dtype", "float32", "--logprobs-mode", "processed_logprobs", "--max-logprobs", -1, "--max-model-len", 512)
