"""Group sampling through OpenAI's client, token ids in and out, as GRPO trainers do it."""

import asyncio


def test_group_sampling(openai_client):
    prompts = [[504, 3575, 282, 4649, 314], [81, 256, 33]]
    extra = {"return_token_ids": True, "return_tokens_as_token_ids": True}
    answer = asyncio.run(
        openai_client.completions.create(
            model="policy", prompt=prompts, n=4, max_tokens=8, temperature=1.0, logprobs=0, extra_body=extra
        )
    )
    assert [choice.index for choice in answer.choices] == list(range(8))
    for choice in answer.choices:
        assert choice.prompt_token_ids == prompts[choice.index // 4]
        assert choice.token_ids
        # TRL takes the first entry of each position, so there must be one: the sampled token's.
        assert choice.logprobs.tokens == [f"token_id:{token}" for token in choice.token_ids]
        assert [len(top) for top in choice.logprobs.top_logprobs] == [1] * len(choice.token_ids)
        assert all(value <= 0 for value in choice.logprobs.token_logprobs)


def test_teacher_scores(openai_client):
    """prompt_logprobs of a batch: the token that stands there comes first, whatever its rank."""
    sequences = [[504, 3575, 282, 4649, 314, 7042], [504, 3575, 282, 4649, 314, 40000]]
    answer = asyncio.run(
        openai_client.completions.create(
            model="policy", prompt=sequences, max_tokens=1, extra_body={"prompt_logprobs": 5}
        )
    )
    for choice, sequence in zip(answer.choices, sequences, strict=True):
        entries = choice.prompt_logprobs
        assert entries[0] is None and len(entries) == len(sequence)
        assert [next(iter(entry)) for entry in entries[1:]] == [str(token) for token in sequence[1:]]
