"""`unspool serve` and its flags, which are vLLM's by name."""

import json
import shutil
import struct
import subprocess

import pytest

from harness.client import complete, request


def run(binary, *arguments, timeout_s=60):
    """(exit status, everything printed) of a command that must end by itself."""
    command = [str(part) for part in (binary, *arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    return result.returncode, result.stdout + result.stderr


def test_version_and_help(binary):
    status, text = run(binary, "--version")
    assert status == 0 and "0.1.0" in text
    assert any(name in text for name in ("scalar", "avx2", "avx512"))
    status, text = run(binary, "serve", "--help")
    assert status == 0
    for flag in (
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--kv-cache-memory-bytes",
        "--dtype",
        "--served-model-name",
    ):
        assert flag in text


def test_bench(binary, tiny):
    status, text = run(binary, "bench", tiny, "--profile", "--max-model-len", 300, "--kv-cache-memory-bytes", "64M")
    assert status == 0, text
    for part in (
        "GFLOP/s",
        "single: 1 x 64 tokens",
        "group: 8 x 256",
        "attention",
        "linear [",
        "sampling, plan and commit",
    ):
        assert part in text
    assert "prefill" not in text  # its prompts are longer than --max-model-len
    status, text = run(binary, "bench", tiny, "--no-such-flag")
    assert status == 2 and "no-such-flag" in text


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--speculative-config", "{}"], "speculative-config"),
        (["--enable-lora"], "enable-lora"),
        (["--tensor-parallel-size", "2"], "tensor-parallel-size"),
        (["--no-such-flag"], "no-such-flag"),
        (["--dtype", "int3"], "int3"),
        (["--block-size", "12"], "block-size"),
        (["--max-num-seqs", "none"], "max-num-seqs"),
        (["--max-model-len", "99999999"], "max-model-len"),
    ],
)
def test_refused_by_name(binary, tiny, flags, named):
    status, text = run(binary, "serve", tiny, *flags)
    assert status != 0
    assert named in text or named.replace("-", "_") in text


def test_spellings(serve, tiny):
    """Underscores, = and dots, sizes, negations, the model by --model."""
    server = serve(
        tiny, "--max_model_len=1k", "--no-enable-prefix-caching", "--max_num_batched_tokens", "64", "--override-generation-config.top_k", "1"
    )  # fmt: skip
    _, _, models = request(server, "GET", "/v1/models")
    assert models["data"][0]["max_model_len"] in (1000, 1024)
    tokens = [
        complete(server, prompt=[3, 4], seed=s, max_tokens=8, return_token_ids=True)["choices"][0]["token_ids"]
        for s in (1, 2)
    ]
    assert tokens[0] == tokens[1]


def test_names(own_server, tiny):
    server = own_server(tiny, "--served-model-name", "first", "second", model_name="ignored")
    _, _, models = request(server, "GET", "/v1/models")
    assert [entry["id"] for entry in models["data"]] == ["first", "second"]
    _, _, answer = request(server, "POST", "/v1/completions", {"model": "second", "prompt": [1], "max_tokens": 1})
    assert answer["model"] == "first"


def test_config_file(own_server, tiny, tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text("max-model-len: 128\nenable_prefix_caching: false\nmax-num-seqs: 4\n")
    server = own_server(tiny, "--config", file)
    assert request(server, "GET", "/v1/models")[2]["data"][0]["max_model_len"] == 128
    server = own_server(tiny, "--config", file, "--max-model-len", "96")
    assert request(server, "GET", "/v1/models")[2]["data"][0]["max_model_len"] == 96


def test_summary_at_start(serve, tiny):
    log = serve(tiny).log()
    for word in ("bfloat16", "thread", "token"):
        assert word in log.lower()


def edited_model(tiny, tmp_path, edit):
    """A copy of the model with its safetensors header changed by edit(header)."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return folder


NORM = "model.layers.1.input_layernorm.weight"


@pytest.mark.parametrize(
    "edit",
    [
        lambda header: header.update({"model.layers.7.stray": header[NORM]}) or header.pop(NORM),
        lambda header: header[NORM].update(shape=[2, header[NORM]["shape"][0] // 2]),
        lambda header: header[NORM].update(data_offsets=[header[NORM]["data_offsets"][0], 1 << 40]),
    ],
    ids=["missing and surplus", "shape", "offsets"],
)
def test_faulty_weights_are_named(binary, tiny, tmp_path, edit):
    status, text = run(binary, "serve", edited_model(tiny, tmp_path, edit))
    assert status != 0
    assert NORM in text or "model.layers.7.stray" in text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, "Mamba"),
        ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "spiral"),
    ],
)
def test_unknown_parts_are_named(binary, tiny, tmp_path, change, named):
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    status, text = run(binary, "serve", folder)
    assert status != 0 and named in text


def test_more_cache_than_memory(binary, tiny):
    status, text = run(binary, "serve", tiny, "--kv-cache-memory-bytes", "900Ti")
    assert status == 1 and "--kv-cache-memory-bytes" in text and "free" in text


def test_no_such_model(binary, tmp_path):
    status, text = run(binary, "serve", tmp_path / "nothing")
    assert status != 0 and "nothing" in text
