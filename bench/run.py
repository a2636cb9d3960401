"""Throughput of the served model beside this machine's limits, in one run.

    ./dev bench [--cases single,group,...] [--rounds 3] [--json FILE] [-- FLAGS FOR THE SERVER]
    ./dev bench --rival 'llama-server -m smollm2-bf16.gguf --port {port} -np 64 -c 131072' --rival-name llama.cpp

A rival is any server with vLLM's /v1/completions; {port} is replaced. It is started after ours has ended, and runs the same cases.
bench/to_gguf.py makes the file for llama.cpp.
"""

import argparse
import asyncio
import json
import shlex
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from harness.server import DEFAULT_BINARY, SMOLLM2, Server, free_port  # noqa: E402
from rollout import CASES, Driver  # noqa: E402
from work import Model  # noqa: E402

ALL_CASES = [*CASES, "stream"]


class Limits:
    """Readings of bench/peak.cc, taken before, between and after the cases: bandwidth moves with the neighbours."""

    def __init__(self, peak):
        self._peak = peak
        self._readings = []

    def read(self):
        self._readings.append(json.loads(subprocess.check_output([self._peak], text=True)))

    def median(self, name):
        return statistics.median(reading[name] for reading in self._readings)

    def of(self, case, model):
        """(name of the limit, the most tokens or operations a second)."""
        if case == "single":
            return "read", self.median("read_gbps") * 1e9 / model.weight_bytes
        return "products", (self.median("bf16_gflops") or self.median("f32_gflops")) * 1e9


class Rival:
    """A server started by a command of the user's."""

    def __init__(self, command):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            shlex.split(command.replace("{port}", str(port))), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started = time.monotonic()
        while not self._answers():
            if self.process.poll() is not None:
                raise SystemExit(f"the rival ended with {self.process.returncode}: {command}")
            if time.monotonic() - started > 600:
                self.stop()
                raise SystemExit("the rival gave no /health within 600 s")
            time.sleep(0.1)
        self.start_seconds = time.monotonic() - started

    def _answers(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def measure(url, model_name, model, cases, rounds, limits):
    """{case: figures}, printed as they come."""
    driver = Driver(url, model_name, model)
    results = {}
    for case in cases:
        limits.read()
        if case == "stream":
            first, between = asyncio.run(driver.stream(rounds))
            results[case] = {"first_token_ms": round(first, 1), "between_tokens_ms": round(between, 1)}
        else:
            tokens, operations = asyncio.run(driver.case(case, rounds))
            results[case] = {"tokens_per_s": round(tokens, 1), "gflops": round(operations / 1e9, 1)}
        print(f"  {case:8} {json.dumps(results[case])}", flush=True)
    limits.read()
    return results


def add_shares(results, model, limits):
    for case, figures in results.items():
        if "tokens_per_s" in figures:
            name, limit = limits.of(case, model)
            done = figures["tokens_per_s"] if name == "read" else figures["gflops"] * 1e9
            figures["share"] = round(done / limit, 3)


def table(title, results):
    print(f"\n{title}\n\n| case | tok/s | share of the limit |\n|---|---|---|")
    for case, figures in results.items():
        if "tokens_per_s" in figures:
            print(f"| {case} | {figures['tokens_per_s']:,.1f} | {100 * figures['share']:.0f} % |")
        elif "first_token_ms" in figures:
            print(
                f"| {case} | {figures['first_token_ms']} ms to the first token, {figures['between_tokens_ms']} ms between | |"
            )


def main():
    own, _, flags = (sys.argv[1:], None, []) if "--" not in sys.argv else split_flags(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SMOLLM2)
    parser.add_argument("--binary", type=Path, default=DEFAULT_BINARY)
    parser.add_argument("--cases", default=",".join(ALL_CASES))
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds of each case, after one to warm up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rival", help="command that starts another server on {port}")
    parser.add_argument("--rival-name", default="rival")
    parser.add_argument("--rival-cases", help="as --cases, where the rival cannot do them all")
    args = parser.parse_args(own)
    cases = args.cases.split(",")
    if unknown := set(cases) - set(ALL_CASES):
        parser.error(f"unknown cases {', '.join(sorted(unknown))}; there are {', '.join(ALL_CASES)}")

    model = Model.read(args.model)
    limits = Limits(args.binary.parent / "peak")
    print(f"unspool, {args.model.name}", flush=True)
    server = Server(args.binary, args.model, *flags, model_name="m")
    try:
        ours = measure(server.url, "m", model, cases, args.rounds, limits)
        ours["process"] = {"start_s": round(server.start_seconds, 2), "resident_mb": round(server.rss_kb() / 1024)}
    finally:
        server.stop()
    everything = {"unspool": ours}
    if args.rival:
        print(args.rival_name, flush=True)
        rival = Rival(args.rival)
        try:
            rival_cases = (args.rival_cases or args.cases).split(",")
            everything[args.rival_name] = measure(rival.url, "m", model, rival_cases, args.rounds, limits)
            everything[args.rival_name]["process"] = {"start_s": round(rival.start_seconds, 2)}
        finally:
            rival.stop()

    for name, results in everything.items():
        add_shares(results, model, limits)
        table(name, results)
        print("\n" + ", ".join(f"{key} {value}" for key, value in results["process"].items()))
    everything["limits"] = {name: limits.median(name) for name in ("bf16_gflops", "f32_gflops", "read_gbps")}
    print(f"\nlimits of this machine, medians over the run: {json.dumps(everything['limits'])}")
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1) + "\n")


def split_flags(arguments):
    at = arguments.index("--")
    return arguments[:at], None, arguments[at + 1 :]


if __name__ == "__main__":
    main()
