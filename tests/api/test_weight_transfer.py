"""New weights from a trainer on this host: after every way they can come, the server is one that was started on them."""

import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from api.control import DEV, Stream, change_weights, get, greedy, post, refusal, reset, rpc, until
from harness.bits import assert_same_answer
from harness.client import request
from harness.server import TINY_MODELS
from harness.weights import Segment, Tensor, dense, read_checkpoint, sparse

IPC = ("--enable-scale-out", "--enable-sleep-mode", "--weight-transfer-config", '{"backend":"ipc"}')
MODELS = {
    "tied": ("llama-gqa-tied", ()),
    "untied": ("qwen2-untied", ()),
    "float32": ("llama-f32", ("--dtype", "float32")),
    "experts": ("qwen2-moe", ()),
    "fused experts": ("qwen3-moe-fused", ()),
}


def checksums(server):
    return post(server, "/weight_checker", {"action": "checksum"})["checksums"]


def state(server):
    post(server, "/reset_prefix_cache")
    return greedy(server), checksums(server)


def assert_state(server, expected, what):
    answer, sums = state(server)
    assert_same_answer(expected[0], answer, what)
    assert sums == expected[1], what


def start(server, body=None):
    assert post(server, "/start_weight_update", body) == {"message": "Weight update started"}


def update(server, info):
    assert post(server, "/update_weights", {"update_info": info}) == {"message": "Weights updated"}


def rpc_status(server, method):
    return refusal(server, "/collective_rpc", {"method": method})[0]


def finish(server, body=None):
    assert post(server, "/finish_weight_update", body) == {"message": "Weight update finished"}


def send(server, info):
    start(server)
    update(server, info)
    finish(server)


@pytest.fixture(scope="session")
def trained(binary, tmp_path_factory, patience):
    """trained(kind): a model, its tensors before and after a step of training, and what a server started on the latter says."""
    from conftest import retire
    from harness.server import Server

    made = {}

    def get_model(kind):
        if kind not in made:
            name, flags = MODELS[kind]
            folder = change_weights(TINY_MODELS / name, tmp_path_factory.mktemp("trained") / name)
            server = Server(binary, folder, *IPC, *flags, env=DEV, start_timeout_s=60 * patience)
            cold = state(server)
            retire(server)
            made[kind] = (TINY_MODELS / name, read_checkpoint(TINY_MODELS / name), read_checkpoint(folder), cold)
        return made[kind]

    return get_model


@pytest.fixture
def segment():
    segment = Segment()
    yield segment
    segment.close()


@pytest.fixture
def model_server(serve):
    """model_server(kind): a server with the weights it was started on, and no session."""
    used = []

    def get_server(kind="tied"):
        name, flags = MODELS[kind]
        server = serve(TINY_MODELS / name, *IPC, *flags, env=DEV)
        post(server, "/init_weight_transfer_engine", {"init_info": {}})
        reset(server)
        used.append(server)
        return server

    yield get_server
    for server in used:
        post(server, "/wake_up")
        post(server, "/init_weight_transfer_engine", {"init_info": {}})
        reset(server)


FORMS = {
    "as it is": lambda segment, old, new: dense(segment, new, gap=1),
    "widened": lambda segment, old, new: dense(segment, {n: t.widened() for n, t in new.items()}),
    "packed": lambda segment, old, new: {**dense(segment, new, packed=True), "offsets": None},
    "legacy": lambda segment, old, new: [
        dense(segment, new, packed=True, packed_buffer_size_bytes=1, packed_num_buffers=2, is_checkpoint_format=True)
    ],
    "sparse": lambda segment, old, new: sparse(segment, old, new),
    "sparse, packed": lambda segment, old, new: {**sparse(segment, old, new, packed=True), "offsets": None},
}


@pytest.mark.short
@pytest.mark.parametrize("kind", MODELS)
def test_every_form_is_a_cold_start(model_server, trained, segment, kind):
    _, old, new, cold = trained(kind)
    server = model_server(kind)
    first = state(server)
    for form, describe in FORMS.items():
        send(server, describe(segment, old, new))
        assert_state(server, cold, f"new weights, {form}")
        send(server, describe(segment, new, old))
        assert_state(server, first, f"old weights, {form}")
    assert not segment.has_name()


