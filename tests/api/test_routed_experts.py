"""--enable-return-routed-experts: what comes back is what float32 transformers' routers chose, whatever the schedule."""

import base64
import io
import json
import random

import numpy as np
import pytest

from api.control import DEV, GENERATE, LONG, Background, aborted_streams, frozen_stream, post, until
from harness.client import complete, complete_many, refused, request, stream
from harness.server import TINY_MODELS, ServerDied

FLAGS = (
    *("--dtype", "float32", "--enable-return-routed-experts", "--enable-scale-out"),
    *("--chat-template", "{{ messages[0].content }}"),
)
MODELS = ["qwen2-moe", "qwen2-moe-norm", "qwen2-moe-window", "qwen3-moe", "qwen3-moe-fused", "qwen3-moe-window"]


def decoded(choice):
    file = io.BytesIO(base64.b64decode(choice["routed_experts"], validate=True))
    array = np.load(file, allow_pickle=False)
    again = io.BytesIO()
    np.save(again, array)
    assert again.getvalue() == file.getvalue()  # byte for byte what NumPy writes
    return array


def routed(server, prompt, **fields):
    """The arrays of a completion's choices."""
    fields = {"max_tokens": 1, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **fields}
    answer = complete(server, prompt=prompt, **fields)
    return [decoded(choice) for choice in answer["choices"]], answer


def same(left, right):
    return left.shape == right.shape and left.dtype == right.dtype and bool((left == right).all())


@pytest.fixture(scope="module", params=MODELS)
def case(request, serve):
    """A server, the golden values, and (layers, top_k, dtype)."""
    folder = TINY_MODELS / request.param
    config = json.loads((folder / "config.json").read_text())
    experts = config.get("num_experts") or config["num_local_experts"]
    shape = (config["num_hidden_layers"], config["num_experts_per_tok"], np.uint8 if experts <= 256 else np.uint16)
    return serve(folder, *FLAGS), json.loads((folder / "golden.json").read_text()), shape


@pytest.fixture
def server(serve):
    return serve(TINY_MODELS / "qwen3-moe", *FLAGS)


def prompt_of(length, seed=0):
    dice = random.Random(seed)
    return [dice.randrange(17, 300) for _ in range(length)]


@pytest.mark.short
def test_prompts_are_routed_as_in_transformers(case):
    server, golden, (layers, top_k, dtype) = case
    for attempt in ("cold", "warm"):
        for ids, expected in zip(golden["prompts"], golden["routed_experts"], strict=True):
            (array,), _ = routed(server, ids)
            assert array.dtype == dtype
            assert array.shape == (len(ids), layers, top_k)  # prompt + 1 - 1
            assert array.reshape(len(ids), -1).tolist() == expected, attempt


def test_every_layer_is_there_and_dense_ones_are_zero(serve):
    (array,), _ = routed(serve(TINY_MODELS / "qwen2-moe", *FLAGS), prompt_of(40))
    assert [bool(array[:, layer].any()) for layer in range(6)] == [False, True, False, False, False, True]


@pytest.mark.short
def test_output_tokens_are_routed_as_when_scored(case):
    """Cold and warm: the last token drawn has no row, and the others those that they have in a prompt."""
    server, golden, _ = case
    for entry in golden["greedy"]:
        ids, count = entry["prompt"], len(entry["token_ids"])
        (drawn,), answer = routed(server, ids, max_tokens=count, cache_salt="drawn")
        assert answer["choices"][0]["token_ids"] == entry["token_ids"]
        assert len(drawn) == len(ids) + count - 1
        (scored,), _ = routed(server, ids + entry["token_ids"][:-1], cache_salt="scored")
        assert same(drawn, scored)
        (warm,), _ = routed(server, ids, max_tokens=count, cache_salt="drawn")
        assert same(warm, drawn)


