"""No code for a higher instruction set outside the objects made for it.

An inline function or a template's instance is a weak symbol in every object that uses it, and the linker keeps one copy.
If that copy came from an object compiled for AVX-512, the whole program would need AVX-512. So
  - objects compiled without instruction-set flags use no ymm or zmm register, and
  - objects compiled with them define no weak symbol outside a namespace named after an instruction set.
"""

import re
import subprocess

import pytest

from rules import tree

WIDE_REGISTER = re.compile(r"%[yz]mm\d")
ISA_NAME = re.compile(r"avx2|avx512|amx")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def output_of(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def objects():
    """(source, object file, whether it has instruction-set flags) of src/ and apps/."""
    for path, command in tree.compile_commands():
        if path.startswith(("src/", "apps/")):
            target = re.search(r"\s-o\s+(\S+)", command)[1]
            yield path, tree.BUILD / target, bool(tree.isa_flags(command))


def wide_functions(disassembly):
    """Names of functions that touch a ymm or zmm register."""
    found, function = {}, "?"
    for line in disassembly.splitlines():
        if match := FUNCTION.match(line):
            function = match[1]
        elif WIDE_REGISTER.search(line):
            found.setdefault(function, line.strip())
    return sorted(found)


def weak_strangers(nm_output):
    """Weak functions and objects whose mangled name holds no instruction set's name."""
    names = []
    for line in nm_output.splitlines():
        kind, name = line.split()[-2:]
        if kind in "WVu" and not ISA_NAME.search(name):
            names.append(name)
    return names


@pytest.fixture(scope="module")
def built():
    found = [(path, file, isa) for path, file, isa in objects() if file.exists()]
    if not found:
        pytest.fail("no release build: run ./dev build")
    return found


def test_plain_objects_use_no_wide_registers(built):
    faults = []
    for path, file, isa in built:
        if not isa:
            faults += [
                f"{path}: {name}" for name in wide_functions(output_of("objdump", "-d", "--no-show-raw-insn", file))
            ]
    assert not faults


def test_isa_objects_export_nothing_weak(built):
    isa_objects = [(path, file) for path, file, isa in built if isa]
    assert isa_objects, "no object of src/backend/cpu has instruction-set flags"
    faults = []
    for path, file in isa_objects:
        faults += [f"{path}: {name}" for name in weak_strangers(output_of("nm", "--defined-only", file))]
    assert not faults


def test_wide_code_of_the_program_is_in_isa_namespaces():
    binary = tree.BUILD / "unspool"
    if not binary.exists():
        pytest.fail("no release build: run ./dev build")
    wide = wide_functions(output_of("objdump", "-d", "--no-show-raw-insn", binary))
    assert wide, "the program has no vector code at all"
    # simdjson chooses among its own kernels at run time, in namespaces named after the processor.
    assert [name for name in wide if not ISA_NAME.search(name) and "simdjson" not in name] == []


def test_the_check_can_fail(tmp_path):
    source = tmp_path / "leak.cc"
    source.write_text(
        "template <class T> __attribute__((noinline)) void twice(T* x) { for (int i = 0; i < 64; ++i) x[i] += x[i]; }\n"
        "namespace avx2 { template <class T> __attribute__((noinline)) void thrice(T* x)"
        " { for (int i = 0; i < 64; ++i) x[i] *= 3; } }\n"
        "void use(float* x) { twice(x); avx2::thrice(x); }\n"
    )
    file = tmp_path / "leak.o"
    subprocess.run(["g++", "-O3", "-mavx2", "-c", str(source), "-o", str(file)], check=True)
    assert any("twice" in name for name in wide_functions(output_of("objdump", "-d", "--no-show-raw-insn", file)))
    assert ["twice" in name for name in weak_strangers(output_of("nm", "--defined-only", file))] == [True]
