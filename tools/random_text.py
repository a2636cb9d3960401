"""Random strings that are hard on a tokenizer: a seed gives the same strings on every machine."""

import random

# Scripts as code point ranges, and single characters that the pre-tokenizers and NFC treat apart.
_RANGES = {
    "ascii": [(0x21, 0x7E)],
    "latin": [(0xC0, 0x24F)],
    "greek": [(0x391, 0x3C9)],
    "cyrillic": [(0x410, 0x44F)],
    "hebrew": [(0x5D0, 0x5EA)],
    "arabic": [(0x620, 0x65F)],
    "indic": [(0x904, 0x94D)],
    "thai": [(0xE01, 0xE4E)],
    "cjk": [(0x4E00, 0x9FA5)],
    "kana": [(0x3041, 0x30FE)],
    "hangul": [(0xAC00, 0xD7A3)],
    "jamo": [(0x1100, 0x11FF)],
    "marks": [(0x300, 0x36F), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x302F)],
    "digits": [(0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xFF10, 0xFF19), (0xB2, 0xB3), (0x2160, 0x2188)],
    "controls": [(0x00, 0x1F), (0x7F, 0x9F), (0x200B, 0x200F), (0x202A, 0x202E), (0xFE00, 0xFE0F)],
    "symbols": [(0x20A0, 0x20BF), (0x2190, 0x22FF), (0x2500, 0x259F)],
    "emoji": [(0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF), (0x2600, 0x27BF)],
    "flags": [(0x1F1E6, 0x1F1FF)],
    "compatibility": [(0xF900, 0xFAD9), (0x2F800, 0x2FA1D), (0x212A, 0x212B), (0x1F71, 0x1FFD)],
    "private": [(0xE000, 0xE010), (0xFFF0, 0xFFFF), (0x10FFF0, 0x10FFFF)],
    "any": [(0x1, 0xD7FF), (0xE000, 0x10FFFF)],
}  # fmt: skip
_SPACES = [*" \t\n\r\v\f\x85\u00a0\u1680\u2003\u2028\u2029\u3000", "\r\n"]
_CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'x", "'\u017f", "\u2019s", "''s"]
_ZWJ_SEQUENCES = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👨🏽‍💻", "❤️‍🔥", "🧑‍🚀", "1️⃣", "👍🏿"]
_WORDS = [
    "the",
    "of",
    "token",
    "Paris",
    "reward",
    "café",
    "naïve",
    "Straße",
    "policy",
    "unspooling",
    "résumé",
    "Ångström",
    "x",
    "foo_bar",
    "CamelCase",
]


class RandomText:
    """A deterministic stream of strings. `special_texts` are mixed in whole, in part, and next to white space."""

    def __init__(self, seed, special_texts=()):
        self._random = random.Random(seed)
        self._specials = sorted(special_texts)

    def _char(self, script):
        low, high = self._random.choice(_RANGES[script])
        return chr(self._random.randint(low, high))

    def _run(self, script, longest=6):
        return "".join(self._char(script) for _ in range(self._random.randint(1, longest)))

    def _spaces(self):
        if self._random.random() < 0.5:
            return self._random.choice(_SPACES) * self._random.randint(1, 5)
        return "".join(self._random.choices(_SPACES, k=self._random.randint(1, 5)))

    def _special(self):
        if not self._specials:
            return "<|x|>"
        text = self._random.choice(self._specials)
        shape = self._random.randrange(6)
        if shape == 0:
            return text[: self._random.randint(1, len(text))]
        if shape == 1:
            return self._spaces() + text + self._spaces()
        if shape == 2:
            return self._random.choice(_WORDS) + text + self._random.choice(_WORDS)
        return text

    def _number(self):
        return str(self._random.randrange(10 ** self._random.randint(1, 12)))

    def _marked(self):
        """A letter with combining marks in any order: what NFC has to sort and compose."""
        letter = self._random.choice("aeiouAEIOUncsyKÅéüあかハ가ᄀ")
        return letter + "".join(self._char("marks") for _ in range(self._random.randint(1, 4)))

    def _piece(self):
        choice = self._random.random()
        if choice < 0.22:
            return self._random.choice(["", " "]) + self._random.choice(_WORDS)
        if choice < 0.37:
            return self._spaces()
        if choice < 0.44:
            return self._special()
        if choice < 0.50:
            return self._number()
        if choice < 0.56:
            return self._random.choice(_WORDS) + self._random.choice(_CONTRACTIONS)
        if choice < 0.61:
            return self._random.choice(_ZWJ_SEQUENCES)
        if choice < 0.69:
            return self._marked()
        return self._run(self._random.choice(list(_RANGES)))

    def next(self):
        """One string of 0 to 12 pieces; never a lone surrogate."""
        return "".join(self._piece() for _ in range(self._random.randint(0, 12)))
