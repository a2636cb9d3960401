"""Every tiny model against float32 transformers (tests/data/models/*/golden*.json, made by tools/make_tiny_models.py).

golden_border.json is of a server that is started for the length up to which a rotation has other frequencies."""

import json

import pytest

from api.control import greedy
from api.test_rope import served_for
from harness.bits import assert_same_answer
from harness.client import complete
from harness.server import TINY_MODELS

TOLERANCE = 2e-4  # nats; float32 on both sides, in different orders
LENGTHS = (1, 2, 17, 64, 200)
MODELS = sorted({path.parent.name for path in TINY_MODELS.glob("*/golden.json")})
FILES = sorted(path.relative_to(TINY_MODELS) for path in TINY_MODELS.glob("*/golden*.json"))


@pytest.fixture(scope="module", params=FILES, ids=lambda file: str(file.with_suffix("")).removesuffix("/golden"))
def served(request, serve):
    folder = TINY_MODELS / request.param.parent
    golden = json.loads((TINY_MODELS / request.param).read_text())
    return serve(folder, "--dtype", "float32", "--enable-prompt-tokens-details", *served_for(golden)), golden


def assert_near(expected, values):
    assert len(expected) == len(values)
    worst = max((abs(e - v) for e, v in zip(expected, values, strict=True)), default=0.0)
    assert worst <= TOLERANCE, f"off by {worst:.2e}"


def prompts(golden):
    """Each prompt, and the beginnings of the longest one; without the token for which the server has no room."""
    longest = max(range(len(golden["prompts"])), key=lambda i: len(golden["prompts"][i]))
    most = min(golden.get("max_model_len", [1 << 20])) - 1
    lengths = [(i, len(ids)) for i, ids in enumerate(golden["prompts"])] + [(longest, length) for length in LENGTHS]
    for i, length in lengths:
        ids = golden["prompts"][i][: min(length, most)]
        yield ids, golden["prompt_logprobs"][i][: len(ids)]


def test_there_are_models_of_every_family():
    families = {json.loads((TINY_MODELS / name / "config.json").read_text())["model_type"] for name in MODELS}
    assert families >= {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "olmo2", "phi3", "smollm3"}
    assert families >= {"qwen2_moe", "qwen3_moe"}


@pytest.mark.short
def test_prompt_logprobs(served):
    server, golden = served
    for ids, expected in prompts(golden):
        (choice,) = complete(server, prompt=ids, max_tokens=1, prompt_logprobs=0)["choices"]
        entries = choice["prompt_logprobs"]
        assert entries[0] is None
        assert [list(entry) for entry in entries[1:]] == [[str(token)] for token in ids[1:]]
        assert_near(expected[1:], [entry[str(t)]["logprob"] for entry, t in zip(entries[1:], ids[1:], strict=True)])


def test_likeliest_next_tokens(served):
    server, golden = served
    for ids, expected in zip(golden["prompts"], golden["top"], strict=True):
        if len(ids) in golden.get("max_model_len", []):
            continue  # no room for a token
        fields = {"logprobs": len(expected), "return_tokens_as_token_ids": True}
        (choice,) = complete(server, prompt=ids, max_tokens=1, temperature=0, **fields)["choices"]
        (top,) = choice["logprobs"]["top_logprobs"]
        values = {int(name.removeprefix("token_id:")): value for name, value in top.items()}
        assert_near([value for _, value in expected], [values[token] for token, _ in expected])


@pytest.mark.short
def test_greedy_tokens_cold_and_warm(served):
    """transformers' tokens and values; the second time from the prefix cache, bit for bit."""
    server, golden = served
    for case in golden["greedy"]:
        prompt, count = case["prompt"], len(case["token_ids"])
        cold = greedy(server, prompt, count, cache_salt="cold and warm")
        (choice,) = cold["choices"]
        assert choice["token_ids"] == case["token_ids"]
        assert choice["finish_reason"] == "length"
        assert_near(case["logprobs"], choice["logprobs"]["token_logprobs"])
        assert not cached_tokens(cold)
        warm = greedy(server, prompt, count, cache_salt="cold and warm")
        assert_same_answer(cold, warm, "from the prefix cache")
        assert cached_tokens(warm) == (len(prompt) - 1) // 16 * 16


def cached_tokens(answer):
    return (answer["usage"]["prompt_tokens_details"] or {}).get("cached_tokens")
