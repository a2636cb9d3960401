"""Sleep and wake: memory that goes and comes back, in every order, and the bits afterwards."""

import shutil

import pytest

from api.control import (
    DEV,
    Background,
    Stream,
    aborted_streams,
    change_weights,
    get,
    greedy,
    post,
    refusal,
    reset,
    rpc,
    until,
)
from harness.bits import assert_same_answer
from harness.client import complete, refused, request


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, "--enable-scale-out", "--enable-sleep-mode", env=DEV)
    reset(server)
    yield server
    reset(server)


@pytest.mark.short
def test_two_phases(server, patience):
    expected = greedy(server)
    assert post(server, "/sleep?level=1") == {"status": "sleeping", "level": 1}
    assert get(server, "/is_sleeping") == {"is_sleeping": True}
    waiting = Background(lambda: greedy(server))
    until(lambda: server.in_flight() == (0, 1), 5 * patience, "nothing waits")
    assert post(server, "/wake_up?tags=weights") == {"status": "sleeping", "tags": ["weights"]}
    assert server.in_flight() == (0, 1)
    assert post(server, "/wake_up?tags=kv_cache") == {"status": "awake", "tags": ["kv_cache"]}
    assert_same_answer(expected, waiting.wait(10 * patience), "asked while asleep")
    assert get(server, "/is_sleeping") == {"is_sleeping": False}


@pytest.mark.short
def test_unknown_and_repeated_tags(server):
    post(server, "/sleep?level=1")
    answer = post(server, "/wake_up?tags=weights&tags=kvcache")
    assert answer == {"status": "sleeping", "tags": ["weights", "kvcache"], "ignored": ["kvcache"]}
    assert get(server, "/weight_info")["weights_asleep"] is True
    post(server, "/wake_up?tags=kv_cache")
    # A tag that is awake already does not keep the other one from waking.
    assert post(server, "/wake_up?tags=weights&tags=kv_cache")["status"] == "awake"
    assert post(server, "/wake_up") == {"status": "awake", "tags": None}
    assert post(server, "/wake_up?tags=nope")["ignored"] == ["nope"]


@pytest.mark.short
@pytest.mark.parametrize(
    ("before", "tags", "status", "asleep"),
    [
        ([], "tags=kv_cache", "awake", []),
        (["/sleep?level=1"], "tags=scheduling", "sleeping", ["weights", "kv_cache"]),
        (["/sleep?level=1"], "tags=weights,kv_cache", "sleeping", ["weights", "kv_cache"]),
        (["/sleep?level=1"], "tags=", "sleeping", ["weights", "kv_cache"]),
        (["/sleep?level=1"], "tags=kv_cache&tags=kv_cache", "sleeping", ["weights"]),
        (["/sleep?level=1", "/sleep?level=2"], "tags=weights&tags=kv_cache", "awake", []),
        (["/sleep?level=1", "/wake_up?tags=weights"], "tags=weights&tags=kv_cache", "awake", []),
        (["/sleep?level=1", "/wake_up?tags=kv_cache"], "tags=weights&tags=kv_cache", "awake", []),
        (["/sleep?level=1", "/wake_up?tags=kv_cache", "/sleep?level=2"], "tags=weights", "sleeping", ["kv_cache"]),
        (["/sleep?level=1", "/wake_up?tags=weights", "/sleep?level=1"], "tags=kv_cache", "sleeping", ["weights"]),
        (["/pause", "/release_kv_cache_memory"], "tags=weights&tags=kv_cache", "awake", []),
        (["/pause", "/release_kv_cache_memory", "/sleep?level=1"], "", "awake", []),
    ],
)
def test_wakes_in_every_order(server, before, tags, status, asleep):
    expected = greedy(server)
    for path in before:
        post(server, path)
    assert post(server, f"/wake_up?{tags}")["status"] == status
    info = get(server, "/weight_info")
    assert [tag for tag in ("weights", "kv_cache") if info[f"{tag}_asleep"]] == asleep
    # Once all are awake the weights are those from before: no second sleep took them.
    post(server, "/wake_up")
    assert get(server, "/weight_info")["weights_discarded"] is False
    assert_same_answer(expected, greedy(server), "after the wakes")


