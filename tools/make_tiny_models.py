"""Writes tests/data/models/<name>/: tiny random models in the Hugging Face layout, with golden values.

Each directory has config.json, generation_config.json, model.safetensors (or shards and their index), tokenizer.json,
tokenizer_config.json and golden.json (see golden_values.py).

The seed of each model is the first whose greedy choices are all clear by the variant's min_greedy_gap, not monotonous,
and no end of a sequence.
"""

import argparse
import json
import random
import shutil
import statistics
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.utils.logging import disable_progress_bar

import tokenizer_families
from golden_values import golden_values, greedy_continuation, log_probs, routers, routing_gap, write_golden
from tiny_family_variants import FAMILY_VARIANTS
from tiny_model_variants import VARIANTS

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
GREEDY_PROMPTS = [1, 2, 4]  # which of the prompts are continued
BORDER_LENGTHS = [1, 2, 17, 40, 63, 64]  # of the prompts within a border of 64
BORDER_GREEDY_PROMPTS = [3]  # whose continuation ends at the border
GREEDY_TOKENS = 24
MIN_ROUTING_GAP = 1e-5  # of probabilities in a router: rounding does not swap experts
MIN_DISTINCT_TOKENS = 8  # of GREEDY_TOKENS: a model that repeats one token tests little
MIN_ROPE_EFFECT = 0.05  # nats by which some log-prob of the longest prompt moves if RoPE scaling is left out
MIN_WINDOW_EFFECT = 0.01  # likewise if a window is a key longer or shorter
MAX_SEEDS = 2000


def fill_parameters(model, seed):
    """Random weights of a size that makes log-probs far from flat; norms away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    # Gemma's embeddings are scaled by the root of the hidden size, and would drown the layers: every token would be
    # followed by itself. The last norm makes up for what the head, which is the same matrix, loses.
    gemma = model.config.model_type.startswith("gemma")
    embedding = 0.15 if gemma else 0.35
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("bias"):
            values = 0.3 * noise
        elif "norm" in name:
            values = 1 + 0.25 * noise + (2 if gemma and name == "model.norm.weight" else 0)
        elif "embed_tokens" in name or "lm_head" in name:
            values = embedding * noise
        else:
            values = 1.5 * noise / parameter.shape[-1] ** 0.5
        parameter.data.copy_(values)


def make_model(variant, seed, token_ids):
    rope = variant.rope
    if "rope_type" in rope:  # otherwise one a layer type, each with its own theta
        rope = {**rope, "rope_theta": variant.rope_theta}
    config = variant.config_class(**variant.sizes, rope_parameters=rope, **token_ids)
    model = AutoModelForCausalLM.from_config(config, **EAGER)
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
    # Phi-3 has these two at the top.
    if rope.pop("partial_rotary_factor", 1.0) != 1.0:
        config["partial_rotary_factor"] = variant.rope["partial_rotary_factor"]
    if "original_max_position_embeddings" in config:
        rope.pop("original_max_position_embeddings", None)
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
    if variant.fused_experts:
        save_file(
            {name: value.contiguous() for name, value in model.state_dict().items()}, directory / "model.safetensors"
        )
    for file in directory.glob("*.safetensors"):
        file.chmod(0o644)
    config = json.loads((directory / "config.json").read_text())
    config.pop("transformers_version")
    write_json(directory / "config.json", legacy_config(variant, config) if variant.legacy_config else config)


def clear_greedy(variant, model, prompt, eos):
    """The golden entry, or None if a choice is too close, hits one of `eos`, or the text is monotonous."""
    entry = greedy_continuation(model, prompt, GREEDY_TOKENS, variant.min_greedy_gap)
    if entry is None or set(eos) & set(entry["token_ids"]) or len(set(entry["token_ids"])) < MIN_DISTINCT_TOKENS:
        return None
    return entry


def make_prompts(name, vocab_size, lengths):
    dice = random.Random(name)
    return [[dice.randrange(vocab_size) for _ in range(length)] for length in lengths]


def fix_rotation(model, max_model_len):
    """Frequencies that transformers has for a sequence of max_model_len tokens, whatever length comes."""
    rotary = model.model.rotary_emb
    length = torch.tensor(max_model_len) if rotary.rope_type == "dynamic" else max_model_len
    frequencies, rotary.attention_scaling = ROPE_INIT_FUNCTIONS[rotary.rope_type](model.config, seq_len=length)
    rotary.inv_freq.copy_(frequencies)
    rotary.rope_type = "default"  # no update in a forward pass
    return model


def rotations(rope):
    """The rotations of a model's parameters: one, or one a layer type."""
    return [rope] if "rope_type" in rope else list(rope.values())


