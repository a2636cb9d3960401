"""Which files are served, what is refused by name, and weights that come from no file."""

import json
import shutil
import struct

import pytest

from api.control import DEV, change_weights, get, greedy, post, read_tensors, refusal, rpc, write_tensors
from api.test_rope import edited
from harness.bits import assert_same_answer
from harness.server import TINY_MODELS, ServerDied

SHARDED = TINY_MODELS / "llama-sharded"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(SHARDED, tmp_path / "model")


def shards(folder):
    return sorted(folder.glob("model-*.safetensors"))


def edit_index(folder, edit):
    index = json.loads((folder / INDEX).read_text())
    edit(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))


def all_tensors(folder):
    return {name: value for path in shards(folder) for name, value in read_tensors(path).items()}


def test_strays_are_passed_over(own_server, folder):
    """What trainers, PEFT and Mistral's own tools leave there; none of it may be read."""
    expected = greedy(own_server(SHARDED))
    tensors = all_tensors(folder)
    zeros = {name: (dtype, shape, bytes(len(content))) for name, (dtype, shape, content) in tensors.items()}
    for name in ("consolidated.safetensors", "adapter_model.safetensors", "unlisted.safetensors"):
        write_tensors(folder / name, zeros)
    for name in ("training_args.bin", "optimizer.pt", "consolidated.00.pth"):
        (folder / name).write_bytes(b"no weights")
    assert_same_answer(expected, greedy(own_server(folder)), "beside strays")
    (folder / INDEX).unlink()
    (folder / "unlisted.safetensors").unlink()
    assert_same_answer(expected, greedy(own_server(folder)), "numbered shards without an index")
    for path in shards(folder):
        path.unlink()
    write_tensors(folder / "model.safetensors", tensors)
    assert_same_answer(expected, greedy(own_server(folder)), "one file")


def lose_a_shard(folder):
    shards(folder)[1].unlink()
    return shards(folder)[0].name.replace("00001", "00002")


def lose_a_tensor(folder):
    path = shards(folder)[1]
    tensors = read_tensors(path)
    name = sorted(tensors)[0]
    del tensors[name]
    write_tensors(path, tensors)
    return f'puts "{name}" into "{path.name}", which does not have it'


def have_it_twice(folder):
    first, second = shards(folder)[:2]
    tensors = read_tensors(second)
    name = sorted(read_tensors(first))[0]
    tensors[name] = read_tensors(first)[name]
    write_tensors(second, tensors)
    return f'tensor "{name}" is in'


def lead_outside(folder):
    shutil.copy(shards(folder)[0], folder.parent / "outside.safetensors")
    edit_index(folder, lambda files: files.update({"model.norm.weight": "../outside.safetensors"}))
    return "expected the name of a file in the same directory"


def cut_the_index(folder):
    (folder / INDEX).write_text((folder / INDEX).read_text()[:-40])
    return "invalid JSON"


def leave_a_name_out(folder):
    edit_index(folder, lambda files: files.pop("model.norm.weight"))
    return 'does not name "model.norm.weight"'


def make_another_shape(folder):
    (path,) = (p for p in shards(folder) if "model.norm.weight" in read_tensors(p))
    tensors = read_tensors(path)
    dtype, (size,), content = tensors["model.norm.weight"]
    tensors["model.norm.weight"] = (dtype, [size // 2, 2], content)
    write_tensors(path, tensors)
    return "model.norm.weight"


FAULTS = [
    lose_a_shard, lose_a_tensor, have_it_twice, lead_outside, cut_the_index, leave_a_name_out, make_another_shape,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faulty_shards_are_named(own_server, folder, fault):
    """At the start, which ends with a message; and in a reload, which leaves the weights as they are."""
    named = fault(folder)
    with pytest.raises(ServerDied) as died:
        own_server(folder)
    assert named in str(died.value) and "exited with 1" in str(died.value)
    server = own_server(SHARDED, env=DEV)
    expected = greedy(server)
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    status, answer = refusal(server, "/collective_rpc", body)
    assert status in (400, 404) and named in answer["error"]["message"]
    assert_same_answer(expected, greedy(server), "after a failed reload")


BIASES = {"attention_bias": "self_attn.k_proj.bias", "mlp_bias": "mlp.down_proj.bias"}


@pytest.mark.parametrize("flag", BIASES)
def test_biases_are_never_dropped(own_server, tmp_path, flag):
    """mlc-llm#3494, vllm#3767: those that the config does not have, and those that it has and the file does not."""
    said = edited("llama-bias", tmp_path / "said", lambda config: config.update({flag: False}))
    with pytest.raises(ServerDied, match=BIASES[flag]):
        own_server(said)

    lacking = change_weights(
        TINY_MODELS / "llama-bias",
        tmp_path / "lacking",
        lambda tensors: [tensors.pop(name) for name in list(tensors) if name.endswith(BIASES[flag])],
    )
    with pytest.raises(ServerDied, match=BIASES[flag]):
        own_server(lacking)
    server = own_server(TINY_MODELS / "llama-bias", env=DEV)
    expected = greedy(server)
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(lacking)}}
    status, answer = refusal(server, "/collective_rpc", body)
    assert status == 400 and BIASES[flag] in answer["error"]["message"]
    assert_same_answer(expected, greedy(server), "after a failed reload")


def test_biases_that_come_with_new_weights(own_server, tmp_path):
    """A model without biases takes none in a reload either."""
    flags = dict.fromkeys(BIASES, False)
    plain = edited("llama-bias", tmp_path / "plain", lambda config: config.update(flags))
    tensors = read_tensors(plain / "model.safetensors")
    write_tensors(plain / "model.safetensors", {n: t for n, t in tensors.items() if not n.endswith(".bias")})
    server = own_server(plain, env=DEV)
    expected = greedy(server)
    assert expected["choices"] != greedy(own_server(TINY_MODELS / "llama-bias"))["choices"]
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(TINY_MODELS / "llama-bias")}}
    status, answer = refusal(server, "/collective_rpc", body)
    assert status == 400 and ".bias" in answer["error"]["message"]
    assert_same_answer(expected, greedy(server), "after a failed reload")


