"""Ragged requests for the invariance tests, and how a model's answers to them are compared."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from harness.server import SMOLLM2, TINY_MODELS

# Twenty candidates beside the sampled token: so each position compares 20 or 21 values, not one.
ASK = {"logprobs": 20, "return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True}


@dataclass(frozen=True)
class Case:
    """A model and how much of it a test can afford."""

    name: str
    folder: Path
    num_requests: int
    max_prompt: int
    max_output: int

    def ids(self, dice, length):
        """Random token ids, none of them special."""
        vocab = json.loads((self.folder / "config.json").read_text())["vocab_size"]
        return [dice.randrange(17, vocab) for _ in range(length)]

    def bodies(self, salt=0):
        """The same requests each time for a salt: prompts of 1 to max_prompt ids, some across a block of 128 keys; a quarter
        greedy, the others sampled with seeds and different truncation."""
        dice = random.Random(f"{self.name} {salt}")
        bodies = []
        for index in range(self.num_requests):
            length = dice.randrange(130, 140) if index % 16 == 5 else dice.randrange(1, self.max_prompt)
            body = {
                "prompt": self.ids(dice, length),
                "max_tokens": dice.randrange(2, self.max_output),
                **ASK,
            }
            if index % 4 == 0:
                body["temperature"] = 0
            else:
                body |= {"temperature": (1.0, 0.7, 1.3)[index % 3], "top_p": 0.9, "seed": index}
            if index % 7 == 3:
                body |= {"top_k": 20, "presence_penalty": 0.5, "repetition_penalty": 1.1}
            bodies.append(body)
        return bodies


TINY_LLAMA = Case("llama-gqa-tied", TINY_MODELS / "llama-gqa-tied", num_requests=64, max_prompt=110, max_output=40)
TINY_QWEN = Case("qwen3-tied", TINY_MODELS / "qwen3-tied", num_requests=64, max_prompt=110, max_output=40)
TINY_MOE = Case("qwen3-moe", TINY_MODELS / "qwen3-moe", num_requests=64, max_prompt=110, max_output=40)
# Windows of 17 keys; and of 16 with soft caps.
TINY_WINDOW = Case("mistral-window", TINY_MODELS / "mistral-window", num_requests=64, max_prompt=110, max_output=40)
TINY_CAPPED = Case("gemma2", TINY_MODELS / "gemma2", num_requests=64, max_prompt=110, max_output=40)
REAL = Case("SmolLM2", SMOLLM2, num_requests=12, max_prompt=80, max_output=24)