def unscaled(rope):
    if "rope_type" not in rope:
        return {layer_type: unscaled(own) for layer_type, own in rope.items()}
    kept = {key: value for key, value in rope.items() if key in ("rope_theta", "partial_rotary_factor")}
    return {"rope_type": "default", **kept}


def rope_effect(model, prompt):
    """By how much some log-prob of `prompt` moves if RoPE scaling is left out, in nats."""
    config = type(model.config)(**model.config.to_dict())
    config.rope_parameters = unscaled(model.config.rope_parameters)
    plain = AutoModelForCausalLM.from_config(config, **EAGER).float().eval()
    plain.load_state_dict(model.state_dict())
    return float((log_probs(plain, prompt) - log_probs(model, prompt)).abs().max())


def window_effect(directory, model, prompt):
    """By how much some log-prob of `prompt` moves, in nats, if the window is a key longer, or shorter: the lesser."""
    effects = []
    for other in (model.config.sliding_window - 1, model.config.sliding_window + 1):
        changed = AutoModelForCausalLM.from_pretrained(
            directory, sliding_window=other, dtype=torch.float32, **EAGER
        ).eval()
        effects.append(float((log_probs(changed, prompt) - log_probs(model, prompt)).abs().max()))
    return min(effects)


def clear_greedies(variant, model, prompts, eos):
    """The golden entries of all prompts, or None if one has none."""
    entries = []
    for prompt in prompts:
        entry = clear_greedy(variant, model, prompt, eos)
        if entry is None:
            return None
        entries.append(entry)
    return entries


def sides(variant, vocab_size):
    """(max_model_len, prompts, those that are continued): the usual ones, then those within a border."""
    prompts = make_prompts(variant.name, vocab_size, variant.prompt_lengths)
    yield variant.max_model_len, prompts, [prompts[i] for i in GREEDY_PROMPTS]
    if variant.border_len:
        prompts = make_prompts(variant.name + "/border", vocab_size, BORDER_LENGTHS)
        yield variant.border_len, prompts, [prompts[i] for i in BORDER_GREEDY_PROMPTS]


def served(variant, model, max_model_len):
    """The model as a server has it that is started for so many tokens."""
    return fix_rotation(model, max_model_len) if max_model_len == variant.max_model_len and max_model_len else model


def clear_routing(variant, model):
    """Whether no rounding swaps experts of the golden prompts."""
    if not routers(model):
        return True
    prompts = make_prompts(variant.name, variant.sizes["vocab_size"], variant.prompt_lengths)
    return min(routing_gap(model, prompt) for prompt in prompts) >= MIN_ROUTING_GAP


def find_seed(variant, token_ids, eos):
    """The first seed that passes, and the greedy continuations of both sides."""
    for seed in range(MAX_SEEDS):
        greedy = []
        for max_model_len, _, continued in sides(variant, variant.sizes["vocab_size"]):
            model = served(variant, to_float32(make_model(variant, seed, token_ids)), max_model_len)
            greedy.append(clear_greedies(variant, model, continued, eos))
            if greedy[-1] is None:
                break
        else:
            if clear_routing(variant, model):
                return seed, greedy
    raise RuntimeError(f"{variant.name}: no seed below {MAX_SEEDS} passes")


