"""`pip install ./python`: one wheel with the server and a thin package. Cheap, since ccache holds the release build's objects."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from harness.server import ROOT

ENVIRONMENT = {
    **os.environ,
    "CCACHE_BASEDIR": str(ROOT),
    "CCACHE_NOHASHDIR": "1",
    "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT / "python"),
    ]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the wheel's content, as on sys.path."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True)
    return folder


def run(installed, *command):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for name in ("UNSPOOL_BINARY", "UNSPOOL_XGRAMMAR", "VIRTUAL_ENV"):
        environment.pop(name, None)
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd="/").stdout


def test_wheel(wheel):
    # Any Python 3 and this platform: it holds a program, and no extension module.
    assert wheel.name.startswith("unspool-0.1.0-py3-none-linux_")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"unspool/bin/unspool", "unspool/__main__.py", "unspool/py.typed", "unspool/senders/gloo.py"} <= {*names}


def test_module_and_command(installed):
    from_module = run(installed, sys.executable, "-m", "unspool", "--version")
    assert "0.1.0" in from_module
    assert run(installed, str(installed / "bin" / "unspool"), "--version") == from_module


def test_light(installed):
    """The command and the side process start without what only trainers need."""
    program = "import sys, unspool; unspool.binary; print(sorted({'numpy', 'torch'} & {*sys.modules}))"
    assert run(installed, sys.executable, "-c", program) == "[]\n"


def test_serve(installed, tiny):
    program = (
        "import sys, urllib.request, unspool\n"
        "with unspool.serve(sys.argv[1], '--max-num-seqs', 4) as server:\n"
        "    print(urllib.request.urlopen(server.url + '/version').read().decode())\n"
        "print(server.process.returncode)\n"
    )
    lines = run(installed, sys.executable, "-c", program, str(tiny)).splitlines()
    assert any('"version":"0.32.0"' in line for line in lines) and lines[-1] == "0"


def test_structured_outputs_from_the_same_site_packages(installed, tiny):
    for pattern in ("xgrammar*", "tvm_ffi*", "apache_tvm_ffi*"):
        for path in Path(sysconfig.get_paths()["purelib"]).glob(pattern):
            (installed / path.name).symlink_to(path)
    program = (
        "import json, sys, urllib.request, unspool\n"
        "with unspool.serve(sys.argv[1]) as server:\n"
        "    body = {'prompt': 'a', 'max_tokens': 8, 'structured_outputs': {'choice': ['yes']}}\n"
        "    head = {'Content-Type': 'application/json'}\n"
        "    request = urllib.request.Request(server.url + '/v1/completions', json.dumps(body).encode(), head)\n"
        "    print(json.load(urllib.request.urlopen(request))['choices'][0]['text'])\n"
    )
    assert run(installed, sys.executable, "-c", program, str(tiny)).splitlines()[-1] == "yes"
