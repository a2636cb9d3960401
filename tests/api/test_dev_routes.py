"""Where the development routes are, who may use them, and what they say of the server."""

import itertools
import subprocess

import pytest

from api.control import DEV, get, post, refusal, rpc
from harness.client import exchange, request

PATHS = {
    "POST": [
        "/pause", "/resume", "/sleep", "/wake_up", "/release_kv_cache_memory", "/abort_requests", "/reset_prefix_cache",
        "/reset_mm_cache", "/reset_encoder_cache", "/update_weight_version", "/weight_checker", "/collective_rpc",
        "/init_weight_transfer_engine", "/shutdown_weight_transfer_engine", "/start_weight_update",
        "/start_draft_weight_update", "/update_weights", "/finish_weight_update",
        "/areal_pause_generation", "/areal_continue_generation", "/areal_update_weights",
    ],
    "GET": ["/is_paused", "/is_sleeping", "/weight_info", "/get_world_size", "/server_info"],
}  # fmt: skip
ALL = [(method, path) for method, paths in PATHS.items() for path in paths]


@pytest.mark.short
def test_not_there_unless_asked_for(serve, tiny):
    server = serve(tiny, env={"VLLM_SERVER_DEV_MODE": "0"})
    for method, path in ALL:
        assert request(server, method, path)[::2] == (404, {"detail": "Not Found"}), path


@pytest.mark.parametrize(
    ("env", "flags"),
    [
        (DEV, ()),
        ({"UNSPOOL_SERVER_DEV_MODE": "1"}, ()),
        ({}, ("--additional-config", '{"rl_config":{"enabled":true,"enable_batch_invariant":true}}')),
    ],
)
def test_three_ways_to_ask(own_server, tiny, env, flags):
    server = own_server(tiny, *flags, env=env)
    assert get(server, "/is_paused") == {"is_paused": False}
    assert request(server, "GET", "/pause")[0] == 405
    assert "Development routes are on" in server.log()
    assert ("enable_batch_invariant" in server.log()) == bool(flags)


def test_a_mode_that_is_no_number(binary, tiny):
    for name in ("VLLM_SERVER_DEV_MODE", "UNSPOOL_SERVER_DEV_MODE"):
        done = subprocess.run([binary, "serve", tiny], env={name: "true"}, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and name in done.stderr


def test_weight_transfer_is_refused_at_start(binary, tiny):
    command = [binary, "serve", tiny, "--weight-transfer-config", '{"backend":"nccl"}']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "weight-transfer-config" in done.stderr


@pytest.mark.parametrize("unguarded", [False, True])
def test_api_key(own_server, tiny, unguarded):
    flags = ["--unguarded-dev-routes"] if unguarded else []
    server = own_server(tiny, "--api-key", "secret", *flags, env=DEV)
    for method, path in ALL:
        status = request(server, method, path)[0]
        assert (status != 401) if unguarded else (status == 401), path
        assert request(server, method, path, headers={"Authorization": "Bearer secret"})[0] != 401, path
    assert request(server, "GET", "/v1/models")[0] == 401
    post_with_key = {"Authorization": "Bearer secret"}
    assert request(server, "POST", "/wake_up", headers=post_with_key)[0] == 200


SPELLINGS = ["{}", "/{}", "{}/", "/.{}", "/v1/..{}", "/health/..{}", "/metrics{}", "{}%2f", "{}%00", "{};x"]
SPELLINGS += ["{}?api_key=secret", "http://127.0.0.1{}"]
WRONG_KEYS = ["", "Authorization: Bearer secreT\r\n", "Authorization: secret\r\n", "X-Api-Key: secret\r\n"]


def test_no_spelling_gets_around_the_key(own_server, tiny):
    server = own_server(tiny, "--api-key", "secret", env=DEV)
    for path in ("/pause", "/sleep", "/collective_rpc"):
        names = [spelling.format(path) for spelling in SPELLINGS] + [path.upper(), path.replace("e", "%65")]
        for name, method, key in itertools.product(names, ("POST", "PUT", "GET", "HEAD", "OPTIONS"), WRONG_KEYS):
            head = f"{method} {name} HTTP/1.1\r\nHost: x\r\n{key}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            assert int(exchange(server, head.encode()).split()[1]) >= 400, f"{method} {name} {key}"
    key = {"Authorization": "Bearer secret"}
    assert request(server, "GET", "/is_paused", headers=key)[2] == {"is_paused": False}


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny, "--tokens-only", env=DEV)


def test_the_development_form_of_abort(server):
    assert post(server, "/abort_requests", {}) == {"status": "aborted", "aborted": 0}
    assert post(server, "/abort_requests", {"request_ids": ["nope"]}) == {"status": "aborted", "aborted": 1}
    assert request(server, "POST", "/inference/v1/abort_requests", {"request_ids": ["nope"]})[::2] == (200, "")
    for body in (b"", b"[1", b"[]", b'{"request_ids":"all"}'):
        assert request(server, "POST", "/abort_requests", body)[0] == 400


def test_collective_rpc(server):
    assert rpc(server, "check_health") == [None]
    assert rpc(server, "get_supported_tasks") == [["generate"]]
    assert rpc(server, "list_loras") == ["set()"]
    assert rpc(server, "synchronize_device") == [None]
    assert post(server, "/collective_rpc", {"method": "sleep", "args": ["0"]}) == {"results": [None]}
    assert get(server, "/is_paused") == {"is_paused": True}
    assert post(server, "/collective_rpc", {"method": "wake_up"}) == {"results": [None]}
    assert get(server, "/is_paused") == {"is_paused": False}
    status, answer = refusal(server, "/collective_rpc", {"method": "__class__"})
    assert status == 500 and "has no attribute '__class__'" in answer["error"]["message"]
    for body in (b"{", b"[]", b"{}", b'{"method":"sleep","kwargs":{"depth":1}}', b'{"method":"sleep","args":[9]}'):
        assert request(server, "POST", "/collective_rpc", body)[0] == 400


def test_server_info(server):
    config = get(server, "/server_info?config_format=json")["vllm_config"]
    assert config["weight_transfer_config"] is config["lora_config"] is config["speculative_config"] is None
    assert config["model_config"]["dtype"] == "torch.bfloat16"
    assert config["model_config"]["logprobs_mode"] == "raw_logprobs"
    parallel = config["parallel_config"]
    assert [parallel[f"{kind}_parallel_size"] for kind in ("tensor", "pipeline", "data")] == [1, 1, 1]
    info = get(server, "/server_info")
    assert "dtype=torch.bfloat16" in info["vllm_config"]
    assert info["vllm_env"]["VLLM_SERVER_DEV_MODE"] == "1"
    assert request(server, "GET", "/server_info?config_format=yaml")[0] == 400


def test_no_secret_in_server_info(own_server, tiny):
    server = own_server(tiny, "--unguarded-dev-routes", env={**DEV, "VLLM_API_KEY": "hush"})
    assert "hush" not in str(get(server, "/server_info"))