def check_length_rule(variant, directory, golden):
    """That the frequencies of both sides are transformers' own at those lengths: longrope has one set beyond the border,
    dynamic one for each length."""
    plain = load(directory)
    rope_type = variant.rope["rope_type"]
    if rope_type == "longrope":
        longest = max(range(len(golden["prompts"])), key=lambda i: len(golden["prompts"][i]))
        prompt, expected = golden["prompts"][longest], golden["prompt_logprobs"][longest]
    else:
        dice = random.Random(variant.name + "/longest")
        prompt = [dice.randrange(variant.sizes["vocab_size"]) for _ in range(variant.max_model_len)]
        fixed = fix_rotation(load(directory), variant.max_model_len)
        expected = golden_values(fixed, [prompt], [])["prompt_logprobs"][0]
    actual = golden_values(plain, [prompt], [])["prompt_logprobs"][0]
    if max(abs(a - b) for a, b in zip(expected[1:], actual[1:], strict=True)) > 1e-5:
        raise RuntimeError(f"{variant.name}: transformers rotates a prompt of {len(prompt)} tokens otherwise")


def load(directory, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, **EAGER).eval()


def bf16_gap(variant, directory, golden):
    """How far transformers itself is from the golden values in bfloat16: what is served in it is held to that."""
    model = served(variant, load(directory, torch.bfloat16), variant.max_model_len)
    rounding = golden_values(model, golden["prompts"], [])["prompt_logprobs"]
    pairs = zip(sum(rounding, []), sum(golden["prompt_logprobs"], []), strict=True)
    return round(statistics.median(abs(a - b) for a, b in pairs if b is not None), 6)


def make(variant, directory):
    """Writes one model directory anew; returns the seed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    vocab_size = variant.sizes["vocab_size"]
    tokenizer = tokenizer_families.train(variant.tokenizer_family, variant.tokenizer_vocab_size or vocab_size)
    tokenizer_families.save(variant.tokenizer_family, tokenizer, directory)
    family = tokenizer_families.FAMILIES[variant.tokenizer_family]
    token_ids, eos = special_ids(tokenizer, family), eos_ids(tokenizer, family)
    seed, greedy = find_seed(variant, token_ids, eos)
    save_model(variant, make_model(variant, seed, token_ids), directory)
    write_json(directory / "generation_config.json", generation_config(variant, token_ids, eos))

    # Golden values from the files, so that a wrong file cannot have right values.
    parts = []
    for (max_model_len, prompts, continued), entries in zip(sides(variant, vocab_size), greedy, strict=True):
        loaded = served(variant, load(directory), max_model_len)
        if entries != clear_greedies(variant, loaded, continued, eos):
            raise RuntimeError(f"{variant.name}: the saved model differs from the one in memory")
        scaled = not parts and any(rope["rope_type"] != "default" for rope in rotations(variant.rope))
        if scaled and rope_effect(loaded, prompts[-1]) < MIN_ROPE_EFFECT:
            raise RuntimeError(f"{variant.name}: RoPE scaling has no effect on the longest prompt")
        if variant.sizes.get("sliding_window") and window_effect(directory, loaded, prompts[-1]) < MIN_WINDOW_EFFECT:
            raise RuntimeError(f"{variant.name}: the window's length has no effect on the longest prompt")
        parts.append(golden_values(loaded, prompts, entries))
        if max_model_len:
            parts[-1]["max_model_len"] = [max_model_len]
    if variant.border_len:
        check_length_rule(variant, directory, parts[0])
        write_golden(directory / "golden_border.json", parts[1])
    if variant.dtype == "bfloat16":
        parts[0]["bf16_gap"] = [bf16_gap(variant, directory, parts[0])]
    write_golden(directory / "golden.json", parts[0])
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
