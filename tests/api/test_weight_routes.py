"""Weights by routes of one trainer or another, and over gloo where the process that receives them does not answer."""

import subprocess
from pathlib import Path

import pytest

from api.control import DEV, change_weights, get, greedy, post, refusal, reset, rpc, until
from harness.bits import assert_same_answer
from harness.client import complete, request


@pytest.fixture(scope="module")
def other(tiny, tmp_path_factory):
    return change_weights(tiny, tmp_path_factory.mktemp("weights") / "other")


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, env=DEV)
    reset(server)
    yield server
    reset(server)


def test_prime_rl(server, other):
    expected = greedy(server)
    post(server, "/pause?mode=keep&clear_cache=false")
    assert post(server, "/update_weights", {"weight_dir": str(other)}) == {"status": "ok"}
    post(server, "/resume")
    changed = greedy(server)
    assert changed["choices"][0]["token_ids"] != expected["choices"][0]["token_ids"]
    for directory, says in ((None, "null"), ("", "empty"), (str(other / "none"), "No such file")):
        status, answer = refusal(server, "/update_weights", {"weight_dir": directory})
        assert status in (400, 404) and says in answer["error"]["message"], answer
        assert answer["error"]["param"] == "weight_dir"
    assert refusal(server, "/update_weights", {"weight_dir": 5})[0] == 400
    assert_same_answer(changed, greedy(server), "after a directory that is none")


def test_areal(server, other, patience):
    expected = greedy(server)
    paused = {"success": True, "message": "Generation paused and all requests aborted"}
    assert post(server, "/areal_pause_generation", {}) == paused
    assert get(server, "/is_paused") == {"is_paused": True}
    assert post(server, "/areal_update_weights", {"model_path": str(other), "load_format": "auto"})["success"] is True
    status, answer = refusal(server, "/areal_update_weights", {"model_path": str(other / "none")})
    assert status == 400 and answer["success"] is False and "failed" in answer["message"]
    assert refusal(server, "/areal_update_weights", {})[0] == 400
    assert post(server, "/areal_continue_generation") == {"success": True, "message": "Generation continued"}
    assert greedy(server)["choices"][0]["token_ids"] != expected["choices"][0]["token_ids"]
    assert complete(server, {"prompt": [5], "max_tokens": 1})["choices"][0]["finish_reason"] == "length"


def test_only_below_the_roots(own_server, tiny, other, tmp_path):
    server = own_server(tiny, "--weight-directory", tmp_path, env=DEV)
    status, answer = refusal(server, "/update_weights", {"weight_dir": str(other)})
    assert status == 403 and answer["error"]["param"] == "weight_dir"
    status, answer = refusal(server, "/areal_update_weights", {"model_path": str(other)})
    assert status == 400 and "--weight-directory" in answer["message"]
    rpc(server, "reload_weights")


def test_gloo_without_torch(binary, tiny, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho there is no torch here >&2\nexit 1\n")
    python.chmod(0o700)
    command = [binary, "serve", tiny, "--weight-transfer-config", '{"backend":"gloo"}', "--transfer-python"]
    for path, says in ((python, "there is no torch here"), (tmp_path / "none", "cannot start")):
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert str(path) in done.stderr and says in done.stderr, done.stderr


@pytest.mark.short
def test_a_side_process_that_never_answers(own_server, tiny, tmp_path, patience):
    """Each try ends within its timeout and leaves no process; the server goes on, and stops at once."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$3" = --check ] && exit 0\necho $$ >> "$0.pids"\nexec sleep 1000\n')
    python.chmod(0o700)
    server = own_server(
        tiny, "--weight-transfer-config", '{"backend":"gloo"}', "--transfer-python", python,
        "--weight-transfer-timeout", "0.5", env=DEV,
    )  # fmt: skip
    expected = greedy(server)
    meeting = {"master_address": "127.0.0.1", "master_port": 1, "rank_offset": 1, "world_size": 2}
    for _ in range(2):
        status, answer = refusal(server, "/init_weight_transfer_engine", {"init_info": meeting})
        assert status == 504 and "127.0.0.1:1" in answer["error"]["message"], answer
    post(server, "/start_weight_update")
    info = {"names": [], "dtype_names": [], "shapes": []}
    status, answer = refusal(server, "/update_weights", {"update_info": info})
    assert status == 500 and "not initialized" in answer["error"]["message"]
    status, _, answer = request(server, "POST", "/init_weight_transfer_engine", {"init_info": {}})
    assert status == 400 and answer["error"]["param"] == "init_info.master_address"
    assert_same_answer(expected, greedy(server), "after peers that never came")
    pids = (tmp_path / "python.pids").read_text().split()
    assert len(pids) == 2
    until(lambda: not any(Path("/proc", pid).exists() for pid in pids), 5 * patience, "a process is left")
