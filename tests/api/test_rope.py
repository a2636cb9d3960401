"""Rotary types through the served API: config.json in all its spellings, the lengths that a type allows, and what is
refused. Their values are in test_golden.py and test_configs.py."""

import json
import shutil

import pytest

from api.control import greedy
from harness.bits import assert_same_answer
from harness.client import complete, request
from harness.server import TINY_MODELS, ServerDied

TOLERANCE = 2e-4


def edited(model, folder, edit):
    """A copy of a model with another config.json."""
    shutil.copytree(TINY_MODELS / model, folder)
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def prompt_logprobs(server, ids):
    (choice,) = complete(server, prompt=ids, max_tokens=1, prompt_logprobs=0)["choices"]
    return [row[str(token)]["logprob"] for row, token in zip(choice["prompt_logprobs"][1:], ids[1:], strict=True)]


def served_for(golden):
    """The flag by which a server has the rotation of a golden file."""
    return [flag for length in golden.get("max_model_len", []) for flag in ("--max-model-len", length)]


SPELLINGS = {
    "new": lambda config, rope: config.update(rope_parameters=rope),
    "old": lambda config, rope: config.update(
        rope_theta=rope.pop("rope_theta"), rope_scaling={"type": rope.pop("rope_type"), **rope}
    ),
    "old with rope_type": lambda config, rope: config.update(rope_theta=rope.pop("rope_theta"), rope_scaling=rope),
    "theta twice": lambda config, rope: config.update(rope_theta=rope["rope_theta"], rope_parameters=rope),
}


@pytest.mark.parametrize("model", ["llama-rope-linear", "llama-rope-yarn-mscale", "llama-rope-longrope"])
def test_spellings_say_the_same(own_server, tmp_path, model):
    golden = json.loads((TINY_MODELS / model / "golden.json").read_text())
    ids = golden["prompts"][-1]
    answers = []
    for name, spell in SPELLINGS.items():

        def respell(config, spell=spell):
            rope = dict(config.pop("rope_parameters", None) or config.pop("rope_scaling"))
            rope.setdefault("rope_theta", config.pop("rope_theta", 10000.0))
            config.pop("rope_scaling", None)
            spell(config, rope)

        folder = edited(model, tmp_path / name.replace(" ", "-"), respell)
        answers.append(greedy(own_server(folder, *served_for(golden)), ids))
    for answer in answers[1:]:
        assert_same_answer(answers[0], answer, "another spelling")


def test_lengths_that_a_type_allows(own_server, tmp_path):
    """As the reference derives them: the factor lengthens the context, but for longrope, which starts short."""
    for model, longest, standard in (
        ("llama-rope-linear", 8192, 8192),
        ("llama-rope-dynamic", 512, 512),
        ("qwen3-rope-yarn", 512, 512),
        ("llama-rope-llama3", 2048, 2048),
        ("llama-rope-longrope", 512, 64),
    ):
        server = own_server(TINY_MODELS / model)
        _, _, models = request(server, "GET", "/v1/models")
        assert models["data"][0]["max_model_len"] == standard, model
        with pytest.raises(ServerDied, match=f"more than the model's context of {longest} tokens"):
            own_server(TINY_MODELS / model, "--max-model-len", longest + 1)


@pytest.mark.parametrize(
    ("rope", "named"),
    [
        ({"rope_type": "ntk", "factor": 2.0}, 'unsupported rope type "ntk"'),
        ({"type": "linear"}, "rope_scaling.factor is missing"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "rope_scaling.short_factor"),
        ({"rope_type": "yarn", "factor": 0.5}, "rope_scaling.factor: expected a number of at least 1"),
        ({"rope_type": "yarn", "type": "linear", "factor": 2.0}, "remove one of them"),
        ({"factor": 2.0}, "rope_scaling has no rope_type"),
    ],
)
def test_what_is_not_known_is_refused_by_name(own_server, tmp_path, rope, named):
    folder = edited("llama-gqa-tied", tmp_path / "m", lambda config: config.update(rope_scaling=rope))
    with pytest.raises(ServerDied) as died:
        own_server(folder)
    assert "config.json: " in str(died.value) and named in str(died.value)
