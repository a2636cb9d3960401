"""Pause and resume with requests in flight, and what arrives meanwhile."""

import time

import pytest

from api.control import (
    DEV,
    GENERATE,
    LONG,
    TRIES,
    Background,
    Stream,
    aborted_streams,
    frozen_stream,
    get,
    greedy,
    post,
    refusal,
    reset,
    until,
)
from harness.bits import assert_same_answer
from harness.chat import CHAT, CHATML
from harness.client import complete, raw_post, request


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, "--enable-scale-out", "--enable-sleep-mode", "--chat-template", CHATML, env=DEV)
    reset(server)
    yield server
    post(server, "/wake_up")


@pytest.mark.short
@pytest.mark.parametrize("path", [GENERATE, "/v1/completions", CHAT])
def test_abort_ends_streams_as_answers(server, patience, path):
    (stream,), answer = aborted_streams(server, patience, lambda: post(server, "/pause"), path=path)
    assert answer == {"status": "paused"}
    assert 3 <= len(stream.token_ids()) < LONG
    assert get(server, "/is_paused") == {"is_paused": True}
    assert get(server, "/is_sleeping") == {"is_sleeping": True}
    assert post(server, "/resume") == {"status": "resumed"}
    assert get(server, "/is_paused") == {"is_paused": False}


def paused_answer(server, patience):
    asking = Background(lambda: greedy(server, max_tokens=LONG, n=3, temperature=1))
    until(lambda: server.in_flight()[0] > 0 or not asking.is_alive(), 10 * patience, "nothing runs")
    time.sleep(0.05)
    post(server, "/pause")
    return asking.wait(5 * patience)


@pytest.mark.short
def test_abort_answers_whole_replies_with_their_logprobs(server, patience):
    for _ in range(TRIES):
        choices = paused_answer(server, patience)["choices"]
        for choice in choices:
            assert len(choice["logprobs"]["token_logprobs"]) == len(choice["token_ids"])
        if {choice["finish_reason"] for choice in choices} == {"abort"}:
            break
        post(server, "/resume")
    for choice in choices:
        assert choice["finish_reason"] == "abort" and choice["stop_reason"] is None
        assert len(choice["token_ids"]) < LONG


@pytest.mark.short
@pytest.mark.parametrize("clear_cache", ["true", "false"])
def test_keep_goes_on_as_if_nothing_had_been(server, patience, clear_cache):
    whole = Stream(server, max_tokens=LONG, temperature=0).wait(60 * patience)
    stream = frozen_stream(server, patience, clear_cache == "true")
    time.sleep(0.2)  # what was on its way arrives
    frozen = stream.token_ids()
    time.sleep(0.2)
    assert stream.token_ids() == frozen and stream.is_alive()
    assert post(server, "/resume") == {"status": "resumed"}
    chunks = stream.wait(60 * patience)
    assert stream.finish_reasons() == ["length"]
    tokens = [token for chunk in whole for choice in chunk["choices"] for token in choice["token_ids"]]
    assert stream.token_ids() == tokens
    assert chunks[-1]["choices"][0]["weight_versions"] == [{"version": "default", "start": 0, "end": 1900}]


@pytest.mark.short
def test_wait_lets_them_end_and_holds_nothing_up(server, patience):
    """Who is told of the pause finds nobody at work; meanwhile all else is answered."""
    for _ in range(TRIES):
        stream = Stream(server, max_tokens=LONG)
        stream.wait_for_tokens(3, 10 * patience)
        pause = Background(lambda: (post(server, "/pause?mode=wait"), server.in_flight()))
        until(lambda: get(server, "/is_paused")["is_paused"], 5 * patience, "not paused")
        for path in ("/health", "/metrics", "/is_paused", "/is_sleeping", "/weight_info"):
            assert request(server, "GET", path)[0] == 200
        answered_meanwhile = pause.is_alive()
        stream.wait(60 * patience)
        assert pause.wait(5 * patience) == ({"status": "paused"}, (0, 0))
        assert stream.finish_reasons() == ["length"] and len(stream.token_ids()) == LONG
        if answered_meanwhile:
            return
        post(server, "/resume")
    raise AssertionError("every route waited for the pause")


