"""Random regular expressions and JSON schemas, in the parts that Python's `re` and `jsonschema` judge alike."""

import random
import string

LITERALS = string.ascii_letters + string.digits + " _-:/"
CLASSES = ("[a-f]", "[0-9]", "[A-Z_]", "[^a-z\\n]", "[ab\\]x-z]", "\\d", "\\w")
TYPES = ("string", "integer", "boolean", "null", "enum", "const", "pattern", "object", "array", "any")


def random_regex(rng, depth=3):
    """A pattern whose matches are all short."""
    kind = rng.choice(("literal", "class", "sequence", "sequence", "choice", "repeat")) if depth else "literal"
    if kind == "literal":
        return "".join(rng.choice(LITERALS) for _ in range(rng.randint(1, 4)))
    if kind == "class":
        return rng.choice(CLASSES)
    if kind == "sequence":
        return "".join(random_regex(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind == "choice":
        return "(" + "|".join(random_regex(rng, depth - 1) for _ in range(rng.randint(2, 4))) + ")"
    least = rng.randint(0, 2)
    quantifier = rng.choice(("?", f"{{{least},{least + rng.randint(0, 3)}}}", f"{{{least + 1}}}"))
    return f"({random_regex(rng, depth - 1)}){quantifier}"


def random_value(rng):
    return rng.choice((None, True, False, 0, -7, 12345, "", "a b", 'quo"te', "é", [1, "x"], {"k": None}))


def random_schema(rng, depth=3):
    """A schema whose values are all short."""
    kind = rng.choice(TYPES if depth else TYPES[:7])
    if kind == "string":
        least = rng.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + rng.randint(0, 6)}
    if kind == "integer":
        least = rng.randint(-2000, 2000)
        return {"type": "integer", "minimum": least, "maximum": least + rng.randint(0, 3000)}
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": [random_value(rng) for _ in range(rng.randint(1, 5))]}
    if kind == "const":
        return {"const": random_value(rng)}
    if kind == "pattern":
        return {"type": "string", "pattern": "^" + rng.choice(("[a-z]{1,4}", "\\d{3}-\\d{2}", "(ab|cd){1,3}")) + "$"}
    if kind == "any":
        return {"anyOf": [random_schema(rng, depth - 1) for _ in range(rng.randint(2, 3))]}
    if kind == "array":
        least = rng.randint(0, 2)
        return {
            "type": "array", "items": random_schema(rng, depth - 1), "minItems": least, "maxItems": least + rng.randint(0, 2),
        }  # fmt: skip
    names = rng.sample(("a", "b_1", "Name", "x y", "é", "type", "items", "$ref!"), rng.randint(1, 4))
    properties = {name: random_schema(rng, depth - 1) for name in names}
    return {
        "type": "object", "properties": properties, "required": [n for n in names if rng.random() < 0.6],
        "additionalProperties": False,
    }  # fmt: skip


def regexes(count, seed):
    rng = random.Random(seed)
    return [random_regex(rng) for _ in range(count)]


def schemas(count, seed):
    rng = random.Random(seed)
    return [random_schema(rng) for _ in range(count)]
