"""How a reply is held against a recorded one.

Compared: the status, the media type, the shape of the JSON (keys, null or not, types; for lists the set of distinct shapes),
and for refusals the type, the param and, where the reference writes the message itself, its text. By value: what does not
depend on the weights. Always: log-prob arrays of equal length, usage that adds up, every index streamed and ended once, no
NaN. Other values are free, and so are extra keys, except in objects that map tokens or tensors to values.
"""

import json
import re

MESSAGE_IS_HELD = {"BadRequestError", "NotFoundError", "PermissionDeniedError"}
# Words of an engine that the reference falls back on, or of the system.
MESSAGE_IS_FREE = {"completions/refused_surrogate", "completions/refused_regex_bad"}
# How long the reply is depends on the weights.
LENGTH_VARIES = ("stop", "tools", "json", "regex", "choice", "clamped", "default_max")
BY_VALUE = {
    "status", "detail", "count", "object", "index", "prompt_tokens", "max_model_len", "success", "weight_version", "version",
    "level", "tags", "is_sleeping", "is_paused", "results", "new_version", "world_size", "aborted",
}  # fmt: skip
EMPTY_ALIKE = {"choices", "content", "weight_versions", "data", "results"}
SAME_LENGTH = {
    "choices", "token_ids", "tokens", "token_logprobs", "top_logprobs", "text_offset", "prompt_logprobs", "prompt_token_ids", "data",
}  # fmt: skip
NULL_OR_TEXT = {"system_fingerprint", "stop_reason", "content"}
NAME_MAPS = {"top_logprobs", "prompt_logprobs", "checksums"}


def maps_names(key, value):
    """Whether the keys of this object are tokens, or names of tensors: they depend on the model."""
    by_name = key in NAME_MAPS and not {"token", "token_id"} & value.keys()
    return by_name or (bool(value) and all(name.isdigit() for name in value))


def shape(value, key=""):
    """What is compared of a value: its type, and for containers the shapes within."""
    if key in NULL_OR_TEXT and (value is None or isinstance(value, str)):
        return "null or text"
    if isinstance(value, dict):
        if maps_names(key, value):
            return {"each name": distinct(shape(v) for v in value.values())}
        return {name: shape(v, name) for name, v in value.items()}
    if isinstance(value, list):
        return distinct(shape(v, key) for v in value)
    if isinstance(value, bool):
        return "bool"
    return "null" if value is None else "number" if isinstance(value, (int, float)) else "text"


def distinct(shapes):
    return sorted({json.dumps(s, sort_keys=True) for s in shapes})


def brief(value, key):
    return json.dumps(shape(value, key))[:160]


def json_differences(want, got, where="$", key="", lengths=True):
    if isinstance(want, dict) and isinstance(got, dict) and not maps_names(key, want):
        for name, value in want.items():
            if name not in got:
                yield f"{where}.{name} is missing"
            else:
                yield from json_differences(value, got[name], f"{where}.{name}", name, lengths)
    elif key in BY_VALUE and want != got:
        yield f"{where} is {got!r}, not {want!r}"
    elif isinstance(want, list) and isinstance(got, list):
        if key in EMPTY_ALIKE and bool(want) != bool(got):
            yield f"{where} is {'empty' if want else 'not empty'}"
        if lengths and key in SAME_LENGTH and len(want) != len(got):
            yield f"{where} has {len(got)} entries, not {len(want)}"
        for w, g in zip(want, got, strict=False):
            yield from json_differences(w, g, where + "[]", key, lengths)
    elif shape(want, key) != shape(got, key):
        yield f"{where} is {brief(got, key)}, not {brief(want, key)}"


