"""The control routes in the hands of somebody who means harm, or has a fault of their own."""

import shutil
import threading
import time

import pytest

from api.control import DEV, Background, Stream, change_weights, get, greedy, post, refusal, reset, rpc, until
from harness.bits import assert_same_answer
from harness.client import raw_post, refused, request


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, "--enable-scale-out", "--enable-sleep-mode", env=DEV)
    reset(server)
    yield server
    reset(server)


DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES = {
    "/collective_rpc": [
        b"", b"{", b"[]", b"\xff", DEEP, b'{"method":' + DEEP + b"}", b'{"method":"sleep","args":' + DEEP + b"}",
        b'{"method":"\\ud800"}', b'{"method":"sleep","args":[' + b"0," * 100_000 + b"0]}", b'{"method":["sleep"]}',
        b'{"method":"reload_weights","args":[[]]}', b'{"method":"reload_weights","kwargs":{"weights_path":"/\\u0000"}}',
        b'{"method":"reload_weights","kwargs":{"weights_path":"' + b"a" * (4 << 20) + b'"}}',
        b'{"method":"check_health","timeout":1e999}', b'{"method":"sleep","args":["nan"]}',
    ],
    "/abort_requests": [b"", b"{", b"[]", b'{"request_ids":[1]}', b'{"request_ids":"all"}', b'{"request_ids":[null]}', DEEP],
    "/weight_checker": [b"", b"[]", b'{"action":"CHECKSUM"}', b'{"action":"compare","baseline":[]}', DEEP],
    "/update_weight_version": [b"", b"[]", b'{"new_version":7}', b'{"new_version":"\\udc00"}', b'{"new_version":null}', DEEP],
    "/sleep?level=-1": [b""], "/sleep?level=1%00": [b""], "/sleep?level=99999999999999999999": [b""], "/sleep?level=": [b""],
    "/sleep?level=1&level=3": [b""], "/pause?mode=": [b""], "/pause?clear_cache=perhaps": [b""], "/pause?mode=%FF": [b""],
    "/reset_prefix_cache?reset_running_requests=2": [b""],
}  # fmt: skip


@pytest.mark.short
@pytest.mark.parametrize("path", BODIES)
def test_faulty_commands_are_400_and_nothing_else(server, path):
    for body in BODIES[path]:
        status, answer = refusal(server, path, body)
        assert status == 400 and len(answer["error"]["message"]) < 10_000, body[:80]
    assert get(server, "/is_paused") == {"is_paused": False}
    assert get(server, "/weight_info")["weight_version"] == "default"


@pytest.mark.short
def test_the_log_has_a_line_an_event(server):
    post(server, "/wake_up?tags=a%0AE%20forged%20line&tags=%FF%1B%5B31m")
    post(server, "/update_weight_version", {"new_version": "a\nE forged line"})
    refusal(server, "/collective_rpc", {"method": "a\nE forged line"})
    refusal(server, "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": "/a\nE forged line"}})
    lines = server.log().split("\n")
    assert not [line for line in lines if line.startswith("E forged")]
    assert any(r"a\x0aE forged line" in line for line in lines)


@pytest.mark.short
def test_a_version_that_is_no_header(server):
    """A label may be of any length; a reply with it must stay one that clients can read."""
    for version, header in [("v" * 2000, "v" * 2000), ("v" * 3000, None), ("\n" * 1000, None), ("ü" * (1 << 20), None)]:
        post(server, "/update_weight_version", {"new_version": version})
        assert get(server, "/weight_info")["weight_version"] == version
        body = {"model": "m", "prompt": [5], "max_tokens": 1, "ignore_eos": True}
        _, headers, answer = request(server, "POST", "/v1/completions", body)
        assert headers["X-Weight-Version"] == header
        assert answer["choices"][0]["weight_versions"] == [{"version": version, "start": 0, "end": 1}]


@pytest.mark.short
def test_waits_whose_clients_vanish(server, patience):
    expected = greedy(server)
    stream = Stream(server, max_tokens=1900)
    stream.wait_for_tokens(3, 10 * patience)
    waits = [raw_post(server, path, {}) for path in ["/pause?mode=wait", "/sleep?level=1&mode=wait"] * 50]
    for wait in waits[::3]:
        wait.close()
    until(lambda: get(server, "/is_paused")["is_paused"], 5 * patience, "nothing waits")
    # Whatever else is asked for, who still waits is answered: by this, or by the end of what it waited for.
    post(server, "/wake_up")
    for index, wait in enumerate(waits):
        if index % 3:
            assert wait.recv(1 << 12).startswith((b"HTTP/1.1 409 ", b"HTTP/1.1 200 "))
            wait.close()
    stream.wait(60 * patience)
    reset(server)
    assert_same_answer(expected, greedy(server), "after waits that were left")


