"""Commands while constrained requests run: what comes out is still of its grammar, and nothing is lost."""

import json
import re

import pytest

from api.control import DEV, GENERATE, TRIES, Background, change_weights, post, reset, rpc, until, until_or_done
from harness.chat import CHATML, chat
from harness.client import complete, request

PATTERN = "([a-z]{2,4} ){150}[0-9]{3}"
TOOL = {
    "type": "function",
    "function": {
        "name": "note",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 300, "maxLength": 400}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture
def server(serve, tiny):
    flags = ("--enable-scale-out", "--enable-sleep-mode", "--chat-template", CHATML)
    server = serve(tiny, *flags, "--enable-auto-tool-choice", "--tool-call-parser", "hermes", env=DEV)
    reset(server)
    yield server
    reset(server)


@pytest.fixture(scope="module")
def other(tiny, tmp_path_factory):
    return change_weights(tiny, tmp_path_factory.mktemp("weights") / "other")


def ask(server, seed):
    body = {"prompt": [20, 150, 33, seed], "max_tokens": 1500, "temperature": 1, "seed": seed}
    return complete(server, body, structured_outputs={"regex": PATTERN}, logprobs=1, return_token_ids=True)


def ask_for_a_call(server, seed):
    fields = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 1500}
    return chat(server, seed=seed, logprobs=True, return_token_ids=True, **fields)


def abort_one(server, patience):
    """How a request of its own ended, that was aborted by its id."""
    body = {"token_ids": [5], "request_id": "mine"}
    body["sampling_params"] = {"max_tokens": 1500, "structured_outputs": {"regex": PATTERN}}
    mine = Background(lambda: complete(server, body, path=GENERATE))
    until_or_done(lambda: server.in_flight()[0] >= 1, [mine], 10 * patience, "nothing runs")
    request(server, "POST", "/inference/v1/abort_requests", {"request_ids": ["generate-tokens-mine"]})
    return mine.wait(30 * patience)["choices"][0]["finish_reason"]


def crowd(server, patience):
    """Eight constrained texts and four calls, all at work; a tiny model may be done with some before they are seen."""
    for _ in range(TRIES):
        asked = [Background(lambda seed=seed: ask(server, seed)) for seed in range(8)]
        asked += [Background(lambda seed=seed: ask_for_a_call(server, seed)) for seed in range(4)]
        until_or_done(lambda: server.in_flight()[0] >= 6, asked, 20 * patience, "nothing runs")
        if server.in_flight()[0] >= 2:
            return asked
        for one in asked:
            one.wait(60 * patience)
    raise AssertionError("every request was done before it was seen")


def texts_and_calls(asked, patience):
    answers = [one.wait(60 * patience)["choices"][0] for one in asked]
    for choice in answers[:8]:
        assert len(choice["logprobs"]["token_logprobs"]) == len(choice["token_ids"])
        assert all(value > -9999 for value in choice["logprobs"]["token_logprobs"])
    for choice in answers[8:]:
        assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
    return answers[:8], answers[8:]


def check_finished(texts, calls):
    for choice in texts:
        assert choice["finish_reason"] == "stop" and re.fullmatch(PATTERN, choice["text"])
    for choice in calls:
        if choice["finish_reason"] == "length":
            continue  # spaces, as many as there is room for
        assert choice["finish_reason"] == "tool_calls"
        (call,) = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "note"
        assert 300 <= len(json.loads(call["function"]["arguments"])["text"]) <= 400


def undisturbed(server):
    return [ask(server, seed)["choices"][0] for seed in range(8)]


