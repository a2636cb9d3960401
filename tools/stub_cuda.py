"""Lets the PyPI wheel of torch, installed with --no-deps, import on a machine without CUDA.

The wheel's libraries name NVIDIA's as needed, which pip would fetch (about 2 GB) to do nothing on a CPU. This writes
stand-ins of a few kilobytes beside them, in torch/lib: every function they import from NVIDIA is there and returns
cudaErrorNoDevice, or a text where it is asked what that means, so torch finds no GPU and goes on. Needs g++ and binutils. Run it with the Python that has torch:

    pip install --no-deps torch==2.13.0 && python tools/stub_cuda.py
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
TEXT_FUNCTION = re.compile(r"^(?:cuda|cublas|cusparse|nccl|nvrtc|nvJitLink)\w*Get\w*(?:Name|String|LastError)$")
NVIDIA_LIBRARY = re.compile(r"\[(lib(?:cu\w+|nccl|nvrtc|nvJitLink|nvshmem_host)\.so\.\d+)\]")
NVIDIA_SYMBOL = re.compile(r"^(?:__cuda|cu|nccl|nvrtc|nvJitLink|nvshmem|nvtx|_ZN?K?\d*nv)\w*$")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(library, which):
    """Dynamic symbols as (name, version or ""); `which` is --undefined-only or --defined-only."""
    for line in output_of("nm", "-D", "-P", which, str(library)).splitlines():
        name, _, version = line.split()[0].partition("@")
        yield name, version.lstrip("@")


def needed_versions(library):
    """(NVIDIA library's name, symbol version) for every version that `library` asks for."""
    soname = None
    for line in output_of("readelf", "-V", "-W", str(library)).splitlines():
        if match := re.search(r"File: (\S+)", line):
            soname = match[1]
        elif (match := re.search(r"Name: (\S+) +Flags", line)) and NVIDIA_LIBRARY.match(f"[{soname}]"):
            yield soname, match[1]


def definition(name):
    # cudaGetLastError alone of those that match returns a number.
    if TEXT_FUNCTION.match(name) and name != "cudaGetLastError":
        return f'extern "C" const char* {name}() {{ return "no CUDA device"; }}\n'
    return f'extern "C" int {name}() {{ return {NO_DEVICE}; }}\n'


def build(soname, version, names, directory):
    """Compiles one stand-in library whose symbols all have the given version."""
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch, "stub.cc"), Path(scratch, "stub.map")
        source.write_text("".join(definition(name) for name in sorted(names)))
        versions.write_text(f"{version} {{ global: *; }};\n")
        linker_flags = f"-Wl,-soname,{soname},--version-script,{versions}"
        output_of("g++", "-shared", "-fPIC", "-w", linker_flags, "-o", str(directory / soname), str(source))


def main():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        print("stub_cuda: torch is not installed", file=sys.stderr)
        return 1
    directory = Path(spec.origin).parent / "lib"
    version_of, undefined, defined = {}, set(), set()
    for library in [*directory.glob("lib*torch*.so"), *directory.glob("libc10*.so")]:
        for soname in NVIDIA_LIBRARY.findall(output_of("readelf", "-d", str(library))):
            version_of.setdefault(soname, soname)
        version_of.update(needed_versions(library))
        undefined |= set(symbols(library, "--undefined-only"))
        defined |= {name for name, _ in symbols(library, "--defined-only")}
    unversioned = {name for name, version in undefined if not version and NVIDIA_SYMBOL.match(name)} - defined
    for soname, version in sorted(version_of.items()):
        # A symbol without a version is looked up in all loaded libraries: any stand-in may hold it.
        names = unversioned if soname.startswith("libnccl.") else {name for name, v in undefined if v == version}
        build(soname, version, names, directory)
    print(f"wrote {len(version_of)} stand-ins to {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