@pytest.mark.parametrize("situation", ["kept", "asleep at level 1", "asleep at level 2", "discarded", "waiting"])
def test_sigterm_answers_everyone(own_server, tiny, patience, situation):
    server = own_server(tiny, "--enable-scale-out", "--enable-sleep-mode", env=DEV)
    running = Stream(server, max_tokens=1900)
    running.wait_for_tokens(3, 10 * patience)
    if situation == "waiting":
        wait = Background(lambda: request(server, "POST", "/pause?mode=wait"))
        until(lambda: get(server, "/is_paused")["is_paused"], 5 * patience, "nothing waits")
    else:
        post(server, "/pause?mode=keep")
        wait = None
    for path in {
        "asleep at level 1": ["/sleep?level=1&mode=keep"],
        "asleep at level 2": ["/sleep?level=2&mode=keep"],
        "discarded": ["/sleep?level=2&mode=keep", "/wake_up"],
    }.get(situation, []):
        post(server, path)
    assert server.stop() == 0
    running.wait(5 * patience)
    assert running.finish_reasons()[0] in ("abort", "length")
    if wait:
        assert wait.wait(5 * patience)[0] in (200, 503)


def test_a_checkpoint_that_is_written_while_it_is_read(own_server, smollm2, tmp_path, sanitized):
    """As a trainer does that saves in place: cut to nothing, then written. It is loaded whole, or not at all."""
    if sanitized:
        pytest.skip("timing")
    folder = shutil.copytree(smollm2, tmp_path / "model")
    content = (folder / "model.safetensors").read_bytes()
    server = own_server(smollm2, "--enable-sleep-mode", "--max-model-len", 1024, env=DEV)
    expected = greedy(server)
    ended = threading.Event()

    def save():
        while not ended.is_set():
            (folder / "model.safetensors").write_bytes(content)
            time.sleep(0.05)

    saver = threading.Thread(target=save)
    saver.start()
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    try:
        statuses = [request(server, "POST", "/collective_rpc", body)[0] for _ in range(40)]
    finally:
        ended.set()
        saver.join()
    assert set(statuses) <= {200, 400, 409, 500}
    if statuses[-1] == 500:  # read in the middle, and there was nothing whole to go back to
        assert get(server, "/weight_info")["weights_discarded"] is True
        rpc(server, "reload_weights")
    assert_same_answer(expected, greedy(server), "of weights that are whole")


@pytest.mark.short
def test_commands_whose_clients_vanish(server, patience):
    """They are done all the same, one after the other, and nothing is left of who asked."""
    expected = greedy(server)
    descriptors = server.num_fds()
    commands = [
        ("/pause?mode=keep", {}), ("/sleep?level=1", {}), ("/wake_up?tags=weights", {}), ("/wake_up", {}),
        ("/sleep?level=2", {}), ("/wake_up", {}), ("/collective_rpc", {"method": "reload_weights"}),
        ("/weight_checker", {"action": "checksum"}), ("/reset_prefix_cache", {}), ("/abort_requests", {}),
    ]  # fmt: skip
    for _ in range(20):
        for path, body in commands:
            raw_post(server, path, body).close()
    until(lambda: server.num_fds() <= descriptors, 10 * patience, "connections are left")
    reset(server)
    assert_same_answer(expected, greedy(server), "after commands that nobody waited for")


@pytest.mark.short
def test_weights_that_are_not_finite(server, tiny, tmp_path):
    """Who asks is told so; nothing computed with them is found again, and other weights end it."""

    def spoil(tensors):
        dtype, shape, content = tensors["model.norm.weight"]
        tensors["model.norm.weight"] = (dtype, shape, b"\xc0\x7f" * (len(content) // 2))

    prompt = list(range(5, 85))
    expected = greedy(server, prompt)
    folder = change_weights(tiny, tmp_path / "spoilt", spoil)
    rpc(server, "reload_weights", weights_path=str(folder))
    for _ in range(2):
        status, error = refused(server, prompt=prompt, max_tokens=4)
        assert status == 500 and "not finite" in error["message"]
    rpc(server, "reload_weights")
    assert_same_answer(expected, greedy(server, prompt), "after weights that were not finite")
