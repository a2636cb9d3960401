"""Weights while the server runs: reloads, versions, checksums."""

import hashlib
import os
import shutil

import pytest

from api.control import (
    DEV,
    GENERATE,
    Background,
    Stream,
    change_weights,
    get,
    greedy,
    post,
    read_tensors,
    refusal,
    reset,
    rpc,
    write_tensors,
)
from harness.bits import assert_same_answer
from harness.client import complete, request, stream
from harness.server import TINY_MODELS

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


@pytest.mark.parametrize("model", ["llama-f32", "llama-f16", "qwen2-untied", "llama-bias", "llama-sharded"])
def test_every_kind_of_checkpoint(own_server, tmp_path, model):
    """Three times there and back: what loading makes of a checkpoint does not depend on what was there before."""
    original, changed = TINY_MODELS / model, tmp_path / "changed"
    change_weights(original, changed)
    expected = {original: greedy(own_server(original, env=DEV)), changed: greedy(own_server(changed, env=DEV))}
    assert expected[original]["choices"] != expected[changed]["choices"]
    server = own_server(original, *FLAGS, env=DEV)
    for _ in range(3):
        for folder in (changed, original):
            rpc(server, "reload_weights", weights_path=str(folder))
            assert_same_answer(expected[folder], greedy(server), folder.name)


def a_bad_header(header, size=None):
    return (len(header) if size is None else size).to_bytes(8, "little") + header


DAMAGES = {
    "missing directory": None,
    "no weights": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "endless header": lambda path: path.write_bytes(a_bad_header(b"{}", 2**64 - 1)),
    "no JSON": lambda path: path.write_bytes(a_bad_header(b"{" * 4000)),
    "wrapping shape": lambda path: path.write_bytes(
        a_bad_header(b'{"model.norm.weight":{"dtype":"BF16","shape":[4294967296,4294967296],"data_offsets":[0,0]}}')
    ),
    "backwards": lambda path: path.write_bytes(
        a_bad_header(b'{"model.norm.weight":{"dtype":"BF16","shape":[1],"data_offsets":[2,0]}}')
    ),
    "wrong shape": lambda path: edit_norm(path, lambda norm: ("BF16", [*norm[1], 1], norm[2])),
    "integers": lambda path: edit_norm(path, lambda norm: ("I16", norm[1], norm[2])),
    "other names": lambda path: edit_norm(path, lambda norm: norm, "model.other.weight"),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


def edit_norm(path, edit, name="model.norm.weight"):
    tensors = read_tensors(path)
    tensors[name] = edit(tensors.pop("model.norm.weight"))
    write_tensors(path, tensors)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_faulty_checkpoint_changes_nothing(server, tiny, tmp_path, damage):
    expected = greedy(server)
    folder = tmp_path / "bad"
    if DAMAGES[damage]:
        shutil.copytree(tiny, folder)
        DAMAGES[damage](folder / "model.safetensors")
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
    chunks = stream(server, {**body, "prompt": [[5], [6]]})
    spans = {choice["index"]: choice.get("weight_versions") for chunk in chunks for choice in chunk["choices"]}
    assert spans == dict.fromkeys((0, 1), [{"version": "v7", "start": 0, "end": 3}])
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
    for name, (_, _, content) in read_tensors(tiny / "model.safetensors").items():
        assert checksums["dp0:pp0:pcp0:tp0:" + name] == hashlib.sha256(content).hexdigest(), name
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


HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


@pytest.mark.short
def test_a_tied_head_is_the_embedding(server, tiny, other, cold, tmp_path):
    """Left out, given as it is, or given as another: the embedding is served on both sides, and another head is no secret."""
    same = change_weights(other, tmp_path / "same", lambda tensors: tensors.update({HEAD: tensors[EMBEDDING]}))
    stale = read_tensors(tiny / "model.safetensors")[EMBEDDING]
    different = change_weights(other, tmp_path / "different", lambda tensors: tensors.update({HEAD: stale}))
    for folder in (other, same, different):
        rpc(server, "reload_weights")
        before = server.log()
        rpc(server, "reload_weights", weights_path=str(folder))
        assert_same_answer(cold["greedy"], greedy(server), folder.name)
        assert (HEAD in server.log()[len(before) :]) == (folder is different)
        assert post(server, "/weight_checker", {"action": "checksum"}) == cold["checksums"]


def test_a_head_of_its_own_must_be_there(own_server, tmp_path):
    model = TINY_MODELS / "qwen2-untied"
    server = own_server(model, env=DEV)
    expected = greedy(server)
    headless = change_weights(model, tmp_path / "headless", lambda tensors: tensors.pop(HEAD))
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(headless)}}
    status, answer = refusal(server, "/collective_rpc", body)
    assert status == 400 and HEAD in answer["error"]["message"]
    assert_same_answer(expected, greedy(server), "after a checkpoint without its head")


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