def faults_of_any_answer(case, body):
    """What is wrong whatever the weights say."""
    asked = case["body"] if isinstance(case["body"], dict) else {}
    for choice in body.get("choices", []):
        ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
        if isinstance(logprobs, dict) and "tokens" in logprobs:
            lengths = {len(logprobs[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}
            if len(lengths) > 1:
                yield f"log-prob arrays of different lengths {lengths}"
            if (
                asked.get("logprobs") == 0
                and not asked.get("echo")
                and any(len(top) != 1 for top in logprobs["top_logprobs"])
            ):
                yield "logprobs 0 gives more than the sampled token"
            if ids is not None and not asked.get("echo") and len(ids) != len(logprobs["tokens"]):
                yield "not as many log-probs as token_ids"
        elif isinstance(logprobs, dict) and ids is not None and len(logprobs.get("content") or []) != len(ids):
            yield "not as many log-probs as token_ids"
        if "logit_bias" in case["name"] and ids and set(ids) != {100}:
            yield f"logit_bias was not applied: {ids}"
        if case["name"].endswith("/allowed") and ids and not set(ids) <= {100, 101}:
            yield f"allowed_token_ids was not applied: {ids}"
    usage = body.get("usage")
    if usage and usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
        yield "usage does not add up"
    if case["path"] in ("/tokenize", "/detokenize"):
        for name in ("tokens", "token_strs", "prompt"):
            if name in case["json"] and body.get(name) != case["json"][name]:
                yield f"{name} is {body.get(name)!r}, not {case['json'][name]!r}"


def no_constant(name):
    raise ValueError(f"{name} in JSON")


def differences(case, status, content_type, text):
    """Every way in which a reply is not what the reference gave."""
    if status != case["status"]:
        yield f"status {status}, not {case['status']}: {text[:200]}"
        return
    if content_type.split(";")[0] != case["content_type"].split(";")[0] and case.get("text") != "":
        yield f"content type {content_type!r}, not {case['content_type']!r}"
    lengths = not any(word in case["name"] for word in LENGTH_VARIES)
    if "stream" in case:
        yield from stream_differences(case, text, lengths)
    elif "json" not in case:
        if case.get("text", "") == "" and text:
            yield f"the body is {text[:80]!r}, not empty"
    else:
        yield from body_differences(case, text, lengths)


def body_differences(case, text, lengths):
    try:
        got = json.loads(text, parse_constant=no_constant)
    except ValueError:
        yield f"the body is not JSON: {text[:80]!r}"
        return
    want = case["json"]
    if isinstance(want, dict) and isinstance(want.get("error"), dict):
        yield from error_differences(case, want["error"], got.get("error") or {})
        return
    if isinstance(got, dict):
        yield from faults_of_any_answer(case, got)
    yield from json_differences(want, got, lengths=lengths)


def error_differences(case, want, got):
    for name in ("type", "param", "code"):
        if got.get(name) != want[name]:
            yield f"error.{name} is {got.get(name)!r}, not {want[name]!r}"
    message = got.get("message")
    if want["type"] in MESSAGE_IS_HELD and case["name"] not in MESSAGE_IS_FREE:
        if message != want["message"]:
            yield f"error.message is {message!r}, not {want['message']!r}"
    elif not message:
        yield "error.message is empty"


def stream_differences(case, text, lengths):
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    if not lines or lines[-1] != "[DONE]":
        yield "the stream does not end in [DONE]"
        return
    got = [json.loads(line, parse_constant=no_constant) for line in lines[:-1]]
    want = [chunk for chunk in case["stream"] if chunk != "[DONE]"]
    if any("error" in chunk for chunk in want):
        yield from json_differences(want, got)
        return
    for chunk in got:
        yield from faults_of_any_answer(case, chunk)
    indices = {choice["index"] for chunk in want for choice in chunk["choices"]}
    if {choice["index"] for chunk in got for choice in chunk["choices"]} != indices:
        yield "not every index is streamed"
    ends = [choice["index"] for chunk in got for choice in chunk["choices"] if choice.get("finish_reason")]
    if sorted(ends) != sorted(indices):
        yield f"indices {ends} end, {sorted(indices)} should, once each"
    wanted, shapes = distinct(map(shape, want)), {reference_shape(chunk, want) for chunk in got}
    for extra in shapes - set(wanted):
        yield f"a chunk of an unknown shape {extra[:300]}"
    if lengths:
        for missing in set(wanted) - shapes:
            yield f"no chunk has the shape {missing[:300]}"


def reference_shape(chunk, want):
    """The shape of the reference's chunk that this one matches but for extra keys; its own where there is none."""
    own = json.dumps(shape(chunk), sort_keys=True)
    candidates = [w for w in want if len(w.get("choices", [])) == len(chunk.get("choices", []))]
    if own in distinct(map(shape, want)):
        return own
    for candidate in candidates:
        if not list(json_differences(candidate, chunk, lengths=False)):
            return json.dumps(shape(candidate), sort_keys=True)
    return own


def selected(cases, prefix, skip="^$"):
    return [case for case in cases if case["name"].startswith(prefix) and not re.search(skip, case["name"])]
