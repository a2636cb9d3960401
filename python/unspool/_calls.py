"""Every route that the clients use: what it is asked and what its answer means. Client has the words to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import results
from ._endpoint import Call
from .results import Generation, Score, WeightInfo

SHOW_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}


def nothing(_: Any) -> None:
    return None


def field(name: str):
    return lambda answer: answer[name]


def given(**fields: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def with_logprobs(sampling: Mapping[str, Any]) -> dict[str, Any]:
    # A trainer that forgets them cannot train on what it gets.
    return {"logprobs": 0, **sampling}


def generate(
    token_ids: Iterable[int], model: str | None, extra: Mapping[str, Any] | None, sampling
) -> Call[Generation]:
    prompt = list(map(int, token_ids))
    body = {"token_ids": prompt, "sampling_params": with_logprobs(sampling), **given(model=model), **(extra or {})}
    return Call("POST", "/inference/v1/generate", lambda a: results.generation_of_tokens(prompt, a), body)


def complete(prompts, model: str | None, extra: Mapping[str, Any] | None, sampling) -> Call[Generation]:
    if not isinstance(prompts, str):
        prompts = [p if isinstance(p, (str, int)) else list(map(int, p)) for p in prompts]
    body = {"prompt": prompts, **SHOW_IDS, **given(model=model), **with_logprobs(sampling), **(extra or {})}
    return Call("POST", "/v1/completions", results.generation_of_completion, body)


def score(sequences: Iterable[Iterable[int]], top: int, model: str | None) -> Call[list[Score]]:
    ids = [list(map(int, sequence)) for sequence in sequences]
    # The least that can be generated; scoring reads the prompt alone.
    body = {"prompt": ids, "max_tokens": 1, "prompt_logprobs": top, **SHOW_IDS, **given(model=model)}
    return Call("POST", "/v1/completions", lambda answer: results.scores_of(ids, answer), body)


def chat(messages, model: str | None, extra: Mapping[str, Any] | None, sampling) -> Call[Generation]:
    fields = with_logprobs(sampling)
    top = fields.pop("logprobs")
    fields |= {"logprobs": True, **({"top_logprobs": top} if top else {})}
    body = {"messages": list(messages), **SHOW_IDS, **given(model=model), **fields, **(extra or {})}
    return Call("POST", "/v1/chat/completions", results.generation_of_chat, body)


def tokenize(text: str, add_special_tokens: bool) -> Call[list[int]]:
    return Call("POST", "/tokenize", field("tokens"), {"prompt": text, "add_special_tokens": add_special_tokens})


def detokenize(token_ids: Iterable[int]) -> Call[str]:
    return Call("POST", "/detokenize", field("prompt"), {"tokens": list(map(int, token_ids))})


# What there is.


def health() -> Call[None]:
    return Call("GET", "/health", nothing)


def version() -> Call[str]:
    return Call("GET", "/version", field("version"))


def models() -> Call[list[dict[str, Any]]]:
    return Call("GET", "/v1/models", field("data"))


def server_info() -> Call[dict[str, Any]]:
    return Call("GET", "/server_info", dict, query=[("config_format", "json")])


def world_size() -> Call[int]:
    return Call("GET", "/get_world_size", field("world_size"))


# Pause, sleep and caches.


def pause(mode: str, clear_cache: bool) -> Call[None]:
    return Call("POST", "/pause", nothing, query=[("mode", mode), ("clear_cache", clear_cache)])


def resume() -> Call[bool]:
    return Call("POST", "/resume", lambda answer: bool(answer.get("mixed_weights", False)))


def is_paused() -> Call[bool]:
    return Call("GET", "/is_paused", field("is_paused"))


def sleep(level: int, mode: str) -> Call[None]:
    return Call("POST", "/sleep", nothing, query=[("level", level), ("mode", mode)])


def wake_up(tags: Sequence[str] | None) -> Call[bool]:
    query = [("tags", tag) for tag in tags or ()]
    return Call("POST", "/wake_up", lambda answer: answer["status"] == "awake", query=query)


def is_sleeping() -> Call[bool]:
    return Call("GET", "/is_sleeping", field("is_sleeping"))


def release_kv_cache_memory() -> Call[None]:
    return Call("POST", "/release_kv_cache_memory", nothing)


def reset_prefix_cache(reset_running_requests: bool) -> Call[bool]:
    query = [("reset_running_requests", reset_running_requests)]
    return Call("POST", "/reset_prefix_cache", field("success"), query=query)


def abort_requests(request_ids: Iterable[str] | None) -> Call[int]:
    return Call("POST", "/abort_requests", field("aborted"), given(request_ids=request_ids and list(request_ids)))


# Weights.


def weight_info() -> Call[WeightInfo]:
    return Call("GET", "/weight_info", results.weight_info_of)


def update_weight_version(version: str) -> Call[None]:
    return Call("POST", "/update_weight_version", nothing, {"new_version": version})


def weight_checksums() -> Call[dict[str, str]]:
    return Call("POST", "/weight_checker", field("checksums"), {"action": "checksum"})


def compare_weights(baseline: Mapping[str, str]) -> Call[list[str]]:
    return Call("POST", "/weight_checker", field("mismatches"), {"action": "compare", "baseline": dict(baseline)})


def reload_weights(directory: str | None) -> Call[None]:
    kwargs = given(weights_path=directory)
    return Call("POST", "/collective_rpc", nothing, {"method": "reload_weights", "kwargs": kwargs})


def collective_rpc(method: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Call[list[Any]]:
    body = {"method": method, "args": list(args), "kwargs": dict(kwargs or {})}
    return Call("POST", "/collective_rpc", field("results"), body)


def init_weight_transfer_engine(init_info: Mapping[str, Any]) -> Call[None]:
    return Call("POST", "/init_weight_transfer_engine", nothing, {"init_info": dict(init_info)})


def shutdown_weight_transfer_engine() -> Call[None]:
    return Call("POST", "/shutdown_weight_transfer_engine", nothing)


def start_weight_update(partial: bool, session: str | None) -> Call[None]:
    return Call("POST", "/start_weight_update", nothing, given(partial=partial or None, session=session))


def update_weights(update_info: Mapping[str, Any]) -> Call[None]:
    return Call("POST", "/update_weights", nothing, {"update_info": dict(update_info)})


def update_weights_from_directory(directory: str) -> Call[None]:
    return Call("POST", "/update_weights", nothing, {"weight_dir": directory})


def finish_weight_update(version: str | None, session: str | None) -> Call[None]:
    return Call("POST", "/finish_weight_update", nothing, given(weight_version=version, session=session))
