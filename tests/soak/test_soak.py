"""Ten minutes of everything at once: ragged requests, streams, samples, clients that vanish, faults. Nothing may be left."""

import random
import socket
import threading
import time

import pytest

from harness.client import Refused, complete, raw_post, stream

pytestmark = pytest.mark.nightly

SECONDS = 600
WORKERS = 16


def body(dice):
    prefix = [20 + dice.randrange(8)] * dice.choice([0, 16, 40, 130])  # a few prefixes that many share
    prompt = prefix + [dice.randrange(3, 384) for _ in range(dice.randrange(1, 200))]
    fields = {
        "prompt": prompt,
        "max_tokens": dice.randrange(1, 80),
        "n": dice.choice([1, 1, 1, 4]),
        "seed": dice.randrange(1000),
    }
    fields["logprobs"] = dice.choice([None, 0, 5])
    return fields


def be_a_client(server, seed, deadline, faults):
    dice = random.Random(seed)
    while time.monotonic() < deadline:
        fields = body(dice)
        try:
            kind = dice.random()
            if kind < 0.4:
                answer = complete(server, fields)
                assert all(choice["finish_reason"] in ("length", "stop") for choice in answer["choices"])
            elif kind < 0.8:
                chunks = stream(server, fields)
                ends = [part["index"] for chunk in chunks for part in chunk["choices"] if part["finish_reason"]]
                assert sorted(ends) == list(range(fields["n"]))
            elif kind < 0.95:
                with raw_post(server, "/v1/completions", {**fields, "stream": dice.random() < 0.5}) as connection:
                    time.sleep(dice.random() * 0.05)
                    connection.shutdown(socket.SHUT_RDWR)
            else:
                try:
                    complete(server, fields, logit_bias={"9999": 1})
                    faults.append("a bias out of the vocabulary was taken")
                except Refused as refusal:
                    assert refusal.status == 400
        except Exception as error:  # noqa: BLE001, whatever went wrong is a fault
            faults.append(repr(error))
            return


def test_everything_at_once(own_server, tiny, patience, sanitized, report):
    # A small pool, so that eviction and preemption happen all the time.
    server = own_server(tiny, "--max-model-len", 512, "--kv-cache-memory-bytes", 1_000_000, "--max-num-batched-tokens", 64,
                        "--max-num-seqs", 32)  # fmt: skip
    deadline = time.monotonic() + SECONDS
    faults, resident = [], []
    clients = [threading.Thread(target=be_a_client, args=(server, seed, deadline, faults)) for seed in range(WORKERS)]
    for client in clients:
        client.start()
    while time.monotonic() < deadline and not faults:
        time.sleep(30)
        resident.append(server.rss_kb())
    for client in clients:
        client.join(60 * patience)
    assert not faults, faults[:3]
    server.wait_until_idle(5 * patience)
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    report(
        f"soak: {server.metric('vllm:num_preemptions_total'):.0f} preemptions, resident {resident[1]} kB to {resident[-1]} kB"
    )
    if not sanitized:
        assert resident[-1] - resident[1] < 20 * 1024
