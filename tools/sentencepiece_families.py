"""Small tokenizers with the exact parts of the families that come from sentencepiece: BPE with byte fallback (Llama 2,
Mistral, Gemma, Phi-3) and Unigram (T5, XLM-R). Trained on tools/tokenizer_corpus.py.
"""

import json
from dataclasses import dataclass, field

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokenizer_families
from charsmap import compile_charsmap
from tokenizer_corpus import training_lines

SPACE = "\u2581"
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# Some of sentencepiece's nmt_nfkc: white space, compatibility forms, composition, and a rule that takes a text away.
_NFKC_RULES = {
    "\t": " ", "\n": " ", "\r": " ", "\r\n": " ", "\u00a0": " ", "\u3000": " ", "\u2003": " ", "\u2028": " ",
    "\u200b": " ", "\u200d": "\u200d", "\ufb01": "fi", "\u00bd": "1\u20442", "\u2460": "1", "\u2167": "VIII", "\uff21": "A",
    "\uff11": "1", "\uff01": "!", "e\u0301": "\u00e9", "i\u0308": "\u00ef", "A\u030a": "\u00c5", "o\u0308": "\u00f6",
    "\u212b": "\u00c5", "\u2581": "\u2581", "\u00ad": "", "\u0007": "", "\u30ab\u3099": "\u30ac",
    "\ufdfa": "\u0635\u0644\u0649", "\u0e33": "\u0e4d\u0e32", "\U0001f600": ":-)", "\u1100\u1161": "\uac00",
}  # fmt: skip

NFKC_CHARSMAP = compile_charsmap(_NFKC_RULES)


def added(content, *flags, special=True):
    """One entry of added_tokens; `flags` are names out of lstrip, rstrip, single_word, normalized."""
    return {
        "id": 0,
        "content": content,
        **{name: name in flags for name in ("single_word", "lstrip", "rstrip", "normalized")},
        "special": special,
    }


def template(before=(), after=()):
    def special(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}

    def text(name, type_id):
        return {"Sequence": {"id": name, "type_id": type_id}}

    around = [special(token) for token in before], [special(token) for token in after]
    return {
        "type": "TemplateProcessing",
        "single": [*around[0], text("A", 0), *around[1]],
        "pair": [*around[0], text("A", 0), text("B", 1), *around[1]],
        "special_tokens": {token: {"id": token, "ids": [], "tokens": [token]} for token in (*before, *after)},
    }


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


_BYTES_DECODER = [replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
LLAMA_DECODER = {
    "type": "Sequence",
    "decoders": [*_BYTES_DECODER, {"type": "Strip", "content": " ", "start": 1, "stop": 0}],
}
GEMMA_DECODER = {"type": "Sequence", "decoders": _BYTES_DECODER}
LLAMA_NORMALIZER = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)]}


def metaspace(scheme, split, **more):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split, **more}


def _llama_tokens(*flags):
    return [added(token, *flags) for token in ("<unk>", "<s>", "</s>")]


@dataclass
class Family:
    """`first` are the tokens of the lowest ids, `added` those that are sought in text."""

    added: list
    eos: str
    bos: str | None = None
    first: tuple = ("<unk>", "<s>", "</s>")
    normalizer: dict | None = None
    pre_tokenizer: dict | None = None
    post_processor: dict | None = None
    decoder: dict | None = None
    unigram: bool = False
    byte_fallback: bool = True
    ignore_merges: bool = False
    legacy_merges: bool = False
    config: dict = field(default_factory=dict)  # of tokenizer_config.json


