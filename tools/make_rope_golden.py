"""Writes tests/data/rope/frequencies.json: what transformers makes of rotary parameters, in float32.

Each case has config.json's fields, the length that the server would be started for, the layer type where a model has a
rotation for each, and what ROPE_INIT_FUNCTIONS (or the model's own default formula) gives for a sequence of that length:
inverse frequencies and attention factor.
"""

import json
from pathlib import Path

import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

FAMILIES = {
    "LlamaForCausalLM": (LlamaConfig, LlamaRotaryEmbedding),
    "Phi3ForCausalLM": (Phi3Config, Phi3RotaryEmbedding),
    "Gemma3ForCausalLM": (Gemma3TextConfig, Gemma3RotaryEmbedding),
}
LENGTHS = [None, 64, 65, 200, 4096, 131072]


def config(architecture="LlamaForCausalLM", head_dim=64, max_position_embeddings=2048, **fields):
    sizes = {"hidden_size": 2 * head_dim, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 6}
    return {
        "architectures": [architecture],
        **sizes,
        "head_dim": head_dim,
        "max_position_embeddings": max_position_embeddings,
        **fields,
    }


def factors(count, step):
    """Like Phi-3's: from 1 on, growing, no round numbers."""
    return [round(1 + step * i**1.5 + 0.013 * (i % 3), 6) for i in range(count)]


def long_factors(dim, rope_type="longrope", **fields):
    half = dim // 2
    return {"rope_type": rope_type, "short_factor": factors(half, 0.02), "long_factor": factors(half, 0.9), **fields}


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

CASES = {
    "default": config(),
    "default, theta at the top": config(rope_theta=1000000.0, head_dim=128),
    "default, theta in the block": config(rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, head_dim=20),
    "linear": config(rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "linear, old name": config(rope_scaling={"type": "linear", "factor": 2.5}, rope_theta=500000.0),
    "dynamic": config(rope_scaling={"type": "dynamic", "factor": 2.0}),
    "dynamic, short": config(rope_scaling={"rope_type": "dynamic", "factor": 3.7}, max_position_embeddings=64),
    "dynamic, new block": config(
        rope_parameters={"rope_type": "dynamic", "factor": 8.0, "rope_theta": 1e6}, max_position_embeddings=64
    ),
    "llama3": config(rope_scaling={**LLAMA3, "original_max_position_embeddings": 8192}, rope_theta=500000.0),
    "llama3, original not said": config(rope_scaling=LLAMA3, rope_theta=500000.0),
    "llama3, original at the top": config(rope_scaling=LLAMA3, original_max_position_embeddings=512),
    "yarn": config(rope_scaling=YARN, max_position_embeddings=8192),
    "yarn, Qwen3's": config(
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        max_position_embeddings=40960, head_dim=128, rope_theta=1000000.0,
    ),
    "yarn, attention factor": config(rope_scaling={**YARN, "attention_factor": 0.75}),
    "yarn, mscale": config(rope_scaling={**YARN, "mscale": 1.2, "mscale_all_dim": 0.8, "factor": 40.0}),
    "yarn, mscale alone": config(rope_scaling={**YARN, "mscale": 1.2}),
    "yarn, betas": config(rope_scaling={**YARN, "beta_fast": 16, "beta_slow": 2.5}),
    "yarn, betas of zero": config(rope_scaling={**YARN, "beta_fast": 0, "beta_slow": 0}),
    "yarn, not truncated": config(rope_scaling={**YARN, "truncate": False}),
    "yarn, null factor": config(rope_scaling={**YARN, "factor": None}, max_position_embeddings=12288),
    "yarn, original not said": config(rope_scaling={"rope_type": "yarn", "factor": 4.0}),
    "yarn, factor 1": config(rope_scaling={**YARN, "factor": 1.0}),
    "yarn, a ramp of no width": config(
        rope_scaling={**YARN, "original_max_position_embeddings": 4, "beta_fast": 32, "beta_slow": 32}
    ),
    "yarn, short original": config(rope_scaling={**YARN, "original_max_position_embeddings": 64}, head_dim=16),
    "longrope": config(
        "Phi3ForCausalLM", rope_scaling=long_factors(64), original_max_position_embeddings=64, head_dim=64
    ),
    "longrope, partial": config(
        "Phi3ForCausalLM", rope_scaling=long_factors(96), original_max_position_embeddings=4096,
        max_position_embeddings=131072, partial_rotary_factor=0.75, head_dim=128,
    ),
    "longrope, su": config("Phi3ForCausalLM", rope_scaling=long_factors(64, "su", original_max_position_embeddings=4096)),
    "longrope, yarn": config("Phi3ForCausalLM", rope_scaling=long_factors(64, "yarn")),
    "longrope, factor": config(rope_scaling=long_factors(64, factor=16.0, original_max_position_embeddings=128)),
    "longrope, attention factor": config(
        rope_scaling=long_factors(64, attention_factor=1.19, original_max_position_embeddings=128)
    ),
    "longrope, original not said": config(rope_scaling=long_factors(64)),
    "partial": config("Phi3ForCausalLM", partial_rotary_factor=0.5, head_dim=80),
    "partial, odd": config("Phi3ForCausalLM", partial_rotary_factor=0.4, head_dim=18),
    "gemma3, old": config(
        "Gemma3ForCausalLM", rope_theta=1000000.0, rope_local_base_freq=10000.0,
        rope_scaling={"factor": 8.0, "rope_type": "linear"}, sliding_window_pattern=6,
    ),
    "gemma3, old, no scaling": config("Gemma3ForCausalLM", rope_theta=500000.0, rope_local_base_freq=7000.0),
    "gemma3, defaults": config("Gemma3ForCausalLM"),
    "gemma3, new": config(
        "Gemma3ForCausalLM",
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 9000.0},
        },
    ),
    "gemma3, new, one null": config(
        "Gemma3ForCausalLM", rope_parameters={"full_attention": dict(YARN), "sliding_attention": None}
    ),
}  # fmt: skip


