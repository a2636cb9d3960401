"""Writes tests/data/tokenizers/<family>/: tokenizer.json, tokenizer_config.json and golden.json.

parts.json holds single parts of tokenizers (tools/tokenizer_parts.py), classes.json what transformers makes of whole ones
(tools/tokenizer_classes.py). golden.json is a list of {"text", "ids", "ids_plain", "decoded", "decoded_plain"} computed with PyPI's `tokenizers`:
ids with and without add_special_tokens, and the text of `ids` with special tokens kept and skipped.
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer

import sentencepiece_families
import tokenizer_classes
import tokenizer_parts
from random_text import RandomText
from tokenizer_corpus import PARAGRAPHS
from tokenizer_families import FAMILIES, save, train

VOCAB_SIZES = {"gpt2": 700, "llama3": 900, "qwen2": 800, "smollm": 640, "flags": 480}
GOLDEN_RANDOM_STRINGS = 90
EDGE_CASES = ["", " ", "  ", "a  1", "\n", "\r\n\r\n", "don't", "DON'T", "unspooling rewarded xyzzy", "12345"]

# Texts of reports: unknown to the model, to be normalised, alike in their scores, or with the character that stands for a space.
REPORTED = [" this is \U0001f999.cpp", "\u00bd", "\uff21\uff22\uff43", "AAA", "a\u00a0\u00a0b", "a\u2581b \u2581"]
MANY_ADDED = 4  # of which the texts around them are tried

PART_CASES = [
    "",
    " the  Se\u0301es ",
    "  <s> 12\u00bd\u0663 <l>  <n>e<r>  .",
    "Caf\u00e9, na\u0131\u0308ve \u0130! \u4e2d\u6587\u30ab\u30bf \u05d0\u05d1",
    "\ufeff\u200b\t\x07a\u00ad\u2581b\ufb01\u212b\r\n",
]


def around(token):
    """Text where an added token decides what is beside it: a prefix, white space, the rest of a word, another one."""
    return [f"{token}user", f"x{token}  two spaces", f"un{token}spool", f"{token}{token} {token}", f"  {token}  x "]


def golden(tokenizer, name):
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    source = RandomText(f"golden {name}", added)
    texts = EDGE_CASES + PARAGRAPHS + [source.next() for _ in range(GOLDEN_RANDOM_STRINGS)] + REPORTED
    for token in added[:MANY_ADDED]:
        texts += around(token)
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
    parser.add_argument("--only", nargs="*", help="names of families; without it all")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="record anew what the tokenizers that are there give (sentencepiece's training differs each time)",
    )
    args = parser.parse_args()
    for name in args.only or [*FAMILIES, *sentencepiece_families.FAMILIES]:
        directory = args.out / name
        directory.mkdir(parents=True, exist_ok=True)
        if args.keep:
            tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        elif name in FAMILIES:
            tokenizer = train(name, VOCAB_SIZES[name])
            save(name, tokenizer, directory)
        else:
            sentencepiece_families.save(name, sentencepiece_families.build(name), directory)
            tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in golden(tokenizer, name))
        (directory / "golden.json").write_text(f"[\n{lines}\n]\n")
        print(f"wrote {directory.relative_to(args.out.parent)} ({tokenizer.get_vocab_size()} tokens)")
    if not (args.only or args.keep):
        source = RandomText("golden parts", ["<s>", "<l>", "<n>", "<r>"])
        tokenizer_parts.write_golden(args.out / "parts.json", PART_CASES + [source.next()[:24] for _ in range(6)])
        tokenizer_classes.write_golden(args.out)


if __name__ == "__main__":
    main()
