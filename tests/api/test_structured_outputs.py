"""Structured outputs through the served API. What comes out is judged by others: Python's `re`, `json` and `jsonschema`."""

import asyncio
import json
import re
import signal
import time

import jsonschema
import pytest

from api.schemas import regexes, schemas
from harness.client import complete, complete_async, complete_many, raw_post, refused, request, session, stream

PROMPT = [20, 150, 33, 7, 99]
DEV = {"env": {"VLLM_SERVER_DEV_MODE": "1"}}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "ok": {"type": "boolean"}, "n": {"enum": [1, 2, 30]}},
    "required": ["name", "ok", "n"],
}  # fmt: skip
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": {"type": "boolean"}}, "end": "</f>",
    },
}  # fmt: skip
# Beyond what a server spends on one grammar: this one's masks, and this one's making.
SLOW_MASK = "((([^a]{1,30}b?){1,30}c?){1,30}d?){1,30}"
SLOW_TO_MAKE = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(12000)}}


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny, "--enable-scale-out", **DEV)


@pytest.fixture(scope="module")
def trained(serve, smollm2):
    """Random weights go on with whitespace for as long as they may; these know what JSON looks like."""
    return serve(smollm2, "--max-model-len", 1024)


def body(**fields):
    return {"prompt": PROMPT, "max_tokens": 400, "temperature": 1, "seed": 7, **fields}


def constrained(**kind):
    return body(structured_outputs=kind)


def matches_schema(schema):
    def check(text):
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        return True

    return check


def matches(pattern):
    return lambda text: re.fullmatch(pattern, text) is not None


