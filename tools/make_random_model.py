"""Writes a model directory with random bf16 weights in the shape of Qwen3-0.6B, to be measured where the real one cannot be had:

    .venv/bin/python tools/make_random_model.py models/Qwen3-0.6B-random
    ./dev bench --model models/Qwen3-0.6B-random

With --experts the layers' MLPs are experts, those of a token as wide together as --intermediate-size, so that the same size without
experts is the dense model of the same active work:

    .venv/bin/python tools/make_random_model.py models/moe --layers 6 --intermediate-size 2048 --experts 16 --experts-per-token 4
    .venv/bin/python tools/make_random_model.py models/dense --layers 6 --intermediate-size 2048

What it says is noise; what it costs is what Qwen3-0.6B costs, 1.2 GB of weights. The tokenizer is the tests' small one: requests
are token ids, and ids that it does not know have no text. Needs numpy alone.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TOKENIZER = ROOT / "tests" / "data" / "models" / "qwen3-tied"

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}


def mlp(hidden, inner):
    return {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}


def experts_config(config, experts, per_token):
    """The same active work in a mixture of experts."""
    return config | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": config["intermediate_size"] // per_token,
        "norm_topk_prob": True,
        "num_experts": experts,
        "num_experts_per_tok": per_token,
    }


def tensors(config):
    """{name: shape}, in the order of the file."""
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        part = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (q, hidden),
            "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden),
            "self_attn.q_norm": (dim,),
            "self_attn.k_norm": (dim,),
            "self_attn.o_proj": (hidden, q),
            "post_attention_layernorm": (hidden,),
        }
        if "num_experts" in config:
            part["mlp.gate"] = (config["num_experts"], hidden)
            for expert in range(config["num_experts"]):
                expert_mlp = mlp(hidden, config["moe_intermediate_size"])
                part |= {f"mlp.experts.{expert}.{name}": shape for name, shape in expert_mlp.items()}
        else:
            part |= {f"mlp.{name}": shape for name, shape in mlp(hidden, inner).items()}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in part.items()}
    return shapes | {"model.norm.weight": (hidden,)}


def to_bf16(values):
    """float32 to bf16, nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def random_tensor(generator, name, shape):
    """Of a size that keeps activations near 1, so that no product underflows and no softmax is a single peak."""
    values = generator.standard_normal(shape, dtype=np.float32)
    if "norm" in name:
        return to_bf16(1 + 0.1 * values)
    return to_bf16(values * np.float32(0.02 if "embed" in name else shape[-1] ** -0.5))


def write_weights(path, shapes, seed):
    """A safetensors file, tensor by tensor: one at a time is in memory."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = np.random.default_rng(seed)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            random_tensor(generator, name, shape).tofile(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--layers", type=int, default=CONFIG["num_hidden_layers"])
    parser.add_argument("--intermediate-size", type=int, default=CONFIG["intermediate_size"])
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--experts-per-token", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    config = {**CONFIG, "num_hidden_layers": args.layers, "intermediate_size": args.intermediate_size}
    if args.experts:
        config = experts_config(config, args.experts, args.experts_per_token)
    args.directory.mkdir(parents=True, exist_ok=True)
    (args.directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, args.directory / name)
    # In place only once it is whole.
    part = args.directory / "model.safetensors.part"
    write_weights(part, tensors(config), args.seed)
    part.rename(args.directory / "model.safetensors")


if __name__ == "__main__":
    main()
