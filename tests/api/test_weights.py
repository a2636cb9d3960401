"""Weights while the server runs: reloads, versions, checksums."""

import json
import shutil

import pytest

from api.control import DEV, GENERATE, Background, Stream, change_weights, get, greedy, post, refusal, reset, rpc
from harness.bits import assert_same_answer
from harness.client import complete, request

FLAGS = ("--enable-scale-out", "--enable-sleep-mode")


@pytest.fixture(scope="module")
def other(tiny, tmp_path_factory):
    return change_weights(tiny, tmp_path_factory.mktemp("weights") / "other")


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, *FLAGS, env=DEV)
    reset(server)
    yield server
    reset(server)


@pytest.fixture(scope="module")
def cold(binary, other):
    """Answers of a server that was started on the other checkpoint."""
    from conftest import retire
    from harness.server import Server

    server = Server(binary, other, *FLAGS, env=DEV)
    answers = {"greedy": greedy(server), "checksums": post(server, "/weight_checker", {"action": "checksum"})}
    retire(server)
    return answers


@pytest.mark.short
def test_a_reload_is_a_cold_start(server, other, cold):
    """Any number of times, back and forth, bit for bit."""
    first = greedy(server)
    checksums = post(server, "/weight_checker", {"action": "checksum"})
    for _ in range(2):
        assert rpc(server, "reload_weights", weights_path=str(other), is_checkpoint_format=True) == [None]
        post(server, "/reset_prefix_cache")
        assert_same_answer(cold["greedy"], greedy(server), "the other checkpoint")
        assert post(server, "/weight_checker", {"action": "checksum"}) == cold["checksums"]
        rpc(server, "reload_weights")
        post(server, "/reset_prefix_cache")
        assert_same_answer(first, greedy(server), "the served checkpoint again")
        assert post(server, "/weight_checker", {"action": "checksum"}) == checksums
    assert first["choices"][0]["token_ids"] != cold["greedy"]["choices"][0]["token_ids"]


@pytest.mark.parametrize("damage", ["missing directory", "no weights", "truncated", "wrong shape", "other names"])
def test_a_faulty_checkpoint_changes_nothing(server, tiny, tmp_path, damage):
    expected = greedy(server)
    folder = tmp_path / "bad"
    if damage != "missing directory":
        shutil.copytree(tiny, folder)
        path = folder / "model.safetensors"
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        if damage == "no weights":
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(data[:-100])
        else:
            name = "model.norm.weight"
            if damage == "wrong shape":
                header[name]["shape"] = [*header[name]["shape"], 1]
            else:
                header["model.other.weight"] = header.pop(name)
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    status, answer = refusal(server, "/collective_rpc", body)
    assert status in (400, 404) and answer["error"]["message"]
    assert_same_answer(expected, greedy(server), "after a failed reload")
    assert get(server, "/weight_info")["weight_version"] == "default"


@pytest.mark.short
def test_a_kept_request_has_two_spans(server, other, patience):
    stream = Stream(server, max_tokens=1900, temperature=0)
    stream.wait_for_tokens(20, 10 * patience)
    post(server, "/pause?mode=keep&clear_cache=false")
    before = len(stream.token_ids())
    rpc(server, "reload_weights", weights_path=str(other))
    post(server, "/update_weight_version", {"new_version": "v2"})
    assert post(server, "/resume") == {"status": "resumed", "mixed_weights": True}
    chunks = stream.wait(60 * patience)
    first, second = chunks[-1]["choices"][0]["weight_versions"]
    assert first == {"version": "default", "start": 0, "end": first["end"]} and first["end"] >= before
    assert second == {"version": "v2", "start": first["end"], "end": 1900}