@pytest.mark.short
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("kind", MODELS)
def test_after_sleep(model_server, trained, segment, kind, level):
    _, old, new, cold = trained(kind)
    server = model_server(kind)
    post(server, f"/sleep?level={level}")
    status, answer = refusal(server, "/start_weight_update")
    assert status == 409 and "asleep" in answer["error"]["message"]
    assert refusal(server, "/update_weights", {"update_info": dense(segment, new)})[0] == 409
    assert refusal(server, "/finish_weight_update")[0] == 409
    post(server, "/wake_up?tags=weights")
    send(server, dense(segment, new))
    post(server, "/wake_up?tags=kv_cache")
    assert_state(server, cold, f"after sleep {level}")


def test_many_updates_in_one_session_and_versions(model_server, trained, segment):
    _, old, new, cold = trained("tied")
    server = model_server()
    start(server, {"is_checkpoint_format": True})
    for name, tensor in new.items():
        update(server, dense(segment, {name: tensor}))
    head = Tensor(*new["model.embed_tokens.weight"])
    update(server, dense(segment, {"lm_head.weight": head}))  # redundant, and the same
    assert get(server, "/weight_info")["weight_version"] == "default"
    finish(server, {"weight_version": "v2"})
    assert get(server, "/weight_info")["weight_version"] == "v2"
    assert_state(server, cold, "one tensor an update")
    for name in ("init", "start", "update", "finish"):
        counts = re.findall(
            rf'rl_weight_update_operation_duration_seconds_count{{.*operation="{name}".*}} (.+)', server.metrics_text()
        )
        assert len(counts) == 1 and float(counts[0]) > 0, (name, counts)


def test_a_head_of_its_own_is_refused_where_it_is_tied(model_server, trained, segment):
    _, old, new, _ = trained("tied")
    server = model_server()
    first = state(server)
    start(server)
    update(server, dense(segment, {**new, "lm_head.weight": old["model.embed_tokens.weight"]}))
    status, answer = refusal(server, "/finish_weight_update")
    assert status == 400 and "lm_head.weight" in answer["error"]["message"]
    post(server, "/init_weight_transfer_engine", {"init_info": {}})
    assert_state(server, first, "after a head that is none")


@pytest.mark.short
def test_what_is_missing(model_server, trained, segment):
    _, old, new, cold = trained("tied")
    server = model_server()
    first = state(server)
    some = dict(list(new.items())[:3])
    rest = {name: tensor for name, tensor in new.items() if name not in some}
    start(server)
    update(server, dense(segment, some))
    status, answer = refusal(server, "/finish_weight_update")
    assert status == 400 and '"partial": true' in answer["error"]["message"]
    assert list(rest)[0] in answer["error"]["message"] and "..." in answer["error"]["message"]
    assert_state(server, first, "with tensors missing")
    update(server, dense(segment, rest))
    finish(server)
    assert_state(server, cold, "once they came")
    for where in ("start", "update"):
        send(server, dense(segment, old))
        start(server, {"partial": True} if where == "start" else None)
        update(server, dense(segment, some, **({"partial": True} if where == "update" else {})))
        finish(server)
        sums = checksums(server)
        changed = {name for name in sums if sums[name] != first[1][name]}
        assert changed == {f"dp0:pp0:pcp0:tp0:{name}" for name in some}


@pytest.mark.short
def test_order(model_server, trained, segment):
    _, _, new, cold = trained("tied")
    server = model_server()
    info = dense(segment, new)

    def order_error(path, body=None):
        status, answer = refusal(server, path, body)
        assert status == 500 and answer["error"]["type"] == "InternalServerError"
        return answer["error"]["message"]

    without = "start_weight_update must be called before update_weights."
    assert without in order_error("/update_weights", {"update_info": info})
    assert "without a matching start_weight_update" in order_error("/finish_weight_update", {})
    start(server)
    assert "already active. Call finish_weight_update first." in order_error("/start_weight_update")
    assert "active" in order_error("/shutdown_weight_transfer_engine")
    update(server, info)
    finish(server)
    assert "without a matching start_weight_update" in order_error("/finish_weight_update")
    # Of trainers that know neither.
    update(server, {**info, "is_checkpoint_format": True})
    assert "without a matching" in order_error("/finish_weight_update")
    # A second sender: the session is its own then.
    start(server)
    post(server, "/init_weight_transfer_engine", {"init_info": {"packed": False}})
    assert without in order_error("/update_weights", {"update_info": info})
    # A sleep ends a session too.
    start(server)
    post(server, "/sleep?level=1")
    post(server, "/wake_up")
    assert "without a matching" in order_error("/finish_weight_update")
    assert post(server, "/shutdown_weight_transfer_engine") == {"message": "Weight transfer shut down"}
    with_new = Segment()
    send(server, dense(with_new, new))
    with_new.close()
    assert_state(server, cold, "after all of that")


