#!/usr/bin/env python3
"""Writes src/unicode/unicode_tables.cc: what PyPI's `tokenizers` answers for every code point.

Its parts carry Unicode tables of different ages (Oniguruma for \\p{L}, \\p{N} and \\s, Rust's standard library for
Digits and lower case, Rust's regex crate for single_word, older crates for the normal forms, accents and punctuation). Token ids must equal the library's,
so each property is read out of the part that decides it instead of being taken from one version of Unicode.

Needs `tokenizers` and libutf8proc (the library that src/unicode/normalize.cc uses).
Usage: tools/make_unicode_tables.py > src/unicode/unicode_tables.cc
"""

import ctypes
import ctypes.util
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

# Bits, in the order of unicode::Property (src/unicode/categories.h).
(LETTER, NUMBER, MARK, SPACE, WORD, NUMERIC, NEWER, COMBINING, NONSPACING, CONTROL, PUNCTUATION) = (
    1 << i for i in range(11)
)
BLOCK = 128
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matching(pattern):
    """Code points that `pattern` matches: Split with behavior "removed" leaves nothing of them."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in CODE_POINTS if not split.pre_tokenize_str(chr(c))}


def numeric():
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in CODE_POINTS if len(digits.pre_tokenize_str("a" + chr(c))) == 2}


def word():
    """Code points beside which a single_word token does not match."""
    found = set()
    for content in "XY":  # each finds the other's letter
        tokenizer = Tokenizer(models.BPE())
        tokenizer.add_tokens([AddedToken(content, single_word=True, normalized=False)])
        found |= {c for c in CODE_POINTS if chr(c) != content and not tokenizer.encode(content + chr(c)).ids}
    return found


def removed_by(normalizer):
    return {c for c in CODE_POINTS if not normalizer.normalize_str(chr(c))}


def bert(**wanted):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**(off | wanted))


def punctuation():
    split = pre_tokenizers.Punctuation("isolated")
    return {c for c in CODE_POINTS if len(split.pre_tokenize_str("a" + chr(c))) == 2}


def lower_case():
    """(code point, its lower case) where that is another."""
    lower = normalizers.Lowercase()
    return [(c, text) for c in CODE_POINTS if (text := lower.normalize_str(chr(c))) != chr(c)]


def scripts():
    """Ranges (first, last, script) as UnicodeScripts tells them apart; script 0 goes with any other."""
    split = pre_tokenizers.UnicodeScripts()

    def alike(a, b):
        return len(split.pre_tokenize_str(a + b)) == 1

    ranges, known = [], []  # known: a character of each script
    for c in CODE_POINTS:
        character = chr(c)
        if alike("a", character) and alike("\u05d0", character):
            script = 0
        else:
            before = ranges[-1][2] if ranges else 0
            if before and alike(known[before - 1], character):
                script = before
            else:
                script = next((i for i, other in enumerate(known, 1) if alike(other, character)), len(known) + 1)
            if script > len(known):
                known.append(character)
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == script:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, script])
    return [found for found in ranges if found[2]]


def newer_than_normal_forms():
    """Code points that utf8proc reorders, decomposes or composes and the library leaves alone."""
    utf8proc = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
    utf8proc.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16)
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    buffer, boundary = (ctypes.c_int32 * 32)(), ctypes.c_int(0)
    compat, decompose = 1 << 2, 1 << 4  # UTF8PROC_COMPAT, UTF8PROC_DECOMPOSE
    newer = set()
    for c in CODE_POINTS:
        combining_class = utf8proc.utf8proc_get_property(c)[1]  # utf8proc_property_t: category, combining_class, ...
        # U+0334 has class 1, U+0345 has class 240, the least and the greatest: a known mark changes places with one.
        if combining_class > 1 and nfd.normalize_str(chr(c) + "\u0334")[0] != "\u0334":
            newer.add(c)
        if combining_class == 1 and nfd.normalize_str("\u0345" + chr(c))[-1] != "\u0345":
            newer.add(c)
        count = utf8proc.utf8proc_decompose_char(c, buffer, 32, compat | decompose, ctypes.byref(boundary))
        parts = list(buffer[:count])
        if parts != [c] and nfkd.normalize_str(chr(c)) == chr(c):
            newer.add(c)
            count = utf8proc.utf8proc_decompose_char(c, buffer, 32, decompose, ctypes.byref(boundary))
            if count > 1:  # a composite; its parts are as new as it is
                newer.update(buffer[:count])
    return newer


def rows(values, per_row=32):
    for i in range(0, len(values), per_row):
        yield "    " + ",".join(str(v) for v in values[i : i + per_row]) + ","


def main():
    flags = [0] * 0x110000
    for bit, code_points in (
        (LETTER, matching(r"\p{L}")),
        (NUMBER, matching(r"\p{N}")),
        (MARK, matching(r"\p{M}")),
        (SPACE, matching(r"\s")),
        (WORD, word()),
        (NUMERIC, numeric()),
        (NEWER, newer_than_normal_forms()),
        (COMBINING, removed_by(normalizers.StripAccents())),
        (NONSPACING, removed_by(bert(strip_accents=True))),
        (CONTROL, removed_by(bert(clean_text=True))),
        (PUNCTUATION, punctuation()),
    ):
        for c in code_points:
            flags[c] |= bit
    blocks, index = {}, []
    for start in range(0, 0x110000, BLOCK):
        index.append(blocks.setdefault(tuple(flags[start : start + BLOCK]), len(blocks)))
    assert len(blocks) <= 256, "a block number no longer fits in a byte"
    print(f"// Generated by tools/make_unicode_tables.py from tokenizers {tokenizers.__version__}. Do not edit.")
    print('#include "unicode/unicode_tables.h"\n')
    print("// clang-format off")
    print("namespace unspool::unicode {\n")
    print("const uint8_t kBlockOfCodePoint[kCodePointBlocks] = {")
    print("\n".join(rows(index)))
    print("};\n")
    print(f"const uint16_t kProperties[][{BLOCK}] = {{")
    for block in blocks:
        print("  {")
        print("\n".join(rows(block)))
        print("  },")
    print("};\n")
    lower = [f"{{{c},{{{','.join(str(ord(part)) for part in text)}}}}}" for c, text in lower_case()]
    print("const LowerCase kLowerCase[] = {")
    print("\n".join(rows(lower, 10)))
    print("};")
    print(f"const size_t kLowerCaseSize = {len(lower)};\n")
    ranges = scripts()
    print("const ScriptRange kScriptRanges[] = {")
    print("\n".join(rows([f"{{{first},{last},{script}}}" for first, last, script in ranges], 8)))
    print("};")
    print(f"const size_t kScriptRangesSize = {len(ranges)};\n")
    print("}  // namespace unspool::unicode")
    print("// clang-format on")
    for name, bit in (
        ("letters", LETTER),
        ("numbers", NUMBER),
        ("marks", MARK),
        ("spaces", SPACE),
        ("word", WORD),
        ("numeric", NUMERIC),
        ("newer", NEWER),
        ("combining", COMBINING),
        ("nonspacing", NONSPACING),
        ("control", CONTROL),
        ("punctuation", PUNCTUATION),
    ):
        print(name, sum(1 for f in flags if f & bit), file=sys.stderr)


if __name__ == "__main__":
    main()
