"""The clients: what answers mean, against a server; and what goes wrong on the way, against a socket that misbehaves."""

import asyncio
import inspect
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from api.control import DEV

FLAGS = ("--enable-scale-out", "--enable-sleep-mode")


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny, *FLAGS, env=DEV)


class Both:
    """Client and AsyncClient under one face, so that each test is of both."""

    def __init__(self, kind, url, **options):
        import unspool

        self.kind = kind
        self.client = (unspool.Client if kind == "sync" else unspool.AsyncClient)(url, **options)
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*args, **kwargs):
            answer = method(*args, **kwargs)
            return self.loop.run_until_complete(answer) if inspect.isawaitable(answer) else answer

        return call

    def end(self):
        self.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@pytest.fixture(params=["sync", "async"])
def connect(request):
    made = []

    def get(url, **options):
        made.append(Both(request.param, url, **options))
        return made[-1]

    yield get
    for client in made:
        client.end()


@pytest.fixture
def client(connect, server):
    client = connect(server.url)
    yield client
    client.wake_up()
    client.update_weight_version("default")


def test_both_have_the_same_calls():
    import unspool

    sync, other = (
        {name: value for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
        for kind in (unspool.Client, unspool.AsyncClient)
    )
    assert sync.keys() == other.keys()
    for name, method in sync.items():
        assert method.__doc__ and method.__doc__ == other[name].__doc__, name
        parameters = [list(inspect.signature(m).parameters.values()) for m in (method, other[name])]
        assert parameters[0] == parameters[1], name
        if name not in ("with_timeout", "paused"):
            assert inspect.iscoroutinefunction(other[name]), name


def test_generate(client):
    answer = client.generate([5, 6, 7], n=3, max_tokens=6, seed=1, ignore_eos=True, logprobs=2, prompt_logprobs=1)
    assert [output.index for output in answer.outputs] == [0, 1, 2]
    assert answer.usage["completion_tokens"] == 18 and answer.raw["choices"] and answer.id
    for output in answer.outputs:
        assert len(output.token_ids) == len(output.logprobs) == len(output.top_logprobs) == 6
        assert output.prompt_token_ids == [5, 6, 7] and output.finish_reason == "length"
        for token, logprob, top in zip(output.token_ids, output.logprobs, output.top_logprobs, strict=True):
            assert top[token] == logprob < 0 and len(top) in (2, 3)
        assert [(span.version, span.start, span.end) for span in output.weight_versions] == [("default", 0, 6)]
    # What it says of its own tokens is what it says of them as a prompt, to the bit.
    first = answer.outputs[0]
    (score,) = client.score([[5, 6, 7, *first.token_ids]], top=1)
    assert score.logprobs[0] is None and score.logprobs[3:] == first.logprobs
    assert answer.prompt_score.logprobs == score.logprobs[:3]
    for token, logprob, rank, top in list(zip(score.token_ids, score.logprobs, score.ranks, score.top, strict=True))[
        1:
    ]:
        assert top[token] == logprob and (rank == 1) == (max(top.values()) == logprob)


def test_complete(client):
    answer = client.complete([[5, 6, 7], [8, 9]], n=2, max_tokens=4, seed=3, ignore_eos=True)
    assert [output.prompt_token_ids for output in answer.outputs] == [[5, 6, 7]] * 2 + [[8, 9]] * 2
    assert all(isinstance(output.text, str) and len(output.token_ids) == 4 for output in answer.outputs)
    for output in answer.outputs:
        (score,) = client.score([output.prompt_token_ids + output.token_ids])
        assert score.logprobs[-4:] == output.logprobs
    ids = client.tokenize("hello")
    assert client.detokenize(ids) == "hello"
    by_text = client.complete("hello", max_tokens=4, temperature=0)
    assert by_text.outputs[0].prompt_token_ids == ids
    with_name = client.complete("hello", model="m", max_tokens=4, temperature=0, extra={"user": "u"})
    assert with_name.outputs[0].token_ids == by_text.outputs[0].token_ids


def test_control(client):
    assert client.health() and client.version() == "0.32.0" and client.world_size() == 1
    assert client.models()[0]["id"] == "m" and "vllm_config" in client.server_info()
    assert not client.is_paused()
    client.pause("keep")
    assert client.is_paused() and client.is_sleeping()
    assert client.resume() is False and not client.is_paused()
    assert client.abort_requests() == 0 and client.abort_requests(["cmpl-x"]) >= 0
    client.sleep(1)
    info = client.weight_info()
    assert (info.asleep, info.kv_cache_asleep, info.discarded) == (True, True, False)
    assert client.wake_up(["weights"]) is False and client.wake_up(["kv_cache"]) is True
    assert client.reset_prefix_cache() is True
    client.pause()
    client.release_kv_cache_memory()
    assert client.wake_up() is True


def test_weights(client, tiny):
    checksums = client.weight_checksums()
    assert client.compare_weights(checksums) == []
    name = min(checksums)
    assert client.compare_weights({**checksums, name: "0" * 64}) == [name]
    client.reload_weights()
    client.reload_weights(tiny)
    client.update_weight_version("9")
    assert client.weight_info().version == "9"
    assert client.collective_rpc("reload_weights", kwargs={"weights_path": str(tiny)}) == [None]


def test_paused(server):
    """A block; also where it fails."""
    import unspool

    with unspool.Client(server.url) as client:
        with pytest.raises(RuntimeError, match="in the block"), client.paused():
            assert client.is_paused()
            raise RuntimeError("in the block")
        assert not client.is_paused()

    async def main():
        async with unspool.AsyncClient(server.url) as client:
            async with client.paused("wait", clear_cache=False):
                assert await client.is_paused()
            assert not await client.is_paused()

    asyncio.run(main())


def test_refusals(client):
    import unspool

    with pytest.raises(unspool.ApiError) as caught:
        client.generate([])
    assert (caught.value.status, caught.value.type) == (400, "Bad Request")
    assert "token_ids" in caught.value.message and caught.value.path == "/inference/v1/generate"
    with pytest.raises(unspool.ApiError) as caught:
        client.complete("x", temperature=-1)
    assert (caught.value.status, caught.value.param) == (400, "temperature")
    client.sleep(1)
    with pytest.raises(unspool.ApiError) as caught:  # a flat error
        client.resume()
    assert caught.value.status == 409 and "asleep" in caught.value.message


def test_many_at_once(server):
    import unspool

    async def main():
        async with unspool.AsyncClient(server.url) as client:
            for _ in range(2):
                calls = (client.generate([5, 6, i], max_tokens=3, temperature=0, ignore_eos=True) for i in range(300))
                answers = await asyncio.gather(*calls)
            return [answer.outputs[0].token_ids for answer in answers]

    together = asyncio.run(main())
    with unspool.Client(server.url) as client:
        found = {}

        def work(start):
            for i in range(start, 300, 7):
                found[i] = client.generate([5, 6, i], max_tokens=3, temperature=0, ignore_eos=True).outputs[0].token_ids

        threads = [threading.Thread(target=work, args=(i,)) for i in range(7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [found[i] for i in range(300)] == together


# What goes wrong on the way.


@contextmanager
def answering(*answers):
    """A server that gives each request, in order over all connections, one of the answers: bytes; a number of seconds to
    be silent; None to hang up. After an answer it keeps the connection, unless told to close. Yields (url, requests)."""
    left = list(answers)
    requests = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        with connection, connection.makefile("rb") as file:
            while line := file.readline():
                length = 0
                while (header := file.readline()) != b"\r\n":
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                requests.append((line.decode().split()[:2], file.read(length), connection.getpeername()[1]))
                answer = left.pop(0)
                if answer is None:
                    return
                if isinstance(answer, float):
                    time.sleep(answer)
                    return
                connection.sendall(answer)
                if b"onnection: close" in answer:
                    return

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def reply(body, status=200, headers=()):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


PAUSED = reply({"is_paused": True})


def test_a_connection_is_used_again(connect):
    with answering(PAUSED, PAUSED, PAUSED) as (url, requests):
        client = connect(url + "/", api_key="secret")
        assert [client.is_paused() for _ in range(3)] == [True] * 3
        assert len({port for _, _, port in requests}) == 1


def test_a_connection_that_ended_while_idle_is_not(connect):
    with answering(reply({"is_paused": True}, headers=["Connection: close"]), PAUSED, PAUSED) as (url, requests):
        client = connect(url)
        assert client.is_paused() and client.is_paused()
        assert len({port for _, _, port in requests}) == 2
    listener = socket.create_server(("127.0.0.1", 0))
    client = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def once():
        for _ in range(2):  # keeps it, by its word, and hangs up all the same
            connection, _ = listener.accept()
            connection.recv(10000)
            connection.sendall(PAUSED)
            connection.close()

    thread = threading.Thread(target=once)
    thread.start()
    assert client.is_paused()
    time.sleep(0.1)
    assert client.is_paused()
    thread.join()
    listener.close()


def test_nothing_is_sent_twice(connect):
    import unspool

    with answering(PAUSED, None, PAUSED) as (url, requests):
        client = connect(url)
        client.is_paused()
        with pytest.raises(unspool.Unreachable):
            client.pause("keep", clear_cache=False)
        assert [request[0] for request in requests[1:]] == [["POST", "/pause?mode=keep&clear_cache=false"]]
        assert client.is_paused()


def test_timeouts(connect):
    import unspool

    with answering(2.0, b"HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\n{", 2.0, PAUSED) as (url, _):
        client = connect(url)
        for _ in range(2):  # no answer at all, and half of one
            began = time.monotonic()
            with pytest.raises(unspool.RequestTimeout):
                short(client, 0.2)
            assert time.monotonic() - began < 1.5
        began = time.monotonic()
        with pytest.raises(unspool.RequestTimeout):
            client.wait_until_ready(0.3)
        assert time.monotonic() - began < 1.5


def short(client, timeout_s):
    limited = client.client.with_timeout(timeout_s)
    assert client.client.timeout_s == 600
    answer = limited.is_paused()
    return client.loop.run_until_complete(answer) if inspect.isawaitable(answer) else answer


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{"],
    ids=["hangs up", "nothing", "no HTTP", "half an answer"],
)
def test_no_answer(connect, answer):
    import unspool

    with answering(None if answer == b"" else answer) as (url, _):
        with pytest.raises(unspool.UnspoolError) as caught:
            short(connect(url), 2)
        assert isinstance(caught.value, unspool.Unreachable | unspool.RequestTimeout)


def test_nobody_there(connect):
    import unspool

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = connect(f"http://127.0.0.1:{port}")
    with pytest.raises(unspool.Unreachable, match=str(port)):
        client.is_paused()
    assert client.health() is False
    for url in ("127.0.0.1:8000", "ftp://x", "http://"):
        with pytest.raises(ValueError, match="address"):
            unspool.Client(url)


def test_bodies(connect):
    """Chunked, until the end of the connection, and behind an interim answer."""
    chunks = b'9;x=y\r\n{"is_paus\r\n9\r\ned":true}\r\n0\r\nTrailer: x\r\n\r\n'
    chunked = b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    until_end = b'HTTP/1.1 200 x\r\nConnection: close\r\n\r\n{"is_paused": true}'
    with answering(chunked, until_end, b"HTTP/1.1 100 x\r\n\r\n" + PAUSED) as (url, requests):
        client = connect(url)
        assert [client.is_paused() for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    ("status", "body", "type", "message"),
    [
        (400, {"error": {"message": "m", "type": "T", "param": None, "code": 400}}, "T", "m"),
        (500, {"error": "flat"}, "Error", "flat"),
        (404, {"detail": "Not Found"}, "Error", "Not Found"),
        (502, b"<html>", "Error", "<html>"),
        (503, b"[1]", "Error", "[1]"),
        (401, b"", "Error", ""),
    ],
)
def test_errors(connect, status, body, type, message):
    import unspool

    with answering(reply(body, status), PAUSED) as (url, _):
        client = connect(url)
        with pytest.raises(unspool.ApiError) as caught:
            client.is_paused()
        assert (caught.value.status, caught.value.type, caught.value.message) == (status, type, message)
        assert client.is_paused()


def test_chat(connect):
    """The route's shape, as vLLM answers; the words are the template's."""
    token = {"token": "token_id:7", "logprob": -0.5, "bytes": [65]}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "A"},
        "token_ids": [7],
        "logprobs": {"content": [{**token, "top_logprobs": [{**token, "token": "token_id:8", "logprob": -0.1}]}]},
        "finish_reason": "stop",
        "stop_reason": None,
    }
    answer = {"id": "chatcmpl-1", "choices": [choice], "usage": {"prompt_tokens": 3}, "prompt_token_ids": [1, 2, 3]}
    with answering(reply(answer), reply({**answer, "choices": [{**choice, "logprobs": None}]})) as (url, requests):
        client = connect(url)
        chat = client.chat([{"role": "user", "content": "x"}], logprobs=1, max_tokens=4, extra={"tools": []})
        (output,) = chat.outputs
        assert (output.text, output.token_ids, output.logprobs) == ("A", [7], [-0.5])
        assert output.top_logprobs == [{8: -0.1, 7: -0.5}] and output.prompt_token_ids == [1, 2, 3]
        assert output.message == choice["message"] and output.finish_reason == "stop"
        body = json.loads(requests[0][1])
        assert (body["logprobs"], body["top_logprobs"], body["tools"], body["max_tokens"]) == (True, 1, [], 4)
        assert client.chat([]).outputs[0].logprobs is None
        assert "top_logprobs" not in json.loads(requests[1][1])


def test_a_cancelled_call_ends_the_request(server):
    import unspool

    async def main():
        async with unspool.AsyncClient(server.url) as client:
            call = asyncio.create_task(client.generate([5], max_tokens=1900, ignore_eos=True))
            while server.in_flight()[0] == 0:
                assert not call.done()
                await asyncio.sleep(0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(main())
    server.wait_until_idle(10)


def test_a_client_outlives_its_event_loop(server):
    import unspool

    client = unspool.AsyncClient(server.url)
    for _ in range(2):
        assert asyncio.run(client.is_paused()) is False
    asyncio.run(client.close())
