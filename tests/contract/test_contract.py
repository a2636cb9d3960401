"""Our replies beside recorded ones of vLLM 0.32.0 to the same requests (tests/data/contract)."""

import json
import urllib.error
import urllib.request

import pytest

from contract.compare import differences, selected
from harness.server import ROOT

CASES = json.loads((ROOT / "tests" / "data" / "contract" / "cases.json").read_text())
# What is served so far; each is a prefix of case names, and what to leave out of them.
SERVED = [
    *selected(CASES, "completions/"),
    *selected(CASES, "chat/"),
    *selected(CASES, "generate/"),
    *selected(CASES, "tokenize/"),
    *selected(CASES, "detokenize/"),
    *selected(CASES, "wrong_method"),
    *selected(CASES, "lora/"),
    *selected(CASES, "get/", skip="server_info|is_|world_size|weight_info"),
]
# The control plane, in the order of the recording: each case finds what the one before left.
CONTROL = [*selected(CASES, "get/"), *selected(CASES, "rl/")]
FLAGS = ("--max-model-len", 4096, "--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def ask(url, case):
    """(status, content type, text) of the case's request."""
    body, headers = case["body"], dict(case["headers"])
    data = b"" if case["method"] == "POST" else None
    if body is not None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        headers.setdefault("Content-Type", "application/json")
    message = urllib.request.Request(url + case["path"], data=data, headers=headers, method=case["method"])
    try:
        with urllib.request.urlopen(message, timeout=120) as reply:
            return reply.status, reply.headers.get("content-type", ""), reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("content-type", ""), error.read().decode()


@pytest.fixture(scope="module")
def url(serve, smollm2):
    return serve(smollm2, *FLAGS, model_name="smollm2").url


@pytest.mark.parametrize("case", SERVED, ids=lambda case: case["name"])
def test_case(url, case):
    assert list(differences(case, *ask(url, case))) == []


@pytest.mark.parametrize("flags", [(), ("--enable-sleep-mode",)], ids=["plain", "sleep-mode"])
def test_control(own_server, smollm2, flags):
    server = own_server(smollm2, *FLAGS, *flags, model_name="smollm2", env={"VLLM_SERVER_DEV_MODE": "1"})
    found = {case["name"]: list(differences(case, *ask(server.url, case))) for case in CONTROL}
    assert {name: faults for name, faults in found.items() if faults} == {}


class TestTheComparisonCanFail:
    CASE = next(case for case in CASES if case["name"] == "completions/logprobs0")
    STREAM = next(case for case in CASES if case["name"] == "completions/stream")

    def compare(self, change=lambda body: None, **reply):
        body = json.loads(json.dumps(self.CASE["json"]))
        change(body)
        reply = {"status": 200, "content_type": "application/json", "text": json.dumps(body), **reply}
        return list(differences(self.CASE, **reply))

    def test_the_recording_matches_itself(self):
        assert self.compare() == []
        assert self.compare(lambda body: body.update(extra=1)) == []

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body.pop("usage"),
            lambda body: body["usage"].update(total_tokens=1),
            lambda body: body["choices"][0].update(text=None),
            lambda body: body["choices"][0]["logprobs"]["tokens"].pop(),
            lambda body: body["choices"][0]["logprobs"]["top_logprobs"][0].update(other=-1.0),
            lambda body: body["choices"].clear(),
        ],
    )
    def test_changed_bodies(self, change):
        assert self.compare(change)

    def test_changed_replies(self):
        assert self.compare(status=500)
        assert self.compare(content_type="text/html")
        assert self.compare(text="{")
        assert self.compare(text='{"choices": NaN}')

    def test_streams(self):
        chunks = [chunk for chunk in self.STREAM["stream"] if chunk != "[DONE]"]

        def compare(chunks, end="data: [DONE]\n\n"):
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end
            return list(differences(self.STREAM, 200, "text/event-stream", text))

        assert compare(chunks) == []
        assert compare(chunks, end="")
        assert compare(chunks[:-1])
        assert compare([*chunks, chunks[-1]])
