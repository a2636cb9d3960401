"""The same bits whatever the schedule (docs/numerics.md): every log-prob of every request, compared with the same request
alone on a server with default flags."""

import random

import pytest

from api.control import TRIES
from api.workload import ASK, REAL, TINY_CAPPED, TINY_LLAMA, TINY_MOE, TINY_QWEN, TINY_WINDOW
from harness.bits import assert_same, assert_same_answer, completion_rows, prompt_rows
from harness.client import complete, complete_many

SHARED = ("--max-model-len", 1024)


@pytest.fixture(
    scope="module",
    params=[TINY_LLAMA, TINY_QWEN, TINY_MOE, TINY_WINDOW, TINY_CAPPED, REAL],
    ids=lambda case: case.name,
)
def case(request, smollm2):
    return request.param


@pytest.fixture(scope="module")
def alone(case, serve):
    """The answers of the case's requests, one at a time."""
    server = serve(case.folder, *SHARED)
    return complete_many(server, case.bodies(), width=1)


def compare(alone, answers, what):
    for index, (expected, answer) in enumerate(zip(alone, answers, strict=True)):
        assert_same_answer(expected, answer, f"request {index}, {what}")


@pytest.mark.parametrize("others", [1, 7, 31, 63])
def test_among_others(case, serve, alone, others):
    server = serve(case.folder, *SHARED, "--no-enable-prefix-caching")
    bodies = case.bodies()
    if others < len(bodies):
        compare(alone, complete_many(server, bodies, width=others + 1), f"among {others} others")
    else:
        # The case has fewer requests: strangers fill up the batch, and leave it as they end.
        strangers = [{**body, "max_tokens": 6, "logprobs": None} for body in case.bodies("strangers")] * (
            64 // len(bodies)
        )
        mixed = bodies + strangers[: others + 1 - len(bodies)]
        compare(alone, complete_many(server, mixed)[: len(bodies)], f"among {others} others")


