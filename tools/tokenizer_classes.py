"""What transformers' AutoTokenizer makes of the same tokenizer.json under the classes that a model may declare."""

import json
import shutil
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

# Family of tests/data/tokenizers, config.json's model_type, and what tokenizer_config.json says beyond the family's own.
CASES = [
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizer"}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": None, "add_bos_token": False}),
    ("llama2", "llama", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "add_eos_token": True}),
    ("llama2", "llama", {"tokenizer_class": "CodeLlamaTokenizer"}),
    ("llama2", "llama", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("llama2", "mistral", {"tokenizer_class": "LlamaTokenizer"}),
    ("llama2", "", {"tokenizer_class": "LlamaTokenizer"}),
    ("mistral_v3", "mistral", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": None, "legacy": False}),
    ("mistral_v3", "mixtral", {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False}),
    ("phi3", "phi3", {"tokenizer_class": "LlamaTokenizer", "legacy": False}),
    ("gemma", "gemma", {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True}),
    ("gemma", "gemma2", {"tokenizer_class": "GemmaTokenizerFast"}),
    ("llama2", "gemma3_text", {"tokenizer_class": "GemmaTokenizer"}),
    ("llama3", "llama", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("llama3", "llama", {"tokenizer_class": "LlamaTokenizer"}),
    ("llama3", "qwen2", {"tokenizer_class": "LlamaTokenizerFast"}),
    ("smollm", "llama", {"tokenizer_class": "GPT2Tokenizer"}),
    ("smollm", "llama", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("gpt2", "gpt2", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}),
    ("gpt2", "qwen3", {"tokenizer_class": "Qwen2Tokenizer"}),
    ("qwen2", "qwen2", {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False}),
    ("qwen2", "qwen3", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("gpt2", "qwen2", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("gpt2", "qwen3", {"tokenizer_class": None}),
]  # fmt: skip
TEXTS = [
    "Hi there",
    " Hi <s>x</s> y",
    "<bos>12345 e\u0301\u00bd",
    "a  b\n\n\n c",
    "<|im_end|>ok\t1",
    "\U0001f600 unspooling",
]


def _record(directory, family, model_type, changes):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model"
        shutil.copytree(directory / family, path)
        config = json.loads((path / "tokenizer_config.json").read_text()) | changes
        (path / "tokenizer_config.json").write_text(json.dumps(config))
        (path / "config.json").write_text(json.dumps({"model_type": model_type} if model_type else {}))
        tokenizer = AutoTokenizer.from_pretrained(path)
    ids = [tokenizer(text).input_ids for text in TEXTS]
    return {
        "family": family,
        "model_type": model_type,
        "tokenizer_config": config,
        "ids": ids,
        "decoded": [tokenizer.decode(some) for some in ids],
    }


def write_golden(directory):
    """classes.json: {"texts", "cases"}, for tests/unit/tokenizer/tokenizer_class_test.cc."""
    cases = ",\n".join(json.dumps(_record(directory, *case)) for case in CASES)
    (directory / "classes.json").write_text(f'{{"texts":{json.dumps(TEXTS)},\n"cases":[\n{cases}\n]}}\n')
