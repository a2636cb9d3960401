"""GRPO on SmolLM2-135M-Instruct against a server of ours, on two cores of a CPU.

    ./dev model
    python examples/grpo_smollm2.py --generate transformers --steps 6 --out docs/grpo_smollm2_transformers &&
        python examples/grpo_smollm2.py --beside docs/grpo_smollm2_transformers.csv --out docs/grpo_smollm2

The model learns to answer a sum with the number alone. At first it talks: one reply in ten ends in the right number, and none
is only that. Trained in float32, and served in float32, so that both sides' log-probs agree to the last digits.
"""

import argparse
import random
import re
import sys
from pathlib import Path

import grpo

MODEL = Path(__file__).resolve().parents[1] / "models" / "SmolLM2-135M-Instruct"
INSTRUCTION = "Answer with the number alone."
LARGEST = 9
NUM_QUESTIONS = 512


def questions(seed):
    """Sums of two numbers up to LARGEST, each with what it comes to."""
    dice = random.Random(seed)
    for _ in range(NUM_QUESTIONS):
        a, b = dice.randint(1, LARGEST), dice.randint(1, LARGEST)
        asked = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": f"What is {a} + {b}?"}]
        yield {"prompt": asked, "total": a + b}


def short_and_right(completions, total, **kwargs):
    """The reward: half of it is the share of digits among a reply's characters, half is that its last number is right."""
    rewards = []
    for completion, expected in zip(completions, total, strict=True):
        text = completion[0]["content"].strip()
        numbers = re.findall(r"\d+", text)
        digits = sum(map(len, numbers)) / max(1, len(text))
        right = bool(numbers) and int(numbers[-1]) == expected
        rewards.append(0.5 * digits + 0.5 * right)
    return rewards


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    grpo.add_arguments(parser, steps=80, out="build/grpo_smollm2")
    parser.add_argument("--model", type=Path, default=MODEL, help="a model directory (models/SmolLM2-135M-Instruct)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="the server's (float32)")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    args = grpo.parse(parser)
    from datasets import Dataset

    dataset = Dataset.from_list(list(questions(args.seed)))
    with grpo.served(args.model, args, dtype=args.dtype, max_model_len=256) as url:
        log = grpo.train(
            args.model,
            dataset,
            short_and_right,
            url,
            args,
            learning_rate=args.learning_rate,
            per_device_train_batch_size=16,
            num_generations=8,
            max_completion_length=32,
        )
    grpo.report(log, args, "short and right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
