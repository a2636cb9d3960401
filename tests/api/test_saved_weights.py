"""save_sharded_state: what is served, as a checkpoint that anyone can load."""

import json
import threading

import pytest

from api.control import DEV, change_weights, get, greedy, post, refusal, reset, rpc
from harness.bits import assert_same_answer
from harness.client import complete, request

INDEX = "model.safetensors.index.json"


@pytest.fixture
def server(serve, tiny):
    server = serve(tiny, "--enable-scale-out", "--enable-sleep-mode", env=DEV)
    reset(server)
    yield server
    reset(server)


def shard(number):
    return f"model-rank-0-part-{number}.safetensors"


def header(path):
    """Of a whole safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + size])
    assert len(data) == 8 + size + max(tensor.get("data_offsets", [0, 0])[1] for tensor in tensors.values())
    return tensors


def save(**kwargs):
    return {
        "method": "save_sharded_state",
        "kwargs": {key: value for key, value in kwargs.items() if value is not None},
    }


@pytest.mark.short
@pytest.mark.parametrize("max_size", [None, 20_000])
def test_what_is_saved_is_what_is_served(server, tiny, tmp_path, max_size):
    other, folder = change_weights(tiny, tmp_path / "other"), tmp_path / "new" / "saved"
    rpc(server, "reload_weights", weights_path=str(other))
    expected = greedy(server)
    checksums = rpc(server, "compute_weight_checksums")
    assert post(server, "/collective_rpc", save(path=str(folder), max_size=max_size)) == {"results": [None]}
    files = sorted(path.name for path in folder.iterdir())
    assert INDEX in files and shard(0) in files and (len(files) == 2) == (max_size is None)
    rpc(server, "reload_weights")
    rpc(server, "reload_weights", weights_path=str(folder))
    assert_same_answer(expected, greedy(server), "of the saved checkpoint")
    assert rpc(server, "compute_weight_checksums") == checksums


def test_every_tensor_is_in_the_file_that_the_index_names(server, tmp_path):
    post(server, "/collective_rpc", save(path=str(tmp_path), max_size="30000", pattern="w{{{part}}}.safetensors"))
    names = json.loads((tmp_path / INDEX).read_text())["weight_map"]
    prefix = "dp0:pp0:pcp0:tp0:"
    assert {prefix + name for name in names} == rpc(server, "compute_weight_checksums")[0].keys()
    files = set(names.values())
    assert files == {f"w{{{part}}}.safetensors" for part in range(len(files))} and len(files) > 1
    for file in files:
        tensors = header(tmp_path / file)
        assert tensors.pop("__metadata__") == {"format": "pt"}
        assert tensors.keys() == {name for name, where in names.items() if where == file}


@pytest.mark.short
def test_weights_that_are_not_there_are_not_saved(server, tmp_path):
    for level, wake in [(1, None), (2, None), (2, "/wake_up?tags=weights"), (2, "/wake_up")]:
        post(server, f"/sleep?level={level}")
        if wake:
            post(server, wake)
        status, answer = refusal(server, "/collective_rpc", save(path=str(tmp_path)))
        assert status == 409 and ("discarded" if wake else "asleep") in answer["error"]["message"]
        reset(server)
    assert list(tmp_path.iterdir()) == []
    # Only the weights matter, and a pause is no obstacle.
    post(server, "/sleep?level=1")
    post(server, "/wake_up?tags=weights")
    post(server, "/collective_rpc", save(path=str(tmp_path)))


@pytest.mark.short
def test_faulty_requests_write_nothing(server, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("another model")
    before = sorted(tmp_path.rglob("*"))
    here = str(tmp_path / "here")
    for body, expected in [
        (save(), 400), (save(path=""), 400), (save(path="a\0b"), 400), (save(path=7), 400),
        (save(path=here, max_size=0), 400), (save(path=here, max_size=-5), 400), (save(path=here, max_size=1.5), 400),
        (save(path=here, pattern="../x-{part}.safetensors"), 400), (save(path=here, pattern="x.safetensors", max_size=1), 400),
        (save(path=here, pattern="{part.__class__}.safetensors"), 400), (save(path=here, pattern="{part}.bin"), 400),
        (save(path=here, depth=1), 400), (save(path=str(tmp_path / "file")), 400), (save(path="/proc/none"), 400),
        (save(path=str(tmp_path / "model")), 409), (save(path="x" * 5000), 400),
    ]:  # fmt: skip
        status, answer = refusal(server, "/collective_rpc", body)
        assert status == expected and answer["error"]["message"], (body, status, answer)
    assert sorted(tmp_path.rglob("*")) == before


def test_only_below_the_weight_directories(own_server, tiny, tmp_path):
    roots, outside = tmp_path / "in", tmp_path / "out"
    roots.mkdir()
    outside.mkdir()
    (roots / "link").symlink_to(outside, target_is_directory=True)
    server = own_server(tiny, "--weight-directory", roots, env=DEV)
    for path in (outside, roots / "link", roots / "link" / "new", roots / ".." / "out", "relative"):
        status, answer = refusal(server, "/collective_rpc", save(path=str(path)))
        assert status == 403 and "--weight-directory" in answer["error"]["message"]
    assert list(outside.iterdir()) == []
    # A link under a shard's name is replaced, not followed.
    (roots / "saved").mkdir()
    post(server, "/collective_rpc", save(path=str(roots / "saved")))
    victim = roots / "victim"
    victim.write_text("untouched")
    (roots / "saved" / shard(0)).unlink()
    (roots / "saved" / shard(0)).symlink_to(victim)
    post(server, "/collective_rpc", save(path=str(roots / "saved")))
    assert victim.read_text() == "untouched" and not (roots / "saved" / shard(0)).is_symlink()
    rpc(server, "reload_weights", weights_path=str(roots / "saved"))


def test_a_save_over_the_served_checkpoint(own_server, tiny, tmp_path):
    """A directory that a server has mapped is written anew: it serves on, sleeps and wakes."""
    server = own_server(tiny, "--enable-sleep-mode", env=DEV)
    rpc(server, "save_sharded_state", path=str(tmp_path))
    rpc(server, "reload_weights", weights_path=str(tmp_path))
    expected = greedy(server)
    for _ in range(3):
        rpc(server, "save_sharded_state", path=str(tmp_path))
        post(server, "/sleep?level=1")
        post(server, "/wake_up")
        assert_same_answer(expected, greedy(server), "after a save over what is mapped")


@pytest.mark.short
def test_saves_under_traffic(server, tmp_path, patience):
    """Readers of the directory find a whole checkpoint at any time, and whoever asks is answered as ever."""
    expected = greedy(server)
    post(server, "/collective_rpc", save(path=str(tmp_path)))
    ended, faults = threading.Event(), []

    def saving():
        while not ended.is_set():
            status, _, answer = request(server, "POST", "/collective_rpc", save(path=str(tmp_path)))
            if status != 200:
                faults.append(answer)

    savers = [threading.Thread(target=saving) for _ in range(2)]
    for saver in savers:
        saver.start()
    for _ in range(10):
        assert_same_answer(expected, greedy(server), "beside a save")
        header(tmp_path / shard(0))
    ended.set()
    for saver in savers:
        saver.join(30 * patience)
    assert faults == [] and sorted(path.name for path in tmp_path.iterdir()) == [shard(0), INDEX]
    complete(server, prompt=[5], max_tokens=1)
    assert get(server, "/weight_info")["weights_discarded"] is False
