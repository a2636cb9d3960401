"""Compiler flags that would change the bits of a result (docs/numerics.md), read from the release build's commands."""

import re

import pytest

from rules import tree

# -Ofast, and each part of -ffast-math.
FAST_MATH = re.compile(
    r"\s(-Ofast|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only"
    r"|-fno-signed-zeros|-fno-trapping-math|-fexcess-precision=fast|-ffp-contract=(?:fast|on))(?=\s|$)"
)
# Where instructions above the baseline may be used: files of the CPU backend, each compiled for one instruction set.
ISA_FOLDER = "src/backend/cpu/"


def command_faults(path, command):
    faults = []
    if not re.search(r"\s-ffp-contract=off(?=\s|$)", command):
        faults.append(f"{path}: -ffp-contract=off is missing")
    faults += [f"{path}: {flag}" for flag in FAST_MATH.findall(command)]
    isa = tree.isa_flags(command)
    if isa and not path.startswith(ISA_FOLDER):
        faults.append(f"{path}: {' '.join(isa)} outside {ISA_FOLDER}")
    if "-march=native" in isa:
        faults.append(f"{path}: -march=native makes a build that depends on the machine it was made on")
    return faults


def test_compile_commands():
    if not (tree.BUILD / "compile_commands.json").exists():
        pytest.fail("no release build: run ./dev build")
    commands = list(tree.compile_commands())
    assert len(commands) > 20
    assert [fault for path, command in commands for fault in command_faults(path, command)] == []


@pytest.mark.parametrize(
    ("path", "flags", "faults"),
    [
        ("src/base/a.cc", "-O3 -ffp-contract=off", 0),
        ("src/base/a.cc", "-O3", 1),
        ("src/base/a.cc", "-ffp-contract=off -ffast-math", 1),
        ("src/base/a.cc", "-ffp-contract=off -ffp-contract=fast", 1),
        ("src/base/a.cc", "-ffp-contract=off -mavx2", 1),
        ("src/base/a.cc", "-ffp-contract=off -march=native", 2),
        ("src/backend/cpu/a_avx2.cc", "-ffp-contract=off -mavx2 -mfma", 0),
        ("src/backend/cpu/a_avx2.cc", "-ffp-contract=off -march=native", 1),
    ],
)
def test_the_check_can_fail(path, flags, faults):
    assert len(command_faults(path, f"g++ -c {flags} -o a.o a.cc")) == faults