@pytest.mark.short
def test_a_session_of_another_name(model_server, trained, segment):
    """Two trainers that know nothing of each other: neither's calls get into the other's session, or end it."""
    _, old, new, cold = trained("tied")
    server = model_server()
    first = state(server)
    start(server, {"session": "mine"})
    update(server, {**dense(segment, new), "session": "mine"})
    for name in ({"session": "yours"}, {"session": ""}, {}):
        for info in (dense(segment, old), {"names": []}, {}):
            status, answer = refusal(server, "/update_weights", {"update_info": {**info, **name}})
            assert status == 409 and "another trainer's" in answer["error"]["message"]
        assert refusal(server, "/finish_weight_update", name)[0] == 409
        assert rpc_status(server, "finish_weight_update") == 409
    assert_state(server, first, "before its end")
    finish(server, {"session": "mine"})
    assert_state(server, cold, "my own session")
    start(server)
    assert refusal(server, "/finish_weight_update", {"session": "mine"})[0] == 409
    # A failed update of its own ends it.
    assert refusal(server, "/update_weights", {"update_info": {}})[0] == 400
    assert refusal(server, "/finish_weight_update")[0] == 500
    for path, body in (
        ("/start_weight_update", {"session": 1}),
        ("/finish_weight_update", {"session": 1}),
    ):
        assert refusal(server, path, body)[0] == 400


def other_shape(info):
    info["shapes"][0] = info["shapes"][0][::-1]


def other_name(info):
    info["names"][1] = "model.layers.99.mlp.up_proj.weight"


def surprise(info):
    info["surprise"] = 1


FAULTS = {
    "shape": (other_shape, "expected shape"),
    "unknown name": (other_name, "model.layers.99.mlp.up_proj.weight"),
    "named twice": (lambda info: info["names"].__setitem__(1, info["names"][0]), "twice"),
    "dtype": (lambda info: info["dtype_names"].__setitem__(0, "int8"), "int8"),
    "size": (lambda info: info["nbytes"].__setitem__(0, 1), "nbytes"),
    "lengths": (lambda info: info["shapes"].pop(), "shapes"),
    "beyond the segment": (lambda info: info["offsets"].__setitem__(0, 1 << 40), "segment of"),
    "segment of nobody": (lambda info: info.update(shm_name="/unspool-none"), "No such file"),
    "path": (lambda info: info.update(shm_name="/../etc/passwd"), "one name"),
    "unknown key": (surprise, "surprise"),
    "handles": (lambda info: info.update(ipc_handles_pickled="gASV"), "no pickle"),
    "other format": (lambda info: info.update(is_checkpoint_format=False), "expected true"),
}


@pytest.mark.short
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_update_changes_nothing(model_server, trained, segment, fault):
    _, _, new, cold = trained("tied")
    server = model_server()
    first = state(server)
    damage, says = FAULTS[fault]
    info = dense(segment, new)
    damage(info)
    start(server)
    status, answer = refusal(server, "/update_weights", {"update_info": info})
    assert status == 400 and says in answer["error"]["message"], answer
    assert refusal(server, "/finish_weight_update")[0] == 500, "the session is over"
    assert_state(server, first, f"after a wrong {fault}")
    send(server, dense(segment, new))
    assert_state(server, cold, "the next session")


def test_segments_of_others_and_short_ones(model_server, trained):
    _, _, new, _ = trained("tied")
    server = model_server()
    first = state(server)
    readable = Segment()
    os.fchmod(readable.fd, 0o644)
    short = Segment()
    for segment, says in ((readable, "mode 600"), (short, "segment of")):
        info = dense(segment, new)
        if segment is short:
            os.ftruncate(segment.fd, 100)
        start(server)
        status, answer = refusal(server, "/update_weights", {"update_info": info})
        assert status == 400 and says in answer["error"]["message"]
        segment.close()
    assert_state(server, first, "after both")


