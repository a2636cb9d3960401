"""Routed experts as a trainer gets them."""

import base64
import io
import json

import numpy as np
import pytest

from harness.server import TINY_MODELS

MODEL = TINY_MODELS / "qwen3-moe"


@pytest.fixture(scope="module")
def client(serve):
    import unspool

    flags = ("--dtype", "float32", "--enable-return-routed-experts", "--enable-scale-out")
    server = serve(MODEL, *flags, "--chat-template", "{{ messages[0].content }}")
    with unspool.Client(server.url) as client:
        yield client


def test_outputs_have_them(client):
    golden = json.loads((MODEL / "golden.json").read_text())
    for ids, expected in zip(golden["prompts"], golden["routed_experts"], strict=True):
        (output,) = client.generate(ids, max_tokens=4, ignore_eos=True).outputs
        assert output.routed_experts.dtype == np.uint8
        assert output.routed_experts.shape == (len(ids) + 3, 3, 4)
        assert output.routed_experts[: len(ids)].reshape(len(ids), -1).tolist() == expected
    for generation in (
        client.complete([[5, 6, 7]], max_tokens=4),
        client.chat([{"role": "user", "content": "hi"}], max_tokens=4),
    ):
        (output,) = generation.outputs
        assert len(output.routed_experts) == len(output.prompt_token_ids) + len(output.token_ids) - 1


def encoded(array):
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(file.getvalue()).decode()


def test_decode():
    import unspool

    assert unspool.decode_routed_experts(None) is None
    for dtype in (np.uint8, np.uint16):
        array = np.arange(24, dtype=dtype).reshape(2, 3, 4)
        decoded = unspool.decode_routed_experts(encoded(array))
        assert decoded.dtype == dtype and (decoded == array).all()
    objects = np.array([{}], dtype=object)
    for bad in ("", "?", "AAAA", encoded(np.zeros((2, 3))), encoded(np.zeros((2, 3), np.uint8)), encoded(objects)):
        with pytest.raises(ValueError):
            unspool.decode_routed_experts(bad)
