"""Streams: the same as the whole answer, in pieces; many at once; and a reader that does not read."""

import json
import socket
import time

import pytest

from harness.bits import assert_same, completion_rows
from harness.client import complete, raw_post, stream, stream_many

ASK = {"logprobs": 3, "return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True}


def joined(chunks, index=0):
    """One choice of a stream in the form of a whole answer's choice."""
    choice = {"text": "", "token_ids": [], "logprobs": {}, "finish_reason": None, "stop_reason": None}
    for chunk in chunks:
        for part in chunk["choices"]:
            if part["index"] != index:
                continue
            assert choice["finish_reason"] is None, "a chunk after the last one"
            choice["text"] += part["text"]
            choice["token_ids"] += part["token_ids"]
            for key, values in (part["logprobs"] or {}).items():
                choice["logprobs"].setdefault(key, []).extend(values)
            choice["finish_reason"], choice["stop_reason"] = part["finish_reason"], part["stop_reason"]
    return choice


@pytest.mark.short
@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": 0},
        {"seed": 5},
        {"seed": 5, "n": 3},
        {"seed": 9, "echo": True, "return_token_ids": True},
        {"seed": 7, "stream_interval": 4},
    ],
    ids=["greedy", "sampled", "n", "echo", "interval"],
)
def test_equals_the_whole_answer(serve, tiny, extra):
    server = serve(tiny)
    body = {"prompt": [20, 30, 40], "max_tokens": 24, **ASK, **extra}
    whole = complete(server, body)
    chunks = stream(server, body)
    for expected in whole["choices"]:
        choice = joined(chunks, expected["index"])
        for key in ("text", "token_ids", "finish_reason", "stop_reason"):
            assert choice[key] == expected[key]
        assert choice["logprobs"]["text_offset"] == expected["logprobs"]["text_offset"]
        if not body.get("echo"):
            assert_same(completion_rows(expected), completion_rows(choice), "stream")


def test_stop_string_is_held_back(serve, smollm2):
    server = serve(smollm2)
    body = {"prompt": "Count: one, two, three, four,", "max_tokens": 12, "temperature": 0}
    text = complete(server, body)["choices"][0]["text"]
    stop = text[6:12]
    expected = complete(server, body, stop=stop)["choices"][0]
    assert expected["text"] == text[: text.index(stop)] and expected["stop_reason"] == stop
    pieces = [part["text"] for chunk in stream(server, body, stop=stop) for part in chunk["choices"]]
    assert "".join(pieces) == expected["text"]


@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}])
def test_usage(serve, tiny, options):
    server = serve(tiny)
    chunks = stream(server, prompt=[5, 6, 7], max_tokens=6, ignore_eos=True, stream_options=options)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
    running = [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1] if chunk.get("usage")]
    assert running == (list(range(1, 7)) if "continuous_usage_stats" in options else [])


def test_characters_are_whole(serve, smollm2):
    """Tokens of an emoji are bytes of it: no piece holds a replacement character, and the pieces join to the text."""
    server = serve(smollm2)
    body = {"prompt": "Party emojis: 🎉🎊🥳🎈🎁 and more emojis: 🎉", "max_tokens": 24, "temperature": 0.8, "seed": 3}
    whole = complete(server, body)["choices"][0]["text"]
    pieces = [part["text"] for chunk in stream(server, body) for part in chunk["choices"]]
    assert "".join(pieces) == whole
    assert "\ufffd" not in whole


def test_a_thousand_streams(serve, tiny, patience, report):
    server = serve(tiny)
    bodies = [
        {"prompt": [3 + i % 370, 9, 27], "max_tokens": 32, "ignore_eos": True, "return_token_ids": True}
        for i in range(1000)
    ]
    started = time.monotonic()
    streams = stream_many(server, bodies)
    report(f"1,000 streams of 32 tokens: {time.monotonic() - started:.1f} s")
    for chunks in streams:
        choice = joined(chunks)
        assert len(choice["token_ids"]) == 32
        assert choice["finish_reason"] == "length"
    server.wait_until_idle(5 * patience)


@pytest.mark.short
def test_slow_reader(serve, tiny, patience):
    """A client that stops reading holds up nobody, and still gets all of its answer."""
    server = serve(tiny)
    body = {"prompt": [1, 2, 3], "max_tokens": 1500, "logprobs": 20, "ignore_eos": True, "stream": True}
    with raw_post(server, "/v1/completions", body) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        started = time.monotonic()
        complete(server, prompt=[4, 5], max_tokens=8)
        assert time.monotonic() - started < 2 * patience
        server.wait_until_idle(30 * patience)
        received = b""
        while b"[DONE]" not in received[-64:]:
            piece = slow.recv(1 << 16)
            assert piece, "the connection closed before the end"
            received += piece
    chunks = [json.loads(line[6:]) for line in received.split(b"\n") if line.startswith(b"data: {")]
    assert sum(len(choice["logprobs"]["tokens"]) for chunk in chunks for choice in chunk["choices"]) == 1500


def test_fairness(serve, smollm2, report):
    """While a long prompt comes in, running streams go on between its chunks. The gap is reported, not asserted: it is a
    time, and machines differ in their noise."""
    server = serve(smollm2, "--max-num-batched-tokens", 256)
    import asyncio

    from harness.client import complete_async, session, stream_async

    async def run():
        arrivals = [[] for _ in range(4)]
        async with session() as http:
            streams = []
            for times in arrivals:
                body = {"prompt": [300, 400, 500], "max_tokens": 60, "ignore_eos": True}
                tick = lambda chunk, times=times: times.append(time.monotonic())  # noqa: E731
                streams.append(asyncio.ensure_future(stream_async(http, server, body, on_chunk=tick)))
            while not all(len(times) > 5 for times in arrivals):
                await asyncio.sleep(0.01)
            started = time.monotonic()
            await complete_async(http, server, {"prompt": [1000 + i for i in range(2000)], "max_tokens": 1})
            ended = time.monotonic()
            await asyncio.gather(*streams)
        gaps = [b - a for times in arrivals for a, b in zip(times, times[1:], strict=False) if started <= a <= ended]
        return max(gaps, default=0.0), (ended - started) / (2000 / 256)

    longest, chunk = asyncio.run(run())
    report(
        f"longest gap of 4 streams while 2,000 tokens come in by 256: {longest:.2f} s, {longest / chunk:.2f} of a chunk's time"
    )
