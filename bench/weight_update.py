"""How fast new weights get to the server, and what generation feels of it, beside this machine's memory bandwidth.

    ./dev bench weights [--cases idle,busy,gap,sparse,directory,gloo] [--rounds 5] [--json FILE]

A full update is from the sender's own arrays to weights that are served. Whoever generates or watches a stream meanwhile
is a process of its own, so that Python's lock is not in the figures. Gloo crosses between two network namespaces where
they can be made (root), otherwise between two processes over the loopback; it says which. Without torch it is left out.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench"), str(ROOT / "python")]

import unspool  # noqa: E402
from harness.server import DEFAULT_BINARY, SMOLLM2, Server, free_port  # noqa: E402
from rollout import Driver, ids  # noqa: E402
from run import Limits  # noqa: E402
from unspool.senders.safetensors import read_tensors  # noqa: E402
from work import Model  # noqa: E402

CASES = ("idle", "busy", "gap", "sparse", "directory", "gloo")
DEV = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(ROOT / "python")}
STREAM_TOKENS = 600
SERVER_ADDRESS, TRAINER_ADDRESS = "10.86.0.1", "10.86.0.2"


def tensors_of(model):
    """(name, array) as a trainer holds them: in its own memory."""
    return [(t.name, (np.array(t._array), t.dtype_name)) for t in read_tensors(model)]


def one_percent(tensors):
    dice = np.random.default_rng(1)
    for name, (array, dtype_name) in tensors:
        # In order, as a trainer finds what has changed.
        indices = np.sort(dice.choice(array.size, max(1, array.size // 100), replace=False)).astype(np.int32)
        yield name, indices, (array.reshape(-1)[indices], dtype_name)


def median_of(sends):
    """Figures of some sends."""
    seconds = [sent.seconds for sent in sends]
    middle = statistics.median(seconds)
    return {
        "ms": round(1e3 * middle, 1),
        "best_ms": round(1e3 * min(seconds), 1),
        "gbps": round(sends[0].nbytes / middle / 1e9, 2),
        "mb": round(sends[0].nbytes / 1e6, 1),
    }


class TimedSender(unspool.SharedMemorySender):
    """Knows how long its tensors took, from their own memory to packed ones: without start and finish."""

    def __init__(self, client):
        super().__init__(client)
        self.transfers, self.nbytes = [], 0

    def _transfer(self, sources):
        began = time.perf_counter()
        count, self.nbytes = super()._transfer(sources)
        self.transfers.append(time.perf_counter() - began)
        return count, self.nbytes


class Bench:
    def __init__(self, args):
        self.args = args
        self.tensors = tensors_of(args.model)

    @contextmanager
    def server(self, *flags, backend="ipc"):
        """(server, client)"""
        config = json.dumps({"backend": backend})
        flags = ["--weight-transfer-config", config, "--transfer-python", sys.executable, *flags]
        server = Server(self.args.binary, self.args.model, *flags, model_name="m", env=DEV)
        try:
            with unspool.Client(server.url) as client:
                yield server, client
        finally:
            server.stop()

    def helper(self, role, url, prefix=(), **more):
        command = [*prefix, sys.executable, __file__, "--role", role, "--url", url, "--model", str(self.args.model)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)

    def sends(self, sender, rounds=None):
        """After one that maps what is touched for the first time."""
        sender.send(self.tensors)
        return [sender.send(self.tensors, version=str(i)) for i in range(rounds or self.args.rounds)]

    def idle(self):
        with self.server() as (_, client), unspool.SharedMemorySender(client) as sender:
            return median_of(self.sends(sender))

    def busy(self):
        """While groups are generated without end. A session begins and ends between two steps, and these are long: so the
        time until all is packed is told apart."""
        with self.server() as (server, client), TimedSender(client) as sender:
            load = self.helper("group", server.url)
            try:
                load.stdout.readline()  # it runs
                figures = median_of(self.sends(sender))
                figures["packed_gbps"] = round(sender.nbytes / statistics.median(sender.transfers[1:]) / 1e9, 2)
                return figures
            finally:
                load.kill()
                load.wait()

    def gap(self):
        """The longest time between two tokens of a stream, less the usual one, with updates and without."""
        found = {}
        for mode in ("double-buffer", "in-place"):
            with (
                self.server("--weight-update-mode", mode) as (server, client),
                unspool.SharedMemorySender(client) as sender,
            ):
                sender.send(self.tensors)
                found[mode] = self.longest_gap(server, sender)
                found[mode + ", no update"] = self.longest_gap(server, None)
        return found

    def longest_gap(self, server, sender):
        watcher = self.helper("stream", server.url)
        watcher.stdout.readline()  # the first tokens have come
        updates = []
        while sender and watcher.poll() is None and len(updates) < self.args.rounds:
            time.sleep(0.3)
            began = time.perf_counter()
            sender.send(self.tensors)
            updates.append((began, time.perf_counter()))
        times = json.loads(watcher.communicate()[0])
        pairs = list(zip(times, times[1:], strict=False))
        usual = statistics.median(b - a for a, b in pairs)
        seen = [(began, end) for began, end in updates if end < times[-1]]
        if sender and not seen:
            raise SystemExit("the stream ended before the first update; give it more tokens")
        # Of a stream without updates pieces as long, to know what else there is.
        windows = seen or [(at, at + 0.05) for at in np.arange(times[0], times[-1] - 0.1, 0.3)]
        longest = [max(b - a for a, b in pairs if a < end + usual and b > began) - usual for began, end in windows]
        return {
            "usual_ms": round(1e3 * usual, 1),
            "gap_ms": round(1e3 * statistics.median(longest), 1),
            "worst_ms": round(1e3 * max(longest), 1),
            "updates": len(seen),
        }

    def sparse(self):
        changes = list(one_percent(self.tensors))
        with self.server() as (_, client), unspool.SharedMemorySender(client) as sender:
            sender.send(self.tensors)
            sender.send_sparse(changes)
            return median_of([sender.send_sparse(changes) for _ in range(self.args.rounds)])

    def directory(self):
        with tempfile.TemporaryDirectory() as folder, self.server() as (_, client):
            with unspool.DirectorySender(client, folder) as sender:
                whole = median_of(self.sends(sender, 3))
            (*_, last) = sorted(Path(folder).glob("weights-*"))
            seconds = []
            for _ in range(self.args.rounds):
                began = time.perf_counter()
                client.reload_weights(last)
                seconds.append(time.perf_counter() - began)
            return {**whole, "reload_alone_ms": round(1e3 * statistics.median(seconds), 1)}

    def gloo(self):
        if importlib.util.find_spec("torch") is None:
            return {"left_out": "no torch"}
        with namespaces() as (server_prefix, trainer_prefix, address, where):
            port = free_port()
            config = json.dumps({"backend": "gloo"})
            command = [*server_prefix, str(self.args.binary), "serve", str(self.args.model), "--host", address]
            command += ["--port", str(port), "--weight-transfer-config", config, "--transfer-python", sys.executable]
            server = subprocess.Popen(command, env={**os.environ, **DEV}, stdout=subprocess.DEVNULL)
            try:
                trainer = self.helper("trainer", f"http://{address}:{port}", trainer_prefix)
                lines = trainer.communicate(str(self.args.rounds))[0].splitlines()
                if trainer.returncode:
                    raise SystemExit(f"the trainer ended with {trainer.returncode}")
                return {**json.loads(lines[-1]), "between": where}
            finally:
                server.terminate()
                server.wait(30)


@contextmanager
def namespaces():
    """(prefix of the server's command, of the trainer's, the server's address, what it is)"""
    tag = f"unspool{os.getpid()}"
    one, two = f"{tag}a", f"{tag}b"
    steps = [f"netns add {one}", f"netns add {two}"]
    steps += [f"link add {tag[-6:]}a netns {one} type veth peer name {tag[-6:]}b netns {two}"]
    for name, end, address in ((one, "a", SERVER_ADDRESS), (two, "b", TRAINER_ADDRESS)):
        link = f"{tag[-6:]}{end}"
        steps += [f"-n {name} addr add {address}/24 dev {link}", f"-n {name} link set {link} up"]
        steps += [f"-n {name} link set lo up"]
    try:
        for step in steps:
            subprocess.run(["ip", *step.split()], check=True, capture_output=True)
        made = True
    except (OSError, subprocess.CalledProcessError):
        made = False
    try:
        if made:
            prefix = ("ip", "netns", "exec")
            yield [*prefix, one], [*prefix, two], SERVER_ADDRESS, "two network namespaces"
        else:
            yield [], [], "127.0.0.1", "two processes on the loopback"
    finally:
        for name in (one, two):
            with suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)


