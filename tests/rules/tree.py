"""What the rules look at: the rooms of src/CMakeLists.txt, the source files, and the compile commands."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"


def parse_rooms(cmake_text):
    """`unspool_room(NAME USES a b LINK ...)` calls in order, as {room: the rooms it may include from}."""
    rooms = {}
    for name, rest in re.findall(r"^unspool_room\(\s*(\w+)([^)]*)\)", cmake_text, re.MULTILINE):
        uses = re.search(r"\bUSES\s+((?:[a-z_]+\s*)*)", rest)
        rooms[name] = uses[1].split() if uses else []
    return rooms


def rooms():
    return parse_rooms((ROOT / "src" / "CMakeLists.txt").read_text())


def sources(*folders, suffixes=(".cc", ".h", ".inl")):
    """Paths relative to the root -> text, of every file with one of the suffixes below the folders."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in suffixes and path.is_file() and "__pycache__" not in path.parts
    }


def compile_commands():
    """(source path relative to the root, command line) of the release build; those of other folders are left out."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            yield str(path.relative_to(ROOT)), entry["command"]


# -mavx2, -mavx512bf16, -mfma, -march=...: what lets the compiler use more than the baseline of x86-64.
ISA_FLAG = re.compile(r"\s(-march=\S+|-mtune=\S+|-mcpu=\S+|-m(?:avx|fma|f16c|bmi|sse4|amx|evex)\S*)")


def isa_flags(command):
    return ISA_FLAG.findall(command)
