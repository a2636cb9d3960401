"""Writes tests/data/tokenizers/<family>/: tokenizer.json, tokenizer_config.json and golden.json.

golden.json is a list of {"text", "ids", "ids_plain", "decoded", "decoded_plain"} computed with PyPI's `tokenizers`:
ids with and without add_special_tokens, and the text of `ids` with special tokens kept and skipped.
"""

import argparse
import json
from pathlib import Path

from random_text import RandomText
from tokenizer_corpus import PARAGRAPHS
from tokenizer_families import FAMILIES, save, train

VOCAB_SIZES = {"gpt2": 700, "llama3": 900, "qwen2": 800, "smollm": 640, "flags": 480}
GOLDEN_RANDOM_STRINGS = 90
EDGE_CASES = ["", " ", "  ", "a  1", "\n", "\r\n\r\n", "don't", "DON'T", "unspooling rewarded xyzzy", "12345"]


def golden(tokenizer, name):
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    source = RandomText(f"golden {name}", added)
    texts = EDGE_CASES + PARAGRAPHS + [source.next() for _ in range(GOLDEN_RANDOM_STRINGS)]
    cases = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        cases.append({
            "text": text,
            "ids": ids,
            "ids_plain": tokenizer.encode(text, add_special_tokens=False).ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_plain": tokenizer.decode(ids, skip_special_tokens=True),
        })  # fmt: skip
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=Path, default=root / "tests/data/tokenizers")
    args = parser.parse_args()
    for name in FAMILIES:
        directory = args.out / name
        directory.mkdir(parents=True, exist_ok=True)
        tokenizer = train(name, VOCAB_SIZES[name])
        save(name, tokenizer, directory)
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in golden(tokenizer, name))
        (directory / "golden.json").write_text(f"[\n{lines}\n]\n")
        print(f"wrote {directory.relative_to(args.out.parent)} ({VOCAB_SIZES[name]} tokens)")


if __name__ == "__main__":
    main()
