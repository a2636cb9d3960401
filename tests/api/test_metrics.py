"""/metrics: parseable, with the reference's names and labels, and counting right."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.client import complete, complete_many, request
from harness.server import ROOT

REFERENCE = dict(line.split() for line in (ROOT / "tests/data/contract/metrics.txt").read_text().splitlines())
OTHER_FAMILIES = ("http_", "process_", "unspool:")


def samples(server):
    families = text_string_to_metric_families(server.metrics_text())
    return [sample for family in families for sample in family.samples]


@pytest.mark.short
def test_names(serve, tiny):
    server = serve(tiny)
    complete(server, prompt=[1, 2, 3], max_tokens=2)
    _, headers, text = request(server, "GET", "/metrics")
    assert headers["Content-Type"] == "text/plain; version=1.0.0; charset=utf-8"
    kinds = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        kinds[name] = family.type
    ours = {name for name in kinds if name.startswith("vllm:")}
    assert len(ours) > 30
    assert {name: kinds[name] for name in ours} == {name: REFERENCE.get(name) for name in ours}
    assert not [name for name in kinds if not name.startswith(("vllm:", *OTHER_FAMILIES))]
    assert {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"} <= kinds.keys()
    assert any(name.startswith("http_requests") for name in kinds)


def test_labels(serve, tiny):
    labels = {"model_name": "m", "engine": "0"}
    found = {sample.name: sample.labels for sample in samples(serve(tiny))}
    for name in ("vllm:num_requests_running", "vllm:prompt_tokens_total", "vllm:kv_cache_usage_perc"):
        assert found[name] == labels


def test_counts(own_server, tiny):
    server = own_server(tiny)
    complete_many(server, [{"prompt": [1, 2, 3, 4], "max_tokens": 5, "ignore_eos": True, "n": 2}] * 3)
    assert server.metric("vllm:prompt_tokens_total") == 12
    assert server.metric("vllm:generation_tokens_total") == 30
    assert server.metric("vllm:request_success_total", finished_reason="length") in (3, 6)
    assert server.metric("vllm:time_to_first_token_seconds_count") in (3, 6)
    assert server.in_flight() == (0, 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_steps(own_server, tiny):
    """Four tokens each of two samples: a step for the prompt, three for what follows."""
    server = own_server(tiny)
    complete(server, prompt=[1, 2, 3, 4], max_tokens=4, ignore_eos=True, n=2)
    assert server.metric("unspool:step_time_seconds_count") == 4
    assert 0 < server.metric("unspool:step_time_seconds_sum") < 60
    assert server.metric("unspool:step_sequences_count") == 4
    assert server.metric("unspool:step_sequences_sum") == 1 + 3 * 2


def test_prefix_cache_counts(own_server, tiny):
    server = own_server(tiny)
    prompt = list(range(10, 60))
    for _ in range(2):
        complete(server, prompt=prompt, max_tokens=1)
    assert server.metric("vllm:prefix_cache_queries_total") == 100
    assert server.metric("vllm:prefix_cache_hits_total") == 48


def test_stats_can_be_left_out(serve, tiny):
    text = serve(tiny, "--disable-log-stats").metrics_text()
    assert "vllm:" not in text and "unspool:step" not in text
