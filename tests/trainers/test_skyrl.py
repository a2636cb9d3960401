"""SkyRL's RemoteInferenceClient: rollouts, Tinker's samples, and its weight updates around them."""

import asyncio
import contextlib
import typing

import aiohttp
import pytest
import torch
import typing_extensions
from transformers import AutoModelForCausalLM

import unspool
from trainers.servers import DEV, EXACT, LONG, transfer
from unspool.senders.segment import Segment

# pydantic takes only this one before Python 3.12, and SkyRL 0.3.0 has the other.
typing.TypedDict = typing_extensions.TypedDict
from skyrl.backends.skyrl_train.inference_servers.remote_inference_client import (  # noqa: E402
    PauseMode,
    RemoteInferenceClient,
)

PROMPTS = [[5, 9, 33, 104], [71, 8, 14]]


@pytest.fixture(scope="module")
def server(serve, policy):
    return serve(
        policy, *EXACT, *transfer("ipc"), "--enable-sleep-mode", "--enable-scale-out", env=DEV, model_name="policy"
    )


@pytest.fixture(autouse=True)
def as_at_first(server):
    yield
    with unspool.Client(server.url) as client:
        with contextlib.suppress(unspool.ApiError):
            client.update_weights({})  # which fails, and so ends a session that is open
        client.wake_up()
        client.resume()
        client.reload_weights()
        client.reset_prefix_cache(reset_running_requests=True)


def run(server, work):
    """Runs work(client) to its end."""

    async def session():
        client = RemoteInferenceClient(
            proxy_url=server.url, server_urls=[server.url], data_parallel_size=1, model_name="policy"
        )
        async with client:
            return await work(client)

    return asyncio.run(session())


def score(server, tokens):
    with unspool.Client(server.url) as client:
        return client.score([tokens])[0].logprobs[1:]


def rollouts(max_tokens, **sampling):
    params = {"max_tokens": max_tokens, "temperature": 1.0, "logprobs": 1, "ignore_eos": True, **sampling}
    return {"prompt_token_ids": PROMPTS, "sampling_params": params, "session_ids": ["a", "b"]}


def test_generate(server):
    output = run(server, lambda client: client.generate(rollouts(10)))
    assert output["stop_reasons"] == ["length"] * 2
    for prompt, ids, logprobs, text in zip(
        PROMPTS, output["response_ids"], output["response_logprobs"], output["responses"], strict=True
    ):
        assert len(ids) == len(logprobs) == 10 and isinstance(text, str)
        assert score(server, prompt + ids)[len(prompt) - 1 :] == logprobs


def test_sample(server):
    body = {
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPTS[0]}]},
        "num_samples": 3,
        "sampling_params": {"max_tokens": 6, "temperature": 1.0, "seed": 5},
        "include_prompt_logprobs": True,
        "topk_prompt_logprobs": 4,
    }
    answer = run(server, lambda client: client.sample({"json": body}))
    assert len(answer["sequences"]) == 3
    assert len({tuple(sequence["tokens"]) for sequence in answer["sequences"]}) > 1
    assert all(len(s["tokens"]) == len(s["logprobs"]) for s in answer["sequences"])
    assert answer["prompt_logprobs"] == [None, *score(server, PROMPTS[0])]
    assert [row and len(row) for row in answer["topk_prompt_logprobs"]] == [None, 4, 4, 4]


def test_texts_and_sizes(server):
    async def work(client):
        (ids,) = await client.tokenize(["A policy."])
        return await client.detokenize([ids]), await client.get_world_size()

    assert run(server, work) == (["A policy."], (1, 1))


