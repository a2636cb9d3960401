"""A million log-probs of the real model: requests one at a time against the same among others, on servers whose chunks, blocks,
threads, instruction set, cache and pool are drawn anew each round (docs/numerics.md)."""

import random

import pytest

from api.workload import REAL
from harness.bits import Tally, assert_same, assert_same_answer, prompt_rows
from harness.client import complete_many

pytestmark = pytest.mark.nightly

ENOUGH = 1_000_000
LIMIT = 1024  # tokens of a sequence
PROMPTS, LONGEST = 6, 700  # scored ones of a round, across several blocks of 128 keys
CHOICES = {
    "--max-num-batched-tokens": (17, 64, 257, 1024),
    "--block-size": (8, 16, 128),
    "--threads": (1, 2, 3),
    "--max-num-seqs": (3, 16),
}


def scored_bodies(dice):
    """Prompts of which two begin alike, so that one finds the other's blocks."""
    prompts = [REAL.ids(dice, dice.randrange(200, LONGEST)) for _ in range(PROMPTS)]
    prompts[1] = prompts[0][: dice.randrange(100, 200)] + prompts[1][:300]
    return [{"prompt": prompt, "max_tokens": 1, "prompt_logprobs": 20, "temperature": 0} for prompt in prompts]


def drawn_server(serve, pool_of, dice):
    flags = [word for name, values in CHOICES.items() for word in (name, dice.choice(values))]
    if dice.random() < 0.5:
        flags.append("--no-enable-prefix-caching")
    if dice.random() < 0.5:
        flags += pool_of(REAL.folder, int(1.3 * LIMIT))  # some lose their blocks and are computed again
    isa = dice.choice((None, None, "avx2"))
    return serve(REAL.folder, "--max-model-len", LIMIT, *flags, env={"UNSPOOL_ISA": isa} if isa else None), flags


def test_a_million(serve, smollm2, pool_of, report):
    dice = random.Random(20261130)
    before, rounds = Tally.compared, 0
    while Tally.compared - before < ENOUGH:
        rounds += 1
        sampled, scored = REAL.bodies(f"million {rounds}"), scored_bodies(dice)
        alone = complete_many(serve(REAL.folder, "--max-model-len", LIMIT), sampled + scored, width=1)
        server, flags = drawn_server(serve, pool_of, dice)
        together = complete_many(server, sampled + scored)
        for index, (expected, answer) in enumerate(zip(alone, together, strict=True)):
            what = f"round {rounds}, request {index}, {flags}"
            if index < len(sampled):
                assert_same_answer(expected, answer, what)
            else:
                assert_same(prompt_rows(expected["choices"][0]), prompt_rows(answer["choices"][0]), what)
    report(f"{Tally.compared - before:,} log-probs of SmolLM2 compared in {rounds} rounds")
