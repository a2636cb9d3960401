"""Random templates and contexts, rendered by jinja2 under transformers' settings and by our engine: both must agree.

    jinja_fuzz.py --binary build/release/tests/tools/template_cli [--seconds 20] [--seed N]

A template is made from a grammar, so that most of what it does is legal and the rest fails in as many ways. Where jinja2
raises, we have to fail; where our engine says that it does not support something, the case does not count (and is
reported as such). Exit status 1, and the first differences with their seeds, if anything differs.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import time
import warnings

import jinja2
from transformers.utils import chat_template_utils

NOW = "30 Nov 2026"
BATCH = 200
# What Python prints with the address of an object, perhaps escaped for HTML or a URL, or in upper case. Ours has none.
ADDRESS = re.compile(r"( |%20)at(?:\1)0x[0-9a-f]+", re.IGNORECASE)

NAMES = ["a", "b", "c", "d", "e", "m", "ns", "items", "x", "messages", "missing", "t"]
WORDS = [
    "",
    "a",
    "abc",
    "Hello World",
    " pad ",
    "x,y,,z",
    "a\nb\r\nc",
    "é",
    "İß",
    "ΑΣ σ",
    "日本",
    "🙂",
    "<b>&'\"",
    "10",
    "-3.5",
    "%s-%d",
    "{}{0}",
    "aXbXc",
    "\t",
    "role",
    "user",
    "0",
    "ǅ",
    "1e3",
    "a b  c",
    "%",
    "{",
    "k",
]
METHODS = [
    "upper()",
    "lower()",
    "strip()",
    "lstrip()",
    "rstrip()",
    "title()",
    "capitalize()",
    "swapcase()",
    "split()",
    "splitlines()",
    "isdigit()",
    "isalpha()",
    "isupper()",
    "islower()",
    "isspace()",
    "istitle()",
    "casefold()",
    "items()",
    "keys()",
    "values()",
    "copy()",
    "isalnum()",
    "isnumeric()",
    "isidentifier()",
    "isprintable()",
    "next()",
    "append(1)",
    "pop()",
    "expandtabs()",
]
METHODS_1 = [
    "split",
    "rsplit",
    "startswith",
    "endswith",
    "strip",
    "lstrip",
    "rstrip",
    "find",
    "rfind",
    "index",
    "count",
    "join",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "get",
    "zfill",
    "ljust",
    "rjust",
    "center",
    "format",
]
FILTERS = [
    "upper",
    "lower",
    "trim",
    "length",
    "count",
    "first",
    "last",
    "list",
    "string",
    "tojson",
    "int",
    "float",
    "abs",
    "round",
    "title",
    "capitalize",
    "reverse",
    "sort",
    "unique",
    "min",
    "max",
    "sum",
    "join",
    "items",
    "dictsort",
    "default",
    "d",
    "safe",
    "escape",
    "e",
    "wordcount",
    "indent",
    "center",
    "urlencode",
    "filesizeformat",
    "forceescape",
    "striptags",
]
FILTERS_1 = [
    "join",
    "default",
    "round",
    "batch",
    "slice",
    "replace",
    "indent",
    "trim",
    "map",
    "select",
    "reject",
    "selectattr",
    "rejectattr",
    "groupby",
    "attr",
    "truncate",
    "format",
    "center",
    "int",
    "sum",
    "sort",
    "tojson",
]
TESTS = [
    "defined",
    "undefined",
    "none",
    "boolean",
    "true",
    "false",
    "integer",
    "float",
    "number",
    "string",
    "mapping",
    "sequence",
    "iterable",
    "odd",
    "even",
    "lower",
    "upper",
    "callable",
    "escaped",
    "filter",
    "test",
]
TESTS_1 = ["eq", "ne", "lt", "gt", "le", "ge", "in", "divisibleby", "sameas", "equalto"]
KEYWORDS = [
    "attribute='role'",
    "attribute='k'",
    "reverse=true",
    "case_sensitive=true",
    "indent=2",
    "sort_keys=true",
    "ensure_ascii=true",
    "separators=(',', ':')",
    "default='?'",
    "start=1",
    "boolean=true",
    "first=true",
    "method='floor'",
    "method='ceil'",
    "by='value'",
    "killwords=true",
    "leeway=0",
    "d='-'",
    "width=3",
    "blank=true",
]


class Grammar:
    def __init__(self, dice):
        self.dice = dice

    def pick(self, *choices):
        return self.dice.choice(choices)()

    def name(self):
        return self.dice.choice(NAMES)

    def string(self):
        word = self.dice.choice(WORDS)
        return (
            json.dumps(word, ensure_ascii=word != "🙂" and self.dice.random() < 0.2)
            if self.dice.random() < 0.7
            else repr(word)
        )

    def number(self):
        return str(self.dice.choice([0, 1, 2, 3, 5, 10, -1, 100, 1.5, 0.1, 2.5, 1e16, 1e-5, 123456789012345678901]))

    def atom(self):
        return self.dice.choice(
            [self.string, self.number, self.name, self.name, self.name, lambda: "true", lambda: "none", lambda: "false"]
        )()

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        d = depth - 1
        e = self.expression
        return self.dice.choice(
            [
                self.atom,
                lambda: f"{e(d)} {self.dice.choice('+-*/%')} {e(d)}",
                lambda: f"{e(d)} {self.dice.choice(['//', '~', '~', '+', '+'])} {e(d)}",
                lambda: f"{e(d)} {self.dice.choice(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {e(d)}",
                lambda: f"{e(d)} {self.dice.choice(['and', 'or'])} {e(d)}",
                # Small powers: Python computes any, for as long as it takes.
                lambda: f"{e(d)} ** {self.dice.choice([0, 1, 2, 3, -1, 0.5])}",
                lambda: f"not {e(d)}",
                lambda: f"-{e(d)}",
                lambda: f"({e(d)})",
                lambda: f"({e(d)} if {e(d)} else {e(d)})",
                lambda: f"({e(d)} if {e(d)})",
                lambda: f"[{', '.join(e(d) for _ in range(self.dice.randrange(4)))}]",
                lambda: f"({e(d)}, {e(d)})",
                lambda: "{" + ", ".join(f"{self.string()}: {e(d)}" for _ in range(self.dice.randrange(3))) + "}",
                lambda: f"{e(d)}[{e(d)}]",
                lambda: f"{self.name()}[{self.slice(d)}]",
                # Not of constants: jinja2 folds those, and a slice that it folds fails by other rules.
                lambda: f"({self.name()} or {e(d)})[{self.slice(d)}]",
                lambda: (
                    f"{self.name()}.{self.dice.choice(['role', 'content', 'k', 'x', 'y', 'items', 'index', 'first'])}"
                ),
                lambda: f"({e(d)}).{self.dice.choice(METHODS)}",
                lambda: f"{self.name()}.{self.dice.choice(METHODS)}",
                lambda: f"({e(d)}).{self.dice.choice(METHODS_1)}({self.arguments(d)})",
                lambda: f"{self.name()}|{self.dice.choice(FILTERS)}",
                lambda: f"{e(d)}|{self.dice.choice(FILTERS)}",
                lambda: f"{e(d)}|{self.dice.choice(FILTERS_1)}({self.arguments(d)})",
                lambda: (
                    f"{self.name()}|{self.dice.choice(['map', 'select', 'reject'])}({json.dumps(self.dice.choice(FILTERS + TESTS))})|list"
                ),
                lambda: f"messages|{self.dice.choice(['selectattr', 'rejectattr', 'map'])}({self.arguments(d)})|list",
                lambda: f"{e(d)}|{self.dice.choice(FILTERS)}({self.dice.choice(KEYWORDS)})",
                lambda: f"{e(d)} is {self.dice.choice(['', 'not '])}{self.dice.choice(TESTS)}",
                lambda: f"{e(d)} is {self.dice.choice(TESTS_1)}({e(d)})",
                lambda: f"{e(d)} is {self.dice.choice(TESTS_1)} {self.atom()}",
                lambda: (
                    f"range({', '.join(str(self.dice.randrange(-3, 7)) for _ in range(self.dice.randrange(1, 4)))})"
                ),
                lambda: f"mac({self.arguments(d)})",
                lambda: f"dict({self.dice.choice(['', 'a=1, b=2', 'messages[0]', '[(1, 2)]'])})",
                lambda: (
                    f"loop.{self.dice.choice(['index', 'index0', 'first', 'last', 'length', 'revindex', 'previtem', 'nextitem', 'depth', 'cycle(1, 2)', 'changed(x)'])}"
                ),
            ]
        )()

    def slice(self, depth):
        part = lambda: self.dice.choice(["", "", "1", "-1", "2", "0", "-2", self.atom()])  # noqa: E731
        return f"{part()}:{part()}" + self.dice.choice(["", f":{part()}", ":-1"])

    def arguments(self, depth):
        return ", ".join(self.expression(depth - 1) for _ in range(self.dice.choice([0, 1, 1, 1, 2, 3])))

    def tag(self, inside):
        left = self.dice.choice(["", "", "", "-", "+"])
        right = self.dice.choice(["", "", "", "-", "+"])
        return "{%" + left + " " + inside + " " + right + "%}"

    def data(self):
        return self.dice.choice(["", "x", "\n", "  ", " \n ", "text\n", "<|a|>", "\n\n", "é ", "{", "}", "\t\n"])

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(self.dice.randrange(1, 4))) + self.data()

    def target(self):
        return self.dice.choice(
            [self.name, self.name, lambda: f"ns.{self.name()}", lambda: f"{self.name()}, {self.name()}"]
        )()

    def statement(self, depth):
        d = depth - 1
        e = self.expression
        printed = lambda: "{{" + self.dice.choice(["", "-"]) + " " + e(2) + " " + self.dice.choice(["", "-"]) + "}}"  # noqa: E731
        if depth <= 0:
            return printed()
        return self.dice.choice(
            [
                printed,
                printed,
                lambda: self.tag(f"set {self.target()} = {e(2)}"),
                lambda: self.tag("set ns = namespace(x=1, y='s')"),
                lambda: (
                    self.tag(f"set {self.name()}{self.dice.choice(['', '|upper', '|trim'])}")
                    + self.body(d)
                    + self.tag("endset")
                ),
                lambda: self.tag(f"if {e(2)}") + self.body(d) + self.tag("endif"),
                lambda: (
                    self.tag(f"if {e(2)}")
                    + self.body(d)
                    + self.tag(f"elif {e(1)}")
                    + self.body(d)
                    + self.tag("else")
                    + self.body(d)
                    + self.tag("endif")
                ),
                lambda: (
                    self.tag(f"for {self.dice.choice([self.name(), 'k, v', self.name()])} in {e(1)}")
                    + self.body(d)
                    + self.tag("endfor")
                ),
                lambda: (
                    self.tag(
                        f"for {self.name()} in {self.dice.choice(['messages', 'items', 'range(3)', 't'])}{self.dice.choice(['', f' if {e(1)}'])}"
                    )
                    + self.body(d)
                    + self.dice.choice(["", "", self.tag("else") + self.body(d)])
                    + self.tag("endfor")
                ),
                lambda: self.tag("for k, v in m.items()") + self.body(d) + self.tag("endfor"),
                lambda: (
                    self.tag("for x in t recursive")
                    + "{{ x if x is not iterable or x is string }}"
                    + self.tag("if x is iterable and x is not string")
                    + "({{ loop(x) }})"
                    + self.tag("endif")
                    + self.tag("endfor")
                ),
                lambda: self.tag(f"if {e(1)}") + self.tag(self.dice.choice(["break", "continue"])) + self.tag("endif"),
                lambda: (
                    self.tag(f"macro mac({self.dice.choice(['', 'x', 'x, y=1', 'x=a, b=x'])})")
                    + self.body(d)
                    + self.dice.choice(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}"])
                    + self.tag("endmacro")
                ),
                lambda: self.tag(f"call mac({self.arguments(1)})") + self.body(d) + self.tag("endcall"),
                lambda: (
                    self.tag(f"filter {self.dice.choice(['upper', 'trim', 'indent', 'length', 'tojson'])}")
                    + self.body(d)
                    + self.tag("endfilter")
                ),
                lambda: (
                    self.tag(f"with {self.name()} = {e(1)}, {self.name()} = {e(1)}")
                    + self.body(d)
                    + self.tag("endwith")
                ),
                lambda: self.tag("generation") + self.body(d) + self.tag("endgeneration"),
                lambda: "{#" + self.dice.choice(["", "-"]) + " comment " + self.dice.choice(["", "-", "+"]) + "#}",
                lambda: self.tag("raw") + self.data() + "{{ x }}" + self.tag("endraw"),
                lambda: self.tag(f"print {e(1)}"),
            ]
        )()

    def value(self, depth=2):
        if depth == 0 or self.dice.random() < 0.5:
            return self.dice.choice([None, True, False, 0, 1, -7, 3.25, 1e100, 2**63, *WORDS])
        if self.dice.random() < 0.5:
            return [self.value(depth - 1) for _ in range(self.dice.randrange(4))]
        keys = ["role", "content", "k", "a", "B", "items", "é", "1"]
        return {key: self.value(depth - 1) for key in self.dice.sample(keys, self.dice.randrange(4))}

    def context(self):
        context = {name: self.value() for name in ["a", "b", "c", "d", "e"] if self.dice.random() < 0.8}
        context["messages"] = [
            {"role": self.dice.choice(["user", "assistant"]), "content": self.dice.choice(WORDS)}
            for _ in range(self.dice.randrange(4))
        ]
        context["items"] = [self.value(1) for _ in range(self.dice.randrange(4))]
        context["m"] = {key: self.value(1) for key in self.dice.sample(["z", "A", "k", "b"], self.dice.randrange(4))}
        context["t"] = [1, [2, ["x"], []], "s"]
        return context


def reference(template, context):
    try:
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        compiled.environment.globals["strftime_now"] = lambda _format: NOW
        return "text", compiled.render(**context)
    except jinja2.TemplateError as error:
        return "error", f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever Python raises in a template is an error of it
        return "error", f"{type(error).__name__}: {error}"


def ours(binary, cases):
    lines = "".join(json.dumps({"template": template, "context": context}) + "\n" for template, context in cases)
    done = subprocess.run([binary, "--now", NOW], input=lines.encode(), capture_output=True, timeout=120)
    answers = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    return answers + [{"crash": done.returncode, "stderr": done.stderr.decode(errors="replace")[-2000:]}] * (
        len(cases) - len(answers)
    )


def is_comparable(expected, answer):
    if answer.get("error") in ("unsupported", "limit"):
        return False
    kind, text = expected
    if kind == "text":
        return not ADDRESS.search(text)
    # What Python limits where we do not: digits of an integer, and sizes that only a test would ask for.
    return not any(
        word in text for word in ("MemoryError", "OverflowError", "4300 digits", "surrogates", "RecursionError")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # Python's, on the code that jinja2 generates

    seed = args.seed or random.SystemRandom().randrange(1, 2**31)
    dice = random.Random(seed)
    end = time.monotonic() + args.seconds
    counts = {"cases": 0, "texts": 0, "skipped": 0, "differences": 0}
    while time.monotonic() < end:
        cases = []
        for _ in range(BATCH):
            grammar = Grammar(dice)
            cases.append((grammar.body(3), grammar.context()))
        for (template, context), answer in zip(cases, ours(args.binary, cases), strict=True):
            expected = reference(template, context)
            counts["cases"] += 1
            if "crash" not in answer and not is_comparable(expected, answer):
                counts["skipped"] += 1
                continue
            counts["texts"] += expected[0] == "text"
            if (answer.get("text") == expected[1]) if expected[0] == "text" else "error" in answer:
                continue
            counts["differences"] += 1
            if counts["differences"] <= args.show:
                print(json.dumps({"template": template, "context": context}, ensure_ascii=False))
                print(f"  expected {expected}\n  got      {answer}")
    print(f"seed {seed}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