KINDS = {
    "json": (
        {"json": SCHEMA, "disable_any_whitespace": True},
        lambda text: matches_schema(SCHEMA)(text) and json.dumps(json.loads(text), separators=(",", ":")).count(" ") == text.count(" "),
    ),
    "json as text": ({"json": json.dumps(SCHEMA), "whitespace_pattern": ""}, matches_schema(SCHEMA)),
    "json, whitespace pattern": (
        {"json": {"type": "array", "items": {"type": "null"}, "maxItems": 3}, "whitespace_pattern": "[ ]?"},
        matches(r"\[ ?(null( ?, ?null){0,2} ?)?\]"),
    ),
    "json_object": ({"json_object": True}, matches_schema({"type": "object"})),
    "regex": ({"regex": "(ab|[0-9]{3})x{2,5}"}, matches("(ab|[0-9]{3})x{2,5}")),
    "choice": ({"choice": ["yes", 'n"o\\\n', "é"]}, lambda text: text in ("yes", 'n"o\\\n', "é")),
    "ebnf": ({"grammar": 'root ::= "x" root | "y"'}, matches("x*y")),
    "lark": ({"grammar": 'start: "Paris" | /[0-9]{2}/'}, matches("Paris|[0-9]{2}")),
    "structural_tag": ({"structural_tag": json.dumps(TAG)}, matches("<f>(true|false)</f>")),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(server, kind):
    fields, is_valid = KINDS[kind]
    finished = 0
    for seed in range(8):
        (choice,) = complete(server, {**constrained(**fields), "seed": seed})["choices"]
        if choice["finish_reason"] == "stop":
            assert is_valid(choice["text"]), choice["text"]
            finished += 1
    assert finished > 0


LIKE_THIS = "".join(json.dumps({"name": name, "ok": True, "n": 2}) + "\n" for name in ("Ann", "Bob", "Eve"))


def test_json_with_whitespace(trained):
    asked = {"prompt": LIKE_THIS, "max_tokens": 200, "temperature": 0, "structured_outputs": {"json": SCHEMA}}
    (choice,) = complete(trained, asked)["choices"]
    assert choice["finish_reason"] == "stop"
    assert matches_schema(SCHEMA)(choice["text"])
    assert ": " in choice["text"]


FORMATS = {
    "json_schema": ({"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}, matches_schema(SCHEMA)),
    "json_object": ({"type": "json_object"}, matches_schema({"type": "object"})),
    "structural_tag": (TAG, matches("<f>(true|false)</f>")),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_response_format(trained, name):
    response_format, is_valid = FORMATS[name]
    asked = {"prompt": LIKE_THIS, "max_tokens": 100, "temperature": 0, "response_format": response_format}
    (choice,) = complete(trained, asked)["choices"]
    assert choice["finish_reason"] == "stop"
    assert is_valid(choice["text"]), choice["text"]


def test_older_structural_tag(trained):
    """Free text until a trigger; what begins there must be a tag."""
    response_format = {
        "type": "structural_tag", "structures": [{"begin": "<f>", "schema": {"type": "null"}, "end": "</f>"}], "triggers": ["<f"],
    }  # fmt: skip
    asked = {
        "prompt": "<f>1</f>\n<f>2</f>\n<f>3</f>\n",
        "max_tokens": 30,
        "temperature": 0,
        "response_format": response_format,
    }
    assert complete(trained, asked)["choices"][0]["text"].startswith("<f>null</f>")


def test_plain_text_format_constrains_nothing(server):
    free = complete(server, body())["choices"][0]["text"]
    assert complete(server, body(response_format={"type": "text"}))["choices"][0]["text"] == free


def finished_texts(server, bodies):
    """(body, text) of those that came to their end."""
    choices = [answer["choices"][0] for answer in complete_many(server, bodies)]
    return [(b, c["text"]) for b, c in zip(bodies, choices, strict=True) if c["finish_reason"] == "stop"]


def judge_regexes(server, count):
    patterns = regexes(count, seed=count)
    done = finished_texts(server, [{**constrained(regex=p), "seed": i} for i, p in enumerate(patterns)])
    for asked, text in done:
        pattern = asked["structured_outputs"]["regex"]
        assert re.fullmatch(pattern, text, re.ASCII), f"{text!r} does not match {pattern!r}"
    assert len(done) > 0.9 * count


def judge_schemas(server, count):
    asked = [
        {**constrained(json=schema, disable_any_whitespace=True), "seed": i, "max_tokens": 400}
        for i, schema in enumerate(schemas(count, seed=count))
    ]
    done = finished_texts(server, asked)
    for request_body, text in done:
        schema = request_body["structured_outputs"]["json"]
        try:
            jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        except (ValueError, jsonschema.ValidationError) as error:
            raise AssertionError(f"{text!r} is not of {schema}: {error}") from error
    assert len(done) > 0.8 * count


@pytest.mark.short
def test_random_regexes(server):
    judge_regexes(server, 60)


@pytest.mark.short
def test_random_schemas(server):
    judge_schemas(server, 60)


def test_a_thousand_random_regexes(server):
    judge_regexes(server, 1000)


def test_a_thousand_random_schemas(server):
    judge_schemas(server, 1000)


def test_stream_says_the_same(server):
    asked = constrained(json=SCHEMA)
    whole = complete(server, asked)["choices"][0]
    chunks = stream(server, asked)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["text"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]


def test_same_bits_alone_and_in_a_batch(server):
    """Constrained rows beside constrained and free ones."""
    ids = {"logprobs": 3, "return_token_ids": True}
    asked = [{**constrained(**KINDS[kind][0]), "seed": i, **ids} for i, kind in enumerate(KINDS)]
    asked += [body(seed=seed, **ids) for seed in range(6)]
    alone = [complete(server, b)["choices"] for b in asked]

    for _ in range(2):
        assert [answer["choices"] for answer in complete_many(server, asked)] == alone


def test_samples_and_logprobs(server):
    """Every sample follows by itself; what a grammar bars is at the floor, in raw log-probs too."""
    choices = complete(server, constrained(regex="[0-9]{4}"), n=6, logprobs=5)["choices"]
    assert len({choice["text"] for choice in choices}) > 1
    for choice in choices:
        assert re.fullmatch("[0-9]{4}", choice["text"])
        for token, top in zip(choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"], strict=True):
            assert top[token] > -9999
    (choice,) = complete(server, constrained(choice=["a"]), logprobs=20, max_tokens=1)["choices"]
    (top,) = choice["logprobs"]["top_logprobs"]
    assert top.pop("a") == 0
    assert set(top.values()) == {-9999.0}


def test_other_parameters_hold(server):
    assert complete(server, constrained(regex="[ab]{20}"), stop=["b"])["choices"][0]["text"].count("b") == 0
    assert (
        complete(server, constrained(regex="[ab]{20}"), bad_words=["a"], temperature=0)["choices"][0]["text"].count("a")
        < 20
    )
    # The grammar is complete at three: min_tokens gives way.
    assert complete(server, constrained(choice=["abc"]), min_tokens=60)["choices"][0]["text"] == "abc"
    (choice,) = complete(server, constrained(choice=["abc"]), ignore_eos=True, max_tokens=20)["choices"]
    assert choice["text"].startswith("abc")
    assert choice["finish_reason"] == "length"


def test_token_route(server):
    asked = {
        "token_ids": PROMPT, "output_mode": "text",
        "sampling_params": {"max_tokens": 50, "structured_outputs": {"regex": "[0-9]{3}"}},
    }  # fmt: skip
    (choice,) = complete(server, asked, path="/inference/v1/generate")["choices"]
    assert re.fullmatch("[0-9]{3}", choice["text"])
    assert choice["finish_reason"] == "stop"


REFUSED = {
    "two kinds": ({"regex": "a", "grammar": "b"}, "You can only use one kind of structured outputs constraint"),
    "two of the first three": ({"regex": "a", "json": {}}, "You can only use one kind of constraints"),
    "none": ({}, "You must use one kind of structured outputs constraint but none are specified"),
    "regex": ({"regex": "("}, "Failed to transform regex into a grammar"),
    "NUL": ({"regex": "a\0"}, "must not contain a NUL character"),
    "no choice": ({"choice": []}, "Choice '[]' cannot be an empty list"),
    "empty json": ({"json": " "}, "structured_outputs.json cannot be an empty string"),
    "json": ({"json": "{"}, "Invalid JSON grammar specification."),
    "type": ({"json": {"type": "nope"}}, "Grammar error: Invalid type: nope"),
    "loop": ({"json": {"$ref": "#"}}, "Failed to transform json schema into a grammar"),
    "feature": ({"json": {"type": "integer", "multipleOf": 3}}, "contains features not supported by xgrammar"),
    "empty grammar": ({"grammar": "\n"}, "structured_outputs.grammar cannot be an empty string"),
    "ebnf": ({"grammar": "root ::= nobody"}, "Invalid grammar specification"),
    "lark": ({"grammar": 'start "a"'}, "Invalid grammar specification"),
    "json_object": ({"json_object": False}, "structured_outputs.json_object must be True if set"),
    "tag": ({"structural_tag": "{}"}, "Invalid structured_outputs structural_tag specification"),
    "whitespace": ({"json": {}, "whitespace_pattern": "x+"}, "whitespace_pattern is not supported"),
    "nesting": ({"json": json.loads('{"a":' * 70 + "1" + "}" * 70)}, "The JSON schema is nested too deeply"),
    "a mebibyte": ({"choice": ["x" * (1 << 20)]}, "may have at most 1048576 bytes"),
}  # fmt: skip


@pytest.mark.short
@pytest.mark.parametrize("name", REFUSED)
def test_malformed(server, name):
    fields, message = REFUSED[name]
    status, error = refused(server, constrained(**fields))
    assert (status, error["type"]) == (400, "BadRequestError")
    assert message in error["message"]
    assert complete(server, constrained(choice=["fine"]))["choices"][0]["text"] == "fine"


def test_lazy_faults_end_a_stream_that_has_begun(server):
    asked = {"model": server.model_name, **constrained(regex="("), "stream": True}
    status, _, text = request(server, "POST", "/v1/completions", asked)
    assert status == 200
    assert text.startswith('data: {"error": {"message": "Failed to transform regex')
    assert text.endswith("data: [DONE]\n\n")
    # A structural tag is looked at before.
    tag = {"structural_tag": '{"type":"structural_tag","format":{"type":"zzz"}}'}
    status, error = refused(server, {**constrained(**tag), "stream": True})
    assert (status, error["param"]) == (400, "structured_outputs")


@pytest.mark.parametrize("fields", [{"regex": SLOW_MASK}, {"json": SLOW_TO_MAKE}], ids=["mask", "compile"])
def test_grammars_that_take_too_long_are_given_up(own_server, tiny, patience, fields):
    """Bounded in time, and the others go on."""
    server = own_server(tiny, env={"VLLM_REGEX_COMPILATION_TIMEOUT_S": "1"})

    async def run():
        async with session() as http:
            slow = asyncio.ensure_future(
                http.post(server.url + "/v1/completions", json={"model": "m", **constrained(**fields)})
            )
            await asyncio.sleep(0.1)
            for seed in range(20):
                answer = await complete_async(http, server, {**constrained(regex="[0-9]{5}"), "seed": seed})
                assert re.fullmatch("[0-9]{5}", answer["choices"][0]["text"])
            reply = await slow
            return reply.status, await reply.json()

    started = time.monotonic()
    status, answer = asyncio.run(run())
    assert status == 400
    assert "of processor time" in answer["error"]["message"]
    assert time.monotonic() - started < 60 * patience
    assert server.rss_kb() < 2_000_000
    assert complete(server, constrained(choice=["fine"]))["choices"][0]["text"] == "fine"


def test_the_same_grammar_at_the_same_time(server):
    schema = {"type": "object", "properties": {f"property {i}": {"type": "integer"} for i in range(60)}}
    asked = [{**constrained(json=schema), "seed": seed, "max_tokens": 40} for seed in range(40)]

    assert all(answer["choices"][0]["text"].lstrip().startswith("{") for answer in complete_many(server, asked))


def eventually(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_gone_or_aborted_while_a_grammar_is_made(own_server, tiny):
    server = own_server(tiny, **DEV)
    asked = {"model": "m", **constrained(json=SLOW_TO_MAKE), "max_tokens": 5}
    with raw_post(server, "/v1/completions", asked):
        eventually(lambda: server.metric("vllm:num_requests_waiting") == 1)
    eventually(lambda: server.metric("vllm:num_requests_waiting") == 0)

    async def abort():
        async with session() as http:
            waiting = asyncio.ensure_future(http.post(server.url + "/v1/completions", json=asked))
            await asyncio.sleep(0.3)
            await (await http.post(server.url + "/abort_requests", json={})).read()
            reply = await waiting
            return reply.status, await reply.json()

    # Aborted where it still waits; refused where its grammar has been given up by then.
    status, answer = asyncio.run(abort())
    assert status == 400 or answer["choices"][0]["finish_reason"] == "abort"
    assert complete(server, constrained(choice=["fine"]))["choices"][0]["text"] == "fine"


def test_stops_while_a_grammar_is_made(own_server, tiny):
    server = own_server(tiny, "--shutdown-timeout", 0)
    with raw_post(server, "/v1/completions", constrained(json=SLOW_TO_MAKE)):
        eventually(lambda: server.metric("vllm:num_requests_waiting") == 1)
        server.signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_pauses_and_new_weights_keep_a_sample_in_its_grammar(server):
    async def run():
        async with session() as http:
            texts = []

            async def one(seed):
                answer = await complete_async(
                    http, server, {**constrained(regex="([a-z]{3} ){40}"), "seed": seed, "max_tokens": 400}
                )
                texts.append(answer["choices"][0])

            running = [asyncio.ensure_future(one(seed)) for seed in range(8)]
            for _ in range(5):
                await asyncio.sleep(0.02)
                await (await http.post(server.url + "/pause?mode=keep")).read()
                await (await http.post(server.url + "/resume")).read()
            await asyncio.gather(*running)
            return texts

    for choice in asyncio.run(run()):
        assert re.fullmatch("([a-z]{3} ){40}", choice["text"]) or choice["finish_reason"] == "length"


def test_preemptions_keep_a_sample_in_its_grammar(serve, tiny, pool_of):
    server = serve(tiny, "--max-model-len", 256, *pool_of(tiny, 512))
    asked = [{**constrained(regex="[0-9]{120}"), "seed": seed, "max_tokens": 200} for seed in range(8)]
    done = finished_texts(server, asked)
    assert len(done) == 8
    assert all(re.fullmatch("[0-9]{120}", text) for _, text in done)
    assert server.metric("vllm:num_preemptions_total") > 0


def test_whole_server_without_whitespace(serve, tiny):
    server = serve(tiny, "--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}')
    schema = {"type": "array", "items": {"enum": [1, None]}, "minItems": 3, "maxItems": 3}
    for seed in range(5):
        assert re.fullmatch(
            r"\[(1|null)(,(1|null)){2}\]",
            complete(server, {**constrained(json=schema), "seed": seed})["choices"][0]["text"],
        )


def test_without_the_library(own_server, tiny):
    server = own_server(tiny, env={"UNSPOOL_XGRAMMAR": "/nonexistent"})
    status, error = refused(server, constrained(regex="a"))
    assert (status, error["type"]) == (400, "BadRequestError")
    assert "xgrammar==0.2.9" in error["message"]
    assert "apache-tvm-ffi==0.1.15" in error["message"]
    assert complete(server, body(max_tokens=3))["usage"]["completion_tokens"] == 3
    assert "No structured outputs" in server.log()


def test_another_version_of_the_library_is_refused(own_server, tiny, tmp_path):
    (tmp_path / "xgrammar").mkdir()
    (tmp_path / "xgrammar" / "libxgrammar_bindings.so").write_bytes(b"")
    (tmp_path / "xgrammar-0.2.8.dist-info").mkdir()
    server = own_server(tiny, env={"UNSPOOL_XGRAMMAR": str(tmp_path)})
    _, error = refused(server, constrained(regex="a"))
    assert "another version of xgrammar" in error["message"]
    (tmp_path / "xgrammar-0.2.9.dist-info").mkdir()
    server = own_server(tiny, env={"UNSPOOL_XGRAMMAR": str(tmp_path)})
    assert "xgrammar==0.2.9" in refused(server, constrained(regex="a"))[1]["message"]