def stream(args):
    """Watches one stream; tells when the first tokens have come, and in the end when each did."""
    model = Model.read(args.model)

    async def run():
        driver = Driver(args.url, "m", model)
        times = []
        body = {"prompt": ids(driver.dice(), model, 32), "max_tokens": STREAM_TOKENS, "stream": True}
        async with driver.session() as http, http.post(args.url + "/v1/completions", json=driver.body(body)) as reply:
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    times.append(time.perf_counter())
                    if len(times) == 10:
                        print("runs", flush=True)
        return times

    print(json.dumps(asyncio.run(run())))


def group(args):
    """Generates groups until it is killed."""
    driver = Driver(args.url, "m", Model.read(args.model))

    async def run():
        first = True
        while True:
            load = asyncio.create_task(driver.case("group", 1))
            if first:
                await asyncio.sleep(1)
                print("runs", flush=True)
                first = False
            await load

    asyncio.run(run())


def trainer(args):
    """Sends over gloo, as many times as the first line says."""
    rounds = int(sys.stdin.readline())
    tensors = tensors_of(args.model)
    with unspool.Client(args.url) as client:
        client.wait_until_ready()
        with unspool.GlooSender(client, timeout_s=120) as sender:
            sender.send(tensors)
            print(json.dumps(median_of([sender.send(tensors) for _ in range(rounds)])))


