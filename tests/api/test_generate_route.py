"""/inference/v1/generate: token ids in, token ids and log-probs out; aborts by id."""

import threading
import time

import pytest

from harness.bits import bits
from harness.client import complete, request, stream

ROUTE = "/inference/v1/generate"


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny, "--enable-scale-out")


def generate(server, body=None, **sampling):
    fields = {"token_ids": [5, 6, 7], **(body or {}), "sampling_params": sampling}
    return complete(server, fields, path=ROUTE)


@pytest.mark.short
def test_entries_pair_with_tokens(server):
    answer = generate(server, max_tokens=10, logprobs=1, seed=3, ignore_eos=True)
    (choice,) = answer["choices"]
    entries = choice["logprobs"]["content"]
    assert len(entries) == len(choice["token_ids"]) == 10
    for token, entry in zip(choice["token_ids"], entries, strict=True):
        assert entry["token_id"] == token and entry["token"] == f"token_id:{token}"
        assert entry["logprob"] <= 0 and entry["rank"] >= 1
        assert entry["top_logprobs"][0]["token_id"] == token
    assert choice["weight_versions"] == [{"version": "default", "start": 0, "end": 10}]
    assert answer["usage"]["completion_tokens"] == 10


def test_same_bits_as_completions(server):
    fields = {"max_tokens": 12, "logprobs": 0, "seed": 9, "ignore_eos": True}
    one = generate(server, **fields)["choices"][0]
    other = complete(server, prompt=[5, 6, 7], return_token_ids=True, **fields)["choices"][0]
    assert one["token_ids"] == other["token_ids"]
    values = [entry["logprob"] for entry in one["logprobs"]["content"]]
    assert list(map(bits, values)) == list(map(bits, other["logprobs"]["token_logprobs"]))


def test_default_is_what_is_left(serve, tiny):
    server = serve(tiny, "--enable-scale-out", "--max-model-len", 64)
    assert generate(server, ignore_eos=True)["usage"]["completion_tokens"] == 61


def test_stream(server):
    whole = generate(server, max_tokens=9, seed=4, ignore_eos=True)["choices"][0]
    chunks = stream(
        server, {"token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 9, "seed": 4, "ignore_eos": True}}, ROUTE
    )
    parts = [part for chunk in chunks for part in chunk["choices"]]
    assert sum((part["token_ids"] for part in parts), []) == whole["token_ids"]
    assert [part["finish_reason"] for part in parts][-1] == "length"
    assert parts[-1]["weight_versions"] == whole["weight_versions"]


@pytest.mark.short
def test_abort(server, patience):
    """An abort ends the request as an answer, with what it has."""
    answers = []
    body = {
        "request_id": "stop-me",
        "token_ids": [5],
        "sampling_params": {"max_tokens": 1900, "ignore_eos": True, "n": 8},
    }
    asking = threading.Thread(target=lambda: answers.append(complete(server, body, path=ROUTE)))
    asking.start()
    deadline = time.monotonic() + 10 * patience
    while server.in_flight()[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    ids = {"request_ids": ["generate-tokens-stop-me", "never-heard-of"]}
    assert request(server, "POST", "/inference/v1/abort_requests", ids)[0] == 200
    asking.join(5 * patience)
    assert answers, "the aborted request was never answered"
    assert {choice["finish_reason"] for choice in answers[0]["choices"]} == {"abort"}
    server.wait_until_idle(1 * patience)


def test_tokens_only(serve, tiny, tmp_path, own_server):
    """--tokens-only serves a model that has no tokenizer."""
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("tokenizer*"))
    server = own_server(folder, "--tokens-only")
    assert generate(server, max_tokens=4, ignore_eos=True)["usage"]["completion_tokens"] == 4
    status, _, body = request(server, "POST", ROUTE, {"token_ids": [5], "sampling_params": {"stop": ["x"]}})
    assert status == 400 and "tokens-only" in body["error"]["message"]