@pytest.mark.short
def test_arrivals_wait_are_counted_and_can_be_aborted(server, patience):
    post(server, "/pause")
    first = Background(lambda: greedy(server))
    body = {"request_id": "mine", "token_ids": [5], "sampling_params": {"max_tokens": 4}}
    second = Background(lambda: complete(server, body, path=GENERATE))
    gone = raw_post(server, "/v1/completions", {"prompt": [5], "max_tokens": 4})
    until(lambda: server.in_flight() == (0, 3), 5 * patience, "three requests do not wait")
    gone.close()
    until(lambda: server.in_flight() == (0, 2), 5 * patience, "the client that left still waits")
    ids = {"request_ids": ["generate-tokens-mine"]}
    assert post(server, "/abort_requests", ids) == {"status": "aborted", "aborted": 1}
    assert second.wait(5 * patience)["choices"][0]["finish_reason"] == "abort"
    assert first.is_alive()
    post(server, "/update_weight_version", {"new_version": "v2"})
    post(server, "/resume")
    (choice,) = first.wait(10 * patience)["choices"]
    assert choice["weight_versions"] == [{"version": "v2", "start": 0, "end": 12}]


def test_commands_may_repeat(server):
    expected = greedy(server)
    for mode in ("abort", "keep", "wait", "wait", "keep", "abort"):
        assert post(server, f"/pause?mode={mode}") == {"status": "paused"}
    for _ in range(3):
        assert post(server, "/resume") == {"status": "resumed"}
    assert_same_answer(expected, greedy(server), "after pauses")


def test_abort_all(server, patience):
    _, answer = aborted_streams(server, patience, lambda: post(server, "/abort_requests", {}), count=3)
    assert answer["status"] == "aborted" and answer["aborted"] >= 3
    assert get(server, "/is_paused") == {"is_paused": False}


@pytest.mark.short
def test_a_reset_says_whether_it_did(server, patience):
    """A cache that requests hold is not reset, and the answer says so."""
    prompt = list(range(5, 105))

    def cached_tokens():
        return server.metric("vllm:prefix_cache_hits_total")

    greedy(server, prompt)
    before = cached_tokens()
    greedy(server, prompt)
    assert cached_tokens() > before
    whole = Stream(server, max_tokens=LONG, temperature=0).wait(60 * patience)
    stream = frozen_stream(server, patience, clear_cache=False)
    assert post(server, "/reset_prefix_cache") == {"success": False}
    assert post(server, "/reset_prefix_cache", {"reset_running_requests": True}) == {"success": True}
    post(server, "/resume")
    before = cached_tokens()
    greedy(server, prompt)
    assert cached_tokens() == before
    stream.wait(60 * patience)
    assert stream.token_ids() == [t for chunk in whole for c in chunk["choices"] for t in c["token_ids"]]


def ends_of_a_crowd(server, patience):
    """The finish reasons of requests that were aborted once one of them had been preempted."""
    preemptions = server.metric("vllm:num_preemptions_total")
    fields = {"max_tokens": 400, "ignore_eos": True}
    asking = [Background(lambda n=n: complete(server, prompt=[5, 6], n=n, **fields)) for n in [1, 4] * 4]
    streams = [Stream(server, "/v1/completions", **fields) for _ in range(8)]
    until(lambda: server.metric("vllm:num_preemptions_total") > preemptions, 30 * patience, "nothing is preempted")
    post(server, "/pause?mode=abort")
    answers = [one.wait(5 * patience) for one in asking]
    for stream in streams:
        stream.wait(5 * patience)
    ends = [choice["finish_reason"] for answer in answers for choice in answer["choices"]]
    return ends + [reason for stream in streams for reason in stream.finish_reasons()]


@pytest.mark.short
def test_abort_reaches_everyone(own_server, tiny, pool_of, patience):
    """Whole answers, streams and samples; running, waiting, preempted, and who is still sending."""
    server = own_server(tiny, *pool_of(tiny, 640), "--max-num-seqs", 4, "--max-model-len", 512, env=DEV)
    late = raw_post(server, "/v1/completions", {"prompt": [5], "max_tokens": 4}, leave_out=1)
    for _ in range(TRIES):
        if "abort" in (ends := ends_of_a_crowd(server, patience)):
            break
        post(server, "/resume")  # a tiny model had served them all
    assert set(ends) <= {"abort", "length"} and "abort" in ends and len(ends) == 4 * 1 + 4 * 4 + 8
    tokens = server.metric("vllm:generation_tokens_total")
    late.sendall(b"}")
    until(lambda: server.in_flight() == (0, 1), 5 * patience, "who was still sending does not wait")
    post(server, "/pause?mode=abort&clear_cache=false")
    assert server.metric("vllm:generation_tokens_total") == tokens
    assert late.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
    for _ in range(2):
        post(server, "/resume")
    complete(server, prompt=[5], max_tokens=1)


def test_resume_names_what_sleeps(server):
    post(server, "/sleep?level=1")
    status, answer = refusal(server, "/resume")
    assert status == 409 and "weights" in answer["error"] and "kv_cache" in answer["error"]
    post(server, "/wake_up?tags=weights")
    status, answer = refusal(server, "/resume")
    assert status == 409 and "weights" not in answer["error"] and "kv_cache" in answer["error"]
