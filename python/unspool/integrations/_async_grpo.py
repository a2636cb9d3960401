"""What TRL's AsyncGRPO takes for granted on a GPU: its attention kernel, and the device's peak."""

from itertools import pairwise

import torch


def flash_attn_varlen_func(
    queries,
    keys,
    values,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
):
    """FlashAttention's function of this name in plain torch, differentiable.

    queries is [N, H, D]; keys and values are [K, H / g, D], one head for g of the queries'. Segment s attends from rows
    cu_seqlens_q[s] to cu_seqlens_q[s + 1] to as many of the others; under `causal` its last query sees its last key, so that
    a short segment at the end of a long path sees all of the path. The result is [N, H, D].
    """
    scale = queries.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    heads_a_key = queries.shape[1] // keys.shape[1]
    attended = []
    for (q0, q1), (k0, k1) in zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True):
        q = queries[q0:q1].transpose(0, 1)
        k, v = (x[k0:k1].transpose(0, 1).repeat_interleave(heads_a_key, dim=0) for x in (keys, values))
        scores = (q @ k.transpose(1, 2)).float() * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        # How far each key lies before each query.
        before = torch.arange(k1 - k0 - (q1 - q0), k1 - k0)[:, None] - torch.arange(k1 - k0)
        left, right = window_size
        hidden = torch.zeros_like(before, dtype=torch.bool)
        if causal:
            hidden |= before < 0
        elif right >= 0:
            hidden |= before < -right
        if left >= 0:
            hidden |= before > left
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1).to(v.dtype)
        attended.append((weights @ v).transpose(0, 1))
    return torch.cat(attended)


class _Kernels:
    """What packing._flash_attn() returns: a module of kernels."""

    flash_attn_varlen_func = staticmethod(flash_attn_varlen_func)


def install():
    """Patches TRL's async_grpo, where there is no CUDA device; needs the stand-ins for vLLM."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    packing._flash_attn = _Kernels
    # None: unknown, so that the trainer reports no share of it.
    async_grpo_trainer.get_peak_flops_per_device = lambda accelerator, dtype: None
