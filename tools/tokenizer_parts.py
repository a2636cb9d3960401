"""Writes a tokenizer.json for every part that a tokenizer.json can have, for tools/tokenizer_parity.py:

    tokenizer_parts.py DIRECTORY && tokenizer_parity.py --binary ... DIRECTORY/*.json

Each part goes with two models: one that spells bytes, so that ids show what the text became, and one whose unknown token
is one for a piece, so that they show where it was cut.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from sentencepiece_families import GEMMA_DECODER, NFKC_CHARSMAP, SPACE, added, metaspace, replace

_BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}
_SPELLS = {"type": "BPE", "vocab": _BYTES, "merges": [], "byte_fallback": True}
_CUTS = {"type": "BPE", "vocab": {"<unk>": 0, "e": 1, "s": 2}, "merges": [], "unk_token": "<unk>", "fuse_unk": True}


def _bert(**wanted):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return {"type": "BertNormalizer", **off, **wanted}


def _regex(type_, pattern, **more):
    return {"type": type_, "pattern": {"Regex": pattern}, **more}


TOKENS = [added("<s>"), added("<l>", "lstrip"), added("<n>", "normalized"), added("<r>", "rstrip", "normalized")]
NORMALIZERS = {
    **{name.lower(): {"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")},
    "byte_level": {"type": "ByteLevel"},
    "strip_left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "strip_right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "prepend": {"type": "Prepend", "prepend": "ab"},
    "replace_string": replace("e", "xyz"),
    "replace_away": replace("the", ""),
    "replace_regex": _regex("Replace", r"\s+", content=" "),
    "replace_digits": _regex("Replace", r"\p{N}", content=""),
    "precompiled": {"type": "Precompiled", "precompiled_charsmap": NFKC_CHARSMAP},
    "bert_clean": _bert(clean_text=True),
    "bert_chinese": _bert(handle_chinese_chars=True),
    "bert_accents": _bert(strip_accents=True),
    "bert_lower": _bert(lowercase=True, strip_accents=None),
    "bert": _bert(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
    "accents": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
}
# Spelt out: PCRE2's classes of characters are those of Unicode 14, the package's newer (docs/tokenizers.md).
_LETTERS = r"[a-zA-Zà-ÿа-я一-鿿가-힣]"
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
PRE_TOKENIZERS = {
    **{name.lower(): {"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")},
    **{f"punctuation_{name.lower()}": {"type": "Punctuation", "behavior": name} for name in _BEHAVIORS},
    "punctuation": {"type": "Punctuation"},
    "digits": {"type": "Digits", "individual_digits": False},
    "digits_individual": {"type": "Digits", "individual_digits": True},
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "e"},
    **{
        f"split_{name.lower()}_{invert}": _regex("Split", r"\s|" + _LETTERS, behavior=name, invert=invert)
        for name in _BEHAVIORS
        for invert in (False, True)
    },
    **{
        f"metaspace_{scheme}_{split}": metaspace(scheme, split)
        for scheme in ("always", "first", "never")
        for split in (False, True)
    },
    "words_then_spaces": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("first", True)]},
    "scripts_then_spaces": {
        "type": "Sequence",
        "pretokenizers": [{"type": "UnicodeScripts"}, metaspace("first", False), {"type": "Digits", "individual_digits": True}],
    },
    "bytes_then_spaces": {
        "type": "Sequence",
        "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, metaspace("first", True)],
    },
}  # fmt: skip
DECODERS = {
    "metaspace_always": metaspace("always", True),
    "metaspace_never": metaspace("never", True),
    "fallback": {"type": "ByteFallback"},
    "fallback_then_replace": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, replace(SPACE, " ")]},
    "strip": {"type": "Sequence", "decoders": [replace(SPACE, " "), {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "replace_regex": _regex("Replace", r"\s+", content="_"),
}  # fmt: skip


def specs():
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": TOKENS, "post_processor": None}
    none = {"normalizer": None, "pre_tokenizer": None, "decoder": GEMMA_DECODER}
    parts = [("normalizer", name, part) for name, part in NORMALIZERS.items()]
    parts += [("pre_tokenizer", name, part) for name, part in PRE_TOKENIZERS.items()]
    for kind, name, part in parts:
        for model, shown in (("spells", _SPELLS), ("cuts", _CUTS)):
            yield f"{kind}_{name}_{model}", {**base, **none, kind: part, "model": shown}
    # What stands first once the text was changed: only that has a space put in front.
    for name, part in NORMALIZERS.items():
        first = {"normalizer": part, "pre_tokenizer": metaspace("first", False), "decoder": None}
        yield f"first_{name}", {**base, **first, "model": _SPELLS}
    for name, part in DECODERS.items():
        yield (
            f"decoder_{name}",
            {**base, **none, "decoder": part, "pre_tokenizer": metaspace("always", True), "model": _SPELLS},
        )


def golden(spec, texts):
    """The parts of `spec`, by name where they are large, and what the library makes of `texts`."""
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    cases = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        cases.append([text, ids, tokenizer.decode(ids, skip_special_tokens=False)])
    parts = {key: spec[key] for key in ("normalizer", "pre_tokenizer", "decoder") if spec[key] is not None}
    return {**parts, "model": "spells" if spec["model"] is _SPELLS else "cuts", "cases": cases}


def write_golden(path, texts):
    """What tests/unit/tokenizer/parts_test.cc reads: {"added_tokens", "models", "parts": {name: golden}}."""
    models = {"spells": _SPELLS, "cuts": _CUTS}
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(golden(spec, texts))}" for name, spec in specs())
    path.write_text(
        f'{{"added_tokens":{json.dumps(TOKENS)},\n"models":{json.dumps(models)},\n"parts":{{\n{lines}\n}}}}\n'
    )


def main():
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, spec in specs():
        (directory / f"{name}.json").write_text(json.dumps(spec))


if __name__ == "__main__":
    main()
