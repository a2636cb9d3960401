"""Writes tests/data/configs.json: what transformers makes of one tiny model under many config.json.

Each case has a model of tests/data/models, the config files (as fields that are set and fields that are taken out) that
all say the same, a prompt, and the log-probs of its tokens in float32. What a config switches on must show: cases of one
model that are not said to be the same differ.
"""

import itertools
import json
import random
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from golden_values import golden_values
from make_tiny_models import EAGER
from tiny_family_variants import FULL, SLIDING

ROOT = Path(__file__).resolve().parent.parent
MIN_EFFECT = 0.01  # nats by which some log-prob differs between two cases of a model
SAME = 1e-5  # and by which none does between two spellings
WINDOW_LENGTH, ROPE_LENGTH = 65, 257  # of prompts: eight windows; four times the original context, and one


def config(remove=(), **fields):
    return {"set": fields, "remove": list(remove)}


def window(**fields):
    return config(["layer_types", "sliding_window", "use_sliding_window", "max_window_layers"], **fields)


def rope(theta=10000.0, max_positions=2048, **scaling):
    """The old spellings and the new one."""
    old_fields = {"rope_theta": theta, "max_position_embeddings": max_positions}
    spellings = [config(["rope_parameters"], rope_scaling=scaling or None, **old_fields)]
    if scaling:
        rest = {key: value for key, value in scaling.items() if key != "rope_type"}
        oldest = {"type": scaling["rope_type"], **rest}
        spellings.append(config(["rope_parameters"], rope_scaling=oldest, **old_fields))
    new = {"rope_type": "default", **scaling, "rope_theta": theta}
    fields = {"rope_parameters": new, "max_position_embeddings": max_positions}
    return [*spellings, config(["rope_theta", "rope_scaling"], **fields)]


def qwen_windows(layers):
    """{case: config files}: where the window is, first; then all the ways in which there is none."""
    on = {"use_sliding_window": True, "sliding_window": 8}
    none = [
        window(use_sliding_window=False, sliding_window=8, max_window_layers=0),
        window(sliding_window=8, max_window_layers=0),
        window(**on, max_window_layers=layers),
        window(**on),
        window(use_sliding_window=True, sliding_window=None, max_window_layers=0),
        window(**on, layer_types=[FULL] * layers, max_window_layers=0),
    ]
    types = [SLIDING, *[FULL] * (layers - 2), SLIDING]
    return {
        "no window": none,
        "window on all layers": [window(**on, max_window_layers=0)],
        "window from the second layer on": [window(**on, max_window_layers=1)],
        "window by layer_types": [
            window(**on, layer_types=types),
            window(**on, layer_types=types, max_window_layers=0),
        ],
    }


YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CASES = {
    "qwen2-window": (WINDOW_LENGTH, qwen_windows(3)),
    "qwen3-window": (WINDOW_LENGTH, qwen_windows(4)),
    "mistral-window": (
        WINDOW_LENGTH,
        {
            "no window": [window(sliding_window=None), window()],  # 4096 is more than the prompt has
            "window": [window(sliding_window=8)],
        },
    ),
    "llama-gqa-tied": (
        ROPE_LENGTH,
        {
            "theta": rope(500000.0),
            "llama3": rope(rope_type="llama3", factor=8.0, **LLAMA3),
            "linear": rope(rope_type="linear", factor=4.0),
            "dynamic": rope(rope_type="dynamic", factor=8.0, max_positions=64),
            "yarn": rope(**YARN),
            "yarn with attention_factor": rope(**YARN, attention_factor=0.7),
            "yarn with mscale": rope(**YARN, mscale=1.4, mscale_all_dim=0.5),
        },
    ),
}


def write_model(model, change, directory):
    """A copy of a model under another config.json."""
    shutil.copytree(ROOT / "tests/data/models" / model, directory)
    fields = json.loads((directory / "config.json").read_text())
    for name in change["remove"]:
        fields.pop(name, None)
    (directory / "config.json").write_text(json.dumps({**fields, **change["set"]}))


def log_probs(model, change, prompt):
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "model"
        write_model(model, change, directory)
        loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **EAGER).eval()
    return golden_values(loaded, [prompt], [])["prompt_logprobs"][0]


def distance(left, right):
    return max(abs(a - b) for a, b in zip(left[1:], right[1:], strict=True))


def cases_of(model, length, cases):
    vocab_size = json.loads((ROOT / "tests/data/models" / model / "config.json").read_text())["vocab_size"]
    dice = random.Random(f"configs {model}")
    prompt = [dice.randrange(vocab_size) for _ in range(length)]
    found = {}
    for name, configs in cases.items():
        values = [log_probs(model, change, prompt) for change in configs]
        if any(distance(values[0], other) > SAME for other in values[1:]):
            raise RuntimeError(f"{model}, {name}: the spellings do not say the same")
        found[name] = values[0]
        yield {"model": model, "name": name, "configs": configs, "prompt": prompt, "prompt_logprobs": values[0]}
    for left, right in itertools.combinations(found, 2):
        if distance(found[left], found[right]) < MIN_EFFECT:
            raise RuntimeError(f"{model}: {left} and {right} are the same")


def main():
    torch.set_num_threads(1)
    lines = [json.dumps(case) for model, cases in CASES.items() for case in cases_of(model, *cases)]
    (ROOT / "tests/data/configs.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"wrote {len(lines)} cases")


if __name__ == "__main__":
    main()
