"""Throughput beside others on the same cores: alone, beside busy foreign threads, and two servers at once.

    ./dev bench contention [--threads 2]

A fair scheduler leaves a server with as many threads as there are foreign ones half of the machine. A server whose threads spin
for each other while the other one is not running gets far less; the goal is no less than 40 % of what it does alone.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from harness.server import DEFAULT_BINARY, SMOLLM2, Server  # noqa: E402
from rollout import CASES, Driver  # noqa: E402
from work import Model  # noqa: E402

MEASURED = ("single", "serve")
FLAGS = ("--max-model-len", 4096)


def spin():
    while True:
        pass


@contextlib.contextmanager
def busy(count):
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


async def rates(drivers, case, rounds):
    """Tokens a second of all drivers together, the median over the rounds."""
    found = []
    for _ in range(rounds + 1):
        plans = [CASES[case](driver.model, driver.dice()) for driver in drivers]
        seconds = await asyncio.gather(*(d.one_round(plan) for d, plan in zip(drivers, plans, strict=True)))
        found.append(sum(plan.tokens for plan in plans) / max(seconds))
    return statistics.median(found[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SMOLLM2)
    parser.add_argument("--binary", type=Path, default=DEFAULT_BINARY)
    parser.add_argument("--threads", type=int, default=2, help="busy foreign ones")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    model = Model.read(args.model)
    servers = [Server(args.binary, args.model, *FLAGS, "--kv-cache-memory-bytes", "1G") for _ in range(2)]
    drivers = [Driver(server.url, server.model_name, model) for server in servers]
    print(
        f"load before: {os.getloadavg()[0]:.1f}\n\n| case | alone, tok/s | beside {args.threads} busy threads | two servers |"
    )
    print("|---|---|---|---|")
    try:
        for case in MEASURED:
            alone = asyncio.run(rates(drivers[:1], case, args.rounds))
            with busy(args.threads):
                beside = asyncio.run(rates(drivers[:1], case, args.rounds))
            both = asyncio.run(rates(drivers, case, args.rounds))
            print(
                f"| {case} | {alone:.1f} | {100 * beside / alone:.0f} % | {100 * both / alone:.0f} % together |",
                flush=True,
            )
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
