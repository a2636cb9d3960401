"""Two results of bench/suite.py: what became slower or faster by more than the noise.

    bench/compare.py BEFORE.json AFTER.json [--band 5]

Times are first brought to the same machine: divided by how fast each result's machine was at products, or at reading where a
benchmark reads for longer than it computes. The band is in percent, and widened by each benchmark's own noise. Exit status 1 if
anything became slower.
"""

import argparse
import json
import sys
from pathlib import Path


def limit_of(result, name):
    return result["limits"][name]["median"]


def machine_ratio(before, after, figures):
    """How much faster the second machine was at what this benchmark waits for."""
    if "of_products" not in figures:
        name = "f32_gflops"  # as the clock of its cores
    else:
        name = "read_gbps" if figures["of_reads"] > figures["of_products"] else "bf16_gflops"
    return limit_of(after, name) / limit_of(before, name)


def changes(before, after, band):
    """(name, times slower, allowed) of every benchmark in both results."""
    for binary, benchmarks in before["micro"].items():
        for name, old in benchmarks.items():
            new = after["micro"].get(binary, {}).get(name)
            if new is not None:
                slower = new["us"] / old["us"] * machine_ratio(before, after, old)
                yield f"{binary} {name}", slower, band + old.get("noise", 0) + new.get("noise", 0)
    for model, servers in before["server"].items():
        for case, old in servers["unspool"].items():
            new = after["server"].get(model, {}).get("unspool", {}).get(case)
            if new and "share" in old:
                yield f"{model} {case}", old["share"] / new["share"], band


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--band", type=float, default=5, help="percent that is noise anyway")
    args = parser.parse_args()
    before, after = (json.loads(path.read_text()) for path in (args.before, args.after))
    found = sorted(changes(before, after, args.band / 100), key=lambda change: change[1])
    faster = [change for change in found if change[1] < 1 / (1 + change[2])]
    slower = [change for change in found if change[1] > 1 + change[2]]
    for title, part in (("faster", faster), ("slower", slower)):
        for name, ratio, allowed in part:
            print(f"{title}: {name}: {100 * (ratio - 1):+.1f} % of the time (noise {100 * allowed:.0f} %)")
    print(f"{len(found)} compared, {len(faster)} faster, {len(slower)} slower")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
