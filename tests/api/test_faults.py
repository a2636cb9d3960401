"""Faults that other engines were reported to have, tried as the reports say: logprobs, stops, validation, UTF-8, tools.

What has a page of its own is tested there (templates, structured outputs, tool parsers, weights that are not finite).
"""

import json
import math
import shutil

import pytest

from api.control import Background, post, read_tensors, write_tensors
from harness.bits import completion_rows, prompt_rows
from harness.chat import CHAT, CHATML, HI, chat, chat_stream, joined
from harness.client import complete, complete_many, refused, request, stream

GENERATE = "/inference/v1/generate"
PROMPT = [20, 150, 33, 7, 99]
EMOJI = "“Grüße” 🙂👩🏽‍🚀 日本"
IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
FLAGS = ("--chat-template", CHATML, "--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture
def server(serve, tiny):
    return serve(tiny, *FLAGS, "--max-logprobs", -1, "--max-num-batched-tokens", 64)


@pytest.fixture
def text_server(serve, smollm2):
    return serve(smollm2, *FLAGS[2:], "--max-model-len", 1024)


def logprobs_of(choice):
    """Every number of a completion's log-probs."""
    logprobs = choice["logprobs"]
    yield from (value for value in logprobs["token_logprobs"] if value is not None)
    for top in logprobs["top_logprobs"]:
        yield from (top or {}).values()


MASKED = {
    "top_k": {"top_k": 1},
    "top_p": {"top_p": 0.01},
    "min_p": {"min_p": 1.0},
    "allowed": {"allowed_token_ids": [40, 41]},
    "bias": {"logit_bias": {"40": -100}},
    "grammar": {"structured_outputs": {"regex": "[0-9]{3}"}},
    "min_tokens": {"min_tokens": 2},
}


@pytest.mark.short
@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"])
@pytest.mark.parametrize("name", MASKED)
def test_log_probs_of_barred_tokens_are_numbers(server, name, mode):
    """vllm#10234, sglang#5984: minus infinity is no JSON. (The client of these tests takes no NaN and no Infinity.)"""
    fields = {"max_tokens": 3, "seed": 1, "logprobs_mode": mode, **MASKED[name]}
    body = {"prompt": PROMPT, "echo": True, "logprobs": 20, **fields}
    for choice in (complete(server, body)["choices"][0], stream(server, body)[0]["choices"][0]):
        assert all(value >= -9999 for value in logprobs_of(choice))
    asked = {"logprobs": True, "top_logprobs": 20, "prompt_logprobs": 20, **fields}
    for entry in chat(server, **asked)["choices"][0]["logprobs"]["content"]:
        assert all(other["logprob"] >= -9999 for other in [entry, *entry["top_logprobs"]])
    asked.pop("prompt_logprobs")
    assert joined(chat_stream(server, **asked))["logprobs"]


@pytest.mark.short
def test_ends_of_the_sampling_ranges(server):
    """Nothing at the edge of a range is read as off by one side and as greedy by another."""
    for field, value in [("top_p", 0), ("top_p", -1), ("top_k", -2), ("temperature", -1e-9), ("min_p", 1.1)]:
        assert refused(server, prompt=PROMPT, **{field: value})[0] == 400
    free = complete(server, prompt=PROMPT, seed=3, max_tokens=20, ignore_eos=True, **IDS)["choices"][0]["token_ids"]
    for field, value in [("top_k", 0), ("top_k", -1), ("top_k", 10**6), ("top_p", 1), ("min_p", 0)]:
        answer = complete(server, prompt=PROMPT, seed=3, max_tokens=20, ignore_eos=True, **IDS, **{field: value})
        assert answer["choices"][0]["token_ids"] == free
    # Raised to 0.01, which is not greedy, but so nearly that its log-probs tell.
    cold = {"prompt": PROMPT, "max_tokens": 1, "logprobs": 384, "logprobs_mode": "processed_logprobs", **IDS}
    rows = [completion_rows(complete(server, cold, temperature=t)["choices"][0])[0] for t in (1e-6, 0.01)]
    assert rows[0].keys() == rows[1].keys()
    assert sorted(rows[0].values()) == sorted(rows[1].values())


@pytest.mark.short
def test_processed_log_probs_by_the_raw_ones(server):
    """The temperature once, on the logits; masks behind it; and the same whole, streamed and for each of n samples."""
    body = {"prompt": PROMPT, "max_tokens": 3, "logprobs": 384, "seed": 5, "ignore_eos": True, **IDS}
    for temperature, truncation in [(0.5, {}), (1.0, {"top_k": 2}), (1.5, {"top_p": 0.5}), (1.5, {})]:
        fields = {**body, "temperature": temperature, **truncation}
        raw = completion_rows(complete(server, fields)["choices"][0])
        asked = {**fields, "logprobs_mode": "processed_logprobs"}
        processed = completion_rows(complete(server, asked)["choices"][0])
        for before, after in zip(raw, processed, strict=True):
            kept = {token: before[token] / temperature for token, value in after.items() if value > -9999}
            assert len(kept) == (2 if "top_k" in truncation else len(kept)) and (truncation or len(kept) == 384)
            total = math.log(math.fsum(math.exp(value) for value in kept.values()))
            assert all(after[token] == pytest.approx(value - total, abs=2e-3) for token, value in kept.items())
        streamed = [completion_rows(chunk["choices"][0])[0] for chunk in stream(server, asked)]
        assert streamed == processed
        samples = complete(server, asked, n=2)["choices"]
        assert completion_rows(samples[0]) == processed


@pytest.mark.short
def test_long_prompts_are_scored_in_one_list(server, serve, tiny):
    """vllm#5846, vllm#14239: 300 tokens in chunks of 64. Entry i is of token i, whatever the chunks."""
    prompt = [5 + (i * 37) % 350 for i in range(300)]
    whole = serve(tiny, *FLAGS, "--max-logprobs", -1, "--max-num-batched-tokens", 512)
    body = {"prompt": prompt, "max_tokens": 2, "temperature": 0, "prompt_logprobs": 2, **IDS}
    (choice,) = complete(server, body)["choices"]
    entries = choice["prompt_logprobs"]
    assert len(entries) == 300 and entries[0] is None
    for token, entry in zip(prompt[1:], entries[1:], strict=True):
        first = next(iter(entry))
        assert first == str(token)
        ranks = sorted(other["rank"] for other in entry.values())
        assert ranks[:2] == [1, 2] and (len(ranks) == 2 or ranks[2] == entry[first]["rank"])
        best = sorted(entry.values(), key=lambda other: other["rank"])
        assert [other["logprob"] for other in best] == sorted((o["logprob"] for o in best), reverse=True)
    assert prompt_rows(choice) == prompt_rows(complete(whole, body)["choices"][0])
    echoed = {"prompt": prompt, "max_tokens": 2, "temperature": 0, "echo": True, "logprobs": 2}
    (choice,) = complete(server, echoed)["choices"]
    chunks = stream(server, echoed)
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == 302 and logprobs["token_logprobs"][0] is None
    lengths = [len(token) for token in logprobs["tokens"]]
    assert logprobs["text_offset"] == [sum(lengths[:i]) for i in range(302)]
    for key, values in logprobs.items():
        assert sum((chunk["choices"][0]["logprobs"][key] for chunk in chunks), []) == values


@pytest.mark.short
def test_prompt_log_probs_take_bounded_memory(server):
    """vllm#5907: the whole vocabulary of a long prompt, four at once."""
    prompt = [5 + i % 300 for i in range(1900)]
    body = {"prompt": prompt, "max_tokens": 1, "prompt_logprobs": -1}
    before = server.rss_kb()
    for answer in complete_many(server, [body] * 4):
        assert [len(entry) for entry in answer["choices"][0]["prompt_logprobs"][1:]] == [384] * 1899
    assert server.rss_kb() - before < 1_500_000
    assert refused(server, prompt=PROMPT, prompt_logprobs=385)[0] == 400


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_bytes_of_characters_in_parts(text_server, streamed):
    """ollama#13497: an emoji is three tokens. Their bytes, put together, are the text's, and others' stand for themselves."""
    fields = {"structured_outputs": {"choice": [EMOJI]}, "max_tokens": 60, "logprobs": True, "top_logprobs": 5}
    if streamed:
        choice = joined(chat_stream(text_server, **fields))
        entries = choice["logprobs"]
    else:
        (choice,) = chat(text_server, **fields)["choices"]
        entries = choice["logprobs"]["content"]
    assert choice["message"]["content"] == EMOJI and choice["finish_reason"] == "stop"
    assert b"".join(bytes(entry["bytes"]) for entry in entries[:-1]).decode() == EMOJI
    for entry in entries:
        assert bytes(entry["bytes"]).decode() == entry["token"]
        for other in entry["top_logprobs"]:
            assert bytes(other["bytes"]).decode() == other["token"]


@pytest.fixture(scope="module")
def two_ends(tiny, tmp_path_factory):
    """A model that ends with either of two tokens."""
    model = shutil.copytree(tiny, tmp_path_factory.mktemp("ends") / "model")
    path = model / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": [2, 70]}))
    return model


@pytest.mark.short
@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("config", ["auto", "vllm"])
def test_every_end_of_a_model(serve, two_ends, temperature, config):
    """vllm#4589, vllm#5849: ignore_eos is of all of them and of no stop token; min_tokens bars all, stop tokens too."""
    server = serve(two_ends, "--generation-config", config)
    ask = {"prompt": PROMPT, "temperature": temperature, "max_tokens": 8, "logit_bias": {"70": 100}, **IDS}

    def end(**fields):
        (choice,) = complete(server, {**ask, **fields})["choices"]
        return choice["token_ids"], choice["finish_reason"], choice["stop_reason"]

    assert end() == ([70], "stop", 70)
    assert end(ignore_eos=True) == ([70] * 8, "length", None)
    assert end(ignore_eos=True, stop_token_ids=[70]) == ([70], "stop", 70)
    tokens, *why = end(min_tokens=5)
    assert len(tokens) == 6 and tokens[-1] == 70 and not {2, 70} & set(tokens[:-1]) and why == ["stop", 70]
    tokens, *why = end(min_tokens=5, ignore_eos=True, stop_token_ids=[9, 70])
    assert len(tokens) == 6 and not {2, 9, 70} & set(tokens[:-1]) and why == ["stop", 70]
    asked = {**ask, "min_tokens": 5, "stop_token_ids": [9], "logprobs": 20, "max_tokens": 5}
    (choice,) = complete(server, asked, logprobs_mode="processed_logprobs", logprob_token_ids=[2, 9, 70])["choices"]
    for row in completion_rows(choice):
        assert [row[token] for token in (2, 9, 70)] == [-9999.0] * 3


@pytest.mark.short
def test_stop_strings_and_the_shortest_output(server):
    """A stop string is not looked for before min_tokens tokens are there."""
    body = {"prompt": PROMPT, "max_tokens": 12, "logit_bias": {"70": 100}, "temperature": 0, "ignore_eos": True, **IDS}
    text = complete(server, body)["choices"][0]["text"]
    piece = text[: len(text) // 12]
    (choice,) = complete(server, body, stop=[piece], min_tokens=5)["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", piece)
    assert len(choice["token_ids"]) == 6


@pytest.mark.short
def test_stop_strings_of_the_token_route(server):
    """vllm#57052: never ignored; and one that is complete with the last token there may be is a stop."""
    sampling = {"max_tokens": 64, "temperature": 0, "ignore_eos": True}
    body = {"token_ids": PROMPT, "sampling_params": sampling}
    tokens = complete(server, body, path=GENERATE)["choices"][0]["token_ids"]
    text = post(server, "/detokenize", {"tokens": tokens[:4]})["prompt"]
    for mode in ("tokens", "text"):
        asked = {**body, "output_mode": mode, "sampling_params": {**sampling, "stop": [text]}}
        (choice,) = complete(server, asked, path=GENERATE)["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", text)
        count = len(choice["token_ids"])
        assert choice["token_ids"] == tokens[:count] and count <= 4
        asked["sampling_params"]["max_tokens"] = count
        (choice,) = complete(server, asked, path=GENERATE)["choices"]
        assert (choice["finish_reason"], len(choice["token_ids"])) == ("stop", count)
    blind = {**body, "sampling_params": {**sampling, "stop": [text], "detokenize": False}}
    status, _, answer = request(server, "POST", GENERATE, {"model": "m", **blind})
    assert status == 400 or answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.short
@pytest.mark.parametrize("temperature", [0, 1])
def test_constraints_that_leave_nothing(server, temperature):
    """vllm#57986: a row of minus infinities must not become token 0. Who asks for the impossible is told so."""
    token, word = next(
        (token, word)
        for token in range(264, 384)
        if (word := post(server, "/detokenize", {"tokens": [token]})["prompt"]).isalpha()
        and post(server, "/tokenize", {"prompt": word, "add_special_tokens": False})["tokens"] == [token]
    )
    fields = {"prompt": PROMPT, "temperature": temperature, "max_tokens": 4}
    for asked in (
        {"allowed_token_ids": [token], "bad_words": [word]},
        {"allowed_token_ids": [2], "min_tokens": 3},
        {"structured_outputs": {"choice": ["abc"]}, "allowed_token_ids": [token]},
    ):
        status, error = refused(server, {**fields, **asked})
        assert status == 400 and error["message"]
        end = stream(server, {**fields, **asked})[-1]
        assert end["error"]["code"] == 400
    choice = complete(server, fields, allowed_token_ids=[token], bad_words=[word + "x"], **IDS)["choices"][0]
    assert set(choice["token_ids"]) == {token}
    assert complete(server, fields)["usage"]["completion_tokens"]


@pytest.mark.short
def test_prompts_at_the_edge(server):
    """vllm#6521, vllm#9336: scoring with nothing to generate, empty prompts, and the last place of the context."""
    for max_tokens in (0, 1):
        answer = complete(server, prompt=PROMPT, max_tokens=max_tokens, echo=True, logprobs=1, temperature=0)
        assert len(answer["choices"][0]["logprobs"]["tokens"]) == len(PROMPT) + max_tokens
        assert answer["usage"]["completion_tokens"] == 1
    assert refused(server, prompt=PROMPT, max_tokens=0)[0] == 400
    for prompt in ("", None, [], [[]], [PROMPT, []], [""], ["a", ""]):
        assert refused(server, prompt=prompt, max_tokens=1)[0] == 400
    longest = [5 + i % 300 for i in range(2048)]
    for fields in ({"max_tokens": 1}, {}, {"max_tokens": 1, "echo": True, "logprobs": 0}):
        assert refused(server, prompt=longest, **fields)[0] == 400
    for fields in ({}, {"max_tokens": 1}, {"max_tokens": 16}):
        answer = complete(server, prompt=longest[1:], ignore_eos=True, **fields)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"] == {
            "prompt_tokens": 2047, "total_tokens": 2048, "completion_tokens": 1,
            "prompt_tokens_details": None, "completion_tokens_details": None,
        }  # fmt: skip


GRAMMARS = {
    "a maximum beyond 32 bits": {"json": {"type": "integer", "minimum": 1, "maximum": 20000000000}},
    "a maximum beyond 64 bits": {"json": {"type": "integer", "maximum": 10**30}},
    "pattern and maxLength": {"json": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4}},
    "a loop of references": {"json": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}},
    "nested 2000 deep": {"json": '{"type":"array","items":' * 2000 + "{}" + "}" * 2000},
    "lengths out of order": {"json": {"type": "string", "minLength": 5, "maxLength": 2}},
    "a million repetitions": {"regex": "(ab){1000000}"},
    "a reference to nowhere": {"json": {"$ref": "#/$defs/none"}},
    "no type at all": {"json": {"properties": 5}},
    "an enum of nothing": {"json": {"enum": []}},
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_that_killed_engines(server, patience, name):
    """vllm#45346, vllm#17313: at most a 400 for that request, within bounds; who runs beside it goes on."""
    beside = Background(lambda: complete(server, prompt=PROMPT, max_tokens=1500, ignore_eos=True))
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 24, "structured_outputs": GRAMMARS[name]}
    status, _, answer = request(server, "POST", "/v1/completions", body, timeout_s=30 * patience)
    assert status in (200, 400), answer
    if status == 400:
        assert answer["error"]["message"] and answer["error"]["type"] in ("BadRequestError", "Bad Request")
    assert beside.wait(60 * patience)["usage"]["completion_tokens"] == 1500
    text = complete(server, prompt=PROMPT, structured_outputs={"choice": ["fine"]})["choices"][0]["text"]
    assert text == "fine"


