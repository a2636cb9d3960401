"""verifiers' train client, which prime-rl drives: two turns, the second on the tokens of the first."""

import asyncio

import pytest
from renderers import DefaultRendererConfig
from verifiers.v1.clients.train import TrainClient
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.types import SamplingConfig

from harness.client import complete


@pytest.fixture
def config(server, smollm2, monkeypatch):
    monkeypatch.setenv("POLICY_KEY", "none")
    return TrainClientConfig(
        base_url=server.url + "/v1",
        api_key_var="POLICY_KEY",
        renderer=DefaultRendererConfig(),
        renderer_model_name=str(smollm2),
    )


def test_two_turns(server, config):
    sampling = SamplingConfig(temperature=0.8, max_tokens=16)

    async def run():
        client = TrainClient(config)
        messages = [{"role": "user", "content": "Name a colour."}]
        turns = []
        for question in ("And another?", None):
            body = {"model": "policy", "messages": list(messages)}
            turns.append(await client.get_response(ChatDialect(), body, sampling, session_id="rollout-1"))
            messages += [
                {"role": "assistant", "content": turns[-1].message.content or ""},
                {"role": "user", "content": question},
            ]
        await client.close()
        return turns

    for turn in asyncio.run(run()):
        tokens = turn.tokens
        assert len(tokens.completion_ids) == len(tokens.completion_logprobs) > 0
        assert turn.usage.completion_tokens == len(tokens.completion_ids)
        scored = complete(server, prompt=tokens.prompt_ids + tokens.completion_ids, max_tokens=1, prompt_logprobs=0)
        entries = scored["choices"][0]["prompt_logprobs"][len(tokens.prompt_ids) :]
        values = [entry[str(t)]["logprob"] for entry, t in zip(entries, tokens.completion_ids, strict=True)]
        assert values == list(tokens.completion_logprobs)
