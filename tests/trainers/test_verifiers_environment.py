"""A whole environment of verifiers: a taskset, a harness that talks chat completions, tools, rewards, and the trace of it.

The eval client relays the harness's requests to /v1/chat/completions; the train client renders them itself and asks
/inference/v1/generate for tokens.
"""

import asyncio
import json
from pathlib import Path

import pytest
from renderers import DefaultRendererConfig
from verifiers.v1 import EvalClientConfig, ModelContext, SamplingConfig, SingleAgentEnv, SingleAgentEnvConfig
from verifiers.v1.clients import TrainClientConfig

from harness.client import complete

PERSONS = 3
EPISODES = 2


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "environments"))
    monkeypatch.setenv("POLICY_KEY", "none")


@pytest.fixture(scope="module")
def server(serve, smollm2):
    flags = ("--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    return serve(smollm2, *flags, "--max-model-len", 2048, model_name="policy")


def played(client, sampling, **harness):
    """The trace of every episode, all played at once; none may have failed."""
    agent = {"harness": {"id": "phone_book", **harness}, "runtime": {"type": "subprocess"}}
    config = SingleAgentEnvConfig.model_validate({"taskset": {"id": "phone_book"}, "agent": agent})
    context = ModelContext("policy", client, SamplingConfig(**sampling))

    async def run():
        env = SingleAgentEnv(config)
        async with env.serving():
            slots = [slot for task in env.taskset for slot in env.slots(task, EPISODES)]
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    episodes = asyncio.run(run())
    for episode in episodes:
        assert episode.ok, [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    assert len(episodes) == PERSONS * EPISODES
    return [trace for episode in episodes for trace in episode.traces]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tools_over_chat_completions(server, stream):
    client = EvalClientConfig(base_url=server.url + "/v1", api_key_var="POLICY_KEY")
    before = server.metric("vllm:generation_tokens_total")
    traces = played(client, {"temperature": 0.8, "top_p": 0.9, "max_tokens": 120}, stream=stream)
    asked = set()
    for trace in traces:
        assert trace.num_turns == 3 and trace.num_branches == 1
        assert trace.reward == 1.0
        first, _, last = trace.assistant_messages
        assert first.content is None or first.content == ""
        assert all(call.name == "look_up" for call in first.tool_calls)
        asked |= {json.loads(call.arguments)["name"] for call in first.tool_calls}
        assert last.content and not last.tool_calls
        assert trace.tool_messages
    assert len(asked) > 1, "all sampled alike"
    if not stream:  # the harness asks for no usage of its streams
        tokens = server.metric("vllm:generation_tokens_total") - before
        assert sum(trace.usage.completion_tokens for trace in traces) == tokens


def test_tokens_of_a_rollout(server, smollm2):
    """Each turn goes on from the tokens of the one before, and the log-probs are the server's own of the whole branch."""
    client = TrainClientConfig(
        base_url=server.url + "/v1",
        api_key_var="POLICY_KEY",
        renderer=DefaultRendererConfig(),
        renderer_model_name=str(smollm2),
    )
    for trace in played(client, {"temperature": 1.0, "max_tokens": 16}, turns=[None, None, None]):
        assert trace.num_turns == 3
        sampled = 0
        for branch in trace.branches:
            mask, tokens, values = branch.sampled_mask, branch.token_ids, branch.logprobs
            assert len(mask) == len(tokens) == len(values)
            scored = complete(server, prompt=tokens, max_tokens=1, prompt_logprobs=0)["choices"][0]["prompt_logprobs"]
            for is_sampled, token, value, entry in zip(mask, tokens, values, scored, strict=True):
                if is_sampled:
                    assert value == entry[str(token)]["logprob"]
                    sampled += 1
        assert sampled == trace.num_output_tokens > 0