@pytest.mark.short
def test_json_that_is_cut_off(server):
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 200}}, "required": ["a"]}
    fields = {"structured_outputs": {"json": schema, "disable_any_whitespace": True}, "max_tokens": 12}
    (choice,) = complete(server, prompt=PROMPT, **fields)["choices"]
    assert choice["finish_reason"] == "length" and choice["text"].startswith('{"a"')


@pytest.fixture(scope="module")
def padded(tiny, tmp_path_factory):
    """A model with 36 rows more than its tokenizer has tokens: 18 of zeros, and 18 of what the head likes best."""

    model = shutil.copytree(tiny, tmp_path_factory.mktemp("padded") / "model")
    config = json.loads((model / "config.json").read_text())
    path = model / "model.safetensors"
    tensors = read_tensors(path)
    dtype, (rows, width), data = tensors["model.embed_tokens.weight"]
    size = len(data) // rows
    likely = data[-size:]
    tensors["model.embed_tokens.weight"] = (dtype, [rows + 36, width], data + bytes(18 * size) + 18 * likely)
    write_tensors(path, tensors)
    config["vocab_size"] = rows + 36
    (model / "config.json").write_text(json.dumps(config))
    return model, rows


@pytest.mark.short
def test_rows_that_no_token_has(serve, padded):
    """mirage#751: they are sampled as any other, and are no text; no grammar has them, and beyond them there is nothing."""
    model, rows = padded
    server = serve(model, "--max-logprobs", -1)
    bias = {"logit_bias": {str(rows + 3): 100}, "ignore_eos": True}
    for fields in ({"temperature": 0}, {"temperature": 1, "seed": 1}, {"temperature": 0, "stop": ["x"]}):
        (choice,) = complete(server, prompt=PROMPT, max_tokens=4, **bias, **fields, **IDS)["choices"]
        assert (choice["token_ids"], choice["text"], choice["finish_reason"]) == ([rows + 3] * 4, "", "length")
    (choice,) = complete(server, prompt=[5, rows + 3], max_tokens=1, logprobs=-1, echo=True, **IDS)["choices"]
    assert len(completion_rows({**choice, "token_ids": [5, rows + 3, *choice["token_ids"]]})[-1]) == rows + 36
    for seed in range(4):
        asked = {"structured_outputs": {"regex": "[a-z]{4}"}, "seed": seed, **bias}
        (choice,) = complete(server, prompt=PROMPT, max_tokens=6, **{**asked, "ignore_eos": False}, **IDS)["choices"]
        assert choice["text"].isalpha() and max(choice["token_ids"]) < rows
    assert refused(server, prompt=[rows + 36], max_tokens=1)[0] == 400
    choices = complete(server, prompt=PROMPT, max_tokens=40, temperature=2, n=50, ignore_eos=True, **IDS)["choices"]
    drawn = {token for choice in choices for token in choice["token_ids"]}
    assert max(drawn) < rows + 36 and max(drawn) >= rows


