"""Streams of the token route, derendered chunk by chunk: what comes is what the chat or completions route would have said."""

import json

import pytest

from api.control import post
from api.test_chat_tools import AUTO, CALL, TOOLS, streamed_calls
from harness.chat import CHAT, CHATML, DETAILS, HI, chat_stream, joined
from harness.client import refused, stream

GENERATE = "/inference/v1/generate"
PLAIN = ("--chat-template", CHATML, "--enable-scale-out")


@pytest.fixture
def server(serve, tiny):
    return serve(tiny, *PLAIN)


@pytest.fixture
def caller(serve, tiny):
    return serve(tiny, *PLAIN, *AUTO)


def derendered(server, generated, path, **fields):
    """The chunks that a stream of the token route becomes. A choice has a state of its own."""
    states, chunks = {}, []
    for chunk in generated:
        index = chunk["choices"][0]["index"] if chunk["choices"] else None
        body = {"stream": True, "model": "m", "generate_chunk": chunk, "stream_state": states.get(index), **fields}
        answer = post(server, path + "/derender", body)
        # A client may write the state down.
        states[index] = json.loads(json.dumps(answer["stream_state"]))
        chunks.append(answer["chunk"])
    return chunks


def chat_of(server, body, **fields):
    """A chat by way of render, generate and derender: its chunks."""
    rendered = post(server, CHAT + "/render", {"model": "m", "messages": HI, **body})
    generated = stream(server, {**rendered, "stream": True}, path=GENERATE)
    more = {"chat_request": {"messages": HI, **body}, "prompt_token_ids": rendered["token_ids"], **fields}
    return derendered(server, generated, CHAT, **more)


@pytest.mark.short
@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": 0},
        {"seed": 5, "n": 3},
        {"seed": 9, "temperature": 2},
        {"seed": 3, "stop": ["e", "zzz", "ab"]},
        {"seed": 3, "stop": ["e"], "include_stop_str_in_output": True},
        {"seed": 7, "stream_interval": 4},
    ],
    ids=["greedy", "n", "hot", "stop", "stop-included", "interval"],
)
def test_chats(server, extra):
    body = {"max_tokens": 40, "ignore_eos": True, **DETAILS, **extra}
    want, got = chat_stream(server, **body), chat_of(server, body)
    for index in range(extra.get("n", 1)):
        assert joined(got, index) == joined(want, index)
    assert {chunk["object"] for chunk in got} == {"chat.completion.chunk"}


@pytest.mark.short
def test_text_is_not_said_before_it_is_certain(server):
    """Of a stop string no part is ever seen, whichever way the tokens come."""
    word = post(server, "/tokenize", {"prompt": "abcabdabcabcabd t", "add_special_tokens": False})["tokens"]
    base = {"request_id": "r", "choices": [{"index": 0, "token_ids": None, "finish_reason": None}]}
    for size in (1, 2, 3):
        pieces = [word[i : i + size] for i in range(0, len(word), size)]
        chunks = [{**base, "choices": [{"index": 0, "token_ids": piece, "finish_reason": None}]} for piece in pieces]
        chunks[-1]["choices"][0].update(finish_reason="stop", stop_reason="abcabd t")
        request = {"messages": HI, "stop": ["abcabd t", "xyz"]}
        got = joined(derendered(server, chunks, CHAT, chat_request=request))
        assert got["message"]["content"] == "abcabdabc" and got["stop_reason"] == "abcabd t"


