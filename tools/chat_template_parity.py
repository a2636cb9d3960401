"""Compares our chat templates with transformers', byte for byte: text, errors and content format.

    chat_template_parity.py --binary build/release/tests/tools/template_cli [FOLDER | FILE ...]
                            [--model MODEL_DIR --tokenizer-binary build/release/tests/tools/tokenizer_cli]

Renders every template that is found (files that end in .jinja, and those inside the installed transformers) over the
conversations of chat_conversations.py, each with transformers.utils.chat_template_utils and with the binary. Where
transformers raises, the binary has to fail too, with the same message where the template raised it. With a model, its
prompts through our template engine and our tokenizer have to be the ids of apply_chat_template. Exit status 1, and the
first differences, if anything differs.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import jinja2
from transformers.utils import chat_template_utils

from chat_conversations import CONVERSATIONS

NOW = "30 Nov 2026"
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def without_nulls(messages):
    """What apply_chat_template does before it renders."""
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def reference(template, conversation):
    """("text", text), ("raised", message) for what the template raises, or ("error", type and message)."""
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        compiled.environment.globals["strftime_now"] = lambda _format: NOW
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[without_nulls(conversation["messages"])],
            tools=conversation.get("tools"),
            documents=conversation.get("documents"),
            chat_template=template,
            continue_final_message=conversation.get("continue_final_message", False),
            add_generation_prompt=generation_prompt(conversation),
            **{**SPECIAL_TOKENS, **conversation.get("kwargs", {})},
        )
        return "text", rendered[0]
    except jinja2.TemplateError as error:
        raised = type(error) is jinja2.TemplateError
        return ("raised", str(error)) if raised else ("error", f"{type(error).__name__}: {error}")
    except Exception as error:  # whatever Python raises in a template is an error of it
        return "error", f"{type(error).__name__}: {error}"


def generation_prompt(conversation):
    return conversation.get("add_generation_prompt", not conversation.get("continue_final_message", False))


def ours(binary, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([binary, "--chat", "--now", NOW], input=lines.encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def matches(expected, answer):
    kind, text = expected
    if kind == "text":
        return answer.get("text") == text
    if kind == "raised":
        return answer.get("error") == "raised" and answer["message"] == text
    return "error" in answer and answer["error"] != "raised"


def compare_ids(binary, tokenizer_binary, model):
    """How many conversations give other ids than transformers' tokenizer; and of how many."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    conversations, expected = [], []
    for conversation in CONVERSATIONS:
        options = {key: value for key, value in conversation.items() if key not in ("messages", "kwargs")}
        options["add_generation_prompt"] = generation_prompt(conversation)
        try:
            ids = tokenizer.apply_chat_template(conversation["messages"], return_dict=False, **options)
        except Exception:  # a content that the template cannot print
            continue
        conversations.append({**conversation, "add_generation_prompt": options["add_generation_prompt"]})
        expected.append(ids)
    source = {"template": tokenizer.chat_template, "special_tokens": tokenizer.special_tokens_map}
    texts = [answer["text"] for answer in ours(binary, [{**source, **each} for each in conversations])]
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    command = [tokenizer_binary, str(model / "tokenizer.json")]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
    actual = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    return sum(want != got for want, got in zip(expected, actual, strict=True)), len(expected)


def shipped_in_transformers():
    """Templates that transformers holds as text in its modules."""
    from transformers.decision import template_utils
    from transformers.models.jev import configuration_jev

    for module in (template_utils, configuration_jev):
        for name, value in vars(module).items():
            if isinstance(value, str) and "{%" in value:
                yield f"{module.__name__}.{name}", value


def templates(paths):
    yield from shipped_in_transformers()
    for path in paths:
        for file in sorted(path.rglob("*.jinja")) if path.is_dir() else [path]:
            yield str(file), file.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--show", type=int, default=10, help="differences to print")
    parser.add_argument("--model", type=Path, help="compare ids of its tokenizer too")
    parser.add_argument("--tokenizer-binary", help="tokenizer_cli, for --model")
    args = parser.parse_args()

    counts = {"templates": 0, "renderings": 0, "texts": 0, "differences": 0}
    for name, template in templates(args.paths):
        requests = [
            {
                "template": template,
                "special_tokens": SPECIAL_TOKENS,
                **conversation,
                "add_generation_prompt": generation_prompt(conversation),
            }
            for conversation in CONVERSATIONS
        ]
        counts["templates"] += 1
        for number, answer in enumerate(ours(args.binary, requests)):
            expected = reference(template, CONVERSATIONS[number])
            counts["renderings"] += 1
            counts["texts"] += expected[0] == "text"
            if matches(expected, answer):
                continue
            counts["differences"] += 1
            if counts["differences"] <= args.show:
                print(f"{name}, conversation {number}\n  expected {expected}\n  got      {answer}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if args.model:
        differing, total = compare_ids(args.binary, args.tokenizer_binary, args.model)
        print(f"{args.model}: ids of {total} prompts, {differing} differ")
        counts["differences"] += differing
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