@pytest.mark.short
@pytest.mark.parametrize("command", ["keep", "keep, cache cleared", "sleep", "deep sleep", "released"])
def test_what_is_kept_goes_on_in_its_grammar(server, patience, command):
    """The same weights afterwards, and so the same text to the last bit."""
    expected = undisturbed(server)
    asked = crowd(server, patience)
    for _ in range(3):
        if command.startswith("keep"):
            post(server, f"/pause?mode=keep&clear_cache={'true' if 'cleared' in command else 'false'}")
        elif command == "released":
            post(server, "/pause?mode=keep&clear_cache=false")
            post(server, "/release_kv_cache_memory")
            post(server, "/wake_up?tags=kv_cache")
        else:
            post(server, f"/sleep?level={2 if command == 'deep sleep' else 1}&mode=keep")
            post(server, "/wake_up?tags=weights")
            if command == "deep sleep":
                rpc(server, "reload_weights")
            post(server, "/wake_up")
        post(server, "/resume")
    texts, calls = texts_and_calls(asked, patience)
    check_finished(texts, calls)
    for got, want in zip(texts, expected, strict=True):
        assert got["token_ids"] == want["token_ids"] and got["logprobs"] == want["logprobs"]


@pytest.mark.short
@pytest.mark.parametrize("mode", ["keep", "running"])
def test_new_weights_in_the_middle(server, other, tiny, patience, mode):
    """Tokens of two models, and one grammar."""
    asked = crowd(server, patience)
    for number, weights in enumerate((other, tiny, other)):
        if mode == "keep":
            post(server, "/pause?mode=keep&clear_cache=true")
        rpc(server, "reload_weights", weights_path=str(weights))
        post(server, "/update_weight_version", {"new_version": f"v{number}"})
        if mode == "keep":
            post(server, "/resume")
    check_finished(*texts_and_calls(asked, patience))


@pytest.mark.short
def test_a_pause_that_waits(server, patience):
    asked = crowd(server, patience)
    assert post(server, "/pause?mode=wait") == {"status": "paused"}
    late = Background(lambda: ask(server, 3))
    check_finished(*texts_and_calls(asked, patience))
    until(lambda: server.in_flight() == (0, 1), 10 * patience, "who came later does not wait")
    assert late.is_alive()
    post(server, "/resume")
    assert re.fullmatch(PATTERN, late.wait(60 * patience)["choices"][0]["text"])


@pytest.mark.short
@pytest.mark.parametrize("command", ["/pause?mode=abort", "/abort_requests", "/sleep?level=1", "one by one"])
def test_what_is_aborted_is_a_beginning(server, patience, command):
    """Partial text with its log-probs: the beginning of what it would have been."""
    expected = undisturbed(server)
    for _ in range(TRIES):
        asked = crowd(server, patience)
        if command == "one by one":
            end = abort_one(server, patience)
            check_finished(*texts_and_calls(asked, patience))
            if end == "abort":
                return
            continue
        post(server, command, {} if command == "/abort_requests" else None)
        texts, _ = texts_and_calls(asked, patience)
        reset(server)
        for got, want in zip(texts, expected, strict=True):
            assert got["finish_reason"] in ("abort", "stop")
            assert want["text"].startswith(got["text"])
            assert want["token_ids"][: len(got["token_ids"])] == got["token_ids"]
        if "abort" in {choice["finish_reason"] for choice in texts}:
            return
    raise AssertionError("nothing was aborted")


@pytest.mark.short
def test_grammars_that_are_being_made(server, patience):
    """Commands between the asking and the first token: who waits for a grammar is counted, held and let go as others."""
    properties = {f"property {i}": {"type": "string"} for i in range(1500)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}

    def ask_for_json(seed):
        body = {"prompt": [5, seed], "max_tokens": 8, "structured_outputs": {"json": {**schema, "title": str(seed)}}}
        return complete(server, body)["choices"][0]

    for command in ("/pause?mode=keep", "/pause?mode=wait", "/pause?mode=abort", "/sleep?level=1&mode=keep"):
        asked = [Background(lambda seed=seed: ask_for_json(seed)) for seed in range(3)]
        post(server, command)
        post(server, "/wake_up")
        post(server, "/resume")
        for one in asked:
            choice = one.wait(60 * patience)
            assert choice["finish_reason"] in ("length", "abort", "stop")
            assert not choice["text"].strip() or choice["text"].lstrip().startswith("{")
    server.wait_until_idle(10 * patience)
