"""The kernels on emulated processors without AVX-512, or without AVX: they work there, and give the committed hashes.

tests/api/test_emulated.py tries the program the same way; here it is the numbers of every kernel and of whole models.
After ./dev build: ./dev test -- -m nightly tests/rules/test_emulated_kernels.py
"""

import shutil
import subprocess

import pytest

from rules import tree

pytestmark = pytest.mark.nightly

# What compares with committed values, and little of it: every instruction is translated. llama-f16 is not among them, since
# qemu 7.2 flushes subnormal halves under DAZ, which no processor does.
FILTERS = {
    "backend_test": "GoldenTest.*:IsaTest.*:MathTest.SpecialValues:Stored/ProductTest.ARow*",
    "runner_test": "*Bf16HasTheCommittedBits/llama_gqa_tied:*PromptLogprobsInFloat32/qwen3_tied",
}


@pytest.mark.parametrize("processor", ["Nehalem", "Haswell", "EPYC-Rome"])
@pytest.mark.parametrize("name", FILTERS)
def test_same_numbers(processor, name):
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-user is not installed")
    binary = tree.BUILD / "tests" / "unit" / name
    if not binary.exists():
        pytest.fail("no release build: run ./dev build")
    command = [emulator, "-cpu", processor, binary, f"--gtest_filter={FILTERS[name]}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert "[  PASSED  ]" in run.stdout
    assert "[  PASSED  ] 0 tests" not in run.stdout
