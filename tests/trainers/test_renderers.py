"""`renderers`: messages to token ids on the client's side, /inference/v1/generate, and back."""

import asyncio

import pytest
from renderers import DefaultRendererConfig, create_renderer
from renderers.base import load_tokenizer
from renderers.client import OverlongPromptError, generate

from harness.client import complete

MESSAGES = [{"role": "user", "content": "Name a colour."}]


@pytest.fixture(scope="module")
def renderer(smollm2):
    return create_renderer(load_tokenizer(str(smollm2)), DefaultRendererConfig())


def ask(client, renderer, **fields):
    return generate(client=client, renderer=renderer, messages=MESSAGES, model="policy", **fields)


def test_generate(server, openai_client, renderer):
    result = asyncio.run(ask(openai_client, renderer, sampling_params={"max_tokens": 12, "temperature": 0}))
    assert len(result["completion_ids"]) == len(result["completion_logprobs"]) <= 12
    assert result["content"]
    # What it was told is what the server says of the same tokens later.
    scored = complete(server, prompt=result["prompt_ids"] + result["completion_ids"], max_tokens=1, prompt_logprobs=0)
    entries = scored["choices"][0]["prompt_logprobs"][len(result["prompt_ids"]) :]
    values = [entry[str(t)]["logprob"] for entry, t in zip(entries, result["completion_ids"], strict=True)]
    assert values == result["completion_logprobs"]


def test_all_that_is_left_by_default(openai_client, renderer):
    """Without max_tokens a reply may run to the model's limit; this one ends at the chat's end-of-turn token."""
    result = asyncio.run(ask(openai_client, renderer, sampling_params={"temperature": 0}))
    assert result["finish_reason"] == "stop" and len(result["completion_ids"]) > 1


def test_the_limit_is_known_beforehand(openai_client, renderer):
    with pytest.raises(OverlongPromptError):
        asyncio.run(ask(openai_client, renderer, prompt_ids=[5] * 2049, sampling_params={"max_tokens": 1}))


def test_many_at_once(openai_client, renderer):
    async def run():
        asks = (ask(openai_client, renderer, sampling_params={"max_tokens": 4, "seed": i}) for i in range(200))
        return await asyncio.gather(*asks)

    results = asyncio.run(run())
    assert len({tuple(result["completion_ids"]) for result in results}) > 20
