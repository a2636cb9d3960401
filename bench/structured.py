"""What structured outputs cost: the same number of requests at once with and without them, by turns.

    ./dev bench structured [--rows 32] [--tokens 128] [--rounds 5]

Every answer is as long as it may be, so that both sides generate the same number of tokens; the share is that of the throughput
without a grammar, its median over the rounds.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from harness.client import complete_many  # noqa: E402
from harness.server import DEFAULT_BINARY, SMOLLM2, Server  # noqa: E402

PROMPT = "Describe the city of Paris: its history, its streets and its people."
LONG = 4000  # characters, more than an answer has room for
LONG_TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": LONG}}, "required": ["text"]}
MANY_FIELDS = {
    "type": "object",
    "properties": {
        f"field_{i}": {"type": "array", "minItems": 20, "items": {"type": "integer", "minimum": 0, "maximum": 9999}}
        for i in range(10)
    },
    "required": [f"field_{i}" for i in range(10)],
    "additionalProperties": False,
}
CASES = {
    "regex": {"regex": f"[a-zA-Z ,.]{{{LONG // 4}}}"},
    "a long string in an object": {"json": LONG_TEXT},
    "arrays of numbers in an object": {"json": MANY_FIELDS},
    "an EBNF grammar": {"grammar": 'root ::= line+\nline ::= word (" " word)* [,.] " "\nword ::= [a-zA-Z]+'},
}


def rate(server, rows, tokens, constraint):
    """Tokens a second of `rows` requests together."""
    extra = {"structured_outputs": constraint, "min_tokens": tokens} if constraint else {"ignore_eos": True}
    bodies = [{"prompt": PROMPT, "max_tokens": tokens, "temperature": 1, "seed": row, **extra} for row in range(rows)]
    started = time.monotonic()
    answers = complete_many(server, bodies, width=rows)
    seconds = time.monotonic() - started
    generated = sum(answer["usage"]["completion_tokens"] for answer in answers)
    if generated != rows * tokens:
        raise SystemExit(f"{generated} tokens, not {rows * tokens}: an answer ended early")
    return generated / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SMOLLM2)
    parser.add_argument("--binary", type=Path, default=DEFAULT_BINARY)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    server = Server(args.binary, args.model, "--max-model-len", 4096, model_name="m")
    try:
        print("| structured output | tok/s | without | share |\n|---|---|---|---|")
        for name, constraint in CASES.items():
            rate(server, args.rows, 8, constraint)  # compiles the grammar
            pairs = []
            for _ in range(args.rounds):
                free = rate(server, args.rows, args.tokens, None)
                pairs.append((rate(server, args.rows, args.tokens, constraint), free))
            share = statistics.median(bound / free for bound, free in pairs)
            bound, free = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(f"| {name} | {bound:.0f} | {free:.0f} | {share:.1%} |", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