@pytest.fixture
def pipe():
    """The name of a pipe where segments are, old enough to be swept if it were one."""
    path = Path(f"/dev/shm/unspool-{secrets.token_hex(16)}")
    os.mkfifo(path, 0o600)
    os.utime(path, (1, 1))
    yield "/" + path.name
    path.unlink()


@pytest.mark.short
def test_a_pipe_is_no_segment(own_server, trained, segment, pipe):
    """Opening one waits for whoever writes to it: neither the start, nor init, nor an update may."""
    folder, _, new, cold = trained("tied")
    server = own_server(folder, *IPC, env=DEV)
    post(server, "/init_weight_transfer_engine", {"init_info": {}})
    start(server)
    status, answer = refusal(server, "/update_weights", {"update_info": {**dense(segment, new), "shm_name": pipe}})
    assert status == 400 and "something else" in answer["error"]["message"]
    send(server, dense(segment, new))
    assert_state(server, cold, "after a pipe")


@pytest.mark.short
def test_segments_without_a_lock_do_not_pile_up(model_server, trained):
    """They are taken, but nothing tells when their sender has gone: one stays, which may be named again."""
    _, old, new, cold = trained("tied")
    server = model_server()
    for tensors in (old, new, old, new):
        unlocked = Segment()
        fcntl.flock(unlocked.fd, fcntl.LOCK_UN)
        for _ in range(2):
            send(server, dense(unlocked, tensors))
        unlocked.close()
    assert len(server.mapped_segments()) == 1
    assert_state(server, cold, "without locks")


SENDER = """
import json, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from harness.weights import Segment, dense, read_checkpoint
segment = Segment()
print(json.dumps(dense(segment, read_checkpoint(Path({folder!r})))), flush=True)
time.sleep(1000)
"""


@pytest.mark.short
def test_a_sender_that_is_killed_leaves_nothing(model_server, trained, patience):
    folder, old, new, cold = trained("tied")
    server = model_server()
    first = state(server)
    tests = str(Path(__file__).resolve().parents[1])
    sender = subprocess.Popen(
        [sys.executable, "-c", SENDER.format(tests=tests, folder=str(folder))], stdout=subprocess.PIPE, text=True
    )
    info = json.loads(sender.stdout.readline())
    start(server)
    update(server, info)
    assert not Path("/dev/shm" + info["shm_name"]).exists()

    assert server.mapped_segments() == [info["shm_name"]]
    sender.send_signal(signal.SIGKILL)
    sender.wait()
    until(lambda: not server.mapped_segments(), 5 * patience, "the segment is mapped still")
    assert_state(server, first, "after the sender's death")
    post(server, "/init_weight_transfer_engine", {"init_info": {}})
    again = Segment()
    send(server, dense(again, new))
    again.close()
    assert_state(server, cold, "the next sender")


@pytest.mark.short
def test_a_stream_goes_on_under_new_weights(model_server, trained, segment, patience):
    """What it says after the update is what the new weights say to all that came before."""
    _, _, new, _ = trained("tied")
    server = model_server()
    stream = Stream(server, max_tokens=1900, temperature=0)
    stream.wait_for_tokens(20, 10 * patience)
    post(server, "/pause?mode=keep&clear_cache=true")
    send_version = dense(segment, new)
    start(server)
    update(server, send_version)
    finish(server, {"weight_version": "v2"})
    assert post(server, "/resume") == {"status": "resumed"}
    chunks = stream.wait(60 * patience)
    first, second = chunks[-1]["choices"][0]["weight_versions"]
    assert first == {"version": "default", "start": 0, "end": first["end"]} and first["end"] >= 20
    assert second == {"version": "v2", "start": first["end"], "end": 1900}
    tokens = stream.token_ids()
    again = greedy(server, [5, 6, 7, *tokens[: first["end"]]], max_tokens=1900 - first["end"])
    assert again["choices"][0]["token_ids"] == tokens[first["end"] :]