def header(text, length=None):
    text = text if isinstance(text, bytes) else text.encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text


def tensor(dtype="BF16", shape="[48]", offsets="[0,96]", name="model.norm.weight"):
    return f'{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}'


HOSTILE = [
    b"", b"\0" * 7, header(b"", 2**64 - 1), header(b"{}", 2**63), header(b"{}", 2**32), header(b"{}", 3),
    header(b"{}", 200_000_000), header(b""), header("[]"), header("null"), header("{"), header(b'{"\xff":1}'),
    header("{" * 5000), header('{"a":' + "[" * 5000 + "]" * 5000 + "}"), header('{"a":1}'), header('{"a":{}}'),
    header(tensor("XX")), header(tensor("F4", "[1]", "[0,1]")), header(tensor(shape="[4294967296,4294967296]")),
    header(tensor(shape="[-1]")), header(tensor(shape="[1e3]")), header(tensor(shape="[18446744073709551615]")),
    header(tensor(shape="[1,1,1,1,1,1,1,1,1]")), header(tensor(shape="48")), header(tensor(offsets="[96,0]")),
    header(tensor(offsets="[-96,0]")), header(tensor(offsets="[0,9223372036854775807]")),
    header(tensor(offsets="[0]")), header(tensor(offsets="[0,96]")), header(tensor(shape="[0]", offsets="[0,0]")),
    header(tensor(shape="[]", offsets="[0,2]")) + b"xy", header(tensor()) + b"x" * 97,
    header(tensor(offsets="[1,97]")) + b"x" * 97, header(tensor()[:-1] + "," + tensor()[1:]) + b"x" * 96,
    header(tensor()[:-1] + "," + tensor(name="model.other")[1:]) + b"x" * 96,
    header('{"__metadata__":{"a":1}}'), header(tensor(name="n" * 100_000)) + b"x" * 96,
]  # fmt: skip


@pytest.mark.short
def test_hostile_files(own_server, tiny, tmp_path, sanitized):
    """Every one is refused in a message, by a server that goes on with the weights it has; no memory by what they say."""
    server = own_server(tiny, env=DEV)
    expected = greedy(server)
    folder = tmp_path / "bad"
    folder.mkdir()
    before = server.rss_kb()
    for i, content in enumerate(HOSTILE):
        (folder / "model.safetensors").write_bytes(content)
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        status, answer = refusal(server, "/collective_rpc", body)
        assert status == 400, f"{i}: {answer}"
        assert 0 < len(answer["error"]["message"]) < 1000
    assert sanitized or server.rss_kb() - before < 50_000
    assert_same_answer(expected, greedy(server), "after all of them")


def test_hostile_files_at_the_start(own_server, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "bad")
    for content in (HOSTILE[0], HOSTILE[2], HOSTILE[18]):
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(ServerDied, match="exited with 1"):
            own_server(folder)


def widened(content, dtype):
    """bf16 bytes as another type's; exact for these values."""
    floats = [struct.unpack("<f", b"\0\0" + content[i : i + 2])[0] for i in range(0, len(content), 2)]
    return struct.pack(f"<{len(floats)}{'f' if dtype == 'F32' else 'e'}", *floats)


