"""Writes golden values of a real model, as golden_values.py describes them.

    make_golden.py models/SmolLM2-135M-Instruct tests/data/golden/smollm2.json

The weights are widened to float32 from what is stored. Takes about a minute for 135 million parameters on two cores.
"""

import argparse
import random
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from golden_values import golden_values, greedy_continuation, write_golden

TEXTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Question: what is 17 * 24? Let's think step by step.",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
]
RANDOM_PROMPT_TOKENS = 300  # crosses two blocks of 128 keys
GREEDY_TOKENS = 16
MIN_GREEDY_GAP = 1e-3  # nats; a greedy continuation with a closer choice is left out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model_dir)
    model = AutoModelForCausalLM.from_pretrained(
        args.model_dir, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    dice = random.Random(0)
    prompts = [tokenizer(text).input_ids for text in TEXTS]
    prompts.append([dice.randrange(model.config.vocab_size) for _ in range(RANDOM_PROMPT_TOKENS)])
    greedy = [greedy_continuation(model, prompt, GREEDY_TOKENS, MIN_GREEDY_GAP) for prompt in prompts]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_golden(args.out, golden_values(model, prompts, [entry for entry in greedy if entry]))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
