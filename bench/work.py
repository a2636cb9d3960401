"""How much arithmetic a request is: the multiplications of its matrix products and of attention, a multiply-add being two."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    linear: int  # operations a token in all layers' products
    head: int  # a row of logits
    attention: int  # a token, for each key it sees
    weight_bytes: int
    vocab: int

    @classmethod
    def read(cls, folder):
        config = json.loads((Path(folder) / "config.json").read_text())
        hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
        head_dim = config.get("head_dim") or hidden // heads
        kv_heads = config.get("num_key_value_heads", heads)
        projections = hidden * head_dim * (2 * heads + 2 * kv_heads)
        weights = layers * (projections + 3 * hidden * config["intermediate_size"])
        head = hidden * config["vocab_size"]
        return cls(
            linear=2 * weights,
            head=2 * head,
            attention=4 * heads * head_dim * layers,
            weight_bytes=2
            * (weights + head),  # what one token reads in bf16; the embedding is a row, or tied to the head
            vocab=config["vocab_size"],
        )

    def prompt(self, length, rows_of_logits=1):
        return length * self.linear + self.attention * length * (length + 1) // 2 + rows_of_logits * self.head

    def request(self, prompt, generated, n=1, scored=False):
        """A prompt computed once, and n samples. The last token of a sample is never an input."""
        total = self.prompt(prompt, prompt if scored else 1)
        steps = generated - 1
        keys = sum(range(prompt + 1, prompt + generated))
        return total + n * (steps * (self.linear + self.head) + self.attention * keys)
