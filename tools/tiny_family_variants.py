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
    Qwen3Config,
    SmolLM3Config,
)

from tiny_model_variants import Variant, tiny_sizes

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
    Variant("olmo2", Olmo2Config, "gpt2", tiny_sizes(48, 56, 2, 4, 2, 320, False), rope_theta=500000.0),
    Variant("phi3", Phi3Config, "smollm", tiny_sizes(48, 48, 2, 4, 2, 320, False), legacy_config=True),
    Variant("phi3-window", Phi3Config, "smollm", tiny_sizes(40, 45, 2, 2, 2, 320, True, sliding_window=24)),
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
