"""Golden values of a model: what transformers computes in float32 with eager attention. golden.json holds:

prompts          [[id, ...], ...]
prompt_logprobs  one list a prompt: null, then the log-prob of each id given those before it
top              one list a prompt: [id, log-prob] of the TOP_COUNT likeliest ids after its end
routed_experts   of a mixture of experts: one list a prompt, a token's ids layer by layer in the order of their probabilities,
                 zeros in layers without experts
greedy           [{"prompt", "token_ids", "logprobs"}, ...]; generation goes on past an end-of-sequence id
bf16_gap         [median |log-prob in bfloat16 less the one above| over the prompts' tokens], of a bf16 model
max_model_len    [the length to serve the model for], where its rotation depends on it
"""

import json

import torch

TOP_COUNT = 5


@torch.no_grad()
def log_probs(model, ids):
    """Log-probs over the vocabulary after each of `ids`: [len(ids), vocab], float32."""
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)


def rounded(value):
    return round(float(value), 6)


def greedy_continuation(model, prompt, count, min_gap):
    """The entry of `greedy`, or None if a choice leads by less than `min_gap` nats: rounding could swap it."""
    ids, chosen = list(prompt), []
    for _ in range(count):
        last = log_probs(model, ids)[-1]
        best, second = torch.topk(last, 2).values.tolist()
        if best - second < min_gap:
            return None
        ids.append(int(last.argmax()))
        chosen.append(rounded(best))
    return {"prompt": list(prompt), "token_ids": ids[len(prompt) :], "logprobs": chosen}


def routers(model):
    """{index: router} of the layers that have experts."""
    return {i: layer.mlp.gate for i, layer in enumerate(model.model.layers) if hasattr(layer.mlp, "experts")}


@torch.no_grad()
def routing(model, ids):
    """What the routers make of `ids`: {layer: (probabilities [len(ids), experts], chosen [len(ids), top_k])}."""
    seen = {}

    def watch(index):
        def hook(module, inputs, outputs):
            logits, _, chosen = outputs
            seen[index] = (torch.softmax(logits.float(), dim=-1), chosen)

        return hook

    handles = [router.register_forward_hook(watch(i)) for i, router in routers(model).items()]
    try:
        model(torch.tensor([ids]))
    finally:
        for handle in handles:
            handle.remove()
    return seen


def routed_experts(model, ids):
    """[len(ids)][layers * top_k]"""
    seen, top_k = routing(model, ids), model.config.num_experts_per_tok
    none = torch.zeros(len(ids), top_k, dtype=torch.long)
    layers = range(model.config.num_hidden_layers)
    return torch.cat([seen[i][1] if i in seen else none for i in layers], dim=1).tolist()


def routing_gap(model, ids):
    """The least difference between neighbours among a token's chosen probabilities and the first that was not."""
    gaps = []
    for probabilities, chosen in routing(model, ids).values():
        best = torch.topk(probabilities, chosen.shape[1] + 1).values
        gaps.append((best[:, :-1] - best[:, 1:]).min().item())
    return min(gaps)


def golden_values(model, prompts, greedy):
    prompt_logprobs, top = [], []
    for prompt in prompts:
        table = log_probs(model, prompt)
        chosen = [rounded(table[i, token]) for i, token in enumerate(prompt[1:])]
        prompt_logprobs.append([None, *chosen])
        best = torch.topk(table[-1], TOP_COUNT)
        top.append([[int(i), rounded(v)] for v, i in zip(best.values, best.indices, strict=True)])
    golden = {"prompts": prompts, "prompt_logprobs": prompt_logprobs, "top": top, "greedy": greedy}
    if routers(model):
        golden["routed_experts"] = [routed_experts(model, prompt) for prompt in prompts]
    return golden


def write_golden(path, golden):
    """One line a list of numbers: small, and readable in a diff."""

    def lines(values):
        return "[\n" + ",\n".join(json.dumps(value) for value in values) + "\n]"

    path.write_text("{\n" + ",\n".join(f'"{key}": {lines(values)}' for key, values in golden.items()) + "\n}\n")