def update_info(model, segment):
    """All of the model in one segment, as docs/adr/0006-weights-through-shared-memory.md has it."""
    info = {"names": [], "dtype_names": [], "shapes": [], "offsets": [], "nbytes": []}
    offset = 0
    for name, parameter in model.named_parameters():
        data = parameter.detach().contiguous().view(-1).view(torch.uint8).numpy()
        segment.bytes[offset : offset + len(data)] = data
        entry = (name, str(parameter.dtype).removeprefix("torch."), list(parameter.shape), offset, len(data))
        for values, value in zip(info.values(), entry, strict=True):
            values.append(value)
        offset += len(data)
    return {**info, "shm_name": segment.name}


def test_weights_change_under_frozen_rollouts(server, policy):
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    size = sum(p.numel() * 4 for p in model.parameters())
    before = score(server, PROMPTS[0])
    segment = Segment(size)

    async def work(client):
        running = asyncio.create_task(client.generate(rollouts(LONG)))
        await asyncio.sleep(0.05)
        await client.pause(mode=PauseMode.KEEP, clear_cache=True)
        await client._call_all_servers("/init_weight_transfer_engine", {"init_info": {}})
        await client.start_weight_update()
        await client.update_named_weights(update_info(model, segment))
        await client.finish_weight_update()
        await client.reset_prefix_cache(reset_running_requests=True)
        client.increment_weight_version()
        assert not running.done()
        await client.resume()
        return await running

    try:
        output = run(server, work)
    finally:
        segment.close()
    assert output["stop_reasons"] == ["length"] * 2 and [len(ids) for ids in output["response_ids"]] == [LONG] * 2
    with torch.no_grad():
        rows = model(torch.tensor([PROMPTS[0]])).logits[0, :-1].log_softmax(dim=-1)
    expected = [row[token].item() for row, token in zip(rows, PROMPTS[0][1:], strict=True)]
    assert score(server, PROMPTS[0]) == pytest.approx(expected, abs=1e-4) != before
    # What was drawn at the end was drawn by the new weights.
    tail = score(server, PROMPTS[0] + output["response_ids"][0])[-20:]
    assert tail == pytest.approx(output["response_logprobs"][0][-20:], abs=1e-4)


@pytest.mark.parametrize("method", ["update_weights_ipc", "update_weights_nccl"])
def test_cuda_handles_are_refused(server, method):
    """With a 400, which the client does not repeat, and the backends that there are."""
    info = {"names": ["w"], "dtype_names": ["float32"], "shapes": [[1]], "sizes": [1], "ipc_handles_pickled": "gASV"}

    async def work(client):
        await client.start_weight_update()
        await getattr(client, method)(info)

    before = score(server, PROMPTS[0])
    with pytest.raises(aiohttp.ClientResponseError) as refusal:
        run(server, work)
    assert refusal.value.status == 400
    assert "ipc" in refusal.value.message and "gloo" in refusal.value.message
    assert score(server, PROMPTS[0]) == before


def test_asleep_while_the_trainer_has_the_machine(server, policy):
    """Colocated: asleep at level 2, weights awake and loaded, then the cache."""
    before = score(server, PROMPTS[0])

    async def work(client):
        await client.sleep(level=2)
        waiting = asyncio.create_task(client.generate(rollouts(4)))
        await client.wake_up(tags=["weights"])
        rpc = {"method": "reload_weights", "kwargs": {"weights_path": str(policy)}}
        await client._call_all_servers("/collective_rpc", rpc)
        assert not waiting.done()
        await client.wake_up(tags=["kv_cache"])
        return await waiting

    assert run(server, work)["stop_reasons"] == ["length"] * 2
    assert score(server, PROMPTS[0]) == before


def test_pause_abort(server):
    async def work(client):
        running = asyncio.create_task(client.generate(rollouts(LONG)))
        await asyncio.sleep(0.05)
        await client.pause(mode="abort")
        partial = await running
        await client.resume()
        return partial

    partial = run(server, work)
    assert partial["stop_reasons"] == ["abort"] * 2
    assert [len(ids) for ids in partial["response_ids"]] == [len(x or []) for x in partial["response_logprobs"]]
