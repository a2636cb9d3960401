"""Small tokenizers with the exact parts of the real families: pre-tokenizer, normalizer, added tokens, post-processor.

Their merges are trained on tools/tokenizer_corpus.py, so a few hundred tokens stand for the real hundred thousand.
"""

import json
from dataclasses import dataclass, field

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_corpus import training_lines

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS_AND_SPACES = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _WORDS_AND_SPACES
QWEN2_PATTERN = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _WORDS_AND_SPACES


def _split_then_bytes(pattern):
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)
    return pre_tokenizers.Sequence([split, byte_level])


def _gpt2_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)


def _digits_then_bytes():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2_bytes()])


def _special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def _plain(*contents):
    return [AddedToken(content, special=False, normalized=False) for content in contents]


@dataclass
class Family:
    """What sets one family apart. Token texts in `added` get the highest ids, or the lowest with `added_first`."""

    pre_tokenizer: object
    added: list
    eos: str
    bos: str | None = None
    more_eos: list = field(default_factory=list)  # further ends of a sequence, in generation_config.json alone
    added_first: bool = False
    adds_bos: bool = False  # a TemplateProcessing that puts `bos` in front
    normalizer: object | None = None
    ignore_merges: bool = False
    unmerged_words: list = field(default_factory=list)  # in the vocabulary, but no merge leads to them
    legacy_merges: bool = False  # "a b" rather than ["a", "b"] in tokenizer.json, as older files have it


FAMILIES = {
    "gpt2": Family(
        pre_tokenizer=_gpt2_bytes(),
        added=[AddedToken("<|endoftext|>", special=True, normalized=True)],
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        legacy_merges=True,
    ),
    "llama3": Family(
        pre_tokenizer=_split_then_bytes(LLAMA3_PATTERN),
        added=_special(
            "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|finetune_right_pad_id|>",
            "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
        ),
        eos="<|eot_id|>",
        bos="<|begin_of_text|>",
        adds_bos=True,
        ignore_merges=True,
        unmerged_words=["Ġunspooling", "Ġrewarded", "Ġxyzzy"],
    ),
    "qwen2": Family(
        pre_tokenizer=_split_then_bytes(QWEN2_PATTERN),
        normalizer=normalizers.NFC(),
        added=_special("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>")
        + _plain("<tool_call>", "</tool_call>", "<think>", "</think>"),
        eos="<|im_end|>",
        more_eos=["<|endoftext|>"],
    ),
    "smollm": Family(
        pre_tokenizer=_digits_then_bytes(),
        added=_special("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>", "<empty_output>"),
        added_first=True,
        eos="<|im_end|>",
        bos="<|im_start|>",
    ),
    # Not a real family: one added token for every flag, and some that overlap.
    "flags": Family(
        pre_tokenizer=_gpt2_bytes(),
        normalizer=normalizers.NFC(),
        added=[
            AddedToken("<s>", special=True, normalized=False),
            AddedToken("</s>", special=True, normalized=False),
            AddedToken("<left>", special=True, normalized=False, lstrip=True),
            AddedToken("<right>", special=True, normalized=False, rstrip=True),
            AddedToken("<both>", special=True, normalized=False, lstrip=True, rstrip=True),
            AddedToken("<word>", special=True, normalized=False, single_word=True),
            AddedToken("token", special=False, normalized=False, single_word=True),
            AddedToken("<norm>", special=False, normalized=True),
            AddedToken("<normleft>", special=False, normalized=True, lstrip=True, rstrip=True),
            AddedToken("re\u0301sume\u0301", special=False, normalized=True),
            AddedToken("A\u030a", special=False, normalized=False),
            AddedToken("<a>", special=False, normalized=False),
            AddedToken("<a><b>", special=False, normalized=False),
            AddedToken("<b><c>", special=False, normalized=True),
            AddedToken("  ", special=False, normalized=False),
            AddedToken("\n\n\n", special=False, normalized=True, single_word=True),
        ],
        eos="</s>",
        bos="<s>",
        adds_bos=True,
    ),
}  # fmt: skip


def _post_processor(family, tokenizer):
    byte_level = processors.ByteLevel(add_prefix_space=False, trim_offsets=False)
    if not family.adds_bos:
        return byte_level
    template = processors.TemplateProcessing(
        single=f"{family.bos} $A",
        pair=f"{family.bos} $A {family.bos}:1 $B:1",
        special_tokens=[(family.bos, tokenizer.token_to_id(family.bos))],
    )
    return processors.Sequence([byte_level, template])


def _with_unmerged_words(tokenizer, words, ignore_merges):
    """Puts `words` behind the vocabulary of a BPE model, and sets ignore_merges, which the trainer leaves alone."""
    spec = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    for word in words:
        assert word not in vocab, word
        vocab[word] = len(vocab)
    spec["model"]["ignore_merges"] = ignore_merges
    return Tokenizer.from_str(json.dumps(spec))


def train(name, vocab_size):
    """A tokenizer of the family with exactly `vocab_size` tokens, added ones included."""
    family = FAMILIES[name]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = family.normalizer
    tokenizer.pre_tokenizer = family.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    behind = len(family.unmerged_words) + (0 if family.added_first else len(family.added))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - behind,
        special_tokens=family.added if family.added_first else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    tokenizer = _with_unmerged_words(tokenizer, family.unmerged_words, family.ignore_merges)
    tokenizer.add_tokens(family.added)
    tokenizer.post_processor = _post_processor(family, tokenizer)
    assert tokenizer.get_vocab_size() == vocab_size, (name, tokenizer.get_vocab_size())
    return tokenizer


def save(name, tokenizer, directory):
    """Writes tokenizer.json and tokenizer_config.json into `directory`."""
    family = FAMILIES[name]
    spec = json.loads(tokenizer.to_str())
    if family.legacy_merges:
        spec["model"]["merges"] = [" ".join(pair) for pair in spec["model"]["merges"]]
    write(spec, family, {}, directory)


def write(spec, family, others, directory):
    """The two files, from a tokenizer.json as it is and with `others` in tokenizer_config.json."""
    config = {
        "bos_token": family.bos,
        "clean_up_tokenization_spaces": False,
        "eos_token": family.eos,
        "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **others,
    }
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    (directory / "tokenizer.json").write_text(text + "\n", encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
