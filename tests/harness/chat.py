"""Conversations: a template that every tiny model can have, and chat requests."""

from harness.client import complete, stream

CHAT = "/v1/chat/completions"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HI = [{"role": "user", "content": "hi there"}]
# Everything that says what was generated.
DETAILS = {"logprobs": True, "top_logprobs": 3, "return_token_ids": True, "return_tokens_as_token_ids": True}


def chat(server, messages=HI, **fields):
    """The 200 answer to a conversation; Refused otherwise."""
    return complete(server, {"messages": messages}, path=CHAT, **fields)


def chat_stream(server, messages=HI, **fields):
    """The parsed chunks of a streamed answer."""
    return stream(server, {"messages": messages}, path=CHAT, **fields)


def joined(chunks, index=0):
    """One choice of a stream in the form of a whole answer's choice; its first chunk must bring the role."""
    choice = {"message": {"role": None, "content": ""}, "token_ids": [], "logprobs": [], "finish_reason": None}
    for chunk in chunks:
        for part in chunk["choices"]:
            if part["index"] != index:
                continue
            assert choice["finish_reason"] is None, "a chunk after the last one"
            first = choice["message"]["role"] is None
            assert ("role" in part["delta"]) == first
            if first:
                choice["message"]["role"] = part["delta"]["role"]
            for key, value in part["delta"].items():
                if key != "role" and value is not None:
                    choice["message"][key] = (choice["message"].get(key) or type(value)()) + value
            choice["token_ids"] += part.get("token_ids") or []
            choice["logprobs"] += (part["logprobs"] or {}).get("content", [])
            choice["finish_reason"] = part["finish_reason"]
            choice["stop_reason"] = part.get("stop_reason")
    return choice
