"""OpenAI's own Python client, unchanged."""

import json

import openai
import pytest


@pytest.fixture(scope="module")
def client(serve, smollm2):
    return openai.OpenAI(base_url=serve(smollm2).url + "/v1", api_key="none", max_retries=0)


def test_completion(client):
    answer = client.completions.create(
        model="m", prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=2
    )
    assert answer.choices[0].text.startswith(" Paris")
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].logprobs.token_logprobs) == answer.usage.completion_tokens == 4


def test_stream(client):
    fields = {"model": "m", "prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}
    whole = client.completions.create(**fields).choices[0].text
    chunks = list(client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole
    assert chunks[-1].usage.completion_tokens == 6


def test_batch_and_n(client):
    answer = client.completions.create(
        model="m", prompt=["One", "Two", "Three"], n=2, max_tokens=3, seed=1, extra_body={"return_token_ids": True}
    )
    assert [choice.index for choice in answer.choices] == list(range(6))
    ids = [tuple(choice.prompt_token_ids) for choice in answer.choices]
    assert ids[0] == ids[1] != ids[2] == ids[3]


MESSAGES = [{"role": "user", "content": "Say hello."}]


def test_chat(client):
    answer = client.chat.completions.create(
        model="m", messages=MESSAGES, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2
    )
    (choice,) = answer.choices
    assert choice.message.content and choice.message.role == "assistant" and choice.message.tool_calls is None
    assert len(choice.logprobs.content) == answer.usage.completion_tokens == 8
    assert b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode() == choice.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)


def test_chat_stream(client):
    fields = {"model": "m", "messages": MESSAGES, "max_tokens": 8, "temperature": 0}
    whole = client.chat.completions.create(**fields).choices[0].message.content
    chunks = list(client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == whole
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].usage.completion_tokens == 8


def test_chat_with_a_tool(serve, smollm2):
    server = serve(smollm2, "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    schema = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": schema}}
    fields = {"model": "m", "messages": MESSAGES, "tools": [tool], "tool_choice": "required", "max_tokens": 100}
    answer = client.chat.completions.create(**fields, parallel_tool_calls=False, temperature=0)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] == "Oslo"
    # What a client sends back is taken as the turn it was.
    turns = [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    again = client.chat.completions.create(model="m", messages=MESSAGES + turns, tools=[tool], max_tokens=2)
    assert again.usage.completion_tokens >= 1


def test_models(client):
    (model,) = client.models.list().data
    assert model.id == "m" and model.max_model_len == 8192


def test_errors(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="another", prompt="x")
    assert "another" in str(caught.value)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="m", prompt="x", temperature=3)
