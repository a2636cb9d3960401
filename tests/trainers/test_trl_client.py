"""TRL's VLLMClient without a communicator: what its trainers and its teachers ask of a server."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

import unspool.integrations.trl
from harness.chat import CHATML
from trainers.servers import DEV, EXACT

PROMPTS = [[5, 9, 33, 104], [71, 8], [200, 201, 202, 203, 204, 205]]


@pytest.fixture(scope="module")
def client(serve, policy):
    unspool.integrations.trl.install()
    from trl.generation.vllm_client import VLLMClient

    return VLLMClient(base_url=serve(policy, *EXACT, "--chat-template", CHATML, env=DEV).url)


@pytest.fixture(scope="module")
def model(policy):
    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32, attn_implementation="eager").eval()


def log_probs_of(model, tokens, change_logits=lambda logits, tokens: logits):
    """One row a position but the last: the log-probs of what follows."""
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
    rows = [change_logits(row, tokens[: i + 1]) for i, row in enumerate(logits[:-1])]
    return torch.stack(rows).log_softmax(dim=-1)


def test_server_info(client):
    info = client.get_server_info()
    assert info["model_config"]["logprobs_mode"] == "processed_logprobs"
    assert info["model_config"]["dtype"] == "torch.float32"
    assert client.get_world_size() == 1


def test_generate_token_ids(client):
    output = client.generate(PROMPTS, max_tokens=12)
    assert output["prompt_ids"] == PROMPTS
    assert len(output["completion_ids"]) == len(PROMPTS)
    for completion, logprobs, ids in zip(
        output["completion_ids"], output["logprobs"], output["logprob_token_ids"], strict=True
    ):
        assert 0 < len(completion) <= 12
        # One entry a position: a second would be trained on where it is likelier than the token that was drawn.
        assert ids == [[token] for token in completion]
        assert all(len(entry) == 1 and -math.inf < entry[0] <= 0 for entry in logprobs)


def test_generate_text(client):
    output = client.generate(["Hello", "What is a policy?"], max_tokens=4)
    assert all(ids for ids in output["prompt_ids"]) and len(output["completion_ids"]) == 2


def test_generate_groups(client):
    """n completions of a prompt stand together, in the order of the prompts."""
    output = client.generate(PROMPTS, n=3, temperature=1.2, top_p=0.9, top_k=50, repetition_penalty=1.1, max_tokens=16)
    assert output["prompt_ids"] == PROMPTS
    groups = [output["completion_ids"][i : i + 3] for i in range(0, 9, 3)]
    assert len(output["completion_ids"]) == 9
    assert all(len({tuple(completion) for completion in group}) > 1 for group in groups)


def test_generate_top_logprobs_and_none(client):
    ranked = client.generate(PROMPTS, max_tokens=4, logprobs=3)
    for completion, ids, logprobs in zip(
        ranked["completion_ids"], ranked["logprob_token_ids"], ranked["logprobs"], strict=True
    ):
        for token, entry, values in zip(completion, ids, logprobs, strict=True):
            assert token in entry and len(entry) in (3, 4) and values == sorted(values, reverse=True)
    silent = client.generate(PROMPTS, max_tokens=4, logprobs=None)
    assert silent["logprobs"] is None and silent["logprob_token_ids"] is None


def test_generation_kwargs(client):
    seeded = [client.generate(PROMPTS, n=2, max_tokens=8, generation_kwargs={"seed": 7}) for _ in range(2)]
    assert seeded[0] == seeded[1]
    stopped = client.generate(PROMPTS, max_tokens=8, generation_kwargs={"seed": 7, "stop_token_ids": [*range(320)]})
    assert all(len(completion) == 1 for completion in stopped["completion_ids"])


def test_logprobs_match_with_non_default_sampling(client, model):
    """What is reported is the log-prob under what was sampled from: temperature and penalty in, truncation too."""
    temperature, penalty = 0.7, 1.3

    def processed(logits, seen):
        logits = logits.clone()
        index = torch.tensor(sorted(set(seen)))
        values = logits[index]
        logits[index] = torch.where(values > 0, values / penalty, values * penalty)
        return logits / temperature

    output = client.generate(PROMPTS, n=2, temperature=temperature, repetition_penalty=penalty, max_tokens=24)
    for i, completion in enumerate(output["completion_ids"]):
        prompt = PROMPTS[i // 2]
        rows = log_probs_of(model, prompt + completion, processed)[len(prompt) - 1 :]
        expected = [row[token].item() for row, token in zip(rows, completion, strict=True)]
        assert [entry[0] for entry in output["logprobs"][i]] == pytest.approx(expected, abs=1e-4)


def test_teacher_scores(client, model):
    """get_sequence_logprobs: the top 100 of each position, and the token that stands there whatever its rank."""
    sequences = [[5, 9, 33, 104, 7, 250, 31], [71, 8, 300, 12]]
    scores = client.get_sequence_logprobs(sequences, prompt_lengths=[2, 1], top_logprobs=100)
    for i, (sequence, start) in enumerate(zip(sequences, [2, 1], strict=True)):
        rows = log_probs_of(model, sequence)[start - 1 :]
        actual = [entry[0] for entry in scores["actual_logprobs"][i]]
        assert actual == pytest.approx([row[t].item() for row, t in zip(rows, sequence[start:], strict=True)], abs=1e-4)
        for row, ids, values in zip(rows, scores["logprob_token_ids"][i], scores["logprobs"][i], strict=True):
            assert values == pytest.approx(row.topk(100).values.tolist(), abs=1e-4) and len(set(ids)) == 100


def test_chat(client):
    output = client.chat([[{"role": "user", "content": "Hello"}]] * 2, n=2, max_tokens=6)
    assert len(output["prompt_ids"]) == 2 and len(output["completion_ids"]) == 4
    assert [len(ids) for ids in output["completion_ids"]] == [len(values) for values in output["logprobs"]]


def test_reset_prefix_cache(client):
    client.reset_prefix_cache()


def test_the_stand_ins_say_what_they_are_not():
    from vllm import LLM

    with pytest.raises(NotImplementedError, match="colocate"):
        LLM("model")
    unspool.integrations.trl.install()  # a second time changes nothing


@pytest.mark.parametrize("limit", [0, 1, 100, 4000, 1 << 20])
def test_chunks_are_those_that_the_server_expects(limit):
    from unspool import _gloo
    from unspool.integrations import _gloo_endpoint

    numels = [3, 25, 26, 1, 500, 2, 0, 400, 7]
    tensors = [torch.randn(numel) for numel in numels]
    expected = [sum(4 * numels[i] for i in chunk) for chunk in _gloo.chunks([4 * n for n in numels], limit)]
    got = list(_gloo_endpoint.chunks(iter(tensors), limit))
    assert [len(chunk) for chunk in got] == [size for size in expected if size]
    assert torch.equal(torch.cat(got).view(torch.float32), torch.cat(tensors))


@pytest.mark.parametrize("window", [None, 3])
def test_attention_of_short_segments_on_long_paths(window):
    """AsyncGRPO's attention: as torch's own, on the last rows of each path."""
    from unspool.integrations._async_grpo import flash_attn_varlen_func

    paths, segments = [7, 12, 4], [7, 5, 1]
    queries = torch.randn(sum(segments), 4, 8, requires_grad=True)
    keys, values = (torch.randn(sum(paths), 2, 8) for _ in range(2))
    bounds = [torch.tensor([0, *sizes]).cumsum(0).int() for sizes in (segments, paths)]
    size = (window - 1, 0) if window else (-1, -1)
    got = flash_attn_varlen_func(queries, keys, values, *bounds, 7, 12, causal=True, window_size=size)
    expected = []
    for q, k, v in zip(queries.split(segments), keys.split(paths), values.split(paths), strict=True):
        rows, columns = torch.arange(len(k))[-len(q) :, None], torch.arange(len(k))
        seen = columns <= rows
        if window:
            seen &= columns > rows - window
        args = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(*args, attn_mask=seen, enable_gqa=True)
        expected.append(out[0].transpose(0, 1))
    assert torch.allclose(got, torch.cat(expected), atol=1e-6)
    got.sum().backward()
    assert queries.grad.abs().max() > 0
