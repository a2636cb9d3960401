"""Thirty conversations that try what chat templates do: what chat_template_parity.py renders.

Each is a dict with `messages` and, where it has them, `tools`, `documents`, `kwargs`, `add_generation_prompt` and
`continue_final_message`. Tool call arguments are mappings, as templates get them; what becomes of strings is tested
elsewhere.
"""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now or on a day.\nTemperatures are in °C.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": 'A city, e.g. "São Paulo"'},
                "day": {"type": "string", "enum": ["today", "tomorrow"], "default": "today"},
                "limits": {"type": "object", "properties": {"max": {"type": "number", "default": 1.5}}},
                "tags": {"type": "array", "items": {"type": "string"}},
                "raw": {"type": ["string", "null"], "nullable": True},
            },
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": None,
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": -(2**63), "maximum": 2**64 - 1},
                "b": {"type": "number"},
            },
        },
    },
}
BARE = {"type": "function", "function": {"name": "ping", "description": "Ping <now> & 'then'", "parameters": None}}
TOOLS = [WEATHER, ADD, BARE]


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, call_id="call_00001"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, call_id="call_00001", name="get_weather"):
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


ONE_CALL = call("get_weather", {"city": "Zürich", "day": "tomorrow"})
TWO_CALLS = [call("add", {"a": 1, "b": 2.5e-7}, "callid001"), call("get_weather", {"city": 'a "b"\n\\c'}, "callid002")]

CONVERSATIONS = [
    {"messages": [user("Hello")]},
    {"messages": [user("Hello")], "add_generation_prompt": False},
    {"messages": [system("You are terse."), user("Hi"), assistant("Yes."), user("Why?")]},
    {"messages": [user("  spaces \n around\t")]},
    {"messages": [user("")]},
    {"messages": [system(""), user("x"), assistant(""), user("y")]},
    {"messages": [user("naïve 你好 🙂 e\u0301 \u200b\u2028 ٣ İ ß <|im_end|></s>{{ x }}{% raw %}")]},
    {"messages": [user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6")]},
    {"messages": [user("1"), user("2")]},
    {"messages": [assistant("first"), user("then")]},
    {"messages": [user("a"), system("late"), user("b")]},
    {"messages": [user("sum?")], "tools": TOOLS},
    {"messages": [system("Use tools."), user("sum?")], "tools": TOOLS},
    {"messages": [user("weather?"), assistant("", tool_calls=[ONE_CALL]), result("12 °C")], "tools": TOOLS},
    {"messages": [user("weather?"), assistant(None, tool_calls=[ONE_CALL]), result('{"t": 12}')], "tools": TOOLS},
    {
        "messages": [
            user("both"),
            assistant("Let me see.", tool_calls=TWO_CALLS),
            result("2.50000025", "callid001", "add"),
            result("rain", "callid002"),
            assistant("Done."),
            user("thanks"),
        ],
        "tools": TOOLS,
    },
    {"messages": [user("ping"), assistant("", tool_calls=[call("ping", {})]), result("")], "tools": [BARE]},
    {"messages": [user("q"), assistant("a", tool_calls=None), user("r")]},
    {"messages": [user("q"), assistant("<think>\nhm\n</think>\n\na"), user("r"), assistant("<think>x</think>b")]},
    {"messages": [user("q"), assistant("a", reasoning_content="because\n"), user("r")]},
    {"messages": [user("q"), assistant("a", reasoning="so"), user("r"), assistant("b", thinking="thus")]},
    {"messages": [user(parts("one", "two"))]},
    {"messages": [system(parts("be", "brief")), user(parts("only")), assistant(parts("a", "b")), user("c")]},
    {"messages": [user("think?")], "kwargs": {"enable_thinking": False}},
    {"messages": [user("think?")], "kwargs": {"enable_thinking": True, "reasoning_effort": "high"}},
    {
        "messages": [user("cite")],
        "documents": [{"title": "A", "text": "alpha"}, {"title": "B & C", "text": "beta\n"}],
        "kwargs": {"date_string": "26 Jul 2024", "builtin_tools": ["code_interpreter"]},
    },
    {"messages": [user("go on"), assistant("Once upon a ")], "continue_final_message": True},
    {"messages": [user("go on"), assistant("Once upon a \n")], "continue_final_message": True, "tools": [WEATHER]},
    {"messages": [{"role": "developer", "content": "Be kind."}, user("hi")], "kwargs": {"model_identity": "I am."}},
    {
        "messages": [
            system("multi"),
            user("step"),
            assistant("1", reasoning_content="r1", tool_calls=[ONE_CALL]),
            result("one"),
            assistant("2", reasoning_content="r2", tool_calls=[call("add", {"a": [1, None, True], "b": {"c": "d"}})]),
            result("two", name="add"),
            assistant("3", reasoning_content="r3"),
            user("and?"),
            assistant("4", tool_calls=[call("ping", {"x": ""})]),
            result(parts("three", "four"), name="ping"),
        ],
        "tools": TOOLS,
    },
]

assert len(CONVERSATIONS) == 30