SCHEDULES = {
    "chunks of 16": ("--max-num-batched-tokens", 16, "--max-num-seqs", 16),
    "blocks of 128": ("--block-size", 128),
    "no prefix cache": ("--no-enable-prefix-caching",),
    "one at a time": ("--max-num-seqs", 1),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(serve, server, name):
    other = serve(TINY_MODELS / "qwen3-moe", *FLAGS, *SCHEDULES[name])
    dice = random.Random(name)
    bodies = [
        {
            "prompt": prompt_of(dice.randrange(1, 150), seed),
            "max_tokens": dice.randrange(1, 20),
            "seed": seed,
            "n": 1 + seed % 3,
        }
        for seed in range(12)
    ]
    expected = [complete(server, body, cache_salt=str(i)) for i, body in enumerate(bodies)]
    for attempt in ("cold", "warm"):
        for left, right in zip(expected, complete_many(other, bodies), strict=True):
            for one, two in zip(left["choices"], right["choices"], strict=True):
                assert same(decoded(one), decoded(two)), attempt


def test_partial_hits(server):
    base = prompt_of(170, "base")
    routed(server, base)
    for shared in (0, 15, 16, 17, 100, 128, 150):
        prompt = base[:shared] + prompt_of(20, shared)
        (warm,), _ = routed(server, prompt, max_tokens=5)
        (cold,), _ = routed(server, prompt, max_tokens=5, cache_salt=f"cold {shared}")
        assert same(warm, cold), shared


def test_preempted(serve, server, pool_of):
    model = TINY_MODELS / "qwen3-moe"
    small = serve(model, *FLAGS, "--max-model-len", 256, *pool_of(model, 400))
    bodies = [{"prompt": prompt_of(20, seed), "max_tokens": 120, "seed": seed, "ignore_eos": True} for seed in range(6)]
    expected = [complete(server, body) for body in bodies]
    answers = complete_many(small, bodies)
    assert small.metric("vllm:num_preemptions_total") > 0
    for left, right in zip(expected, answers, strict=True):
        assert same(decoded(left["choices"][0]), decoded(right["choices"][0]))


def test_samples_have_the_prompts_rows_each(server):
    prompt = prompt_of(37)
    arrays, answer = routed(server, prompt, n=3, temperature=1, seed=5, max_tokens=9)
    for array, choice in zip(arrays, answer["choices"], strict=True):
        assert len(array) == 37 + len(choice["token_ids"]) - 1
        assert same(array[:37], arrays[0][:37])
        (scored,), _ = routed(server, prompt + choice["token_ids"][:-1])
        assert same(array, scored)


@pytest.mark.parametrize("start", [0, 1, 16, 36, 37])
def test_prompt_start(server, start):
    prompt = prompt_of(37)
    (whole,), _ = routed(server, prompt, max_tokens=6)
    (part,), _ = routed(server, prompt, max_tokens=6, routed_experts_prompt_start=start)
    assert same(part, whole[start:])
    (prompt_only,), _ = routed(server, prompt, routed_experts_prompt_start=start)
    assert same(prompt_only, whole[start:37])


@pytest.mark.parametrize("start", [-1, 38, 2**40, "x", 1.5])
def test_bad_prompt_start(server, start):
    status, error = refused(server, prompt=prompt_of(37), max_tokens=2, routed_experts_prompt_start=start)
    assert status == 400
    if start == 38:
        assert (
            "routed_experts_prompt_start must be between 0 and the prompt length (37), inclusive." in error["message"]
        )
    routed(server, prompt_of(5))


def test_a_stop_string_ends_the_rows(server):
    prompt = prompt_of(30)
    (whole,), answer = routed(server, prompt, max_tokens=30)
    text = answer["choices"][0]["text"]
    (array,), stopped = routed(server, prompt, max_tokens=30, stop=[text[4:8]])
    choice = stopped["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert same(array, whole[: 30 + len(choice["token_ids"]) - 1])


def test_chat(server):
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "temperature": 0, "ignore_eos": True}
    more = {"return_token_ids": True, "routed_experts_prompt_start": 1}
    answer = complete(server, body, path="/v1/chat/completions", **more)
    (choice,), prompt = answer["choices"], answer["prompt_token_ids"]
    (scored,), _ = routed(server, prompt + choice["token_ids"][:-1])
    assert same(decoded(choice), scored[1:])


@pytest.mark.short
def test_generate_and_its_stream(server):
    body = {"token_ids": prompt_of(20), "sampling_params": {"max_tokens": 7, "n": 2, "seed": 3, "ignore_eos": True}}
    for start in (0, 5):
        fields = {**body, "sampling_params": {**body["sampling_params"], "routed_experts_prompt_start": start}}
        whole = complete(server, fields, path=GENERATE)["choices"]
        last = {}
        for chunk in stream(server, fields, GENERATE):
            for choice in chunk["choices"]:
                assert (choice["routed_experts"] is not None) == (choice["finish_reason"] is not None)
                last[choice["index"]] = choice
        for choice in whole:
            array = decoded(choice)
            assert len(array) == 20 + 7 - 1 - start
            assert same(decoded(last[choice["index"]]), array)


def test_not_in_the_streams_of_completions_and_chat(server):
    for path, more in (
        ("/v1/completions", {"prompt": prompt_of(4)}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ):
        for chunk in stream(server, {**more, "max_tokens": 4}, path):
            assert all("routed_experts" not in choice for choice in chunk["choices"])


def test_echo_without_output_has_the_prompts_rows(server):
    (whole,), _ = routed(server, prompt_of(20))
    (array,), _ = routed(server, prompt_of(20), echo=True, max_tokens=0)
    assert same(array, whole)


def test_kept_over_a_sleep(serve, patience):
    """Rows of what was computed before keys and values were given up are there after it."""
    server = serve(TINY_MODELS / "qwen3-moe", *FLAGS, "--enable-sleep-mode", env=DEV)
    sampling = {"max_tokens": LONG, "ignore_eos": True, "temperature": 0}
    body = {"token_ids": [5, 6, 7], "sampling_params": sampling, "cache_salt": "expected"}
    expected = decoded(complete(server, body, path=GENERATE)["choices"][0])
    running = frozen_stream(server, patience, clear_cache=True)
    post(server, "/sleep?level=1&mode=keep")
    post(server, "/wake_up")
    post(server, "/resume")
    running.wait(60 * patience)
    assert same(decoded(running.seen[-1]["choices"][0]), expected)


def test_aborted_before_a_token_there_is_none(serve, patience):
    server = serve(TINY_MODELS / "qwen3-moe", *FLAGS, "--enable-sleep-mode", env=DEV)
    post(server, "/pause?mode=keep")
    aborted = Background(lambda: complete(server, prompt=prompt_of(9), max_tokens=3))
    until(lambda: server.in_flight()[1] >= 1, 10 * patience, "nothing waits")
    post(server, "/abort_requests", {})
    (choice,) = aborted.wait(10 * patience)["choices"]
    post(server, "/resume")
    assert choice["finish_reason"] == "abort" and choice["routed_experts"] is None


def test_rows_that_an_aborted_request_left(serve, patience):
    """What asks for the same tokens after it finds its blocks, and has the rows of a cold run."""
    server = serve(TINY_MODELS / "qwen3-moe", *FLAGS, "--enable-sleep-mode", "--enable-prompt-tokens-details", env=DEV)
    (gone,), _ = aborted_streams(server, patience, lambda: post(server, "/abort_requests", {}))
    prompt = [5, 6, 7, *gone.token_ids()]
    (warm,), answer = routed(server, prompt, max_tokens=5)
    assert len(prompt) < 32 or answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    (cold,), _ = routed(server, prompt, max_tokens=5, cache_salt="cold")
    assert same(warm, cold)
    last = gone.seen[-1]["choices"][0]
    assert same(decoded(last), cold[: len(prompt) - 1])


def test_null_without_the_flag(serve):
    server = serve(TINY_MODELS / "qwen3-moe", "--dtype", "float32", "--enable-scale-out")
    (choice,) = complete(server, prompt=prompt_of(5), max_tokens=2, routed_experts_prompt_start=2)["choices"]
    assert choice["routed_experts"] is None


def test_a_dense_model_is_refused(own_server):
    with pytest.raises(ServerDied, match="--enable-return-routed-experts: Qwen3ForCausalLM has no experts"):
        own_server(TINY_MODELS / "qwen3-tied", "--enable-return-routed-experts")


def test_the_cache_pays_for_what_is_kept(serve):
    """The experts' ids come out of --kv-cache-memory-bytes, like keys and values."""
    flags = ("--kv-cache-memory-bytes", 1 << 24)
    model = TINY_MODELS / "qwen3-moe"
    kept = serve(model, *FLAGS, *flags)
    assert kept.num_blocks() < serve(model, "--dtype", "float32", *flags).num_blocks()
    status, _, _ = request(kept, "GET", "/health")
    assert status == 200
