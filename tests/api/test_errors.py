"""Refusals that the recorded contract (tests/contract) does not hold: statuses, bodies, and who may ask."""

import http.client
import json

import pytest

from harness.client import complete, exchange, refused, request

BODY = {"prompt": [1, 2, 3], "max_tokens": 2}


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny)


@pytest.mark.short
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("use_beam_search", True),
        ("watermarking", True),
        ("prompt_embeds", "AAAA"),
        ("thinking_token_budget", 5),
        ("kv_transfer_params", {}),
        ("ec_transfer_params", {}),
        ("top_p", 0),
        ("top_p", 1.5),
        ("temperature", -1),
        ("n", 0),
        ("max_tokens", 0),
        ("min_tokens", 9),
        ("stop", [""]),
        ("logprobs", 21),
        ("stop_token_ids", [384]),
        ("allowed_token_ids", []),
        ("logit_bias", {"384": 1}),
        ("repetition_penalty", 0),
        ("cache_salt", ""),
        ("seed", 2**63),
        ("prompt", [1, 384]),
    ],
)
def test_refused_fields(server, field, value):
    status, error = refused(server, {**BODY, field: value})
    assert status == 400
    assert error["code"] == 400 and error["message"] and "param" in error
    named = {"use_beam_search": "beam", "stop_token_ids": "vocab", "logit_bias": "vocab", "prompt": "vocab"}.get(
        field, field
    )
    assert named in error["message"] or named == error["param"]


@pytest.mark.short
def test_a_fault_in_one_request_is_its_own(server):
    for body in ({**BODY, "logit_bias": {"384": 1}}, {**BODY, "prompt": [9999]}, {**BODY, "prompt": [1] * 3000}):
        assert refused(server, body)[0] == 400
    assert complete(server, BODY)["usage"]["completion_tokens"] >= 1


def test_lazy_refusals_come_in_the_stream(server):
    status, headers, text = request(
        server, "POST", "/v1/completions", {"model": server.model_name, **BODY, "stream": True, "stop_token_ids": [384]}
    )
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    lines = [line for line in text.split("\n") if line]
    assert json.loads(lines[0].removeprefix("data: "))["error"]["code"] == 400
    assert lines[-1] == "data: [DONE]"


@pytest.mark.short
def test_unknown_paths_and_methods(server):
    assert request(server, "GET", "/nowhere")[::2] == (404, {"detail": "Not Found"})
    assert request(server, "POST", "/v1/embeddings", {})[::2] == (404, {"detail": "Not Found"})
    status, headers, body = request(server, "GET", "/v1/completions")
    assert (status, body) == (405, {"detail": "Method Not Allowed"})
    assert "POST" in headers["Allow"]
    assert request(server, "DELETE", "/health")[0] == 405


@pytest.mark.parametrize("path", ["/health/", "/v1/models/", "/version/", "/metrics/", "/load/"])
def test_trailing_slash(server, path):
    assert request(server, "GET", path)[0] == 200


def test_scale_out_is_off_by_default(server):
    for path in ("/inference/v1/generate", "/inference/v1/abort_requests"):
        status, _, body = request(server, "POST", path, {"token_ids": [1], "sampling_params": {}})
        assert status == 403
        assert body["error"]["type"] == "PermissionDeniedError"


def test_prompt_that_can_never_fit(own_server, tiny, pool_of):
    """More tokens than the whole pool holds: refused at once, and what fits still runs."""
    server = own_server(tiny, "--max-model-len", 512, *pool_of(tiny, 256))
    status, error = refused(server, prompt=list(range(3, 303)), max_tokens=1)
    assert status == 400 and "256" in error["message"]
    fields = {"prompt": list(range(3, 203)), "max_tokens": 40, "ignore_eos": True}
    assert complete(server, fields)["usage"]["completion_tokens"] == 40


@pytest.fixture(scope="module")
def locked(serve, tiny):
    return serve(tiny, "--api-key", "first", "second", "--enable-scale-out")


class TestApiKey:
    @pytest.mark.parametrize("path", ["/health", "/ping", "/version", "/metrics"])
    def test_open_routes(self, locked, path):
        assert request(locked, "GET", path)[0] == 200

    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "/v1/models"), ("GET", "/load"), ("POST", "/tokenize"), ("POST", "/detokenize"), ("POST", "/v1/completions"),
         ("POST", "/inference/v1/generate"), ("POST", "/inference/v1/abort_requests")],
    )  # fmt: skip
    def test_guarded_routes(self, locked, method, path):
        body = {} if method == "POST" else None
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic first"},
            {"Authorization": "first"},
        ):
            assert request(locked, method, path, body, headers)[::2] == (401, {"error": "Unauthorized"})

    def test_keys(self, locked):
        for value in ("Bearer first", "bearer second"):
            status, _, _ = request(locked, "POST", "/v1/completions", {"model": "m", **BODY}, {"Authorization": value})
            assert status == 200


@pytest.mark.short
def test_malformed_http(server):
    assert " 400 " in exchange(server, b"NONSENSE\r\n\r\n")
    assert " 431 " in exchange(server, b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n")
    huge = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    assert " 413 " in exchange(server, huge)
    assert complete(server, BODY)


def test_keep_alive(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.connect()
    first = connection.sock.getsockname()
    for _ in range(3):
        connection.request(
            "POST", "/v1/completions", json.dumps({"model": "m", **BODY}), {"Content-Type": "application/json"}
        )
        reply = connection.getresponse()
        assert reply.status == 200 and json.loads(reply.read())
    assert connection.sock.getsockname() == first
    connection.close()


def test_expect_continue_and_chunked_bodies(server):
    body = json.dumps({"model": "m", **BODY}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    assert " 200 " in exchange(
        server, head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    )
    first = exchange(server, head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert " 100 " in first or " 200 " in first


def test_request_id(serve, tiny):
    server = serve(tiny, "--enable-request-id-headers")
    status, headers, body = request(
        server,
        "POST",
        "/v1/completions",
        {"model": "m", **BODY, "request_id": "of-body"},
        {"X-Request-Id": "of-header"},
    )
    assert (status, headers["X-Request-Id"], body["id"]) == (200, "of-header", "cmpl-of-header")
    assert len(request(server, "POST", "/v1/completions", {"model": "m", **BODY})[1]["X-Request-Id"]) == 32
