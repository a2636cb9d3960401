"""The tiny models of tests/data/models: what each one is there to cover.

Sizes are small and deliberately uneven (odd intermediate sizes, vocabularies and head counts that fill no vector), so
that every kernel's tail runs. `legacy_config` writes config.json as releases before `rope_parameters` did.
"""

from dataclasses import dataclass, field

from transformers import LlamaConfig, Qwen2Config, Qwen2MoeConfig, Qwen3Config, Qwen3MoeConfig

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # Far below the longest golden prompt, so that the scaled frequencies show.
    "original_max_position_embeddings": 64,
}

# The others, likewise stretched beyond 64 positions.
LINEAR_ROPE = {"rope_type": "linear", "factor": 4.0}
DYNAMIC_ROPE = {"rope_type": "dynamic", "factor": 8.0}
YARN_ROPE = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
YARN_MSCALE_ROPE = {**YARN_ROPE, "mscale": 1.3, "mscale_all_dim": 0.6, "beta_fast": 8.0, "truncate": False}


def longrope(half, original):
    """Factors as Phi-3 has them: from 1 on, growing, the long ones far above the short ones."""
    return {
        "rope_type": "longrope",
        "short_factor": [round(1 + 0.05 * i, 4) for i in range(half)],
        "long_factor": [round(1.1 + 0.8 * i**1.5, 4) for i in range(half)],
        "original_max_position_embeddings": original,
    }


@dataclass
class Variant:
    name: str
    config_class: type
    tokenizer_family: str
    sizes: dict  # arguments of the config class
    rope_theta: float = 10000.0
    rope: dict = field(default_factory=lambda: {"rope_type": "default"})
    dtype: str = "bfloat16"  # as stored
    legacy_config: bool = False
    legacy_fields: dict = field(default_factory=dict)  # what only such a config.json has
    shard_size_bytes: int | None = None
    tokenizer_vocab_size: int | None = None  # smaller than the model's, as Qwen's padded vocabularies
    generation: dict = field(default_factory=dict)  # more for generation_config.json
    # Nats between the likeliest and the next id of a greedy choice: rounding does not swap them. Less where a model is slow to
    # run, since most seeds fail.
    min_greedy_gap: float = 0.05
    prompt_lengths: tuple = (1, 5, 19, 64, 205)  # of the golden prompts; the last crosses a block of 128 keys
    # The file has a layer's experts as two tensors of three dimensions, as they are in memory.
    fused_experts: bool = False
    # Where frequencies depend on the length: golden values as a server has them that is started for that many tokens,
    # and others for as many as border_len, where transformers' are the same for every length up to it.
    max_model_len: int | None = None
    border_len: int | None = None


def tiny_sizes(hidden, intermediate, layers, heads, kv_heads, vocab, tied, **others):
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 2048,
        **others,
    }


PROMPTS = (1, 2, 17, 64, 200)


def moe(experts, top_k, inner, **others):
    return {"num_experts": experts, "num_experts_per_tok": top_k, "moe_intermediate_size": inner, **others}


