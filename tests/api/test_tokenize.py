"""/tokenize and /detokenize beside PyPI's `tokenizers` on the real vocabulary; tools/tokenizer_parity.py goes deeper."""

import pytest
from tokenizers import Tokenizer

from api.control import GENERATE, greedy
from harness.client import complete, request

TEXTS = [
    "The capital of France is",
    "a  1",
    " 2024-11-29 \n\n\t x",
    "naïve café 東京 🎉🥳",
    "<|im_start|>user\nhi<|im_end|>",
    "",
]


@pytest.fixture(scope="module")
def reference(smollm2):
    return Tokenizer.from_file(str(smollm2 / "tokenizer.json"))


@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back(serve, smollm2, reference, text):
    server = serve(smollm2)
    status, _, answer = request(server, "POST", "/tokenize", {"model": "m", "prompt": text, "return_token_strs": True})
    expected = reference.encode(text)
    assert status == 200
    assert answer["tokens"] == expected.ids and answer["count"] == len(expected.ids)
    assert answer["token_strs"] == expected.tokens
    _, _, back = request(server, "POST", "/detokenize", {"model": "m", "tokens": answer["tokens"]})
    assert back == {"prompt": text}


def test_ids_stay_as_they_were_sent(serve, smollm2, reference):
    """sglang#26555, rllm#272: words by letters, which their text would not become again; in every turn, echoed, and hit in
    the prefix cache."""
    server = serve(smollm2, "--enable-prompt-tokens-details", "--enable-scale-out")
    letters = [reference.token_to_id(letter) for letter in "unspooling\u0120rewarded\u0120tokens\u0120again"]
    assert None not in letters and reference.encode(reference.decode(letters)).ids != letters
    (choice,) = greedy(server, letters, 8)["choices"]
    assert choice["prompt_token_ids"] == letters
    sampling = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
    echoed = complete(server, prompt=letters, echo=True, **sampling)["choices"][0]
    assert echoed["text"] == reference.decode(letters + choice["token_ids"])
    conversation = letters + choice["token_ids"] + letters
    second = greedy(server, conversation, 8)
    assert second["choices"][0]["prompt_token_ids"] == conversation
    shared = len(letters) + len(choice["token_ids"]) - 1  # the last token that was drawn went nowhere
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == shared // 16 * 16 > 16
    answer = complete(server, {"token_ids": conversation, "sampling_params": sampling}, path=GENERATE)
    assert answer["choices"][0]["token_ids"] == second["choices"][0]["token_ids"]
    said = complete(server, prompt=TEXTS[0], max_tokens=1, return_token_ids=True)["choices"][0]
    assert said["prompt_token_ids"] == reference.encode(TEXTS[0]).ids


def test_a_megabyte_without_a_break(serve, smollm2, patience):
    """Merging is linear in the length: a megabyte takes about a second, not an hour."""
    import time

    started = time.monotonic()
    status, _, answer = request(serve(smollm2), "POST", "/tokenize", {"prompt": "ab" * 500_000})
    assert status == 200 and answer["count"] > 1000
    assert time.monotonic() - started < 10 * patience


def test_large_texts_hold_up_nobody(serve, smollm2, patience):
    """More of them than there are threads for sockets: they are read elsewhere, so /health answers meanwhile."""
    import threading
    import time

    server = serve(smollm2)
    large = [
        threading.Thread(target=request, args=(server, "POST", "/tokenize", {"prompt": "ab" * 1_500_000}))
        for _ in range(4)
    ]
    for thread in large:
        thread.start()
    slowest = 0.0
    while any(thread.is_alive() for thread in large):
        started = time.monotonic()
        assert request(server, "GET", "/health")[0] == 200
        slowest = max(slowest, time.monotonic() - started)
        time.sleep(0.05)
    assert slowest < 1 * patience
