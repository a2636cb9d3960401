"""Tool calls and reasoning through the served API. What a model wrote is given by /derender, which reads it as a chat does."""

import json
import shutil

import pytest

from api.control import post
from harness.chat import CHAT, CHATML, DETAILS, HI, chat, chat_stream, joined
from harness.client import refused
from harness.server import TINY_MODELS, ServerDied

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
AUTO = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture
def server(serve, tiny):
    return serve(tiny, "--chat-template", CHATML, "--enable-scale-out", *AUTO)


def read(server, text, finish="stop", **fields):
    """The choice that a chat would have been answered with, had the model written this."""
    tokens = post(server, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
    generated = {"request_id": "r", "choices": [{"index": 0, "token_ids": tokens, "finish_reason": finish}]}
    request = {"messages": HI, **fields}
    return post(server, CHAT + "/derender", {"generate_response": generated, "chat_request": request})["choices"][0]


def calls(choice):
    return [
        (call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls", [])
    ]


@pytest.mark.short
@pytest.mark.parametrize(
    ("text", "content", "want"),
    [
        (CALL, None, [("weather", '{"city": "Paris"}')]),
        ("Well. " + CALL + " so", "Well. ", [("weather", '{"city": "Paris"}')]),
        (CALL + CALL, None, [("weather", '{"city": "Paris"}')] * 2),
        (CALL[:-12], None, [("weather", '{"city": "Paris"}')]),
        (
            '<tool_call>{"name": "x", "arguments": {"cmd": "ação 你好 🙂"}}</tool_call>',
            None,
            [("x", '{"cmd": "ação 你好 🙂"}')],
        ),
        ("plain", "plain", []),
        ("<tool_call>{bad</tool_call>", "<tool_call>{bad</tool_call>", []),
        ('<tool_call>{"name": "x"}</tool_call>', '<tool_call>{"name": "x"}</tool_call>', []),
    ],
    ids=["one", "content", "two", "unclosed", "utf8", "none", "broken", "incomplete"],
)
def test_hermes(server, text, content, want):
    choice = read(server, text, tools=TOOLS)
    assert choice["message"]["content"] == content
    assert calls(choice) == want
    assert ("tool_calls" in choice["message"]) == bool(want)
    assert choice["finish_reason"] == ("tool_calls" if want else "stop")
    ids = [call["id"] for call in choice["message"].get("tool_calls", [])]
    assert all(one.startswith("chatcmpl-tool-") for one in ids) and len(set(ids)) == len(ids)


@pytest.mark.short
def test_choices_and_finish_reasons(server):
    assert read(server, CALL, finish="length", tools=TOOLS)["finish_reason"] == "tool_calls"
    assert read(server, CALL, finish="abort", tools=TOOLS)["finish_reason"] == "abort"
    none = read(server, CALL, tools=TOOLS, tool_choice="none")
    assert none["message"]["content"] == CALL and none["finish_reason"] == "stop" and not calls(none)
    null = read(server, "a" + CALL, tools=TOOLS, tool_choice=None)
    assert null["message"]["content"] == "a" and null["finish_reason"] == "stop" and not calls(null)
    single = read(server, CALL + CALL, tools=TOOLS, parallel_tool_calls=False)
    assert len(calls(single)) == 1
    assert not calls(read(server, CALL))


@pytest.mark.short
def test_offered_tools_reach_the_prompt_and_the_answer(serve, tiny):
    template = CHATML + "{{ tools | tojson if tools else 'no tools' }}"
    server = serve(tiny, "--chat-template", template, *AUTO)
    fields = {"max_tokens": 3, "return_prompt_text": True}
    assert '"name": "weather"' in chat(server, tools=TOOLS, **fields)["prompt_text"]
    assert '"name": "weather"' in chat(server, tools=TOOLS, tool_choice="none", **fields)["prompt_text"]
    assert chat(server, **fields)["prompt_text"].endswith("no tools")


@pytest.mark.short
def test_offers_need_a_parser(serve, own_server, tiny):
    plain = serve(tiny, "--chat-template", CHATML, "--tool-call-parser", "hermes")
    for choice, what in [
        ("auto", '"auto" tool choice requires --enable-auto-tool-choice'),
        ("required", 'tool_choice="required" requires'),
        ({"type": "function", "function": {"name": "weather"}}, 'tool_choice=function "weather" requires'),
    ]:
        status, error = refused(plain, {"messages": HI, "tools": TOOLS, "tool_choice": choice}, path=CHAT)
        assert status == 400 and what in error["message"]
    for flags in [
        ("--enable-auto-tool-choice",),
        ("--enable-auto-tool-choice", "--tool-call-parser", "morse"),
        ("--reasoning-parser", "morse"),
    ]:
        with pytest.raises(ServerDied, match="tool-call-parser|reasoning-parser"):
            own_server(tiny, *flags)


@pytest.fixture(scope="module")
def thinking_model(tiny, tmp_path_factory):
    """A tiny model two of whose tokens mark reasoning."""
    model = shutil.copytree(tiny, tmp_path_factory.mktemp("thinker") / "model")
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    for token, marker in [("<repo_name>", "<think>"), ("<file_sep>", "</think>")]:
        (entry,) = [added for added in tokenizer["added_tokens"] if added["content"] == token]
        entry.update(content=marker, special=False)
        vocab = tokenizer["model"]["vocab"]
        vocab[marker] = vocab.pop(token, entry["id"])
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    return model


@pytest.fixture(params=["deepseek_r1", "qwen3"])
def thinker(request, serve, thinking_model):
    flags = ("--chat-template", CHATML, "--enable-scale-out", *AUTO, "--reasoning-parser", request.param)
    return serve(thinking_model, *flags)


@pytest.mark.short
def test_reasoning(thinker):
    choice = read(thinker, "<think>hm</think>so", return_token_ids=True)
    assert choice["message"]["reasoning"] == "hm" and choice["message"]["content"] == "so"
    hidden = read(thinker, "<think>hm</think>so", include_reasoning=False, return_token_ids=True)
    assert hidden["message"]["reasoning"] is None and hidden["message"]["content"] == "so"
    assert hidden["token_ids"] is None and hidden["logprobs"] is None
    called = read(thinker, "<think>hm</think>" + CALL, tools=TOOLS)
    assert called["message"]["reasoning"] == "hm" and calls(called) == [("weather", '{"city": "Paris"}')]


@pytest.mark.short
def test_reasoning_tokens_are_counted(thinker):
    fields = {"max_tokens": 9, "temperature": 0, "ignore_eos": True, "allowed_token_ids": [40, 41], "min_tokens": 9}
    # As the reference: deepseek_r1 counts between the markers, qwen3 all that comes before the end.
    want = {"reasoning_tokens": 9 if "qwen3" in thinker.command else 0}
    usage = chat(thinker, **fields)["usage"]
    assert usage["completion_tokens_details"] == want
    chunks = chat_stream(thinker, stream_options={"include_usage": True, "continuous_usage_stats": True}, **fields)
    assert chunks[-1]["usage"]["completion_tokens_details"] == want
    counts = [chunk["usage"]["completion_tokens_details"]["reasoning_tokens"] for chunk in chunks]
    assert counts == sorted(counts)


def plain(text):
    """A second end of the reasoning is no content of a whole answer, and is that of a stream."""
    return (text or "").replace("</think>", "")


@pytest.mark.short
@pytest.mark.parametrize("extra", [{}, {"include_reasoning": False}], ids=["shown", "hidden"])
def test_streams_of_reasoning_equal_whole_answers(thinker, extra):
    """Whatever the parser swallows, every token has its id and its log-prob."""
    for seed in range(8):
        fields = {"max_tokens": 40, "seed": seed, "ignore_eos": True, "logit_bias": {"4": 4}, **DETAILS, **extra}
        (whole,) = chat(thinker, **fields)["choices"]
        choice = joined(chat_stream(thinker, **fields))
        for key in ("content", "reasoning"):
            assert plain(choice["message"].get(key)) == plain(whole["message"][key])
        if extra:
            assert whole["token_ids"] is None and whole["logprobs"] is None and whole["message"]["reasoning"] is None
            assert choice["token_ids"] == choice["logprobs"] == []
        else:
            assert choice["token_ids"] == whole["token_ids"] and len(whole["token_ids"]) == 40
            assert choice["logprobs"] == whole["logprobs"]["content"]


STRICT = [
    {
        "type": "function",
        "function": {
            "name": name,
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Paris", "Rome é"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("weather", "time")
]
NAMED = {"type": "function", "function": {"name": "time"}}


def streamed_calls(choice_chunks):
    """(name, arguments) of every call that a stream brought, put together by index."""
    calls = {}
    for delta in choice_chunks:
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] not in calls and call["type"] == "function"
                calls[call["index"]] = [call["function"]["name"], ""]
            calls[call["index"]][1] += call["function"].get("arguments", "")
    return [(name, json.loads(arguments)) for _, (name, arguments) in sorted(calls.items())]


@pytest.mark.short
@pytest.mark.parametrize(
    ("choice", "finish", "names"),
    [("required", "tool_calls", {"weather", "time"}), (NAMED, "stop", {"time"})],
    ids=["required", "named"],
)
def test_calls_that_must_be_made(server, choice, finish, names):
    fields = {"tools": STRICT, "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 200}
    seen = set()
    for seed in range(6):
        (whole,) = chat(server, seed=seed, **fields, **DETAILS)["choices"]
        assert whole["message"]["content"] == "" and whole["finish_reason"] == finish
        ((name, arguments),) = calls(whole)
        assert name in names and json.loads(arguments)["city"] in ("Paris", "Rome é")
        chunks = chat_stream(server, seed=seed, **fields, **DETAILS)
        deltas = [part["delta"] for chunk in chunks for part in chunk["choices"]]
        assert streamed_calls(deltas) == [(name, json.loads(arguments))]
        assert not any(delta.get("content") for delta in deltas)
        parts = [part for chunk in chunks for part in chunk["choices"]]
        assert sum((part.get("token_ids") or [] for part in parts), []) == whole["token_ids"]
        logprobs = sum(((part["logprobs"] or {}).get("content", []) for part in parts), [])
        assert logprobs == whole["logprobs"]["content"]
        assert parts[-1]["finish_reason"] == finish
        seen.add((name, arguments))
    assert len(seen) > 1, "one seed as the other: the test shows less than it should"


@pytest.mark.short
@pytest.mark.parametrize("parser", ["hermes", "qwen3_xml", "pythonic"])
def test_calls_that_are_not_strict(own_server, tiny, parser):
    """VLLM_ENFORCE_STRICT_TOOL_CALLING=0: forced calls are JSON, whatever the parser; what the model does else is free."""
    flags = ("--chat-template", CHATML, "--enable-auto-tool-choice", "--tool-call-parser", parser)
    server = own_server(tiny, *flags, env={"VLLM_ENFORCE_STRICT_TOOL_CALLING": "0"})
    fields = {"tools": STRICT, "max_tokens": 300, "parallel_tool_calls": False, **DETAILS}
    for choice, finish, names in [("required", "tool_calls", {"weather", "time"}), (NAMED, "stop", {"time"})]:
        seen = 0
        for seed in range(6):
            (whole,) = chat(server, tool_choice=choice, seed=seed, **fields)["choices"]
            if whole["finish_reason"] == "length":
                continue  # a random model writes spaces for as long as it may
            ((name, arguments),) = calls(whole)
            assert name in names and json.loads(arguments)["city"] in ("Paris", "Rome é")
            assert whole["message"]["content"] == "" and whole["finish_reason"] == finish
            text = text_of(server, [int(e["token"].removeprefix("token_id:")) for e in whole["logprobs"]["content"]])
            assert text.lstrip().startswith("[" if choice == "required" else "{")
            chunks = chat_stream(server, tool_choice=choice, seed=seed, **fields)
            deltas = [part["delta"] for chunk in chunks for part in chunk["choices"]]
            assert streamed_calls(deltas) == [(name, json.loads(arguments))]
            assert chunks[-1]["choices"][0]["finish_reason"] == finish
            seen += 1
        assert seen
    free = {"max_tokens": 20, "seed": 1, "ignore_eos": True, "return_token_ids": True}
    plain = chat(server, tools=STRICT, tool_choice="none", **free)["choices"][0]["token_ids"]
    assert chat(server, tools=STRICT, tool_choice="auto", **free)["choices"][0]["token_ids"] == plain


def test_strictness_is_a_switch(own_server, tiny):
    with pytest.raises(ServerDied, match="VLLM_ENFORCE_STRICT_TOOL_CALLING must be 0 or 1"):
        own_server(tiny, env={"VLLM_ENFORCE_STRICT_TOOL_CALLING": "maybe"})


@pytest.mark.short
def test_settings_of_media(serve, tiny):
    """They need trust, and then change nothing."""
    plain = serve(tiny, "--chat-template", CHATML)
    trusting = serve(tiny, "--chat-template", CHATML, "--trust-request-mm-kwargs")
    for name in ("media_io_kwargs", "mm_processor_kwargs"):
        fields = {name: {"image": {"size": 3}}, "max_tokens": 3, "temperature": 0}
        status, error = refused(plain, {"messages": HI, **fields}, path=CHAT)
        assert status == 400 and "--trust-request-mm-kwargs" in error["message"]
        assert chat(plain, **{**fields, name: {}})["choices"]
        free = chat(trusting, max_tokens=3, temperature=0)["choices"]
        assert chat(trusting, **fields)["choices"] == free


@pytest.mark.short
def test_strings_of_bounded_length_are_json(server):
    """A raw control character in an argument would be no JSON, and the call no call."""
    text = {"type": "string", "minLength": 60, "maxLength": 80}
    parameters = {"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "note", "strict": True, "parameters": parameters}}
    fields = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 400}
    read = 0
    for seed in range(12):
        (answer,) = chat(server, seed=seed, **fields)["choices"]
        if answer["finish_reason"] == "length":
            continue  # spaces, as many as there is room for
        ((name, arguments),) = calls(answer)
        assert name == "note" and 60 <= len(json.loads(arguments)["text"]) <= 80
        read += 1
    assert read


@pytest.mark.short
def test_calls_of_the_models_own_choice(server):
    """`auto`, with a grammar that makes the model write text and two calls."""
    text = "See: " + CALL + CALL.replace("Paris", "Rome")
    fields = {"tools": TOOLS, "structured_outputs": {"choice": [text]}, "max_tokens": 200, "temperature": 0}
    (whole,) = chat(server, **fields)["choices"]
    want = [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]
    assert [(name, json.loads(arguments)) for name, arguments in calls(whole)] == want
    assert whole["message"]["content"] == "See: " and whole["finish_reason"] == "tool_calls"
    chunks = chat_stream(server, **fields)
    deltas = [part["delta"] for chunk in chunks for part in chunk["choices"]]
    assert streamed_calls(deltas) == want
    assert "".join(delta.get("content") or "" for delta in deltas) == "See: "
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    # Cut off behind the first call.
    ids = chat(server, **fields, return_token_ids=True)["choices"][0]["token_ids"]
    ends = [n for n in range(len(ids)) if text_of(server, ids[:n]).endswith("</tool_call>")]
    cut = {**fields, "max_tokens": ends[0]}
    (whole,) = chat(server, **cut)["choices"]
    assert len(calls(whole)) == 1 and whole["finish_reason"] == "tool_calls"
    assert chat_stream(server, **cut)[-1]["choices"][0]["finish_reason"] == "length"


def text_of(server, ids):
    return post(server, "/detokenize", {"tokens": ids})["prompt"]


@pytest.mark.short
def test_response_formats(server, thinker):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    fields = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
    (choice,) = chat(server, **fields, max_tokens=60, seed=1)["choices"]
    if choice["finish_reason"] == "stop":
        assert set(json.loads(choice["message"]["content"])) == {"a"}
    assert refused(server, {"messages": HI, "response_format": {"type": "json_schema"}}, path=CHAT)[0] == 400
    # Reasoning is free of it, and ends here at once by a bias.
    hurry = {"logit_bias": {"4": 100}, "structured_outputs": {"choice": ["yes"]}, "max_tokens": 20, "seed": 1}
    (choice,) = chat(thinker, **hurry)["choices"]
    assert choice["message"]["content"] == "yes" and choice["finish_reason"] == "stop"


@pytest.mark.short
def test_a_call_while_thinking_under_a_format_without_calls(serve):
    """It ends the reasoning, and is no fault; what follows is of the format."""
    server = serve(TINY_MODELS / "qwen3-tied", "--chat-template", CHATML, *AUTO, "--reasoning-parser", "qwen3")
    (call,) = post(server, "/tokenize", {"prompt": "<tool_call>"})["tokens"]
    fields = {"structured_outputs": {"choice": ["yes"]}, "logit_bias": {call: 100}, "max_tokens": 20, "seed": 1}
    (choice,) = chat(server, **fields)["choices"]
    assert choice["message"]["content"] == "<tool_call>yes" and choice["finish_reason"] == "stop"
    streamed = joined(chat_stream(server, **fields))
    assert streamed["message"]["content"] == "<tool_call>yes" and streamed["finish_reason"] == "stop"