@pytest.mark.short
def test_blocks_of_mixed_weights_are_never_hit(server, other, cold, patience):
    """A request with the kept one's prompt finds nothing of it."""
    stream = Stream(server, max_tokens=1900, temperature=0)
    stream.wait_for_tokens(40, 10 * patience)
    post(server, "/pause?mode=keep&clear_cache=false")
    rpc(server, "reload_weights", weights_path=str(other))
    post(server, "/reset_prefix_cache")
    post(server, "/resume")
    stream.wait(60 * patience)
    assert_same_answer(cold["greedy"], greedy(server), "beside a request of mixed weights")
    prompt = [5, 6, 7, *stream.token_ids()][:64]
    before = server.metric("vllm:prefix_cache_hits_total")
    greedy(server, prompt)
    assert server.metric("vllm:prefix_cache_hits_total") == before


@pytest.mark.short
def test_versions(server, patience):
    assert post(server, "/update_weight_version", {"new_version": "v7"}) == {"success": True, "new_version": "v7"}
    assert get(server, "/weight_info")["weight_version"] == "v7"
    status, _, answer = request(server, "POST", "/update_weight_version", {"new_version": 7})
    assert status == 400 and answer["error"]["param"] == "body.new_version"
    body = {"model": "m", "prompt": [5], "max_tokens": 3, "ignore_eos": True}
    status, headers, answer = request(server, "POST", "/v1/completions", body)
    assert headers["X-Weight-Version"] == "v7"
    assert answer["choices"][0]["weight_versions"] == [{"version": "v7", "start": 0, "end": 3}]
    status, headers, answer = request(
        server, "POST", GENERATE, {"token_ids": [5], "sampling_params": {"max_tokens": 3}, "stream": True}
    )
    assert headers["X-Weight-Version"] == "v7"
    post(server, "/update_weight_version", {"new_version": "line\r\nX-Evil: ü"})
    _, headers, _ = request(server, "POST", "/v1/completions", body)
    assert headers["X-Weight-Version"] == "line%0D%0AX-Evil: %C3%BC" and "X-Evil" not in headers
    # What was aborted before its first token has no span.
    post(server, "/pause")
    asking = Background(lambda: complete(server, {"token_ids": [5], "sampling_params": {}}, path=GENERATE))
    post(server, "/pause?mode=abort")
    while asking.is_alive():
        post(server, "/abort_requests", {})
        asking.join(0.01)
    assert asking.wait(5 * patience)["choices"][0]["weight_versions"] == []
    post(server, "/resume")


@pytest.mark.short
def test_checker(server, other, tiny):
    checksums = post(server, "/weight_checker", {"action": "checksum"})["checksums"]
    assert "dp0:pp0:pcp0:tp0:model.layers.0.self_attn.q_proj.weight" in checksums
    assert not any("lm_head" in name for name in checksums), "a tied head is listed"
    import hashlib

    data = (tiny / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, tensor in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        assert checksums["dp0:pp0:pcp0:tp0:" + name] == hashlib.sha256(data[begin:end]).hexdigest(), name
    compare = {"action": "compare", "baseline": checksums}
    assert post(server, "/weight_checker", compare) == {"match": True, "mismatches": []}
    assert rpc(server, "check_weights_changed") == ["False"]
    rpc(server, "reload_weights", weights_path=str(other))
    assert rpc(server, "check_weights_changed") == ["True"]
    answer = post(server, "/weight_checker", compare)
    assert answer["match"] is False and answer["mismatches"] == sorted(checksums)
    assert post(server, "/weight_checker", {"action": "reset"}) == {"status": "reset"}
    zeros = post(server, "/weight_checker", {"action": "checksum"})["checksums"]
    assert rpc(server, "compute_weight_checksums") == [zeros]
    rpc(server, "reload_weights")
    assert post(server, "/weight_checker", compare)["match"] is True


def test_weight_directories(own_server, tiny, other, tmp_path):
    roots = tmp_path / "in"
    roots.mkdir()
    (roots / "link").symlink_to(other, target_is_directory=True)
    inside = shutil.copytree(other, roots / "model")
    server = own_server(tiny, "--weight-directory", roots, env=DEV)
    for path in (other, roots / "link", roots / ".." / "elsewhere"):
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(path)}}
        status, answer = refusal(server, "/collective_rpc", body)
        assert status == 403 and "--weight-directory" in answer["error"]["message"]
    rpc(server, "reload_weights", weights_path=str(inside))
    rpc(server, "reload_weights")
