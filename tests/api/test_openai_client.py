"""OpenAI's own Python client, unchanged."""

import asyncio
import json
from typing import Literal

import openai
import pydantic
import pytest

from harness.chat import CHATML


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


class City(pydantic.BaseModel):
    name: Literal["Oslo", "Rome"]
    is_capital: bool


def test_structured_outputs(client):
    """What `parse` makes of a pydantic model is a schema that holds, and of the reply is the model again."""
    fields = {"model": "m", "messages": MESSAGES, "response_format": City, "max_tokens": 200, "temperature": 0}
    (choice,) = client.chat.completions.parse(**fields).choices
    assert choice.finish_reason == "stop" and isinstance(choice.message.parsed, City)
    with client.chat.completions.stream(**fields) as stream:
        kinds = {event.type for event in stream}
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert stream.get_final_completion().choices[0].message.parsed == choice.message.parsed
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**{**fields, "max_tokens": 2})


def test_stream_of_a_tool_call(serve, smollm2):
    server = serve(smollm2, "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    tool = openai.pydantic_function_tool(City, name="choose")
    fields = {"model": "m", "messages": MESSAGES, "tools": [tool], "tool_choice": "required", "max_tokens": 200}
    with client.chat.completions.stream(**fields, parallel_tool_calls=False, temperature=0) as stream:
        kinds = {event.type for event in stream}
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    (choice,) = stream.get_final_completion().choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.function.name == "choose" and isinstance(call.function.parsed_arguments, City)


def test_async(serve, smollm2):
    """Chats, completions and streams of both at once, over one client."""
    fields = {"model": "m", "temperature": 0, "max_tokens": 6}

    async def run():
        async with openai.AsyncOpenAI(base_url=serve(smollm2).url + "/v1", api_key="none", max_retries=0) as client:

            async def chat(stream):
                if not stream:
                    reply = await client.chat.completions.create(messages=MESSAGES, **fields)
                    return reply.choices[0].message.content
                chunks = await client.chat.completions.create(messages=MESSAGES, stream=True, **fields)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

            async def completion(stream):
                if not stream:
                    return (await client.completions.create(prompt="One, two,", **fields)).choices[0].text
                chunks = await client.completions.create(prompt="One, two,", stream=True, **fields)
                return "".join([chunk.choices[0].text async for chunk in chunks])

            parsed = client.chat.completions.parse(
                **{**fields, "max_tokens": 200}, messages=MESSAGES, response_format=City
            )
            asks = [ask(stream) for ask in (chat, completion) for stream in (False, True) for _ in range(4)]
            return await asyncio.gather(parsed, *asks)

    parsed, *texts = asyncio.run(run())
    assert isinstance(parsed.choices[0].message.parsed, City)
    assert len(set(texts[:8])) == len(set(texts[8:])) == 1 and texts[0] != texts[8]


def test_async_stream_that_is_left(serve, smollm2, patience):
    server = serve(smollm2)

    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            fields = {"model": "m", "messages": MESSAGES, "max_tokens": 2000, "extra_body": {"ignore_eos": True}}
            async with await client.chat.completions.create(**fields, stream=True) as stream:
                async for _ in stream:
                    break

    asyncio.run(run())
    server.wait_until_idle(10 * patience)


def test_errors(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="another", prompt="x")
    assert "another" in str(caught.value)
    # The code is a number on the wire, which later clients make a string of.
    assert (str(caught.value.code), caught.value.param, caught.value.type) == ("404", "model", "NotFoundError")
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="m", prompt="x", temperature=3)
    assert caught.value.param == "temperature"
    for fields in (
        {"messages": [{"role": "tool", "content": None}]},
        {"messages": MESSAGES, "tools": []},
        {"messages": MESSAGES, "top_logprobs": 3},
        {"messages": MESSAGES, "max_tokens": 1 << 40},
        {"messages": MESSAGES, "response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"messages": MESSAGES, "response_format": {"type": "rhyme"}},
    ):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model="m", stream=stream, **fields)


def test_an_error_in_a_stream(client):
    """What is found only once the stream has begun is raised by its iterator."""
    extra = {"structured_outputs": {"regex": "("}}
    with pytest.raises(openai.APIError, match="regex"):
        list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True, extra_body=extra))

    async def run():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0) as one:
            async for _ in await one.chat.completions.create(
                model="m", messages=MESSAGES, stream=True, extra_body=extra
            ):
                pass

    with pytest.raises(openai.APIError, match="regex"):
        asyncio.run(run())


def test_keys(serve, tiny):
    url = serve(tiny, "--api-key", "secret", "--chat-template", CHATML).url + "/v1"
    fields = {"model": "m", "messages": MESSAGES, "max_tokens": 1}
    assert openai.OpenAI(base_url=url, api_key="secret").chat.completions.create(**fields).choices
    for key in ("wrong", "secre"):
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=url, api_key=key, max_retries=0).chat.completions.create(**fields)
    with pytest.raises(openai.APIConnectionError):
        openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="x", max_retries=0).models.list()
