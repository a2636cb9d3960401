"""Compiles normalisation rules as sentencepiece does: a double array of texts, and what each becomes."""

import base64
import struct

_LEAF = 1 << 8
_VALUE = 1 << 31


def _trie(entries):
    """Nested dicts by byte; the value of a text that ends at a node is its child 0."""
    root = {}
    for text, value in entries:
        node = root
        for byte in text.encode():
            node = node.setdefault(byte, {})
        node[0] = value
    return root


def _double_array(root):
    units, taken, bases = {0: 0}, {0}, set()
    queue = [(0, root)]
    for position, node in queue:
        base = next(b for b in range(1, 1 << 20) if b not in bases and not any(b ^ byte in taken for byte in node))
        bases.add(base)
        units[position] |= (position ^ base) << 10 | (_LEAF if 0 in node else 0)
        for byte, child in sorted(node.items()):
            taken.add(base ^ byte)
            units[base ^ byte] = _VALUE | child if byte == 0 else byte
            if byte:
                queue.append((base ^ byte, child))
    return [units.get(i, 0) for i in range(max(units) // 256 * 256 + 256)]


def compile_charsmap(rules):
    """`rules`: {text: what it becomes}. Returns the base64 of tokenizer.json's Precompiled."""
    texts, entries = b"", []
    for text, becomes in sorted(rules.items()):
        entries.append((text, len(texts)))
        texts += becomes.encode() + b"\0"
    units = _double_array(_trie(entries))
    return base64.b64encode(struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts).decode()