SETTINGS = {
    "chunks of 1": ("--max-num-batched-tokens", 1, "--max-num-seqs", 1),
    "chunks of 16": ("--max-num-batched-tokens", 16, "--max-num-seqs", 16),
    "chunks of 64": ("--max-num-batched-tokens", 64, "--max-num-seqs", 64),
    "chunks of 257": ("--max-num-batched-tokens", 257),
    "whole prompts": ("--max-num-batched-tokens", 8192),
    "blocks of 8": ("--block-size", 8),
    "blocks of 128": ("--block-size", 128),
    "three at a time": ("--max-num-seqs", 3),
    "one thread": ("--threads", 1),
    "two threads": ("--threads", 2),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(case, serve, alone, name):
    server = serve(case.folder, *SHARED, *SETTINGS[name])
    compare(alone, complete_many(server, case.bodies()), name)


def instruction_sets():
    """UNSPOOL_ISA values that this processor can run; the last is the one chosen by itself."""
    with open("/proc/cpuinfo") as file:
        flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    needs = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512vl"}, "avx512_bf16": {"avx512_bf16"}}
    return ["scalar", *(name for name, wanted in needs.items() if wanted <= flags)]


@pytest.mark.parametrize("isa", instruction_sets())
def test_instruction_sets(case, serve, alone, isa):
    bodies = case.bodies()
    if case is REAL and isa == "scalar":
        # About two seconds a token: one short request.
        body = {**bodies[0], "prompt": bodies[0]["prompt"][:4], "max_tokens": 2}
        expected = complete(serve(case.folder, *SHARED), body)
        server = serve(case.folder, *SHARED, env={"UNSPOOL_ISA": isa})
        compare([expected], [complete(server, body)], isa)
        return
    server = serve(case.folder, *SHARED, env={"UNSPOOL_ISA": isa})
    compare(alone, complete_many(server, bodies), isa)


def cached_tokens(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


CACHE_FLAGS = (*SHARED, "--enable-prompt-tokens-details")


def test_warm_prefix(case, serve, alone):
    server = serve(case.folder, *CACHE_FLAGS)
    salted = [{**body, "cache_salt": "warm"} for body in case.bodies()]
    compare(alone, complete_many(server, salted), "cold cache")
    answers = complete_many(server, salted)
    compare(alone, answers, "warm cache")
    # The last token is always computed, so a hit ends a block before it at the latest.
    for body, answer in zip(salted, answers, strict=True):
        assert cached_tokens(answer) == (len(body["prompt"]) - 1) // 16 * 16


def test_partial_prefix(case, serve):
    """Prompts that share 0 to 150 tokens with one seen before, built from ids."""
    cold = serve(case.folder, *SHARED, "--no-enable-prefix-caching")
    warm = serve(case.folder, *CACHE_FLAGS)
    dice = random.Random(5)
    base = case.ids(dice, 170)
    complete(warm, prompt=base, max_tokens=1)
    for shared in (0, 15, 16, 17, 33, 64, 127, 128, 129, 150):
        body = {
            "prompt": base[:shared] + case.ids(dice, 20),
            "max_tokens": 6,
            "seed": 3,
            **ASK,
        }
        answer = complete(warm, body)
        assert cached_tokens(answer) == shared // 16 * 16
        assert_same_answer(complete(cold, body), answer, f"{shared} shared tokens")


def test_eviction_and_hit_again(case, serve, alone, pool_of):
    """A pool too small for all prompts: blocks are evicted, prompts recomputed, and hit again."""
    server = serve(case.folder, *CACHE_FLAGS, *pool_of(case.folder, 700))
    bodies = case.bodies()
    compare(alone, complete_many(server, bodies, width=2), "first time")
    dice = random.Random(6)
    for _ in range(2):
        complete(server, prompt=case.ids(dice, 600), max_tokens=1)
    again = complete_many(server, bodies, width=2)
    compare(alone, again, "after eviction")
    assert cached_tokens(again[0]) == 0
    few = complete_many(server, bodies[-4:], width=1)
    compare(alone[-4:], few, "hit again")
    assert any(cached_tokens(answer) > 0 for answer in few)


def small_pool(case, pool_of):
    """Flags for a pool in which the longest sequence fits, and not many more."""
    longest = max(len(body["prompt"]) + body["max_tokens"] for body in case.bodies())
    limit = (longest + 31) // 16 * 16
    return ("--max-model-len", limit, *pool_of(case.folder, int(limit * 1.3)))


def test_preemption(case, serve, alone, pool_of):
    """A pool that cannot hold all sequences at their end: some lose their blocks and are recomputed."""
    server = serve(case.folder, *small_pool(case, pool_of), "--no-enable-prefix-caching")
    for _ in range(TRIES):  # a tiny model may be done with most before the last ones come
        compare(alone, complete_many(server, case.bodies()), "with preemption")
        if case is REAL or server.metric("vllm:num_preemptions_total") > 0:
            return
    pytest.fail("nothing was preempted")


def test_preemption_with_prefix_caching(case, serve, alone, pool_of):
    server = serve(case.folder, *small_pool(case, pool_of))
    for _ in range(2):
        compare(alone, complete_many(server, case.bodies()), "with preemption and prefix caching")


def test_samples_of_one_prompt(case, serve):
    """n=8 is the same as 8 requests with seed, seed+1, ..."""
    server = serve(case.folder, *SHARED)
    for body in [body for body in case.bodies() if "seed" in body][:4]:
        together = complete(server, body, n=8)
        assert [choice["index"] for choice in together["choices"]] == list(range(8))
        for index, choice in enumerate(together["choices"]):
            single = complete(server, body, seed=body["seed"] + index)
            assert choice["token_ids"] == single["choices"][0]["token_ids"]
            assert_same(completion_rows(single["choices"][0]), completion_rows(choice), f"sample {index} of 8")


def test_rescored(case, serve, alone):
    """What was sampled, given back as a prompt, scores the same: sampled log-prob minus re-scored log-prob is 0."""
    server = serve(case.folder, *SHARED)
    bodies = case.bodies()
    asks = []
    for body, answer in zip(bodies, alone, strict=True):
        asks.append(
            {"prompt": body["prompt"] + answer["choices"][0]["token_ids"], "max_tokens": 1, "prompt_logprobs": 20}
        )
    for body, answer, scored in zip(bodies, alone, complete_many(server, asks), strict=True):
        start = len(body["prompt"])
        rows = prompt_rows(scored["choices"][0])[start - 1 :]
        assert_same(completion_rows(answer["choices"][0]), rows, "re-scored", same_keys=False)
