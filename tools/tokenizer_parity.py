"""Compares a C++ tokenizer binary with PyPI's `tokenizers` on random strings.

    tokenizer_parity.py --binary build/release/.../tokenizer_cli TOKENIZER_JSON [TOKENIZER_JSON ...]

The binary is run as `BINARY TOKENIZER_JSON`: it reads a JSON string a line and writes, for each, the JSON array of ids
(special tokens added). Run as `BINARY --decode TOKENIZER_JSON` it reads JSON arrays of ids and writes JSON strings,
special tokens kept; with --stream and --texts what tests/tools/tokenizer_cli.cc says. Exit status 1, and the first differences, if anything differs or the binary fails.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer

from random_text import RandomText
from tokenizer_reference import shown_alone, space_marker, streamed

CHUNK = 10_000  # strings a run of the binary: bounds memory, and gives the first difference early


class BinaryFailed(Exception):
    """The binary crashed, timed out, or wrote something other than one JSON value a line."""


def run_binary(command, values, timeout_s):
    """Feeds JSON lines to the binary and returns the JSON values it wrote."""
    lines = "".join(json.dumps(value) + "\n" for value in values)
    try:
        result = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=timeout_s, check=True)
        # Not splitlines(): a JSON string may hold U+2028 and U+0085 unescaped.
        answers = [json.loads(line) for line in result.stdout.decode().split("\n") if line]
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip()
        raise BinaryFailed(f"{command[0]} exited with {error.returncode}: {message}") from error
    except (subprocess.TimeoutExpired, ValueError, OSError) as error:
        raise BinaryFailed(f"{command[0]}: {error}") from error
    if len(answers) != len(values):
        raise BinaryFailed(f"{command[0]} wrote {len(answers)} lines for {len(values)}")
    return answers


class Comparison:
    """Counts cases and differences, and prints the first `shown` of these."""

    def __init__(self, shown):
        self.cases = 0
        self.differences = 0
        self._shown = shown

    def add(self, what, inputs, expected, actual):
        self.cases += len(inputs)
        for value, want, got in zip(inputs, expected, actual, strict=True):
            if want == got:
                continue
            self.differences += 1
            if self.differences <= self._shown:
                print(f"{what} of {json.dumps(value)}\n  expected {json.dumps(want)}\n  got      {json.dumps(got)}")


def compare_streams(tokenizer, texts, dice, result, command, timeout_s):
    """Streams of what follows a prompt. A prompt that ends within a character is another matter: the reference repeats
    it whole."""
    num_ids = tokenizer.get_vocab_size()
    last = tokenizer.encode("a", add_special_tokens=False).ids[-1:]  # so that neither holds anything back in the end
    cases = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        cut = dice.randrange(len(ids) + 1)
        prompt, rest = ids[:cut], ids[cut:] + [dice.randrange(num_ids) for _ in range(dice.randrange(4))] + last
        skip = dice.random() < 0.5
        if not tokenizer.decode(prompt, skip_special_tokens=skip).endswith("\ufffd"):
            cases.append({"prompt": prompt, "ids": rest, "skip": skip})
    expected = [streamed(tokenizer, case["prompt"], case["ids"], case["skip"]) for case in cases]
    actual = run_binary(command, cases, timeout_s)
    if '"ByteLevel"' in json.dumps(json.loads(tokenizer.to_str())["decoder"]):
        # Whole characters and bytes that can be none go out at once; the reference waits for a token that ends well.
        expected, actual = (["".join(texts) for texts in all] for all in (expected, actual))
    result.add("stream", cases, expected, actual)


def compare(path, args):
    """Compares one tokenizer.json; returns the Comparison."""
    tokenizer = Tokenizer.from_file(str(path))
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    texts = RandomText(args.seed, added)
    dice = random.Random(args.seed)
    num_ids = tokenizer.get_vocab_size()
    result = Comparison(args.show)
    marker = space_marker(json.loads(path.read_text()))
    ids = [token for token in range(num_ids) if tokenizer.id_to_token(token) is not None]
    shown = [[shown_alone(tokenizer, marker, token) for token in ids]]
    result.add("texts", [ids], shown, run_binary([args.binary, "--texts", str(path)], [ids], args.timeout_s))
    encode_command = [args.binary, str(path)]
    decode_command = [args.binary, "--decode", str(path)]
    for start in range(0, args.count, CHUNK):
        chunk = [texts.next() for _ in range(min(CHUNK, args.count - start))]
        ids = [tokenizer.encode(text).ids for text in chunk]
        result.add("encode", chunk, ids, run_binary(encode_command, chunk, args.timeout_s))
        if args.skip_decode:
            continue
        # Real ids, and as a tenth of them ids at random: those end within characters and spell invalid UTF-8.
        random_ids = [[dice.randrange(num_ids) for _ in range(dice.randrange(9))] for _ in range(len(chunk) // 10)]
        decoded = [tokenizer.decode(some, skip_special_tokens=False) for some in ids + random_ids]
        result.add("decode", ids + random_ids, decoded, run_binary(decode_command, ids + random_ids, args.timeout_s))
        stream_command = [args.binary, "--stream", str(path)]
        compare_streams(tokenizer, chunk[::5], dice, result, stream_command, args.timeout_s)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tokenizers", nargs="+", type=Path, metavar="TOKENIZER_JSON")
    parser.add_argument("--binary", required=True, help="the C++ tokenizer, see above for its interface")
    parser.add_argument("--count", type=int, default=100_000, help="random strings for each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="differences to print for each tokenizer")
    parser.add_argument("--skip-decode", action="store_true", help="compare encoding only")
    parser.add_argument("--timeout-s", type=float, default=300, help=f"limit for {CHUNK} strings, in seconds")
    args = parser.parse_args()

    failed = False
    for path in args.tokenizers:
        try:
            result = compare(path, args)
        except BinaryFailed as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
            continue
        print(f"{path}: {result.cases} cases, {result.differences} differ")
        failed = failed or result.differences > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