@pytest.mark.short
def test_in_place(serve, trained, segment, patience):
    """Half the memory; what fails once it writes leaves nothing to serve, until a whole session."""
    folder, old, new, cold = trained("tied")
    server = serve(folder, *IPC, "--weight-update-mode", "in-place", env=DEV)
    first = state(server)
    send(server, dense(segment, new))
    assert_state(server, cold, "in place")
    # Before the first byte nothing is lost.
    info = dense(segment, new)
    info["names"][0] = "x"
    start(server)
    assert refusal(server, "/update_weights", {"update_info": info})[0] == 400
    assert_state(server, cold, "after a refusal")
    # An index outside its tensor shows when it is written.
    info = sparse(segment, new, old)
    data = os.pread(segment.fd, info["nbytes"][-1], info["offsets"][-1])
    os.pwrite(segment.fd, (2**31 - 1).to_bytes(4, "little") + data[4:], info["offsets"][-1])
    start(server)
    status, answer = refusal(server, "/update_weights", {"update_info": info})
    assert status == 400 and "index" in answer["error"]["message"], answer
    status, _, answer = request(server, "POST", "/v1/completions", {"model": "m", "prompt": [5], "max_tokens": 1})
    assert status == 503 and "whole" in answer["error"]["message"]
    # What else came of it stays unknown after a session that brings a part.
    send(server, dense(segment, dict(list(old.items())[1:]), partial=True))
    assert request(server, "POST", "/v1/completions", {"model": "m", "prompt": [5], "max_tokens": 1})[0] == 503
    send(server, dense(segment, old))
    assert_state(server, first, "after a whole session")


@pytest.mark.parametrize("mode", ["double-buffer", "in-place"])
def test_many_sessions_leave_nothing(own_server, trained, report, mode):
    """Of memory, descriptors, threads and mappings there is no more after hundreds, sound ones and others."""
    folder, old, new, cold = trained("tied")
    server = own_server(folder, *IPC, "--weight-update-mode", mode, env=DEV)

    def sessions(count):
        for number in range(count):
            mine = Segment()
            info = sparse(mine, old, new, partial=True) if number % 12 == 1 else dense(mine, new)
            start(server)
            if number % 3 == 2:
                info["offsets"][-1] = 1 << 40
                assert refusal(server, "/update_weights", {"update_info": info})[0] == 400
            else:
                update(server, info)
                finish(server)
            mine.close()
        until(lambda: not server.mapped_segments(), 5, "segments are mapped still")
        return server.rss_kb(), server.num_fds(), server.num_threads()

    before, after = sessions(60), sessions(240)
    report(f"240 sessions, {mode}: {before} kB, descriptors and threads before, {after} after")
    # What malloc keeps of its arenas goes up and down by 2 MB; the tensors of a session are 0.1 MB.
    assert after[0] < before[0] + 4096 and after[1] <= before[1] + 2 and after[2] == before[2]
    assert_state(server, cold, "after all of them")


def test_a_session_that_hears_nothing_is_dropped(own_server, trained, patience):
    folder, *_ = trained("tied")
    server = own_server(folder, *IPC, "--weight-transfer-timeout", "0.5", env=DEV)
    start(server)
    until(lambda: "heard nothing" in server.log(), 10 * patience, "the session is open")
    assert refusal(server, "/finish_weight_update")[0] == 500
    start(server)


def test_worker_methods(model_server, trained, segment):
    """The same session over /collective_rpc, and SkyRL's names for it."""
    _, _, new, cold = trained("tied")
    server = model_server()
    assert rpc(server, "init_weight_transfer_engine", init_info={}) == [None]
    for prefix, send_method in (("", "update_weights"), ("skyrl_", "update_weights_ipc")):
        rpc(server, "reload_weights")
        assert rpc(server, prefix + "start_weight_update", is_checkpoint_format=True) == [None]
        assert rpc(server, send_method, update_info=dense(segment, new)) == [None]
        assert rpc(server, prefix + "finish_weight_update") == [None]
        assert_state(server, cold, prefix)
    rpc(server, "skyrl_start_weight_update")
    for method in ("update_weights_ipc", "update_weights_nccl"):
        body = {"method": method, "kwargs": {"update_info": {"names": [], "ipc_handles_pickled": "gASV"}}}
        status, answer = refusal(server, "/collective_rpc", body)
        assert status == 400 and '"gloo"' in answer["error"]["message"]
    body = {"method": "start_weight_update", "kwargs": {"is_checkpoint_format": False}}
    assert refusal(server, "/collective_rpc", body)[0] == 400
    assert refusal(server, "/start_draft_weight_update")[0] == 500
    assert rpc(server, "shutdown_weight_transfer_engine") == [None]


def test_server_info(model_server):
    config = get(model_server(), "/server_info?config_format=json")["vllm_config"]
    assert config["weight_transfer_config"] == {"backend": "ipc"}
