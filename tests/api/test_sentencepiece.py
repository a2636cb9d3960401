"""A tokenizer that comes from sentencepiece, through the served API: prompts as transformers tokenizes them, and text, streams
and single tokens' texts as the reference makes them of ids that a random model draws, most of them bytes."""

import json

import pytest
from tokenizers import Tokenizer

from harness.client import complete, request, stream
from harness.server import ROOT, TINY_MODELS
from tokenizer_reference import shown_alone, streamed

FAMILIES = ROOT / "tests" / "data" / "tokenizers"
VOCAB_SIZE = 384  # the tiny model's
PROMPT = [1, 270, 280, 290]
DRAWS = {"temperature": 2, "max_tokens": 60, "ignore_eos": True, "skip_special_tokens": False}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}"  # as Llama 2's: BOS is its own
)
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}


def shrunk(family):
    """The family's tokenizer.json with as many tokens as the tiny model has rows."""
    spec = json.loads((FAMILIES / family / "tokenizer.json").read_text())
    vocab = {token: i for token, i in spec["model"]["vocab"].items() if i < VOCAB_SIZE}
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in spec["model"]["merges"]]
    spec["model"]["vocab"] = vocab
    spec["model"]["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= vocab.keys()]
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["id"] < VOCAB_SIZE]
    return spec


@pytest.fixture(scope="module")
def llama2(tmp_path_factory):
    """A directory, and the tokenizer that transformers makes of its LlamaTokenizer."""
    directory = tmp_path_factory.mktemp("llama2")
    spec = shrunk("llama2")
    (directory / "tokenizer.json").write_text(json.dumps(spec))
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory, Tokenizer.from_str(json.dumps({**spec, "normalizer": None, "pre_tokenizer": METASPACE}))


@pytest.fixture(scope="module")
def server(serve, tiny, llama2):
    return serve(tiny, "--tokenizer", llama2[0])


@pytest.mark.short
@pytest.mark.parametrize(
    "text", ["the dog", " the  dog\n", "<s>the</s> dog", "na\u00efve \u65e5\u672c \U0001f600", "", "\u2581x"]
)
def test_prompts_are_tokenized_as_the_class_says(server, llama2, text):
    status, _, answer = request(server, "POST", "/tokenize", {"prompt": text, "return_token_strs": True})
    expected = llama2[1].encode(text)
    assert status == 200 and answer["tokens"] == expected.ids and answer["token_strs"] == expected.tokens
    _, _, back = request(server, "POST", "/detokenize", {"tokens": answer["tokens"]})
    assert back["prompt"] == llama2[1].decode(expected.ids, skip_special_tokens=False)


BOS = {"llama2": "<s>", "llama3": "<|begin_of_text|>", "gemma": "<bos>", "mistral_v3": "<s>"}


@pytest.fixture(scope="module", params=BOS)
def with_bos(request, serve, tiny, llama2, tmp_path_factory):
    """A server whose template writes BOS and whose tokenizer would too, the tokenizer, and BOS."""
    family = request.param
    if family == "llama2":
        return serve(tiny, "--tokenizer", llama2[0]), llama2[1], BOS[family]
    if family == "llama3":
        folder = TINY_MODELS / "llama-rope-llama3"
        return (
            serve(folder, "--chat-template", TEMPLATE),
            Tokenizer.from_file(str(folder / "tokenizer.json")),
            BOS[family],
        )
    directory, spec = tmp_path_factory.mktemp(family), json.dumps(shrunk(family))
    (directory / "tokenizer.json").write_text(spec)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS[family], "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return serve(tiny, "--tokenizer", directory), Tokenizer.from_str(spec), BOS[family]


@pytest.mark.short
@pytest.mark.parametrize("add", [None, False, True])
def test_one_bos_is_the_templates_or_the_tokenizers(with_bos, add):
    """A chat adds no special tokens unless asked to, a completion does unless asked not to."""
    server, reference, bos = with_bos
    rendered, flag = f"{bos}[INST] the dog [/INST]", {} if add is None else {"add_special_tokens": add}
    messages = [{"role": "user", "content": "the dog"}]
    _, _, chat = request(server, "POST", "/tokenize", {"messages": messages, **flag})
    assert chat["tokens"] == reference.encode(rendered, add_special_tokens=bool(add)).ids
    assert chat["tokens"].count(reference.token_to_id(bos)) == (2 if add else 1)
    choice = complete(server, prompt=rendered, max_tokens=1, return_token_ids=True, **flag)["choices"][0]
    assert choice["prompt_token_ids"] == reference.encode(rendered, add_special_tokens=add is not False).ids
    fields = {"messages": messages, "max_tokens": 1, "return_token_ids": True, **flag}
    assert complete(server, path="/v1/chat/completions", **fields)["prompt_token_ids"] == chat["tokens"]


@pytest.mark.parametrize("seed", range(12))
def test_text_streams_and_tokens_are_the_references(server, llama2, seed):
    reference = llama2[1]
    fields = {**DRAWS, "prompt": PROMPT, "seed": seed, "logprobs": 0, "return_token_ids": True}
    choice = complete(server, **fields)["choices"][0]
    ids = choice["token_ids"]
    texts = streamed(reference, PROMPT, ids, skip=False)
    assert choice["text"] == "".join(texts)
    chunks = stream(server, {**fields, "stream_interval": 1})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == choice["text"]
    for token, shown in zip(ids, choice["logprobs"]["tokens"], strict=True):
        alone = shown_alone(reference, "\u2581", token)
        if not alone.endswith("\ufffd"):  # that one is shown by what it completes
            assert shown == alone


def test_a_stop_string_across_tokens(server):
    whole = complete(server, **DRAWS, prompt=PROMPT, seed=3)["choices"][0]["text"]
    stop = whole[10:13]
    choice = complete(server, **DRAWS, prompt=PROMPT, seed=3, stop=[stop])["choices"][0]
    assert choice["text"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] == stop


def test_a_grammar_sees_spaces_and_bytes(server):
    """`\u2581the` is a space and a word, `<0xC3>` a byte of a character."""
    for pattern, allowed in (
        (r"( the){2}", {" the the"}),
        ("\u00e9{3}", {"\u00e9\u00e9\u00e9"}),
        (r" [ab]x", {" ax", " bx"}),
    ):
        fields = {"prompt": PROMPT, "temperature": 1, "seed": 5, "max_tokens": 30}
        choice = complete(server, **fields, structured_outputs={"regex": pattern})["choices"][0]
        assert choice["text"] in allowed and choice["finish_reason"] == "stop"


def test_an_unknown_part_is_refused_at_start(own_server, tiny, tmp_path):
    from harness.server import ServerDied

    spec = shrunk("llama2") | {"pre_tokenizer": {"type": "FixedLength", "length": 4}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(ServerDied, match="FixedLength"):
        own_server(tiny, "--tokenizer", tmp_path / "tokenizer.json")
