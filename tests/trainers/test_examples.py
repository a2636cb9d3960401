"""The examples, as a reader runs them."""

import csv
import os
import re
import subprocess
import sys

import pytest

from harness.server import ROOT, TINY_MODELS

CHANCE = 26 / 258  # lower-case letters among the tokens of grpo_tiny's model


def run(binary, out, *options):
    """The rows of the CSV that examples/grpo_tiny.py writes."""
    command = [sys.executable, str(ROOT / "examples" / "grpo_tiny.py"), "--out", str(out), *options]
    env = {**os.environ, "UNSPOOL_BINARY": str(binary), "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with open(out.with_suffix(".csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    return [{field: float(value) for field, value in row.items() if value} for row in rows]


def learned(rows):
    """Whether the reward rose from chance by at least half of what is left."""
    return sum(row["reward"] for row in rows[-3:]) / 3 >= CHANCE + (1 - CHANCE) / 2


def in_step(rows):
    """Whether the trainer and the server agreed at every step."""
    return max(row["gap_max"] for row in rows) < 1e-3


def test_grpo_tiny(binary, tmp_path, report):
    rows = run(binary, tmp_path / "run")
    assert rows[0]["reward"] == pytest.approx(CHANCE, abs=0.05)
    assert learned(rows) and in_step(rows)
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    seconds = {
        field: sum(row[field] for row in rows[1:]) / len(rows[1:]) for field in ("step_s", "generate_s", "sync_s")
    }
    report("grpo_tiny: " + ", ".join(f"{field} {value:.3f}" for field, value in seconds.items()) + " a step")


def test_without_the_sync_it_fails(binary, tmp_path):
    """The same checks, with a server that keeps its first weights."""
    rows = run(binary, tmp_path / "run", "--no-sync", "--steps", "20")
    assert not learned(rows) and not in_step(rows)


def test_router_replay(binary):
    """In float32 the routers of transformers agree with every choice; in bf16 replaying the choices brings the log-probs nearer."""
    env = {**os.environ, "UNSPOOL_BINARY": str(binary), "PYTHONPATH": str(ROOT / "python")}
    found = {}
    for dtype in ("float32", "bfloat16"):
        command = [sys.executable, str(ROOT / "examples" / "router_replay.py"), str(TINY_MODELS / "qwen3-moe")]
        done = subprocess.run([*command, "--dtype", dtype], env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        numbers = re.findall(r"\d+(?:\.\d+)?(?:e[-+]\d+)?", done.stdout)
        found[dtype] = dict(zip(("differing", "choices", "own", "replayed"), map(float, numbers), strict=True))
    assert found["float32"]["differing"] == 0 and found["float32"]["choices"] == 8 * 99 * 3
    assert found["float32"]["replayed"] < 1e-5
    assert 0 < found["bfloat16"]["differing"] < found["bfloat16"]["choices"] / 4
    assert found["bfloat16"]["replayed"] < found["bfloat16"]["own"]
