"""Replays, in a trainer's model, the experts that the server's tokens went to (R3: rollout routing replay).

    python examples/router_replay.py tests/data/models/qwen3-moe

Serves the model in bf16, samples from it, and computes the same tokens' log-probs with float32 transformers: once with the
model's own routers, which choose other experts for some tokens, and once with the server's choices. Prints how many choices
differed, and how far the log-probs are apart.
"""

import argparse
from contextlib import contextmanager

import torch
from transformers import AutoModelForCausalLM

import unspool


@contextmanager
def replayed(model, routed):
    """Within it, the routers of a transformers model with Qwen's mixture of experts choose `routed` [tokens, layers, top_k].

    One sequence at a time, whole. The weights of the chosen experts are the model's own probabilities, so that gradients
    reach the routers. Yields what the routers would have chosen, {layer: [tokens, top_k]}, once the model has run.
    """
    own, undo = {}, []
    for index, layer in enumerate(model.model.layers):
        if not hasattr(layer.mlp, "experts"):
            continue
        chosen = torch.as_tensor(routed[:, index].astype("int64"))

        def replay(router, inputs, outputs, index=index, chosen=chosen):
            logits, _, indices = outputs
            own[index] = indices
            weights = torch.softmax(logits.float(), dim=-1).gather(-1, chosen)
            if router.norm_topk_prob:
                weights = weights / weights.sum(dim=-1, keepdim=True)
            return logits, weights.to(logits.dtype), chosen

        undo.append(layer.mlp.gate.register_forward_hook(replay))
    try:
        yield own
    finally:
        for handle in undo:
            handle.remove()


def output_logprobs(model, output):
    """Of the sampled tokens, [m]; the model sees all but the last."""
    ids = torch.tensor([*output.prompt_token_ids, *output.token_ids])
    logits = model(ids[None, :-1]).logits[0].float()
    logprobs = torch.log_softmax(logits, dim=-1).gather(-1, ids[1:, None])[:, 0]
    return logprobs[-len(output.token_ids) :]


@torch.no_grad()
def compare(model, outputs):
    """(choices, of them differing, mean gap of log-probs with the model's routers, the same replayed)"""
    choices = differing = 0
    gaps = {"own": [], "replayed": []}
    for output in outputs:
        served = torch.tensor(output.logprobs)
        gaps["own"].append((output_logprobs(model, output) - served).abs())
        with replayed(model, output.routed_experts) as own:
            gaps["replayed"].append((output_logprobs(model, output) - served).abs())
        for layer, indices in own.items():
            used = torch.as_tensor(output.routed_experts[:, layer].astype("int64"))
            choices += len(used)
            differing += int((indices.sort().values != used.sort().values).any(dim=-1).sum())
    return choices, differing, *(torch.cat(gap).mean().item() for gap in gaps.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--dtype", default="bfloat16", help="the server's")
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    with unspool.launch(args.model, dtype=args.dtype, enable_return_routed_experts=True) as server:
        client = unspool.Client(server.url)
        dice = torch.Generator().manual_seed(0)
        prompts = torch.randint(17, model.config.vocab_size, (8, 40), generator=dice).tolist()
        outputs = [client.generate(ids, max_tokens=60, seed=1, ignore_eos=True).outputs[0] for ids in prompts]
    choices, differing, own, replay = compare(model, outputs)
    print(f"{differing} of {choices} choices of a router differ")
    print(f"mean gap of log-probs: {own:.2e} with the model's routers, {replay:.2e} replayed")


if __name__ == "__main__":
    main()
