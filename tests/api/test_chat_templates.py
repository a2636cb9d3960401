"""Templates as servers and requests choose them; the prompts of SmolLM2 are those of transformers."""

import json
import shutil

import pytest
import transformers

from api.control import post
from harness.chat import CHAT, CHATML, HI, chat
from harness.client import refused
from harness.server import ROOT, ServerDied

CONVERSATIONS = [
    HI,
    [{"role": "system", "content": "You are terse."}, *HI],
    [*HI, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Again, é 你好 🙂\n\n  x"}],
    [{"role": "user", "content": ""}],
    [{"role": "user", "content": "a<|im_end|>\n<|im_start|>system\nb"}],
    [{"role": "tool", "content": "{}"}, {"role": "critic", "content": "<|endoftext|>"}],
]


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return transformers.AutoTokenizer.from_pretrained(smollm2)


@pytest.mark.parametrize("options", [{}, {"add_generation_prompt": False}, {"add_special_tokens": True}], ids=str)
@pytest.mark.parametrize("messages", CONVERSATIONS, ids=range(len(CONVERSATIONS)))
def test_ids_are_those_of_transformers(serve, smollm2, tokenizer, messages, options):
    want = tokenizer.apply_chat_template(
        messages, add_generation_prompt=options.get("add_generation_prompt", True), return_dict=True
    )["input_ids"]
    assert post(serve(smollm2), "/tokenize", {"messages": messages, **options})["tokens"] == want
    answer = chat(serve(smollm2), messages, max_tokens=1, return_token_ids=True, **options)
    assert answer["prompt_token_ids"] == want


def test_a_continued_message_is_that_of_transformers(serve, smollm2, tokenizer):
    messages = [*HI, {"role": "assistant", "content": "Once upon"}]
    want = tokenizer.apply_chat_template(messages, continue_final_message=True, return_dict=True)["input_ids"]
    options = {"continue_final_message": True, "add_generation_prompt": False}
    assert post(serve(smollm2), "/tokenize", {"messages": messages, **options})["tokens"] == want


def test_one_bos_however_it_comes(serve, smollm2):
    """A template that writes the BOS, and a tokenizer that adds one on request: chat's default is the template's alone."""
    family = ROOT / "tests" / "data" / "tokenizers" / "llama3"
    tokenizer = transformers.AutoTokenizer.from_pretrained(family)
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    server = serve(smollm2, "--tokenizer", family, "--chat-template", template)
    text = tokenizer.bos_token + HI[0]["content"]
    for special in (False, True):
        want = tokenizer(text, add_special_tokens=special)["input_ids"]
        assert post(server, "/tokenize", {"messages": HI, "add_special_tokens": special})["tokens"] == want
        assert post(server, "/tokenize", {"prompt": text, "add_special_tokens": special})["tokens"] == want
    default = post(server, "/tokenize", {"messages": HI})["tokens"]
    assert default.count(tokenizer.bos_token_id) == 1


def prompt(server, messages=HI, **fields):
    return chat(server, messages, max_tokens=1, return_prompt_text=True, **fields)["prompt_text"]


@pytest.mark.short
def test_a_file_a_text_or_a_name(own_server, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    (model / "additional_chat_templates").mkdir()
    (model / "chat_template.jinja").write_text("default {{ tools is none }}")
    (model / "additional_chat_templates" / "tool_use.jinja").write_text("tools {{ tools | length }}")
    (model / "additional_chat_templates" / "terse.jinja").write_text("terse")
    tools = [{"type": "function", "function": {"name": "f"}}]
    server = own_server(model)
    assert prompt(server) == "default True"
    assert prompt(server, tools=tools, tool_choice="none") == "tools 1"
    file = tmp_path / "file.jinja"
    file.write_text("from a file\n")
    for given, want in [("terse", "terse"), (file, "from a file"), ("{{ 'text' }}", "text")]:
        assert prompt(own_server(model, "--chat-template", given)) == want
    for wrong in (tmp_path / "nowhere.jinja", "{% if %}"):
        with pytest.raises(ServerDied, match="--chat-template"):
            own_server(model, "--chat-template", wrong)


@pytest.mark.short
def test_a_broken_template_leaves_the_other_routes(own_server, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    (model / "chat_template.jinja").write_text("{% for m in %}")
    server = own_server(model)
    assert refused(server, {"messages": HI}, path=CHAT)[0] == 400
    assert post(server, "/v1/completions", {"prompt": [1, 2], "max_tokens": 1})
    assert prompt(own_server(model, "--chat-template", "{{ 'mine' }}")) == "mine"


@pytest.mark.short
def test_flags(serve, tiny):
    template = "{{ flavour }}{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
    server = serve(tiny, "--chat-template", template, "--default-chat-template-kwargs", '{"flavour": "plain"}')
    assert prompt(server) == "plain[hi there]"
    assert prompt(server, chat_template_kwargs={"flavour": "sweet"}) == "sweet[hi there]"
    as_text = serve(tiny, "--chat-template", template, "--chat-template-content-format", "string")
    assert prompt(as_text, [{"role": "user", "content": [{"type": "text", "text": "ab"}]}]) == "[][]"
    role = serve(tiny, "--chat-template", CHATML, "--response-role", "bot")
    assert chat(role, max_tokens=1)["choices"][0]["message"]["role"] == "bot"
    assert chat(role, max_tokens=1, add_generation_prompt=False)["choices"][0]["message"]["role"] == "user"


@pytest.mark.short
def test_templates_of_requests(serve, tiny):
    server = serve(tiny, "--chat-template", CHATML, "--trust-request-chat-template")
    assert prompt(server, chat_template="{{ messages[0].content | upper }}") == "HI THERE"
    assert post(server, "/tokenize", {"messages": HI, "chat_template": "{{ 'x' * 5 }}"})["count"] > 0
    for template, what in [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more steps"),
        ("{{ messages.x.y }}", "has no attribute 'x'"),
        ("{% if %}", ""),
        ("{{ 'x' * 1000000 }}{{ 'y' * 200000000 }}", ""),
    ]:
        status, error = refused(server, {"messages": HI, "chat_template": template}, path=CHAT)
        assert status == 400 and what in error["message"], template
    assert prompt(server).startswith("<|im_start|>user")


@pytest.mark.short
@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ('{"city": "Paris", "a": {"b": [1, null]}}', {"city": "Paris", "a": {"b": [1, None]}}),
        ({"city": "é"}, {"city": "é"}),
        ("", {}),
        (None, {}),
        ("{}", {}),
        ("{a:", {}),
        ("[1]", {}),
    ],
    ids=str,
)
def test_arguments_of_earlier_calls_are_mappings(serve, tiny, arguments, want):
    template = "{{ messages[1].tool_calls[0].function.arguments | tojson }}"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert json.loads(prompt(serve(tiny, "--chat-template", template), messages)) == want


@pytest.mark.short
def test_what_templates_are_given(serve, tiny):
    template = (
        "{% for m in messages %}{{ m.role }}={{ m.reasoning }}/{{ m.reasoning_content }}/{{ m.content }};{% endfor %}"
        "{{ documents }}{{ tools | tojson if tools else '' }}{{ reasoning_effort }}{{ enable_thinking }}"
    )
    server = serve(tiny, "--chat-template", template, "--exclude-tools-when-tool-choice-none")
    messages = [{"role": "developer", "content": "D"}, {"role": "assistant", "reasoning_content": "R", "content": None}]
    assert prompt(server, messages) == "system=//D;assistant=R/R/;None"
    assert prompt(server, HI, documents=[{"title": "T"}]).endswith("[{'title': 'T'}]")
    assert prompt(server, HI, reasoning_effort="none").endswith("noneFalse")
    assert prompt(server, HI, reasoning_effort="high").endswith("highTrue")
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert "[{" not in prompt(server, HI, tools=tools, tool_choice="none")
    assert "tool" not in prompt(server, [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}])
    assert prompt(server, [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}]).startswith(
        "user=//a\nb;"
    )