@pytest.mark.short
def test_usage(server):
    body = {"max_tokens": 8, "ignore_eos": True, "seed": 1, "stream": True}
    for options in ({"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}):
        want = chat_stream(server, **body, stream_options=options)
        got = chat_of(server, {**body, "stream_options": options})
        assert got[-1]["choices"] == [] and got[-1]["usage"] == want[-1]["usage"]
        counts = [chunk["usage"]["completion_tokens"] for chunk in got if "usage" in chunk]
        assert counts == sorted(counts) and counts[-1] == 8


@pytest.mark.short
def test_completions(server):
    body = {"prompt": "one two", "max_tokens": 30, "seed": 3, "temperature": 2, "logprobs": 2, "stop": ["e"], "n": 2}
    want = stream(server, body)
    (rendered,) = post(server, "/v1/completions/render", {"model": "m", **body})
    generated = stream(server, {**rendered, "stream": True}, path=GENERATE)
    more = {"completion_request": body, "prompt_token_ids": rendered["token_ids"]}
    got = derendered(server, generated, "/v1/completions", **more)

    def whole(chunks, index):
        parts = [part for chunk in chunks for part in chunk["choices"] if part["index"] == index]
        # The token route has one candidate less than a completion.
        keys = ("tokens", "token_logprobs", "text_offset")
        lists = {key: sum((part["logprobs"][key] for part in parts), []) for key in keys}
        return "".join(part["text"] for part in parts), lists, parts[-1]["finish_reason"], parts[-1]["stop_reason"]

    for index in range(2):
        assert whole(got, index) == whole(want, index)


@pytest.mark.short
def test_tools(caller):
    """A call keeps its id over all chunks that it comes in, and the finish reason is a chat's."""
    text = "See: " + CALL + CALL.replace("Paris", "Rome")
    body = {"tools": TOOLS, "structured_outputs": {"choice": [text]}, "max_tokens": 200, "temperature": 0}
    for choice in ("auto", "none"):
        asked = {**body, "tool_choice": choice}
        got = chat_of(caller, asked)
        want = chat_stream(caller, **asked)
        deltas = [[part["delta"] for chunk in chunks for part in chunk["choices"]] for chunks in (got, want)]
        contents = ["".join(delta.get("content") or "" for delta in side) for side in deltas]
        assert contents[0] == contents[1] == ("See: " if choice == "auto" else text)
        assert streamed_calls(deltas[0]) == streamed_calls(deltas[1])
        assert len(streamed_calls(deltas[0])) == (2 if choice == "auto" else 0)
        assert deltas[0][0]["role"] == "assistant" and not any("role" in delta for delta in deltas[0][1:])
        finish = [chunks[-1]["choices"][0]["finish_reason"] for chunks in (got, want)]
        assert finish[0] == finish[1] == ("tool_calls" if choice == "auto" else "stop")


@pytest.mark.short
def test_refusals(server, caller):
    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [40, 41], "finish_reason": None}]}
    body = {"stream": True, "model": "m", "generate_chunk": chunk}
    path = CHAT + "/derender"
    for field, value in [
        ("generate_chunk", None),
        ("generate_chunk", {**chunk, "choices": chunk["choices"] * 2}),
        ("generate_chunk", {**chunk, "choices": [{"index": -1, "token_ids": [1], "finish_reason": None}]}),
        ("generate_chunk", {**chunk, "choices": [{"index": 0, "token_ids": [-1], "finish_reason": None}]}),
        ("generate_chunk", {**chunk, "choices": [{"index": 0, "token_ids": [1], "finish_reason": "later"}]}),
        ("generate_chunk", {**chunk, "usage": {"prompt_tokens": "many"}}),
        ("generate_chunk", {**chunk, "usage": 5}),
        ("stream_state", 5),
        ("stream_state", []),
        ("stream_state", {"output_token_ids": [-4]}),
        ("stream_state", {"output_token_ids": [40] * 2048}),
        ("stream_state", {"output_token_ids": "abc"}),
        ("stream_state", {"role_sent": "perhaps"}),
        ("stream_state", {"last_tool_call_ids": ["x"] * 2000}),
        ("stream_state", {"last_tool_call_ids": [5]}),
        ("prompt_tokens", -1),
        ("prompt_token_ids", ["x"]),
    ]:
        assert refused(server, {**body, field: value}, path=path)[0] == 400
        assert refused(server, {**body, field: value}, path="/v1/completions/derender")[0] == 400
    assert refused(server, {**body, "model": "another"}, path=path)[0] == 404
    assert "chat_request is required" in refused(caller, body, path=path)[1]["message"]
    # Tokens that no text has, in whatever order, are no fault.
    odd = {**chunk, "choices": [{"index": 7, "token_ids": [10**9, 383, 0], "finish_reason": "length"}]}
    answer = post(server, path, {**body, "generate_chunk": odd, "stream_state": {"output_token_ids": [10**9]}})
    assert answer["chunk"]["choices"][0]["index"] == 7
