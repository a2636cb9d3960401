"""Writes tests/data/models/<name>/: tiny random models in the Hugging Face layout, with golden values.

Each directory has config.json, generation_config.json, model.safetensors (or shards and their index), tokenizer.json,
tokenizer_config.json and golden.json (see golden_values.py).

The seed of each model is the first whose greedy choices are all clear by MIN_GREEDY_GAP, not monotonous,
and no end of a sequence.
"""

import argparse
import json
import random
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

import tokenizer_families
from golden_values import golden_values, greedy_continuation, log_probs, write_golden
from tiny_family_variants import FAMILY_VARIANTS
from tiny_model_variants import LLAMA3_ROPE, VARIANTS

PROMPT_LENGTHS = [1, 5, 19, 64, 205]  # the last crosses a block of 128 keys
GREEDY_PROMPTS = [1, 2, 4]  # which of the prompts are continued
GREEDY_TOKENS = 24
MIN_GREEDY_GAP = 0.05  # nats between the likeliest and the next id: rounding does not swap them
MIN_DISTINCT_TOKENS = 8  # of GREEDY_TOKENS: a model that repeats one token tests little
MIN_ROPE_EFFECT = 0.05  # nats by which some log-prob of the longest prompt moves if RoPE scaling is left out
MIN_WINDOW_EFFECT = 0.01  # likewise if a window is a key longer or shorter
MAX_SEEDS = 2000


