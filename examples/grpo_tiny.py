"""GRPO on a tiny model against a server of ours, on a CPU, in a minute or two.

    python examples/grpo_tiny.py --out build/grpo_tiny

A random model of 0.1 M parameters learns to write lower-case letters: the reward is their share of a completion's tokens, at
first 26 of 258. Every step draws its completions from `unspool serve` and sends it the new weights. Writes a CSV and a PNG.
"""

import argparse
import string
import sys
import tempfile

import grpo

PROMPTS = ["The sea ", "12 + 30 = ", "Dear reader, ", "def f(x):"]


def make_model(directory, seed):
    """A model in the Hugging Face layout whose tokens are the 256 bytes and two special ones."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(["<|pad|>", "<|end|>", *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", model_max_length=256
    )
    tokenizer.save_pretrained(directory)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def share_of_letters(tokenizer):
    """The reward: which share of a completion's tokens are lower-case letters."""
    letters = set(tokenizer.convert_tokens_to_ids(list(string.ascii_lowercase)))

    def reward(completion_ids, **kwargs):
        return [sum(token in letters for token in ids) / len(ids) for ids in completion_ids]

    return reward


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    grpo.add_arguments(parser, steps=40, out="build/grpo_tiny")
    args = grpo.parse(parser)
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer

    torch.set_num_threads(1)  # so small a model gains nothing by a second, and that one would spin

    with tempfile.TemporaryDirectory() as model:
        make_model(model, args.seed)
        dataset = Dataset.from_dict({"prompt": PROMPTS * 64})
        reward = share_of_letters(AutoTokenizer.from_pretrained(model))
        with grpo.served(model, args, dtype="float32", max_model_len=256) as url:
            log = grpo.train(
                model,
                dataset,
                reward,
                url,
                args,
                learning_rate=5e-3,
                per_device_train_batch_size=32,
                num_generations=8,
                max_completion_length=24,
            )
    grpo.report(log, args, "share of lower-case letters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
