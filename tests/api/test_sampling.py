"""What requests ask of the sampler, checked against the whole distribution that the server itself reports."""

import math

import pytest

from harness.client import complete, refused

ALL = ("--max-logprobs", -1)
PROMPT = [20, 150, 33, 7, 99]
IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}


@pytest.fixture(scope="module")
def server(serve, tiny):
    return serve(tiny, *ALL)


def ask(server, **fields):
    (choice,) = complete(server, {"prompt": PROMPT, **IDS, **fields})["choices"]
    return choice


def distribution(server, **fields):
    """{token id: value} of the first generated position, in the mode asked for."""
    choice = ask(server, max_tokens=1, logprobs=-1, **fields)
    return {int(name.removeprefix("token_id:")): value for name, value in choice["logprobs"]["top_logprobs"][0].items()}


FLOOR = -9999.0


def kept(values):
    return {token for token, value in values.items() if value > FLOOR}


@pytest.fixture(scope="module")
def raw(server):
    return distribution(server)


def test_whole_distribution(raw):
    assert sorted(raw) == list(range(384))
    assert math.fsum(math.exp(value) for value in raw.values()) == pytest.approx(1, abs=1e-5)


def ranked(values):
    return sorted(values, key=lambda token: (-values[token], token))


def test_greedy(server, raw):
    assert ask(server, max_tokens=1, temperature=0)["token_ids"] == [ranked(raw)[0]]
    assert ask(server, max_tokens=1, temperature=1, top_k=1)["token_ids"] == [ranked(raw)[0]]


@pytest.mark.parametrize(
    ("fields", "expected_kept"),
    [
        ({"top_k": 5}, lambda order, p: order[:5]),
        ({"min_p": 0.2}, lambda order, p: [t for t in order if p[t] >= 0.2 * p[order[0]]]),
        ({"top_p": 0.8}, lambda order, p: smallest_set(order, p, 0.8)),
        ({"top_k": 8, "top_p": 0.5}, lambda order, p: smallest_set(order[:8], p, 0.5)),
        ({"top_k": 0}, lambda order, p: order),
        ({"top_k": -1}, lambda order, p: order),
    ],
    ids=["top_k", "min_p", "top_p", "top_k then top_p", "off by 0", "off by -1"],
)
def test_truncation(server, raw, fields, expected_kept):
    order = ranked(raw)
    p = {token: math.exp(value) for token, value in raw.items()}
    processed = distribution(server, logprobs_mode="processed_logprobs", **fields)
    assert kept(processed) == set(expected_kept(order, p))
    mass = math.log(math.fsum(p[token] for token in kept(processed)))
    for token in kept(processed):
        assert processed[token] == pytest.approx(raw[token] - mass, abs=1e-4)


def smallest_set(order, p, top_p):
    """The likeliest tokens of `order` whose renormalised mass reaches top_p."""
    total, mass, chosen = math.fsum(p[token] for token in order), 0.0, []
    for token in order:
        chosen.append(token)
        mass += p[token] / total
        if mass >= top_p:
            break
    return chosen


def test_kept_mass(server):
    """kept_logprob turns raw values into processed ones."""
    fields = {"max_tokens": 6, "seed": 2, "top_p": 0.7, "logprobs": 0, "return_kept_mass": True, "ignore_eos": True}
    raw = ask(server, **fields)["logprobs"]
    processed = ask(server, **fields, logprobs_mode="processed_logprobs")["logprobs"]
    assert raw["tokens"] == processed["tokens"]
    assert len(raw["kept_logprob"]) == 6
    for r, p, mass in zip(raw["token_logprobs"], processed["token_logprobs"], raw["kept_logprob"], strict=True):
        assert mass <= 0
        assert p == pytest.approx(r - mass, abs=1e-4)
    assert refused(server, prompt=PROMPT, return_kept_mass=True)[0] == 400


