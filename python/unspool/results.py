"""What a server answers, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class VersionSpan:
    """Tokens [start, end) of an output were drawn from the weights of that label."""

    version: str
    start: int
    end: int


@dataclass(frozen=True)
class Score:
    """The log-probs of a given sequence of n tokens. They do not depend on temperature.

    logprobs, ranks: [n]; None for the first token. A rank of 1 is the likeliest.
    top: [n]; of each position the token that stands there and as many of the likeliest as were asked for, id to log-prob.
    """

    token_ids: list[int]
    logprobs: list[float | None]
    ranks: list[int | None]
    top: list[dict[int, float]]


@dataclass(frozen=True)
class Output:
    """One sampled continuation of m tokens.

    token_ids: [m], with the token that ended it. logprobs: [m], of the sampled tokens, in natural logarithm; None where
    they were not asked for. top_logprobs: [m], id to log-prob, the sampled token among them.
    finish_reason: "stop", "length" or "abort". stop_reason: the stop string or token id that was met, or None.
    prompt_token_ids: of the prompt that this continues, where the server told. weight_versions: empty where the
    server told none. message: of chat() alone. routed_experts: uint8 or uint16 [tokens, layers, top_k] where the server
    keeps them (unspool.decode_routed_experts).
    """

    index: int
    token_ids: list[int]
    logprobs: list[float] | None
    top_logprobs: list[dict[int, float]] | None
    finish_reason: str | None
    stop_reason: str | int | None
    text: str | None = None
    prompt_token_ids: list[int] | None = None
    weight_versions: tuple[VersionSpan, ...] = ()
    message: dict[str, Any] | None = None
    routed_experts: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Generation:
    """The outputs of one call, those of a prompt one behind the other, prompts in their order.

    usage: {"prompt_tokens": .., "completion_tokens": .., ..}. raw: the whole answer.
    prompt_score: of generate(), where prompt_logprobs were asked for.
    """

    id: str
    outputs: list[Output]
    usage: dict[str, Any]
    raw: dict[str, Any]
    prompt_score: Score | None = None


@dataclass(frozen=True)
class WeightInfo:
    """The label of the weights that are served, and what is there of them. discarded: woken from a sleep of level 2 and
    not loaded again."""

    version: str
    asleep: bool = False
    kv_cache_asleep: bool = False
    discarded: bool = False


def id_of(shown: str) -> int:
    return int(shown.removeprefix("token_id:"))


def score_of(token_ids: Iterable[int], entries: list[dict[str, dict[str, Any]] | None]) -> Score:
    """Of a prompt_logprobs list: null for the first position, then {"id": {"logprob", "rank"}}."""
    ids = list(token_ids)
    own = [entry and entry[str(token)] for token, entry in zip(ids, entries, strict=True)]
    return Score(
        token_ids=ids,
        logprobs=[entry and entry["logprob"] for entry in own],
        ranks=[entry and entry["rank"] for entry in own],
        top=[{int(token): e["logprob"] for token, e in (entry or {}).items()} for entry in entries],
    )


def generation_of_tokens(prompt: list[int], answer: dict[str, Any]) -> Generation:
    """Of /inference/v1/generate."""
    scores = answer.get("prompt_logprobs")
    return Generation(
        id=answer["request_id"],
        outputs=[token_output(choice, prompt) for choice in answer["choices"]],
        usage=answer["usage"],
        raw=answer,
        prompt_score=score_of(prompt, scores) if scores is not None else None,
    )


def token_output(choice: dict[str, Any], prompt: list[int]) -> Output:
    content = (choice["logprobs"] or {}).get("content")
    return Output(
        index=choice["index"],
        token_ids=choice["token_ids"],
        logprobs=None if content is None else [entry["logprob"] for entry in content],
        top_logprobs=None
        if content is None
        else [{e["token_id"]: e["logprob"] for e in [*entry["top_logprobs"], entry]} for entry in content],
        finish_reason=choice["finish_reason"],
        stop_reason=choice["stop_reason"],
        text=choice.get("text"),
        prompt_token_ids=prompt,
        weight_versions=spans_of(choice),
        routed_experts=experts_of(choice),
    )


def generation_of_completion(answer: dict[str, Any]) -> Generation:
    """Of /v1/completions, asked with return_token_ids and return_tokens_as_token_ids."""
    return Generation(answer["id"], [completion_output(c) for c in answer["choices"]], answer["usage"], answer)


def completion_output(choice: dict[str, Any]) -> Output:
    logprobs = choice["logprobs"]
    return Output(
        index=choice["index"],
        token_ids=choice["token_ids"],
        logprobs=logprobs and logprobs["token_logprobs"],
        top_logprobs=logprobs
        and [{id_of(token): v for token, v in (top or {}).items()} for top in logprobs["top_logprobs"]],
        finish_reason=choice["finish_reason"],
        stop_reason=choice.get("stop_reason"),
        text=choice["text"],
        prompt_token_ids=choice.get("prompt_token_ids"),
        weight_versions=spans_of(choice),
        routed_experts=experts_of(choice),
    )


def spans_of(choice: dict[str, Any]) -> tuple[VersionSpan, ...]:
    return tuple(VersionSpan(**span) for span in choice.get("weight_versions") or [])


def experts_of(choice: dict[str, Any]) -> np.ndarray | None:
    from .routed_experts import decode_routed_experts

    return decode_routed_experts(choice.get("routed_experts"))


def scores_of(sequences: list[list[int]], answer: dict[str, Any]) -> list[Score]:
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    return [score_of(ids, choice["prompt_logprobs"]) for ids, choice in zip(sequences, choices, strict=True)]


def generation_of_chat(answer: dict[str, Any]) -> Generation:
    """Of /v1/chat/completions, asked as the completions are."""
    prompt = answer.get("prompt_token_ids")
    outputs = [chat_output(choice, prompt) for choice in answer["choices"]]
    return Generation(answer["id"], outputs, answer["usage"], answer)


def chat_output(choice: dict[str, Any], prompt: list[int] | None) -> Output:
    content = (choice.get("logprobs") or {}).get("content")
    return Output(
        index=choice["index"],
        token_ids=choice.get("token_ids") or [],
        logprobs=None if content is None else [entry["logprob"] for entry in content],
        top_logprobs=None
        if content is None
        else [{id_of(e["token"]): e["logprob"] for e in [*entry["top_logprobs"], entry]} for entry in content],
        finish_reason=choice["finish_reason"],
        stop_reason=choice.get("stop_reason"),
        text=choice["message"].get("content"),
        prompt_token_ids=prompt,
        weight_versions=spans_of(choice),
        routed_experts=experts_of(choice),
        message=choice["message"],
    )


def weight_info_of(answer: dict[str, Any]) -> WeightInfo:
    return WeightInfo(
        answer["weight_version"],
        answer.get("weights_asleep", False),
        answer.get("kv_cache_asleep", False),
        answer.get("weights_discarded", False),
    )
