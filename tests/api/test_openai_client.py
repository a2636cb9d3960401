"""OpenAI's own Python client, unchanged."""

import openai
import pytest


@pytest.fixture(scope="module")
def client(serve, smollm2):
    return openai.OpenAI(base_url=serve(smollm2).url + "/v1", api_key="none", max_retries=0)


def test_completion(client):
    answer = client.completions.create(
        model="m", prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=2
    )
    assert answer.choices[0].text.startswith(" Paris")
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].logprobs.token_logprobs) == answer.usage.completion_tokens == 4


def test_stream(client):
    fields = {"model": "m", "prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}
    whole = client.completions.create(**fields).choices[0].text
    chunks = list(client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole
    assert chunks[-1].usage.completion_tokens == 6


def test_batch_and_n(client):
    answer = client.completions.create(
        model="m", prompt=["One", "Two", "Three"], n=2, max_tokens=3, seed=1, extra_body={"return_token_ids": True}
    )
    assert [choice.index for choice in answer.choices] == list(range(6))
    ids = [tuple(choice.prompt_token_ids) for choice in answer.choices]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_models(client):
    (model,) = client.models.list().data
    assert model.id == "m" and model.max_model_len == 8192


def test_errors(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="another", prompt="x")
    assert "another" in str(caught.value)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="m", prompt="x", temperature=3)
