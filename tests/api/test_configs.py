"""One tiny model under many config.json, against float32 transformers (tests/data/configs.json, made by
tools/make_config_golden.py): where windows are and are not, and rotations in all their spellings past the original context."""

import json

import pytest

from api.control import greedy
from api.test_rope import TOLERANCE, edited, prompt_logprobs
from harness.bits import assert_same_answer
from harness.server import ROOT, TINY_MODELS

CASES = json.loads((ROOT / "tests" / "data" / "configs.json").read_text())
CONFIGS = [
    pytest.param(case, change, id=f"{case['model']}-{case['name']}-{i}".replace(" ", "_"))
    for case in CASES
    for i, change in enumerate(case["configs"])
]


@pytest.mark.parametrize(("case", "change"), CONFIGS)
def test_log_probs_are_those_of_transformers(own_server, tmp_path, case, change):
    """All but the prompt's last token, for the server's context is as long as the prompt: dynamic rotates by that."""

    def edit(config):
        for field in change["remove"]:
            config.pop(field, None)
        config.update(change["set"])

    folder = edited(case["model"], tmp_path / "model", edit)
    ids = case["prompt"][:-1]
    server = own_server(folder, "--dtype", "float32", "--max-model-len", len(case["prompt"]))
    expected = case["prompt_logprobs"][1:-1]
    worst = max(abs(a - b) for a, b in zip(expected, prompt_logprobs(server, ids), strict=True))
    assert worst <= TOLERANCE


@pytest.mark.parametrize(
    "dense", [{"num_experts": 0}, {"mlp_only_layers": [0, 1]}, {"decoder_sparse_step": 3}], ids=str
)
def test_no_layer_with_experts_is_a_dense_model(own_server, tmp_path, dense):
    """mlx-vlm#1073: a mixture of experts whose config leaves none is Qwen3, bit for bit."""
    config = json.loads((TINY_MODELS / "qwen3-tied" / "config.json").read_text())
    assert config["num_hidden_layers"] == 2
    fields = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, **dense}
    changes = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **fields}
    folder = edited("qwen3-tied", tmp_path / "model", lambda config: config.update(changes))
    expected = greedy(own_server(TINY_MODELS / "qwen3-tied"))
    assert_same_answer(expected, greedy(own_server(folder)), "no experts")
