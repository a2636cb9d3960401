"""An environment of verifiers: the policy looks a number up with a tool and says it. Loaded by its name, as an installed one is."""

import json

import verifiers.v1 as vf
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage
from verifiers.v1.runtimes import ProgramResult

__all__ = ["PhoneBook", "PhoneBookHarness"]

NUMBERS = {"Ada": "1815", "Emmy": "1882", "Grace": "1906"}
LOOK_UP = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "The number of a person.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": list(NUMBERS)}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}


class PhoneBookData(vf.TaskData):
    name: str


class PhoneBookTask(vf.Task[PhoneBookData]):
    @vf.reward
    async def looked_up(self, trace) -> float:
        """How many of the lookups were of a person that there is, and were answered."""
        said = [message.content for message in trace.tool_messages]
        return sum(number in NUMBERS.values() for number in said) / max(len(said), 1)


class PhoneBook(vf.Taskset[PhoneBookTask]):
    def load(self):
        for name in NUMBERS:
            yield PhoneBookTask(PhoneBookData(name=name, prompt=f"What is the number of {name}?"), self.config.task)


class PhoneBookConfig(vf.HarnessConfig):
    turns: list = ["required", "auto", "none"]
    """The tool choice of each turn; null: a plain one, without tools."""
    stream: bool = False


class PhoneBookHarness(vf.Harness[PhoneBookConfig]):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        _, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "user", "content": prompt}]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            for choice in self.config.turns:
                fields = {"tools": [LOOK_UP], "tool_choice": choice, "parallel_tool_calls": False} if choice else {}
                message = await self.reply(client, model=ctx.model, messages=messages, **fields)
                messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
                for call in message.tool_calls or []:
                    name = json.loads(call.function.arguments)["name"]
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": NUMBERS[name]})
                if not message.tool_calls:
                    messages.append({"role": "user", "content": "Are you sure?"})
        return ProgramResult(0, "", "")

    async def reply(self, client, **fields):
        if not self.config.stream:
            return (await client.chat.completions.create(**fields)).choices[0].message
        content, calls = "", {}
        async for chunk in await client.chat.completions.create(**fields, stream=True):
            for choice in chunk.choices:
                content += choice.delta.content or ""
                for part in choice.delta.tool_calls or []:
                    call = calls.setdefault(
                        part.index, {"id": part.id, "type": "function", "name": "", "arguments": ""}
                    )
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
        functions = [
            {"id": call["id"], "type": call["type"], "function": {key: call[key] for key in ("name", "arguments")}}
            for _, call in sorted(calls.items())
        ]
        return ChatCompletionMessage(role="assistant", content=content, tool_calls=functions or None)
