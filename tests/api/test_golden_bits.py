"""The bits of a fixed workload, committed: comparing a build with itself misses what compilers and changes move for all.

A change that means to move them says so and renews the file:

    UNSPOOL_RENEW_GOLDEN_BITS=1 ./dev test -- tests/api/test_golden_bits.py
"""

import hashlib
import json
import os

import pytest

from api.workload import REAL, TINY_LLAMA, TINY_QWEN
from harness.bits import bits, completion_rows
from harness.client import complete_many
from harness.server import ROOT

FILE = ROOT / "tests" / "data" / "golden" / "served_bits.json"
DTYPES = ("bfloat16", "float32")


def digest(answers):
    """SHA-256 over the tokens and log-prob bits of all answers."""
    rows = [[sorted((t, bits(v)) for t, v in row.items()) for row in completion_rows(a["choices"][0])] for a in answers]
    ids = [answer["choices"][0]["token_ids"] for answer in answers]
    return hashlib.sha256(json.dumps([ids, rows]).encode()).hexdigest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [TINY_LLAMA, TINY_QWEN, REAL], ids=lambda case: case.name)
def test_bits(serve, smollm2, case, dtype):
    server = serve(case.folder, "--max-model-len", 1024, "--dtype", dtype)
    found = digest(complete_many(server, case.bodies()))
    golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    key = f"{case.name} {dtype}"
    if os.environ.get("UNSPOOL_RENEW_GOLDEN_BITS"):
        FILE.write_text(json.dumps({**golden, key: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == golden.get(key), "the bits are not those of the committed golden file"
