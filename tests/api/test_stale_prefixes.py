"""What was computed by other weights is never found again, and requests that live through an update know it."""

import pytest

from api.control import (
    DEV,
    GENERATE,
    Background,
    Stream,
    change_weights,
    frozen_stream,
    get,
    greedy,
    post,
    reset,
    rpc,
    until,
    until_or_done,
)
from harness.bits import assert_same_answer
from harness.client import complete

# Chunks of 16: a long prompt is in the middle of its prefill for many steps.
FLAGS = ("--enable-scale-out", "--enable-sleep-mode", "--enable-prompt-tokens-details", "--max-num-batched-tokens", 16)
PROMPT = list(range(5, 95))  # five blocks of 16 and some
SHARED = [*PROMPT[:50], *range(200, 240)]  # three blocks of it


def cached_tokens(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def other(tiny, tmp_path_factory):
    return change_weights(tiny, tmp_path_factory.mktemp("weights") / "other")


@pytest.fixture(scope="module")
def cold(binary, other):
    """A server that was started on the other weights, and finds nothing in a cache."""
    from conftest import retire
    from harness.server import Server

    server = Server(binary, other, *FLAGS, "--no-enable-prefix-caching", env=DEV)
    yield server
    retire(server)


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, *FLAGS, env=DEV)
    reset(server)
    yield server
    reset(server)


@pytest.mark.short
def test_a_prompt_seen_before_the_update(server, other, cold):
    first = greedy(server, PROMPT, 16)
    warm = greedy(server, PROMPT, 16)
    assert (cached_tokens(first), cached_tokens(warm)) == (0, 80)
    assert_same_answer(first, warm, "from the cache")
    rpc(server, "reload_weights", weights_path=str(other))
    # The shared prefix first: the whole prompt would put it into the cache again.
    for prompt in (SHARED, PROMPT):
        answer = greedy(server, prompt, 16)
        assert cached_tokens(answer) == (0 if prompt is SHARED else 48)
        assert_same_answer(greedy(cold, prompt, 16), answer, "after the update")
    assert post(server, "/reset_prefix_cache") == {"success": True}
    for tokens in (0, 80):
        answer = greedy(server, PROMPT, 16)
        assert cached_tokens(answer) == tokens
        assert_same_answer(greedy(cold, PROMPT, 16), answer, "after the reset")


@pytest.mark.short
def test_a_prefill_that_is_in_flight(server, other, cold, patience, sanitized):
    """Its blocks are of mixed weights. A prefill counts at its end, so one that has not was in the middle."""
    middles = 0
    for attempt in range(40):
        rpc(server, "reload_weights")
        # Half of every step is somebody else's, so that it takes a while.
        others = Stream(server, "/v1/completions", n=8, max_tokens=1900)
        until_or_done(lambda: server.in_flight() == (8, 0), [others], 10 * patience, "the stream does not run")
        if not others.is_alive():
            continue  # a tiny model was done before it was looked at
        prompt = [5 + (attempt + i * 7) % 300 for i in range(1900)]
        before = server.metric("vllm:prompt_tokens_total")
        asking = Background(lambda prompt=prompt: greedy(server, prompt, 2))
        while server.in_flight() != (9, 0) and asking.is_alive():
            pass
        rpc(server, "reload_weights", weights_path=str(other))
        middles += server.metric("vllm:prompt_tokens_total") == before
        asking.wait(30 * patience)
        post(server, "/abort_requests", {})
        others.wait(30 * patience)
        again = greedy(server, prompt, 2)
        assert cached_tokens(again) == 0
        assert_same_answer(greedy(cold, prompt, 2), again, "after an update in the middle of a prefill")
        if middles == (1 if sanitized else 3):
            break
    assert middles, "no reload met a prefill"


