"""What the reference (vLLM) makes of token ids beside decoding them whole: streamed text, and single tokens' texts."""

from tokenizers.decoders import DecodeStream


def streamed(tokenizer, prompt, ids, skip):
    """What its detokenizer emits for each of `ids` after `prompt`."""
    stream, texts = DecodeStream(ids=prompt, skip_special_tokens=skip), []
    for token in ids:
        try:
            text = stream.step(tokenizer, token)
        except Exception as error:  # the library's own type is plain Exception
            if not str(error).startswith("Invalid prefix encountered"):
                raise
            stream = DecodeStream(skip_special_tokens=skip)
            text = stream.step(tokenizer, token)
        texts.append(text or "")
    return texts


def space_marker(spec):
    """The visible space of a Metaspace pre-tokenizer, None where there is no such part."""
    pre = spec["pre_tokenizer"] or {}
    parts = pre.get("pretokenizers", []) if pre.get("type") == "Sequence" else [pre]
    return next((part["replacement"] for part in parts if part.get("type") == "Metaspace"), None)


def shown_alone(tokenizer, marker, token):
    """A token's text beside its log-prob."""
    text, piece = tokenizer.decode([token], skip_special_tokens=False), tokenizer.id_to_token(token)
    if marker is None or piece is None:
        return text
    spaces = len(piece) - len(piece.lstrip(marker))
    return " " * max(0, spaces - (len(text) - len(text.lstrip(" ")))) + text