def parameters(given, max_model_len, layer_type):
    """(inverse frequencies, attention factor) for a sequence of max_model_len tokens; None: of any."""
    architecture = given["architectures"][0]
    config_class, rotary_class = FAMILIES[architecture]
    config = config_class(**json.loads(json.dumps({k: v for k, v in given.items() if k != "architectures"})))
    rope = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
    more = {"layer_type": layer_type} if layer_type else {}
    if rope["rope_type"] == "default":
        return rotary_class.compute_default_rope_parameters(config, **more)
    # The length is a tensor where a model asks for another one than at its start.
    length = None if max_model_len is None else torch.tensor(max_model_len)
    if rope["rope_type"] != "dynamic" or (length is not None and length <= config.max_position_embeddings):
        length = max_model_len if rope["rope_type"] == "longrope" else None
    return ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu", seq_len=length, **more)


def main():
    cases = []
    for name, given in CASES.items():
        gemma = given["architectures"][0].startswith("Gemma3")
        for layer_type in ["full_attention", "sliding_attention"] if gemma else [None]:
            seen = []
            for length in LENGTHS:
                frequencies, attention_factor = parameters(given, length, layer_type)
                result = {"frequencies": frequencies.tolist(), "attention_factor": float(attention_factor)}
                if length is not None and result in seen:
                    continue
                seen.append(result)
                case = {"name": name, "config": given, "layer_type": layer_type, "max_model_len": length, **result}
                cases.append(json.dumps(case))
    path = Path(__file__).resolve().parent.parent / "tests/data/rope/frequencies.json"
    path.write_text("[\n" + ",\n".join(cases) + "\n]\n")
    print(f"wrote {len(cases)} cases to {path}")


if __name__ == "__main__":
    main()