@pytest.mark.short
def test_metrics_follow(server):
    def state():
        names = ("awake", "weights_offloaded", "discard_all")
        return [server.metric("vllm:engine_sleep_state", sleep_state=name) for name in names]

    def operations(name):
        return server.metric("vllm:sleep_mode_operation_duration_seconds_count", operation=name)

    before = operations("sleep"), operations("wake"), operations("release_kv_cache_memory")
    assert state() == [1, 0, 0]
    for level, asleep in [(0, [0, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1])]:
        post(server, f"/sleep?level={level}")
        assert state() == asleep
        if level > 0:
            post(server, "/wake_up?tags=weights")
            assert state() == asleep, "half awake"
        post(server, "/wake_up")
        assert state() == [1, 0, 0]
    rpc(server, "reload_weights")
    post(server, "/pause")
    post(server, "/release_kv_cache_memory")
    post(server, "/wake_up")
    assert (operations("sleep"), operations("wake")) == (before[0] + 3, before[1] + 6)
    assert operations("release_kv_cache_memory") == before[2] + 1
    assert server.metric("vllm:sleep_mode_operations_in_flight") == 0


@pytest.mark.short
def test_wake_ends_a_plain_pause(server):
    post(server, "/pause")
    assert post(server, "/wake_up") == {"status": "awake", "tags": None}
    assert get(server, "/is_paused") == {"is_paused": False}


@pytest.mark.short
def test_level_0_is_a_pause(server, patience):
    stream = Stream(server, max_tokens=200)
    stream.wait_for_tokens(3, 10 * patience)
    assert post(server, "/sleep?level=0&mode=keep") == {"status": "sleeping", "level": 0}
    assert get(server, "/is_paused") == {"is_paused": True}
    assert post(server, "/wake_up?tags=scheduling")["status"] == "awake"
    stream.wait(30 * patience)
    assert len(stream.token_ids()) == 200


@pytest.mark.short
@pytest.mark.parametrize("level", [1, 2])
def test_kept_requests_go_on(server, patience, level):
    fields = {"max_tokens": 1900, "temperature": 0}
    whole = Stream(server, **fields)
    whole.wait(60 * patience)
    stream = Stream(server, **fields)
    stream.wait_for_tokens(20, 10 * patience)
    post(server, f"/sleep?level={level}&mode=keep")
    post(server, "/wake_up?tags=weights")
    rpc(server, "reload_weights")
    post(server, "/wake_up?tags=kv_cache")
    stream.wait(60 * patience)
    assert stream.token_ids() == whole.token_ids()


@pytest.mark.short
@pytest.mark.parametrize("level", [1, 2])
def test_sleep_while_streams_run(server, patience, level):
    aborted_streams(server, patience, lambda: post(server, f"/sleep?level={level}"), count=4)


@pytest.mark.short
def test_level_2_without_a_reload_generates_nothing(server, patience):
    """A 503 that says what to do, until the weights are there."""
    expected = greedy(server)
    post(server, "/sleep?level=2")
    waiting = Background(lambda: greedy(server))
    until(lambda: server.in_flight() == (0, 1), 5 * patience, "nothing waits")
    assert post(server, "/wake_up")["status"] == "awake"
    for stream in (False, True):
        body = {"model": "m", "prompt": [5], "max_tokens": 1, "stream": stream}
        status, headers, answer = request(server, "POST", "/v1/completions", body)
        assert status == 503 and headers["Retry-After"] == "1"
        assert "reload_weights" in answer["error"]["message"]
    assert request(server, "GET", "/health")[0] == 200
    assert get(server, "/weight_info")["weights_discarded"] is True
    assert waiting.is_alive()
    assert rpc(server, "reload_weights") == [None]
    assert_same_answer(expected, waiting.wait(10 * patience), "what waited for the weights")
    assert get(server, "/weight_info")["weights_discarded"] is False
    assert_same_answer(expected, greedy(server), "after the reload")


def test_reload_between_the_phases(server):
    expected = greedy(server)
    for _ in range(3):
        post(server, "/sleep?level=2")
        post(server, "/wake_up?tags=weights")
        rpc(server, "reload_weights")
        assert post(server, "/wake_up?tags=kv_cache")["status"] == "awake"
        assert_same_answer(expected, greedy(server), "after sleep and reload")


@pytest.mark.short
def test_weights_that_sleep_are_not_touched(server):
    post(server, "/sleep?level=1")
    for method in ("reload_weights", "compute_weight_checksums", "reset_weights"):
        status, answer = refusal(server, "/collective_rpc", {"method": method})
        assert status == 409 and answer["error"]["type"] == "Conflict" and "weights" in answer["error"]["message"]
    assert refusal(server, "/weight_checker", {"action": "checksum"})[0] == 409


def test_release_of_the_cache_alone(server):
    assert refusal(server, "/release_kv_cache_memory")[0] == 500
    expected = greedy(server)
    post(server, "/pause")
    assert post(server, "/release_kv_cache_memory") == {"status": "kv_cache_released"}
    assert get(server, "/is_sleeping") == {"is_sleeping": True}
    assert refusal(server, "/release_kv_cache_memory")[0] == 500
    assert post(server, "/wake_up?tags=kv_cache")["status"] == "awake"
    assert_same_answer(expected, greedy(server), "after the cache was released")


