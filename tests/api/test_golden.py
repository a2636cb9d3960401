"""Every tiny model against float32 transformers (tests/data/models/*/golden.json, made by tools/make_tiny_models.py)."""

import json

import pytest

from harness.client import complete
from harness.server import TINY_MODELS

TOLERANCE = 2e-4  # nats; float32 on both sides, in different orders
MODELS = sorted(path.parent.name for path in TINY_MODELS.glob("*/golden.json"))


@pytest.fixture(scope="module", params=MODELS)
def served(request, serve):
    folder = TINY_MODELS / request.param
    golden = json.loads((folder / "golden.json").read_text())
    length = [flag for value in golden.get("max_model_len", []) for flag in ("--max-model-len", value)]
    return serve(folder, "--dtype", "float32", *length), golden


def assert_near(expected, values):
    assert len(expected) == len(values)
    worst = max((abs(e - v) for e, v in zip(expected, values, strict=True)), default=0.0)
    assert worst <= TOLERANCE, f"off by {worst:.2e}"


def test_there_are_models_of_every_family():
    families = {json.loads((TINY_MODELS / name / "config.json").read_text())["model_type"] for name in MODELS}
    assert families >= {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "olmo2", "phi3", "smollm3"}
    assert families >= {"qwen2_moe", "qwen3_moe"}


@pytest.mark.short
def test_prompt_logprobs(served):
    server, golden = served
    for ids, expected in zip(golden["prompts"], golden["prompt_logprobs"], strict=True):
        (choice,) = complete(server, prompt=ids, max_tokens=1, prompt_logprobs=0)["choices"]
        entries = choice["prompt_logprobs"]
        assert entries[0] is None
        assert [list(entry) for entry in entries[1:]] == [[str(token)] for token in ids[1:]]
        assert_near(expected[1:], [entry[str(t)]["logprob"] for entry, t in zip(entries[1:], ids[1:], strict=True)])


def test_likeliest_next_tokens(served):
    server, golden = served
    for ids, expected in zip(golden["prompts"], golden["top"], strict=True):
        fields = {"logprobs": len(expected), "return_tokens_as_token_ids": True}
        (choice,) = complete(server, prompt=ids, max_tokens=1, temperature=0, **fields)["choices"]
        (top,) = choice["logprobs"]["top_logprobs"]
        values = {int(name.removeprefix("token_id:")): value for name, value in top.items()}
        assert_near([value for _, value in expected], [values[token] for token, _ in expected])


@pytest.mark.short
def test_greedy_tokens(served):
    server, golden = served
    for case in golden["greedy"]:
        prompt = golden["prompts"][case["prompt"]] if isinstance(case["prompt"], int) else case["prompt"]
        fields = {"max_tokens": len(case["token_ids"]), "temperature": 0, "logprobs": 0, "return_token_ids": True}
        (choice,) = complete(server, prompt=prompt, **fields)["choices"]
        assert choice["token_ids"] == case["token_ids"]
        assert choice["finish_reason"] == "length"
        assert_near(case["logprobs"], choice["logprobs"]["token_logprobs"])
