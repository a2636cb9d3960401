"""Writes a Llama directory in bf16 as GGUF, so that llama.cpp can be measured on the same weights.

    to_gguf.py models/SmolLM2-135M-Instruct smollm2-bf16.gguf

Undoes what tools/convert_smollm2.py does. Needs tools/requirements-model.txt.
"""

import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """`model.layers.3.self_attn.q_proj.weight` -> `blk.3.attn_q.weight`."""
    name = name.removesuffix(".weight")
    if not name.startswith("model.layers."):
        known = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
        return known[name] + ".weight"
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


def read_tensors(path):
    """(name, bf16 bits) of every tensor of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] != "BF16":
            raise SystemExit(f"{name} is {entry['dtype']}; only bf16 is written")
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        yield name, np.frombuffer(data[start:end], "<u2").reshape(entry["shape"])


def interleave_rotary(weight, num_heads):
    """Hugging Face keeps the two rotary halves of a head one after the other; GGUF interleaves their rows."""
    rows, columns = weight.shape
    halves = weight.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def add_metadata(writer, folder, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)

    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    special = {token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    pieces = sorted(
        {**tokenizer["model"]["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}.items(),
        key=lambda x: x[1],
    )
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_types(
        [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for _, token in pieces]
    )
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def main():
    folder, output = map(Path, sys.argv[1:])
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(output, "llama")
    add_metadata(writer, folder, config)
    for name, bits in read_tensors(folder / "model.safetensors"):
        if "q_proj" in name:
            bits = interleave_rotary(bits, config["num_attention_heads"])
        elif "k_proj" in name:
            bits = interleave_rotary(bits, config["num_key_value_heads"])
        if bits.ndim == 1:  # llama.cpp wants norms in float32
            writer.add_tensor(gguf_name(name), (bits.astype(np.uint32) << 16).view(np.float32))
        else:
            writer.add_tensor(gguf_name(name), bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