@pytest.mark.parametrize("backing", ["file", "memory"])
def test_updated_weights_survive_level_1(own_server, tiny, tmp_path, backing):
    other = change_weights(tiny, tmp_path / "other")
    flags = ("--enable-sleep-mode", "--sleep-directory", tmp_path / "sleep", "--sleep-level1-backing", backing)
    server = own_server(tiny, *flags, env=DEV)
    rpc(server, "reload_weights", weights_path=str(other))
    post(server, "/update_weight_version", {"new_version": "other"})
    expected = greedy(server)
    for _ in range(2):
        post(server, "/sleep?level=1")
        post(server, "/wake_up")
        assert_same_answer(expected, greedy(server), "after level 1")
    assert get(server, "/weight_info")["weight_version"] == "other"
    assert server.stop() == 0
    assert not list((tmp_path / "sleep").glob("*")) if (tmp_path / "sleep").exists() else True


def test_a_checkpoint_that_changed_while_its_weights_slept(own_server, tiny, tmp_path):
    """In place it is a conflict, and nothing is generated from it; replaced by another, the old one is still there."""
    folder = change_weights(tiny, tmp_path / "model")
    path = folder / "model.safetensors"
    server = own_server(folder, "--enable-sleep-mode", env=DEV)
    expected = greedy(server)
    post(server, "/sleep?level=1")
    shutil.copy(tiny / "model.safetensors", tmp_path / "new")
    (tmp_path / "new").replace(path)
    post(server, "/wake_up")
    assert_same_answer(expected, greedy(server), "of the file that was replaced")
    rpc(server, "reload_weights")
    expected = greedy(server)
    post(server, "/sleep?level=1")
    content = path.read_bytes()
    path.write_bytes(content[:-2] + b"aa")
    status, answer = refusal(server, "/wake_up")
    assert status == 409 and "changed" in answer["error"]["message"]
    assert get(server, "/is_sleeping") == {"is_sleeping": False}
    assert get(server, "/weight_info")["weights_discarded"] is True
    assert refused(server, prompt=[5], max_tokens=1)[0] == 503
    path.write_bytes(content)
    rpc(server, "reload_weights")
    assert_same_answer(expected, greedy(server), "after the reload")


def test_names_to_preserve(own_server, tiny, tmp_path):
    flag = "--sleep-preserve-parameter-names"
    server = own_server(tiny, "--enable-sleep-mode", flag, "*layernorm.weight", "model.[en]*", "draft.*", env=DEV)
    before = rpc(server, "compute_weight_checksums")[0]
    post(server, "/sleep?level=2")
    post(server, "/wake_up")
    after = rpc(server, "compute_weight_checksums")[0]
    kept = {name.rpartition(":")[2] for name in before if before[name] == after[name]}
    assert {"model.embed_tokens.weight", "model.norm.weight"} < kept
    assert all("layernorm" in name or name.startswith(("model.e", "model.n")) for name in kept)
    server = own_server(tiny, "--enable-sleep-mode", flag, "model.norm.weight", "nothing.*", env=DEV)
    status, answer = refusal(server, "/sleep?level=2")
    assert status == 500 and "nothing.*" in answer["error"]["message"]
    assert get(server, "/is_paused") == {"is_paused": False}
    complete(server, prompt=[5], max_tokens=1)


def test_without_the_flag_nothing_is_freed(serve, tiny):
    server = serve(tiny, env=DEV)
    expected = greedy(server)
    for level in (1, 2):
        assert post(server, f"/sleep?level={level}") == {"status": "sleeping", "level": level}
        assert post(server, "/wake_up") == {"status": "awake", "tags": None}
        assert_same_answer(expected, greedy(server), "after a sleep that frees nothing")
    assert "sleep mode" in server.log().lower()


def test_a_tmpfs_is_no_sleep_directory(binary, tiny):
    import subprocess

    command = [
        binary,
        "serve",
        tiny,
        "--port",
        "0",
        "--enable-sleep-mode",
        "--sleep-directory",
        "/dev/shm/unspool-test",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "--sleep-directory" in done.stderr


@pytest.mark.short
def test_faulty_commands_change_nothing(server):
    for path in ("/sleep?level=3", "/sleep?mode=foo", "/sleep?level=x", "/pause?mode=foo"):
        status, answer = refusal(server, path)
        assert status == 400 and answer["error"]["type"] == "Bad Request"
    assert get(server, "/is_sleeping") == {"is_sleeping": False}
    assert refused(server, prompt=[5], max_tokens=0)[0] == 400