def test_random_bytes_are_json(server, patience):
    """llama.cpp#11738: 200 requests of what a hot random model writes, with a parser, and log-probs of it."""
    fields = {"max_tokens": 500, "temperature": 2, "ignore_eos": True}
    count = 200 if patience == 1 else 20
    chats = [{"messages": HI, "seed": i, "logprobs": True, "top_logprobs": 3, **fields} for i in range(count // 2)]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    for body in chats[::2]:
        body["tools"] = tools
    broken = 0
    for answer in complete_many(server, chats, path=CHAT):
        (choice,) = answer["choices"]
        assert len(choice["logprobs"]["content"]) == 500
        broken += "�" in (choice["message"]["content"] or "")
    for answer in complete_many(
        server, [{"prompt": PROMPT, "seed": i, "logprobs": 3, **fields} for i in range(count // 2)]
    ):
        assert len(answer["choices"][0]["logprobs"]["tokens"]) == 500
    assert broken


@pytest.mark.short
@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "\xff\xfe", "prompt": "x"}',
        b'{"model": "m", "prompt": "\xed\xa0\x80"}',
        b'{"model": "m", "prompt": "x", "stop": ["\xc3"]}',
        '{"model": "ação 🙂 \\u0000", "prompt": "x"}'.encode(),
        '{"model": "m", "prompt": "x", "temperature": "é🙂"}'.encode(),
        b'{"model": "m", "prompt": "x", "logit_bias": {"\\ud83d": 1}}',
        '{"model": "m", "messages": [{"role": "user", "content": "x"}], "tool_choice": "🙂\\ud800"}'.encode(),
        b'{"model": "m", "prompt": "x", "structured_outputs": {"regex": "(\\ud83d\\ude42"}}',
    ],
    ids=["model", "surrogate", "stop", "unicode", "number", "escape", "choice", "regex"],
)
def test_errors_that_quote_bytes_are_json(server, body):
    path = CHAT if b"messages" in body else "/v1/completions"
    status, headers, answer = request(server, "POST", path, body, {"Content-Type": "application/json"})
    assert 400 <= status < 500 and "json" in headers["Content-Type"]
    assert answer["error"]["message"].encode()
    assert complete(server, prompt=PROMPT, max_tokens=1)["choices"]


@pytest.mark.short
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in range(10 ** 15) %}{% endfor %}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% set ns = namespace(x='ab') %}{% for a in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'x'|center(1000000000) }}",
        "{{ (range(10 ** 9)|list)[0] }}",
        "{{ {}|tojson(indent=1000000000) }}{{ [[]]|tojson(indent=1000000000) }}",
    ],
)
def test_templates_of_requests_are_bounded(serve, tiny, patience, template):
    """Megatron-LM#6818: nested loops are refused in bounded time, and nobody waits for them."""
    server = serve(tiny, "--chat-template", CHATML, "--trust-request-chat-template")
    body = {"model": "m", "messages": HI, "max_tokens": 1}
    asked = [Background(lambda: request(server, "POST", CHAT, {**body, "chat_template": template})) for _ in range(3)]
    assert chat(server, max_tokens=1)["choices"]
    for one in asked:
        status, _, answer = one.wait(20 * patience)
        assert status == 400 and answer["error"]["message"], answer
    assert server.rss_kb() < 3_000_000