@pytest.mark.parametrize("clear", ["by the pause", "by a reset"])
def test_kept_requests_are_computed_again(server, other, cold, patience, clear):
    """What was said stays said; what follows is what the new weights say to it, without a gap or a repeat."""
    stream = frozen_stream(server, patience, clear_cache=clear == "by the pause")
    rpc(server, "reload_weights", weights_path=str(other))
    post(server, "/update_weight_version", {"new_version": "v2"})
    if clear == "by a reset":
        assert post(server, "/reset_prefix_cache") == {"success": False}
        assert post(server, "/reset_prefix_cache?reset_running_requests=true") == {"success": True}
    assert post(server, "/resume") == {"status": "resumed"}
    chunks = stream.wait(60 * patience)
    first, second = chunks[-1]["choices"][0]["weight_versions"]
    tokens = stream.token_ids()
    assert (first["start"], first["end"], second["end"]) == (0, second["start"], len(tokens)) and len(tokens) == 1900
    said = tokens[: second["start"]]
    (choice,) = greedy(cold, [5, 6, 7, *said], 1900 - len(said))["choices"]
    assert tokens == said + choice["token_ids"]


def test_new_requests_after_updates_beside_a_kept_one(server, tiny, other, cold, patience):
    """Three updates, one request frozen over all of them: what shares its prefix is computed by the weights of now."""
    stream = frozen_stream(server, patience, clear_cache=True)
    prompt = [5, 6, 7, *stream.token_ids()[:37]]
    expected = {other: greedy(cold, prompt), tiny: None}
    for number, weights in enumerate((other, tiny, other)):
        post(server, "/pause?mode=keep&clear_cache=true")
        rpc(server, "reload_weights", weights_path=str(weights))
        if number == 0:
            post(server, "/reset_prefix_cache?reset_running_requests=true")
        post(server, "/resume")
        answer = greedy(server, prompt)
        if weights is other:
            assert_same_answer(expected[other], answer, f"update {number}")
    stream.wait(60 * patience)
    assert len(stream.token_ids()) == 1900


def test_a_released_cache_without_prefix_caching(serve, tiny, patience):
    server = serve(tiny, *FLAGS, "--no-enable-prefix-caching", env=DEV)
    fields = {"max_tokens": 1900, "temperature": 0}
    whole, stream = Stream(server, **fields), Stream(server, **fields)
    whole.wait(60 * patience)
    stream.wait(60 * patience)
    stream = Stream(server, **fields)
    stream.wait_for_tokens(20, 10 * patience)
    post(server, "/pause?mode=keep&clear_cache=false")
    post(server, "/release_kv_cache_memory")
    assert post(server, "/wake_up?tags=kv_cache")["status"] == "awake"
    post(server, "/resume")
    stream.wait(60 * patience)
    assert stream.token_ids() == whole.token_ids()


@pytest.mark.short
def test_who_came_during_the_pause_runs_on_the_new_weights(server, other, cold, patience):
    expected = greedy(cold)
    post(server, "/pause?mode=abort")
    waiting = [Background(lambda: greedy(server)) for _ in range(2)]
    body = {"request_id": "mine", "token_ids": [5], "sampling_params": {"max_tokens": 4}}
    aborted = Background(lambda: complete(server, body, path=GENERATE))
    until(lambda: server.in_flight() == (0, 3), 5 * patience, "three requests do not wait")
    assert get(server, "/is_paused") == {"is_paused": True}
    post(server, "/abort_requests", {"request_ids": ["generate-tokens-mine"]})
    (choice,) = aborted.wait(1 * patience)["choices"]
    assert (choice["finish_reason"], choice["token_ids"]) == ("abort", [])
    rpc(server, "reload_weights", weights_path=str(other))
    post(server, "/update_weight_version", {"new_version": "v2"})
    post(server, "/resume")
    for asking in waiting:
        answer = asking.wait(10 * patience)
        assert_same_answer(expected, answer, "asked during the pause")
        assert answer["choices"][0]["weight_versions"] == [{"version": "v2", "start": 0, "end": 12}]
