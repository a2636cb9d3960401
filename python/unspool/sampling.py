"""The sampling parameters that generate(), complete() and chat() take by name."""

from __future__ import annotations

from typing import Any, TypedDict


class Sampling(TypedDict, total=False):
    """As in vLLM. What is not given is the model's default (its generation_config), or the server's."""

    n: int  # outputs a prompt
    max_tokens: int  # new tokens an output; generate(): all that the context leaves, complete(): 16
    min_tokens: int
    temperature: float  # 0: the likeliest token
    top_p: float
    top_k: int  # 0: off
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    stop: list[str]
    stop_token_ids: list[int]
    ignore_eos: bool
    logprobs: int  # beside the sampled token's, those of as many likeliest; 0: the sampled token's alone
    prompt_logprobs: int
    logit_bias: dict[str, float]
    allowed_token_ids: list[int]
    structured_outputs: dict[str, Any]