FAMILIES = {
    "llama2": Family(
        added=_llama_tokens(),
        eos="</s>",
        bos="<s>",
        normalizer=LLAMA_NORMALIZER,
        post_processor=template(["<s>"]),
        decoder=LLAMA_DECODER,
        legacy_merges=True,
        config={"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "add_eos_token": False},
    ),
    # Not a real family: the normalizer puts a space before every stretch of text, and added tokens have every flag.
    "llama2_flags": Family(
        added=[
            *_llama_tokens("normalized"),
            added("<left>", "lstrip"), added("<right>", "rstrip"), added("<both>", "lstrip", "rstrip"),
            added("<word>", "single_word"), added("token", "single_word", special=False),
            added("<norm>", "normalized", special=False), added("<normboth>", "normalized", "lstrip", "rstrip"),
            added(SPACE + SPACE, special=False), added("\n\n", special=False), added("two words", "normalized"),
        ],
        eos="</s>",
        bos="<s>",
        normalizer=LLAMA_NORMALIZER,
        post_processor=template(["<s>"], ["</s>"]),
        decoder=LLAMA_DECODER,
    ),
    "mistral_v3": Family(
        added=[*_llama_tokens(), *(added(f"[{name}]") for name in ("INST", "/INST", "TOOL_CALLS", "AVAILABLE_TOOLS"))],
        eos="</s>",
        bos="<s>",
        pre_tokenizer=metaspace("first", False),
        post_processor=template(["<s>"]),
        decoder=LLAMA_DECODER,
    ),
    "gemma": Family(
        added=[
            *(added(token) for token in ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")),
            *(added("\n" * count, special=False) for count in range(2, 5)),
            *(added(SPACE * count, special=False) for count in range(2, 6)),
            added("<table>", special=False),
        ],
        eos="<eos>",
        bos="<bos>",
        first=("<pad>", "<eos>", "<bos>", "<unk>"),
        normalizer=replace(" ", SPACE),
        pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        post_processor=template(["<bos>"]),
        decoder=GEMMA_DECODER,
    ),
    "phi3": Family(
        added=[
            added("<unk>"), added("<s>"), added("</s>", "rstrip", special=False), added("<|endoftext|>"),
            *(added(f"<|{name}|>", "rstrip") for name in ("assistant", "step", "system", "end", "user")),
        ],
        eos="<|endoftext|>",
        bos="<s>",
        normalizer=LLAMA_NORMALIZER,
        post_processor=template(["<s>"]),
        decoder=LLAMA_DECODER,
    ),
    "t5": Family(
        added=[added(token) for token in ("<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>")],
        eos="</s>",
        first=("<pad>", "</s>", "<unk>"),
        normalizer={"type": "Precompiled", "precompiled_charsmap": NFKC_CHARSMAP},
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("always", True)]},
        post_processor=template(after=["</s>"]),
        decoder=metaspace("always", True),
        unigram=True,
        byte_fallback=False,
    ),
    "xlmr": Family(
        added=[*(added(token) for token in ("<s>", "<pad>", "</s>", "<unk>")), added("<mask>", "lstrip")],
        eos="</s>",
        bos="<s>",
        first=("<s>", "<pad>", "</s>", "<unk>"),
        normalizer={
            "type": "Sequence",
            "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": NFKC_CHARSMAP},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        pre_tokenizer=metaspace("always", True, add_prefix_space=True, str_rep=SPACE),
        post_processor=template(["<s>"], ["</s>"]),
        decoder=metaspace("always", True, add_prefix_space=True, str_rep=SPACE),
        unigram=True,
        byte_fallback=False,
    ),
    # Not a real family: Unigram over byte tokens, and of the text's first stretch alone a space in front.
    "unigram_bytes": Family(
        added=[*_llama_tokens(), added("<sep>", "rstrip"), added("<n>", "normalized", special=False)],
        eos="</s>",
        bos="<s>",
        normalizer={"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}]},
        pre_tokenizer=metaspace("first", False),
        post_processor=template(["<s>"]),
        decoder=LLAMA_DECODER,
        unigram=True,
    ),
}  # fmt: skip


def _bpe(family, num_pieces):
    """Vocabulary and merges as sentencepiece has them: special tokens, bytes, then pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    # The rarest characters of the corpus are left to the byte tokens.
    trainer = trainers.BpeTrainer(vocab_size=num_pieces, limit_alphabet=num_pieces // 3, show_progress=False)
    tokenizer.train_from_iterator(training_lines(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    vocab = {token: i for i, token in enumerate([*family.first, *_BYTES, *pieces])}
    merges = [" ".join(pair) for pair in model["merges"]] if family.legacy_merges else model["merges"]
    return {
        "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": family.byte_fallback,
        "ignore_merges": family.ignore_merges, "vocab": vocab, "merges": merges,
    }  # fmt: skip


def _unigram(family, num_pieces):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=num_pieces, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(training_lines(), trainer)
    pieces = [pair for pair in json.loads(tokenizer.to_str())["model"]["vocab"] if pair[0] != "<unk>"]
    first = [[token, 0.0] for token in (*family.first, *(_BYTES if family.byte_fallback else ()))]
    return {
        "type": "Unigram", "unk_id": family.first.index("<unk>"), "vocab": first + pieces,
        "byte_fallback": family.byte_fallback,
    }  # fmt: skip


def build(name, num_pieces=500):
    """The family's tokenizer.json as a dict."""
    family = FAMILIES[name]
    model = _unigram(family, num_pieces) if family.unigram else _bpe(family, num_pieces)
    spec = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": family.added,
        "normalizer": family.normalizer, "pre_tokenizer": family.pre_tokenizer,
        "post_processor": family.post_processor, "decoder": family.decoder, "model": model,
    }  # fmt: skip
    # `tokenizers` knows the ids of added tokens.
    tokenizer = Tokenizer.from_str(json.dumps({**spec, "post_processor": None}))
    for token in spec["added_tokens"]:
        token["id"] = tokenizer.token_to_id(token["content"])
    for token, entry in (spec["post_processor"] or {}).get("special_tokens", {}).items():
        entry["ids"] = [tokenizer.token_to_id(token)]
    return spec


def save(name, spec, directory):
    """Writes tokenizer.json and tokenizer_config.json into `directory`."""
    tokenizer_families.write(spec, FAMILIES[name], FAMILIES[name].config, directory)