@pytest.mark.parametrize("served", ["bfloat16", "float32"])
def test_types_may_be_mixed(own_server, folder, served):
    """Every tensor in another of the three types: what is served is what they hold."""
    expected = greedy(own_server(SHARDED, "--dtype", served))

    def mix(tensors):
        for i, (name, (_, shape, content)) in enumerate(sorted(tensors.items())):
            other = ("BF16", "F32", "F16")[i % 3]
            # Halves of this size are exact in f16 but where they are smallest; those go as f32.
            if other == "F16":
                half = widened(content, "F16")
                back = struct.pack(f"<{len(half) // 2}f", *struct.unpack(f"<{len(half) // 2}e", half))
                other = "F16" if back == widened(content, "F32") else "F32"
            if other != "BF16":
                tensors[name] = (other, shape, widened(content, other))
        assert {dtype for dtype, _, _ in tensors.values()} == {"BF16", "F32", "F16"}

    tensors = all_tensors(folder)
    mix(tensors)
    for path in shards(folder):
        write_tensors(path, {name: tensors[name] for name in read_tensors(path)})
    server = own_server(folder, "--dtype", served, env=DEV)
    assert_same_answer(expected, greedy(server), "mixed types")
    rpc(server, "reload_weights", weights_path=str(SHARDED))
    post(server, "/reset_prefix_cache")
    assert_same_answer(expected, greedy(server), "one type again")
    rpc(server, "reload_weights", weights_path=str(folder))
    post(server, "/reset_prefix_cache")
    assert_same_answer(expected, greedy(server), "mixed types in an update")


@pytest.mark.short
def test_sharded_checkpoints_are_loaded_into_a_running_server(own_server, tmp_path):
    changed = change_weights(SHARDED, tmp_path / "changed")
    cold = greedy(own_server(changed))
    server = own_server(SHARDED, env=DEV)
    before = greedy(server)
    rpc(server, "reload_weights", weights_path=str(changed))
    post(server, "/reset_prefix_cache")
    assert_same_answer(cold, greedy(server), "after the update")
    assert cold["choices"] != before["choices"]


@pytest.fixture
def no_weights(tiny, tmp_path):
    copy = shutil.copytree(tiny, tmp_path / "empty")
    (copy / "model.safetensors").unlink()
    return copy


def test_dummy_weights(own_server, tiny, no_weights):
    """Small, the same in every server, and there without a file; asleep and awake too."""
    server = own_server(no_weights, "--load-format", "dummy", "--enable-sleep-mode", env=DEV)
    first = greedy(server)
    checksums = post(server, "/weight_checker", {"action": "checksum"})
    assert "dummies" in server.log()
    again = own_server(tiny, "--load-format", "dummy", "--threads", 1, env=DEV)
    assert_same_answer(first, greedy(again), "another server, and weights that are not read")
    assert post(again, "/weight_checker", {"action": "checksum"}) == checksums
    # All that is finite, and near uniform: what weights of a thousandth can do.
    values = first["choices"][0]["logprobs"]["token_logprobs"]
    assert all(-10 < value < -3 for value in values)
    assert rpc(server, "check_weights_changed") == ["False"]
    for level in (1, 2):
        post(server, f"/sleep?level={level}")
        post(server, "/wake_up")
        if level == 1:
            assert_same_answer(first, greedy(server), "after a sleep of level 1")
            assert post(server, "/weight_checker", {"action": "checksum"}) == checksums
    assert get(server, "/is_sleeping") == {"is_sleeping": False}


def test_dummy_weights_make_room_for_real_ones(own_server, tiny):
    """As trainers start: dummies first, the checkpoint when they say so."""
    expected = greedy(own_server(tiny))
    server = own_server(tiny, "--load-format", "dummy", env=DEV)
    dummy = greedy(server)
    assert dummy["choices"] != expected["choices"]
    status, answer = refusal(server, "/collective_rpc", {"method": "reload_weights"})
    assert status == 500 and "Model reloading with `dummy` format" in answer["error"]["message"]
    assert_same_answer(dummy, greedy(server), "after a reload that was refused")
    rpc(server, "update_config", overrides={"load_config": {"load_format": "auto"}})
    rpc(server, "reload_weights")
    post(server, "/reset_prefix_cache")
    assert_same_answer(expected, greedy(server), "the checkpoint")
    assert rpc(server, "check_weights_changed") == ["True"]


def test_no_weights_without_dummies(own_server, no_weights):
    with pytest.raises(ServerDied, match="no weights: expected model.safetensors"):
        own_server(no_weights)
