"""The whole suite, as one JSON beside the machine's limits:

    ./dev bench suite RESULT.json [--quick] [--rounds N] [--model DIR]...

Kernels, attention, sampler and the engine's own work by Google Benchmark, then the server (bench/run.py) for each model. The
limits are read between all of them; where they differ by more than a tenth the machine was not quiet, and a line says so.
bench/compare.py holds two results against each other, bench/plot.py draws the share of the peak over the rows.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct"
MICRO = ("kernels_bench", "attention_bench", "sampler_bench", "engine_bench")
LIMITS = ("bf16_gflops", "f32_gflops", "read_gbps")
REPETITIONS = 5


def read_limits():
    return json.loads(subprocess.check_output([BUILD / "peak"], text=True))


def micro(name, quick):
    """{benchmark: {figure: median}} of one binary: times in microseconds, and its counters."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [BUILD / "bench" / name, f"--benchmark_out={out.name}", "--benchmark_out_format=json"]
        if quick:
            command.append("--benchmark_min_time=0.02")
        else:
            command += [f"--benchmark_repetitions={REPETITIONS}", "--benchmark_min_time=0.05"]
            command.append("--benchmark_enable_random_interleaving=true")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = json.loads(Path(out.name).read_text())
    runs = {}
    for run in report["benchmarks"]:
        if run["run_type"] == "iteration":
            runs.setdefault(run["name"].removesuffix("/real_time"), []).append(run)
    return {key: figures(repeats) for key, repeats in runs.items()}


def figures(repeats):
    """Medians, and how far the middle half of the repetitions lies apart: the noise of the time."""
    unit = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[repeats[0]["time_unit"]]
    # What runs on one thread is measured by its own time, which neighbours disturb less.
    clock = "real_time" if repeats[0]["name"].endswith("/real_time") else "cpu_time"
    times = sorted(run[clock] * unit for run in repeats)
    found = {"us": statistics.median(times)}
    if len(times) >= 4:
        quarter = len(times) // 4
        found["noise"] = (times[-1 - quarter] - times[quarter]) / found["us"]
    for counter in ("GFLOP/s", "GB/s", "of_products", "of_reads"):
        if counter in repeats[0]:
            found[counter] = statistics.median(run[counter] for run in repeats)
    return {key: float(f"{value:.4g}") for key, value in found.items()}


def server(model, rounds):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, ROOT / "bench" / "run.py", "--model", model, "--json", out.name]
        command += ["--rounds", str(rounds)]
        subprocess.run([*command, "--", "--max-model-len", "4096"], check=True)
        return json.loads(Path(out.name).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--quick", action="store_true", help="one short run of each: to see that all works")
    parser.add_argument("--rounds", type=int, default=5, help="of each of the server's cases")
    parser.add_argument("--model", type=Path, action="append", help="for the server's part (SmolLM2 unless given)")
    args = parser.parse_args()

    readings = [read_limits()]
    result = {"date": time.strftime("%Y-%m-%d"), "limits": {}, "micro": {}, "server": {}}
    for name in MICRO:
        print(name, flush=True)
        result["micro"][name] = micro(name, args.quick)
        readings.append(read_limits())
    for model in args.model or [SMOLLM2]:
        result["server"][model.name] = server(model, 1 if args.quick else args.rounds)
        readings.append(read_limits())
    for limit in LIMITS:
        values = [reading[limit] for reading in readings]
        result["limits"][limit] = {"median": statistics.median(values), "low": min(values), "high": max(values)}
        if min(values) < 0.9 * max(values):
            print(f"the machine was not quiet: {limit} from {min(values)} to {max(values)}")
    args.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
