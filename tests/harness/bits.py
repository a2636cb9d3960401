"""Log-probs out of answers, compared by their bits.

The server writes a float32 as the shortest decimal that reads back as that float32, or as its exact double; either way
equal text means equal bits, and parsing both sides the same way keeps that.
"""

import struct


class Tally:
    """How many log-probs were compared, over the whole run; printed at its end."""

    compared = 0
    differing = 0


def bits(value):
    """The float32 bits of a JSON number."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def completion_rows(choice):
    """One {token id: log-prob} a generated token, sampled one first. Needs return_token_ids, return_tokens_as_token_ids
    and logprobs in the request."""
    logprobs = choice["logprobs"]
    rows = []
    for token, value, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        row = {int(token.removeprefix("token_id:")): value}
        row.update((int(name.removeprefix("token_id:")), x) for name, x in (top or {}).items())
        rows.append(row)
    assert [next(iter(row)) for row in rows] == choice["token_ids"]
    return rows


def prompt_rows(choice):
    """One {token id: log-prob} a prompt token but the first."""
    return [{int(k): v["logprob"] for k, v in entry.items()} for entry in choice["prompt_logprobs"][1:]]


def differences(expected_rows, rows, same_keys=True):
    """Positions and tokens whose bits differ; every compared value is counted. Without same_keys only the first entry of
    each expected row (the token that stands there) must be present, and others are compared where both sides have them."""
    found = []
    if len(expected_rows) != len(rows):
        return [f"{len(rows)} positions, not {len(expected_rows)}"]
    for position, (expected, row) in enumerate(zip(expected_rows, rows, strict=True)):
        if same_keys and expected.keys() != row.keys():
            found.append(f"position {position}: tokens {list(row)}, not {list(expected)}")
        first = next(iter(expected), None)
        for token, value in expected.items():
            if token not in row:
                if token == first and not same_keys:
                    found.append(f"position {position}: no value for token {token}")
                continue
            Tally.compared += 1
            if bits(row[token]) != bits(value):
                found.append(f"position {position}, token {token}: {row[token]!r}, not {value!r}")
    Tally.differing += len(found)
    return found


def assert_same(expected_rows, rows, what, same_keys=True):
    found = differences(expected_rows, rows, same_keys)
    assert not found, f"{what}: {len(found)} differences, the first: {'; '.join(found[:3])}"


def assert_same_answer(expected, answer, what):
    """Every choice of two answers: tokens, texts, finish reasons, and the bits of all log-probs."""
    assert len(expected["choices"]) == len(answer["choices"]), what
    for want, got in zip(expected["choices"], answer["choices"], strict=True):
        assert got["token_ids"] == want["token_ids"], f"{what}: tokens changed"
        assert got["text"] == want["text"], what
        assert (got["finish_reason"], got["stop_reason"]) == (want["finish_reason"], want["stop_reason"]), what
        assert_same(completion_rows(want), completion_rows(got), what)
