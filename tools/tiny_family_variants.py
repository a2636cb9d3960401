"""Tiny models of the families beyond Llama and Qwen: windows, soft caps, norms after, fused tensors, unrotated layers.

Windows are below the longest golden prompt, most of them far below; one is longer than a block of 128 keys.
"""

from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    MistralConfig,
    Olmo2Config,
    Phi3Config,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
)

from tiny_model_variants import DYNAMIC_ROPE, PROMPTS, YARN_ROPE, Variant, longrope, moe, tiny_sizes

FULL, SLIDING = "full_attention", "sliding_attention"
# Gemma's: the caps are low enough to bend what is below them.
GEMMA2 = {
    "head_dim": 24,
    "query_pre_attn_scalar": 20,
    "sliding_window": 16,
    "attn_logit_softcapping": 6.0,
    "final_logit_softcapping": 14.0,
}
GEMMA3 = {"head_dim": 16, "query_pre_attn_scalar": 12, "sliding_window": 20}
GEMMA3_ROPE = {
    FULL: {"rope_type": "default", "rope_theta": 1000000.0},
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
}
LENGTHS_OF_LONGROPE = {"max_model_len": 512, "border_len": 64, "prompt_lengths": PROMPTS}

FAMILY_VARIANTS = [
    Variant("mistral-window", MistralConfig, "smollm", tiny_sizes(40, 56, 2, 4, 2, 320, True, sliding_window=17)),
    Variant(
        "mistral-window-wide", MistralConfig, "smollm", tiny_sizes(32, 48, 2, 2, 1, 320, True, sliding_window=140),
        legacy_config=True,
    ),
    Variant(
        "mistral-no-window", MistralConfig, "smollm", tiny_sizes(32, 40, 2, 2, 1, 320, True, sliding_window=None),
    ),
    Variant(
        "qwen2-window", Qwen2Config, "qwen2",
        tiny_sizes(40, 48, 3, 2, 1, 320, True, use_sliding_window=True, sliding_window=8, max_window_layers=1),
        legacy_config=True,
    ),
    Variant(
        "qwen3-window", Qwen3Config, "qwen2",
        tiny_sizes(
            32, 40, 4, 2, 2, 320, True, head_dim=16, use_sliding_window=True, sliding_window=12,
            layer_types=[FULL, SLIDING, FULL, SLIDING],
        ),
    ),
    Variant(
        "qwen2-rope-yarn", Qwen2Config, "qwen2", tiny_sizes(32, 40, 2, 2, 1, 320, True), rope=YARN_ROPE,
        rope_theta=1000000.0, legacy_config=True, prompt_lengths=PROMPTS,
    ),
    Variant(
        "qwen3-rope-dynamic", Qwen3Config, "qwen2",
        tiny_sizes(32, 40, 2, 2, 1, 320, True, head_dim=24, max_position_embeddings=64), rope=DYNAMIC_ROPE,
        rope_theta=1000000.0, max_model_len=512, border_len=64, prompt_lengths=PROMPTS, min_greedy_gap=0.01,
    ),
    # Layers 0 and 2 slide; all of Qwen3-MoE's.
    Variant(
        "qwen2-moe-window", Qwen2MoeConfig, "qwen2",
        tiny_sizes(32, 40, 4, 2, 1, 320, True, use_sliding_window=True, sliding_window=15, max_window_layers=3)
        | moe(5, 2, 12, shared_expert_intermediate_size=14),
        prompt_lengths=PROMPTS, min_greedy_gap=0.01, legacy_config=True,
    ),
    Variant(
        "qwen3-moe-window", Qwen3MoeConfig, "qwen2",
        tiny_sizes(32, 40, 2, 2, 1, 320, True, head_dim=16, use_sliding_window=True, sliding_window=21)
        | moe(7, 3, 12, norm_topk_prob=True),
        prompt_lengths=PROMPTS, min_greedy_gap=0.01,
    ),
    Variant("gemma2", Gemma2Config, "smollm", tiny_sizes(40, 52, 2, 2, 1, 320, True, **GEMMA2)),
    Variant(
        "gemma2-no-caps", Gemma2Config, "smollm",
        tiny_sizes(
            36, 44, 3, 4, 2, 320, True,
            **{**GEMMA2, "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True},
        ),
        legacy_config=True,
    ),
    Variant(
        "gemma3", Gemma3TextConfig, "smollm",
        tiny_sizes(40, 52, 3, 2, 1, 320, True, layer_types=[SLIDING, SLIDING, FULL], **GEMMA3), rope=GEMMA3_ROPE,
    ),
    Variant(
        "gemma3-legacy", Gemma3TextConfig, "smollm",
        tiny_sizes(32, 40, 4, 2, 2, 320, True, layer_types=[SLIDING, SLIDING, FULL, SLIDING], **GEMMA3),
        rope=GEMMA3_ROPE, legacy_config=True, legacy_fields={"sliding_window_pattern": 3},
    ),
    # As all but the smallest Gemma 3: the layers that see everything are stretched, those that slide are not.
    Variant(
        "gemma3-rope-linear", Gemma3TextConfig, "smollm",
        tiny_sizes(36, 44, 3, 2, 1, 320, True, layer_types=[SLIDING, SLIDING, FULL], **GEMMA3),
        rope={**GEMMA3_ROPE, FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}},
        legacy_config=True, legacy_fields={"sliding_window_pattern": 3}, prompt_lengths=PROMPTS,
    ),
    Variant("olmo2", Olmo2Config, "gpt2", tiny_sizes(48, 56, 2, 4, 2, 320, False), rope_theta=500000.0),
    Variant("phi3", Phi3Config, "smollm", tiny_sizes(48, 48, 2, 4, 2, 320, False), legacy_config=True),
    Variant("phi3-window", Phi3Config, "smollm", tiny_sizes(40, 45, 2, 2, 2, 320, True, sliding_window=24)),
    # Phi-3.5's and Phi-4-mini's rotation: short and long factors, the border below the longest golden prompt.
    Variant(
        "phi3-longrope", Phi3Config, "smollm",
        tiny_sizes(40, 44, 2, 2, 1, 320, False, max_position_embeddings=512, original_max_position_embeddings=64),
        rope=longrope(10, 64), **LENGTHS_OF_LONGROPE,
    ),
    Variant(
        "phi3-longrope-partial", Phi3Config, "smollm",
        tiny_sizes(48, 40, 2, 2, 2, 320, True, max_position_embeddings=512, original_max_position_embeddings=64),
        rope={**longrope(9, 64), "partial_rotary_factor": 0.75}, legacy_config=True, **LENGTHS_OF_LONGROPE,
    ),
    Variant(
        "smollm3", SmolLM3Config, "llama3", tiny_sizes(40, 56, 4, 4, 1, 320, True, no_rope_layers=[1, 1, 0, 1]),
        rope_theta=50000.0,
    ),
    Variant(
        "smollm3-window", SmolLM3Config, "llama3",
        tiny_sizes(
            32, 40, 4, 2, 1, 320, False, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=18,
            attention_bias=True, mlp_bias=True,
        ),
        rope_theta=50000.0, legacy_config=True,
    ),
]  # fmt: skip
