"""A part of test_invariance.py small enough for sanitizer builds."""

import pytest

from api.workload import TINY_LLAMA
from harness.bits import assert_same_answer
from harness.client import complete_many

BODIES = TINY_LLAMA.bodies()[:16]


@pytest.mark.short
@pytest.mark.parametrize(
    "flags",
    [
        ("--max-num-batched-tokens", 16, "--max-num-seqs", 16),
        ("--block-size", 8, "--no-enable-prefix-caching"),
        ("--max-model-len", 192, "--kv-cache-memory-bytes", TINY_LLAMA.kv_bytes(250)),
        ("--threads", 1),
    ],
    ids=["small chunks", "small blocks", "small pool", "one thread"],
)
def test_together_as_alone(serve, flags):
    alone = complete_many(serve(TINY_LLAMA.folder), BODIES, width=1)
    together = complete_many(serve(TINY_LLAMA.folder, *flags), BODIES)
    for index, (expected, answer) in enumerate(zip(alone, together, strict=True)):
        assert_same_answer(expected, answer, f"request {index}")
