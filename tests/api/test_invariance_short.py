"""A part of test_invariance.py small enough for sanitizer builds."""

import pytest

from api.workload import TINY_LLAMA
from harness.bits import assert_same_answer
from harness.client import complete_many

BODIES = TINY_LLAMA.bodies()[:16]


FLAGS = {
    "small chunks": ("--max-num-batched-tokens", 16, "--max-num-seqs", 16),
    "small blocks": ("--block-size", 8, "--no-enable-prefix-caching"),
    "small pool": ("--max-model-len", 192),
    "one thread": ("--threads", 1),
}


@pytest.mark.short
@pytest.mark.parametrize("name", FLAGS)
def test_together_as_alone(serve, pool_of, name):
    more = pool_of(TINY_LLAMA.folder, 256) if name == "small pool" else ()
    alone = complete_many(serve(TINY_LLAMA.folder), BODIES, width=1)
    together = complete_many(serve(TINY_LLAMA.folder, *FLAGS[name], *more), BODIES)
    for index, (expected, answer) in enumerate(zip(alone, together, strict=True)):
        assert_same_answer(expected, answer, f"request {index}, {name}")


@pytest.mark.short
def test_a_seed_whatever_its_neighbours(serve):
    """Beside others with a seed, without one, many, and in any slot; and two of one seed agree."""
    server = serve(TINY_LLAMA.folder)
    seeded = {**BODIES[0], "prompt": [5, 6, 7], "temperature": 1.0, "seed": 42, "max_tokens": 24}
    free = {key: value for key, value in seeded.items() if key != "seed"}
    (alone,) = complete_many(server, [seeded])
    crowds = [[seeded, free]] * 5 + [[free, seeded], [{**free, "seed": 7}, seeded], [seeded, seeded]]
    crowds += [[*[free] * slot, seeded, *[free] * (32 - slot)] for slot in (0, 15, 32)]
    for bodies in crowds:
        for body, answer in zip(bodies, complete_many(server, bodies), strict=True):
            if body is seeded:
                assert_same_answer(alone, answer, f"among {len(bodies)}")