def test_temperature(server, raw):
    processed = distribution(server, temperature=0.5, logprobs_mode="processed_logprobs")
    total = math.log(math.fsum(math.exp(2 * value) for value in raw.values()))
    for token, value in processed.items():
        assert value == pytest.approx(2 * raw[token] - total, abs=1e-3)
    assert distribution(server, temperature=0.5) == raw


def test_logits_modes(server, raw):
    logits = distribution(server, logprobs_mode="raw_logits")
    shift = logits[0] - raw[0]
    assert all(logits[token] - raw[token] == pytest.approx(shift, abs=1e-4) for token in raw)
    processed = distribution(server, logprobs_mode="processed_logits", temperature=0.5, top_k=3)
    assert len(kept(processed)) == 3
    assert all(processed[token] == pytest.approx(2 * logits[token], rel=1e-5) for token in kept(processed))


def test_drawn_as_often_as_likely(server, raw):
    """A chi-square over 2,000 draws of a truncated distribution."""
    processed = distribution(server, top_k=6, logprobs_mode="processed_logprobs")
    counts = dict.fromkeys(kept(processed), 0)
    for seed in (10_000, 20_000):
        choices = complete(server, prompt=PROMPT, max_tokens=1, n=1000, top_k=6, seed=seed, return_token_ids=True)[
            "choices"
        ]
        for choice in choices:
            counts[choice["token_ids"][0]] += 1
    chi_square = sum((counts[t] - 2000 * math.exp(processed[t])) ** 2 / (2000 * math.exp(processed[t])) for t in counts)
    assert chi_square < 25, f"{counts}"  # 5 degrees of freedom: 1 in 7,000


@pytest.mark.short
def test_seeds(server):
    fields = {"max_tokens": 12, "ignore_eos": True}
    first = ask(server, seed=1, **fields)["token_ids"]
    assert ask(server, seed=1, **fields)["token_ids"] == first
    assert ask(server, seed=2, **fields)["token_ids"] != first
    assert ask(server, seed=2**63 - 1, **fields)["token_ids"] != first
    assert ask(server, **fields)["token_ids"] != ask(server, **fields)["token_ids"]
    samples = complete(server, prompt=PROMPT, n=4, return_token_ids=True, **fields)["choices"]
    assert len({tuple(choice["token_ids"]) for choice in samples}) == 4


@pytest.mark.short
def test_allowed_and_biased(server, raw):
    allowed = ask(server, max_tokens=20, allowed_token_ids=[100, 101], ignore_eos=True, seed=1)["token_ids"]
    assert set(allowed) == {100, 101}
    assert set(ask(server, max_tokens=5, logit_bias={"77": 100}, temperature=0)["token_ids"]) == {77}
    best = ranked(raw)[0]
    assert ask(server, max_tokens=1, logit_bias={str(best): -100}, temperature=0)["token_ids"] == [ranked(raw)[1]]


def test_bad_words(serve, smollm2):
    server = serve(smollm2)
    body = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    assert "Paris" in complete(server, body)["choices"][0]["text"]
    assert "Paris" not in complete(server, body, bad_words=["Paris"])["choices"][0]["text"]


@pytest.mark.short
def test_min_tokens_and_eos(server):
    eos = {"logit_bias": {"2": 100}, "temperature": 0, "max_tokens": 20}
    choice = ask(server, **eos)
    assert (choice["token_ids"], choice["finish_reason"], choice["stop_reason"]) == ([2], "stop", None)
    choice = ask(server, **eos, min_tokens=5)
    assert len(choice["token_ids"]) == 6 and choice["token_ids"][-1] == 2 and 2 not in choice["token_ids"][:-1]
    choice = ask(server, **eos, ignore_eos=True)
    assert choice["token_ids"] == [2] * 20 and choice["finish_reason"] == "length"


@pytest.mark.short
def test_stop_token_ids(server):
    tokens = ask(server, max_tokens=10, seed=4, ignore_eos=True)["token_ids"]
    stop = tokens[5]
    choice = ask(server, max_tokens=10, seed=4, ignore_eos=True, stop_token_ids=[stop])
    assert choice["token_ids"] == tokens[: tokens.index(stop) + 1]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


