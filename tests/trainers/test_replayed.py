"""Trainers that need a GPU themselves, by what their clients send: prime-rl's and AReaL's updates from a directory."""

import threading

import pytest
from safetensors.torch import load_file, save_file

import unspool
from api.control import Stream, post, refusal, until
from harness.client import complete
from trainers.servers import DEV, EXACT, LONG

PROMPT = [5, 9, 33, 104]


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def step_dir(policy, roots):
    """What a trainer writes after a step: safetensors, and prime-rl's mark that they are whole."""
    folder = roots / "step_1"
    folder.mkdir()
    tensors = load_file(policy / "model.safetensors")
    save_file({name: tensor * 1.25 for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "STABLE").touch()
    return folder


@pytest.fixture
def server(serve, policy, roots):
    server = serve(policy, *EXACT, "--enable-scale-out", "--weight-directory", policy, roots, env=DEV)
    yield server
    with unspool.Client(server.url) as client:
        client.resume()
        client.reload_weights()
        client.reset_prefix_cache(reset_running_requests=True)


@pytest.fixture(scope="module")
def cold(serve, step_dir, policy, tmp_path_factory):
    """Log-probs of a server that was started on the step's weights."""
    folder = tmp_path_factory.mktemp("cold") / "model"
    folder.mkdir()
    for path in [*policy.glob("*.json"), step_dir / "model.safetensors"]:
        (folder / path.name).write_bytes(path.read_bytes())
    return score(serve(folder, *EXACT, env=DEV), PROMPT)


def score(server, tokens):
    with unspool.Client(server.url) as client:
        return client.score([tokens])[0].logprobs[1:]


def generate(server, max_tokens, salt):
    """renderers' request."""
    params = {"max_tokens": max_tokens, "temperature": 1.0, "logprobs": 1, "seed": 3, "skip_special_tokens": False}
    body = {"token_ids": PROMPT * 10, "sampling_params": {**params, "ignore_eos": True}, "cache_salt": salt}
    return complete(server, body, path="/inference/v1/generate")["choices"][0]


def logprobs_of(choice):
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


def test_prime_rl(server, step_dir, cold):
    """Frozen, updated, and on; requests of each policy have a salt of their own."""
    generate(server, 4, salt="0")
    stream = Stream(server, max_tokens=LONG)
    stream.wait_for_tokens(3, 20)
    post(server, "/pause?mode=keep&clear_cache=false")
    assert stream.is_alive()
    post(server, "/update_weights", {"weight_dir": str(step_dir)})
    post(server, "/resume")
    stream.wait(60)
    assert len(stream.token_ids()) == LONG and stream.finish_reasons() == ["length"]
    assert score(server, PROMPT) == cold
    # Nothing of the old policy's prefix is hit under the new one's salt.
    new = generate(server, 8, salt="1")
    tokens = PROMPT * 10 + new["token_ids"]
    assert score(server, tokens)[len(PROMPT) * 10 - 1 :] == logprobs_of(new)


def test_prime_rl_over_nccl_is_refused(server, tmp_path):
    """Null in place of a directory means NCCL there. Its client repeats what is a 5xx."""
    before = score(server, PROMPT)
    status, answer = refusal(server, "/update_weights", {"weight_dir": None})
    assert status == 400 and "gloo" in answer["error"]["message"]
    status, answer = refusal(server, "/update_weights", {"weight_dir": str(tmp_path)})
    assert 400 <= status < 500 and "--weight-directory" in answer["error"]["message"]
    assert score(server, PROMPT) == before


def areal_completion(server, prompt, max_tokens):
    """AReaL's request: no model, and fields that mean nothing here."""
    body = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "stop_token_ids": [],
        "ignore_eos": True,
        "use_beam_search": False,
        "logprobs": 0,
        "return_tokens_as_token_ids": True,
        "stream": False,
    }
    choice = post(server, "/v1/completions", body)["choices"][0]
    tokens = [int(token.removeprefix("token_id:")) for token in choice["logprobs"]["tokens"]]
    return tokens, choice["logprobs"]["token_logprobs"], choice["finish_reason"]


def test_areal(server, step_dir, cold):
    """Aborted, updated, continued; the client asks again with what it has, and waits, or is aborted again."""
    asked = LONG

    def rollout(have, reasons):
        while len(have) < asked:
            tokens, logprobs, reason = areal_completion(server, PROMPT + have, asked - len(have))
            assert len(tokens) == len(logprobs)
            have.extend(tokens)
            reasons.append(reason)

    def started_and_paused():
        have, reasons = [], []
        thread = threading.Thread(target=rollout, args=(have, reasons))
        thread.start()
        until(lambda: server.in_flight()[0] == 1 or reasons, 20, "nothing runs")
        assert post(server, "/areal_pause_generation", {})["success"] is True
        until(lambda: reasons, 20, "nothing was aborted")
        return thread, have, reasons

    thread, have, reasons = started_and_paused()
    for _ in range(10):
        if reasons != ["length"]:  # a tiny model may be done before the pause is there
            break
        assert post(server, "/areal_continue_generation", {})["success"] is True
        thread.join(60)
        thread, have, reasons = started_and_paused()
    assert post(server, "/areal_update_weights", {"model_path": str(step_dir)})["success"] is True
    assert set(reasons) == {"abort"} and 0 < len(have) < asked
    assert post(server, "/areal_continue_generation", {})["success"] is True
    thread.join(60)
    assert reasons[-1] == "length" and len(have) == asked
    assert score(server, PROMPT) == cold


def test_areal_says_what_failed(server, tmp_path):
    status, answer = refusal(server, "/areal_update_weights", {"model_path": str(tmp_path / "none")})
    assert status == 400 and answer["success"] is False and "--weight-directory" in answer["message"]
