"""Which experts every token went to, for a trainer that replays them (docs/routed-experts.md)."""

from __future__ import annotations

import base64
import io

import numpy as np


def decode_routed_experts(text: str | None) -> np.ndarray | None:
    """A choice's `routed_experts` as an array [tokens, layers, top_k] of uint8 or uint16; None where the server gave none.

    Row t is the routing of token t of prompt and output, from routed_experts_prompt_start on; the last token drawn has no
    row. All layers of the model are there, with zeros in those without experts. Ids stand in the order of their
    probabilities.
    """
    if text is None:
        return None
    try:
        array = np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"not a base64 .npy array: {error}") from error
    if array.ndim != 3 or array.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"expected uint8 or uint16 [tokens, layers, top_k], got {array.dtype} {list(array.shape)}")
    return array