@pytest.mark.parametrize("include", [False, True])
def test_stop_strings(serve, smollm2, include):
    server = serve(smollm2)
    body = {"prompt": "The capital of France is", "max_tokens": 16, "temperature": 0, "return_token_ids": True}
    whole = complete(server, body)["choices"][0]
    stop = "Paris"
    choice = complete(server, body, stop=["never seen", stop], include_stop_str_in_output=include)["choices"][0]
    at = whole["text"].index(stop)
    assert choice["text"] == whole["text"][: at + (len(stop) if include else 0)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert choice["token_ids"] == whole["token_ids"][: len(choice["token_ids"])]


def test_penalties(server):
    """Frequency and presence count the output, repetition the prompt as well."""
    forced = {"logit_bias": {"50": 100}, "temperature": 0, "ignore_eos": True}
    assert ask(server, max_tokens=4, **forced)["token_ids"] == [50] * 4

    def second_position(**fields):
        choice = ask(server, max_tokens=2, allowed_token_ids=[50, 51], seed=1, temperature=1, logprobs=-1, **fields)
        top = choice["logprobs"]["top_logprobs"][1]
        first = choice["token_ids"][0]
        return first, {int(k.removeprefix("token_id:")): v for k, v in top.items()}

    first, plain = second_position(logprobs_mode="processed_logits")
    other = 101 - first
    _, punished = second_position(logprobs_mode="processed_logits", frequency_penalty=1.5, presence_penalty=0.25)
    assert punished[first] == pytest.approx(plain[first] - 1.75, abs=1e-4)
    assert punished[other] == pytest.approx(plain[other], abs=1e-6)

    logits = distribution(server, logprobs_mode="processed_logits")
    repeated = distribution(server, logprobs_mode="processed_logits", repetition_penalty=2.0)
    for token, value in logits.items():
        expected = value if token not in PROMPT else value / 2 if value > 0 else value * 2
        assert repeated[token] == pytest.approx(expected, abs=1e-5)


def test_chosen_logprobs(server, raw):
    fields = {"max_tokens": 1, "logprobs": 1, "logprob_token_ids": [5, 6, 300], "temperature": 0}
    top = ask(server, **fields)["logprobs"]["top_logprobs"][0]
    values = {int(name.removeprefix("token_id:")): value for name, value in top.items()}
    assert values.keys() == {ranked(raw)[0], 5, 6, 300}
    assert all(value == raw[token] for token, value in values.items())


def test_repetition_detection(server):
    found = {"max_pattern_size": 3, "min_pattern_size": 1, "min_count": 4}
    choice = ask(
        server, max_tokens=30, temperature=0, logit_bias={"50": 100}, ignore_eos=True, repetition_detection=found
    )
    assert choice["finish_reason"] == "repetition"
    assert choice["stop_reason"] == "repetition_detected"
    assert choice["token_ids"] == [50] * 4


def test_generation_config_defaults(own_server, tiny, tmp_path):
    """The model's generation_config.json gives what a request leaves out, unless --generation-config vllm."""
    import json
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "top_k": 1}))
    greedy = own_server(tiny)
    expected = complete(greedy, prompt=PROMPT, max_tokens=8, temperature=0, return_token_ids=True)["choices"][0][
        "token_ids"
    ]
    defaults = own_server(folder)
    fields = {"prompt": PROMPT, "max_tokens": 8, "return_token_ids": True}
    assert complete(defaults, fields, seed=1)["choices"][0]["token_ids"] == expected
    assert complete(defaults, fields, seed=1, top_k=0)["choices"][0]["token_ids"] != expected
    neutral = own_server(folder, "--generation-config", "vllm")
    assert complete(neutral, fields, seed=1)["choices"][0]["token_ids"] != expected
