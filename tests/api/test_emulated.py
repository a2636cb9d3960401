"""The program on an emulated processor that has AVX2 and nothing more: an instruction beyond it ends it at once.

This is what tests/rules/test_instruction_sets.py argues from the objects, tried for real.
"""

import shutil

import pytest

from api.workload import TINY_LLAMA
from harness.bits import assert_same_answer
from harness.client import complete_many
from harness.server import Server

BODIES = [{**body, "max_tokens": 4} for body in TINY_LLAMA.bodies()[:6]]


@pytest.mark.parametrize("processor", ["Haswell", "EPYC-Rome"])
def test_avx2_processor(binary, serve, processor):
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-user is not installed")
    native = complete_many(serve(TINY_LLAMA.folder), BODIES, width=1)
    emulated = Server(binary, TINY_LLAMA.folder, prefix=(emulator, "-cpu", processor), start_timeout_s=300)
    try:
        assert "instruction set avx2" in emulated.log()
        for index, (expected, answer) in enumerate(zip(native, complete_many(emulated, BODIES), strict=True)):
            assert_same_answer(expected, answer, f"request {index} on {processor}")
    finally:
        emulated.kill()