def fill_parameters(model, seed):
    """Random weights of a size that makes log-probs far from flat; norms away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    # Scaled by the root of the hidden size, embeddings would drown the layers.
    embedding = 0.2 if model.config.model_type.startswith("gemma") else 0.35
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("bias"):
            values = 0.3 * noise
        elif "norm" in name:
            values = 1 + 0.25 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            values = embedding * noise
        else:
            values = 1.5 * noise / parameter.shape[1] ** 0.5
        parameter.data.copy_(values)


def make_model(variant, seed, token_ids):
    rope = variant.rope
    if "rope_type" in rope:  # otherwise one a layer type, each with its own theta
        rope = {**rope, "rope_theta": variant.rope_theta}
    config = variant.config_class(**variant.sizes, rope_parameters=rope, **token_ids)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    fill_parameters(model, seed)
    # Parameters alone: module.to() would round the rotary frequencies, which are buffers, as well.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(getattr(torch, variant.dtype))
    return model.eval()


def to_float32(model):
    """The same values, widened in place."""
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    return model


def legacy_config(variant, config):
    """config.json in the older spelling: rope_theta at the top, scaling in rope_scaling, dtype as torch_dtype, rules
    rather than a list of layer types."""
    config = dict(config)
    rope = dict(config.pop("rope_parameters"))
    if "rope_type" not in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = dict(rope["full_attention"])
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    return dict(sorted({**config, **variant.legacy_fields}.items()))


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def special_ids(tokenizer, family):
    """eos, pad and bos (None where the family has none) as config.json names them."""
    ids = {"eos_token_id": tokenizer.token_to_id(family.eos)}
    ids["pad_token_id"] = ids["eos_token_id"]
    ids["bos_token_id"] = tokenizer.token_to_id(family.bos) if family.bos else None
    return ids


def eos_ids(tokenizer, family):
    """Every id that ends a sequence."""
    return [tokenizer.token_to_id(text) for text in [family.eos, *family.more_eos]]


def generation_config(variant, token_ids, eos):
    config = {key: value for key, value in token_ids.items() if value is not None}
    if len(eos) > 1:
        config["eos_token_id"] = eos
    return {**config, **variant.generation}


def save_model(variant, model, directory):
    """Weights and config.json."""
    shard_size = variant.shard_size_bytes or 10_000_000
    model.save_pretrained(directory, max_shard_size=shard_size)
    for file in directory.glob("*.safetensors"):
        file.chmod(0o644)
    config = json.loads((directory / "config.json").read_text())
    config.pop("transformers_version")
    write_json(directory / "config.json", legacy_config(variant, config) if variant.legacy_config else config)


def clear_greedy(model, prompt, eos):
    """The golden entry, or None if a choice is too close, hits one of `eos`, or the text is monotonous."""
    entry = greedy_continuation(model, prompt, GREEDY_TOKENS, MIN_GREEDY_GAP)
    if entry is None or set(eos) & set(entry["token_ids"]) or len(set(entry["token_ids"])) < MIN_DISTINCT_TOKENS:
        return None
    return entry


def make_prompts(name, vocab_size):
    dice = random.Random(name)
    return [[dice.randrange(vocab_size) for _ in range(length)] for length in PROMPT_LENGTHS]


def rope_effect(model, prompt):
    """By how much some log-prob of `prompt` moves if RoPE scaling is left out, in nats."""
    config = type(model.config)(**model.config.to_dict())
    config.rope_parameters = {"rope_type": "default", "rope_theta": model.config.rope_parameters["rope_theta"]}
    plain = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    plain.load_state_dict(model.state_dict())
    return float((log_probs(plain, prompt) - log_probs(model, prompt)).abs().max())


def window_effect(directory, model, prompt):
    """By how much some log-prob of `prompt` moves, in nats, if the window is a key longer, or shorter: the lesser."""
    effects = []
    for other in (model.config.sliding_window - 1, model.config.sliding_window + 1):
        changed = AutoModelForCausalLM.from_pretrained(
            directory, sliding_window=other, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        effects.append(float((log_probs(changed, prompt) - log_probs(model, prompt)).abs().max()))
    return min(effects)


def find_seed(variant, token_ids, eos, prompts):
    """The first seed that passes, and its greedy continuations."""
    for seed in range(MAX_SEEDS):
        model = to_float32(make_model(variant, seed, token_ids))
        greedy = []
        for index in GREEDY_PROMPTS:
            entry = clear_greedy(model, prompts[index], eos)
            if entry is None:
                break
            greedy.append(entry)
        else:
            return seed, greedy
    raise RuntimeError(f"{variant.name}: no seed below {MAX_SEEDS} passes")


def make(variant, directory):
    """Writes one model directory anew; returns the seed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    vocab_size = variant.sizes["vocab_size"]
    tokenizer = tokenizer_families.train(variant.tokenizer_family, variant.tokenizer_vocab_size or vocab_size)
    tokenizer_families.save(variant.tokenizer_family, tokenizer, directory)
    family = tokenizer_families.FAMILIES[variant.tokenizer_family]
    token_ids, eos = special_ids(tokenizer, family), eos_ids(tokenizer, family)
    prompts = make_prompts(variant.name, vocab_size)
    seed, greedy = find_seed(variant, token_ids, eos, prompts)
    save_model(variant, make_model(variant, seed, token_ids), directory)
    write_json(directory / "generation_config.json", generation_config(variant, token_ids, eos))

    # Golden values from the files, so that a wrong file cannot have right values.
    loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    if greedy != [clear_greedy(loaded, entry["prompt"], eos) for entry in greedy]:
        raise RuntimeError(f"{variant.name}: the saved model differs from the one in memory")
    if variant.rope is LLAMA3_ROPE and rope_effect(loaded, prompts[-1]) < MIN_ROPE_EFFECT:
        raise RuntimeError(f"{variant.name}: RoPE scaling has no effect on the longest prompt")
    if variant.sizes.get("sliding_window") and window_effect(directory, loaded, prompts[-1]) < MIN_WINDOW_EFFECT:
        raise RuntimeError(f"{variant.name}: the window's length has no effect on the longest prompt")
    write_golden(directory / "golden.json", golden_values(loaded, prompts, greedy))
    return seed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=Path, default=root / "tests/data/models")
    parser.add_argument("--only", help="make only the model of this name")
    args = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)  # one order of summation: the same golden values on every machine of a kind
    for variant in [*VARIANTS, *FAMILY_VARIANTS]:
        if args.only in (None, variant.name):
            directory = args.out / variant.name
            seed = make(variant, directory)
            size = sum(file.stat().st_size for file in directory.iterdir())
            print(f"wrote {variant.name} (seed {seed}, {size // 1000} kB)", flush=True)


if __name__ == "__main__":
    main()