def table(results):
    print("\n| update | | |\n|---|---|---|")
    for case, figures in results.items():
        if case == "gap":
            for mode, gap in figures.items():
                print(
                    f"| gap, {mode} | {gap['gap_ms']} ms, at worst {gap['worst_ms']} | usually {gap['usual_ms']} ms between tokens |"
                )
        elif "left_out" in figures:
            print(f"| {case} | left out: {figures['left_out']} | |")
        else:
            more = {key: value for key, value in figures.items() if key not in ("gbps", "ms")}
            print(f"| {case} | {figures['gbps']} GB/s, {figures['ms']} ms | {json.dumps(more)[1:-1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SMOLLM2)
    parser.add_argument("--binary", type=Path, default=DEFAULT_BINARY)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=5, help="counted updates of each case, after one that warms up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--role", choices=("stream", "group", "trainer"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        return {"stream": stream, "group": group, "trainer": trainer}[args.role](args)
    cases = args.cases.split(",")
    if unknown := set(cases) - set(CASES):
        parser.error(f"unknown cases {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    limits = Limits(args.binary.parent / "peak")
    bench = Bench(args)
    results = {}
    for case in cases:
        limits.read()
        results[case] = getattr(bench, case)()
        print(f"  {case:10} {json.dumps(results[case])}", flush=True)
    limits.read()
    results["limits"] = {"read_gbps": limits.median("read_gbps")}
    table({case: figures for case, figures in results.items() if case != "limits"})
    print(f"\nreading memory, median over the run: {results['limits']['read_gbps']} GB/s")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