VARIANTS = [
    Variant("llama-mha", LlamaConfig, "smollm", tiny_sizes(48, 80, 2, 4, 4, 320, tied=False)),
    Variant("llama-gqa-tied", LlamaConfig, "smollm", tiny_sizes(48, 83, 2, 6, 2, 384, tied=True), legacy_config=True),
    Variant(
        "llama-rope-llama3", LlamaConfig, "llama3", tiny_sizes(64, 72, 2, 4, 2, 352, tied=True, rms_norm_eps=1e-5),
        rope_theta=500000.0, rope=LLAMA3_ROPE,
    ),
    Variant(
        "llama-rope-llama3-legacy", LlamaConfig, "llama3", tiny_sizes(32, 48, 3, 2, 1, 331, tied=False),
        rope=LLAMA3_ROPE, legacy_config=True,
    ),
    Variant(
        "llama-bias", LlamaConfig, "gpt2",
        tiny_sizes(40, 61, 2, 5, 5, 320, tied=True, attention_bias=True, mlp_bias=True),
    ),
    Variant(
        "llama-head-dim", LlamaConfig, "gpt2", tiny_sizes(36, 64, 2, 3, 1, 330, tied=False, head_dim=20),
        legacy_config=True,
    ),
    Variant("llama-f16", LlamaConfig, "smollm", tiny_sizes(48, 64, 2, 3, 3, 320, tied=True), dtype="float16"),
    Variant(
        "llama-f32", LlamaConfig, "smollm", tiny_sizes(32, 51, 2, 4, 2, 320, tied=False), dtype="float32",
        legacy_config=True,
    ),
    Variant("llama-sharded", LlamaConfig, "smollm", tiny_sizes(48, 72, 3, 6, 3, 320, tied=False), shard_size_bytes=45_000),
    Variant(
        "qwen2-tied", Qwen2Config, "qwen2", tiny_sizes(56, 77, 2, 7, 1, 384, tied=True), rope_theta=1000000.0,
        tokenizer_vocab_size=360, generation={"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8},
    ),
    Variant(
        "qwen2-untied", Qwen2Config, "qwen2", tiny_sizes(48, 64, 2, 6, 2, 331, tied=False), rope_theta=1000000.0,
        legacy_config=True,
    ),
    Variant(
        "qwen3-tied", Qwen3Config, "qwen2", tiny_sizes(40, 66, 2, 4, 2, 352, tied=True, head_dim=16), rope_theta=1000000.0,
    ),
    # Layers 1, 3 and 5 have experts; 3 is taken back. A shared expert beside them.
    Variant(
        "qwen2-moe", Qwen2MoeConfig, "qwen2",
        tiny_sizes(32, 51, 6, 4, 2, 331, tied=False)
        | moe(6, 3, 21, shared_expert_intermediate_size=37, decoder_sparse_step=2, mlp_only_layers=[3], qkv_bias=True),
        rope_theta=1000000.0, prompt_lengths=PROMPTS, legacy_config=True,
    ),
    Variant(
        "qwen2-moe-norm", Qwen2MoeConfig, "qwen2",
        tiny_sizes(40, 64, 2, 4, 4, 320, tied=True)
        | moe(4, 2, 16, shared_expert_intermediate_size=24, norm_topk_prob=True),
        rope_theta=1000000.0, prompt_lengths=PROMPTS,
    ),
    # More experts than most batches have rows.
    Variant(
        "qwen3-moe", Qwen3MoeConfig, "qwen2",
        tiny_sizes(32, 48, 3, 4, 2, 352, tied=True, head_dim=16) | moe(40, 4, 19, norm_topk_prob=True),
        rope_theta=1000000.0, prompt_lengths=PROMPTS, min_greedy_gap=0.01,
    ),
    # Ids that fill more than a byte, weights not normalised, dense first and last layers, experts fused in the file.
    Variant(
        "qwen3-moe-fused", Qwen3MoeConfig, "qwen2",
        tiny_sizes(24, 40, 3, 2, 1, 320, tied=False, head_dim=12)
        | moe(300, 2, 4, norm_topk_prob=False, mlp_only_layers=[0, 2]),
        rope_theta=1000000.0, prompt_lengths=PROMPTS, min_greedy_gap=0.01, fused_experts=True,
    ),
    Variant(
        "llama-rope-linear", LlamaConfig, "smollm", tiny_sizes(32, 40, 2, 4, 2, 320, tied=True), rope=LINEAR_ROPE,
        legacy_config=True,
    ),
    Variant(
        "llama-rope-dynamic", LlamaConfig, "smollm",
        tiny_sizes(48, 40, 2, 2, 1, 320, tied=True, max_position_embeddings=64), rope=DYNAMIC_ROPE,
        max_model_len=512, border_len=64,
    ),
    Variant(
        "qwen3-rope-yarn", Qwen3Config, "qwen2", tiny_sizes(40, 50, 2, 2, 1, 320, tied=True, head_dim=24), rope=YARN_ROPE,
        rope_theta=1000000.0,
    ),
    Variant(
        "llama-rope-yarn-mscale", LlamaConfig, "smollm", tiny_sizes(32, 40, 2, 2, 2, 320, tied=True),
        rope=YARN_MSCALE_ROPE, legacy_config=True,
    ),
    Variant(
        "llama-rope-longrope", LlamaConfig, "smollm",
        tiny_sizes(40, 44, 2, 2, 1, 320, tied=True, max_position_embeddings=512), rope=longrope(10, 64),
        max_model_len=512, border_len=64,
    ),
]  # fmt: skip
