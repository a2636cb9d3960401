"""TRL's trainers as they are, training a tiny model by what the server generates."""

import pytest
import torch
from datasets import Dataset

import unspool
import unspool.integrations.trl
from harness.server import free_port
from trainers.servers import DEV, EXACT, transfer

PROMPTS = ["The sea ", "12 + 30 = ", "Dear reader, ", "def f(x):"]
STEPS = 3
PROBE = [7, 45, 120, 301, 9, 77, 13]


def share_of_low_ids(completion_ids, **kwargs):
    """A reward that a policy can learn, and that differs within a group."""
    return [sum(token < 100 for token in ids) / len(ids) for ids in completion_ids]


def settings(tmp_path, **more):
    """Of any of TRL's trainers. The rate is high, so that weights which are not sent are noticed."""
    return {
        "output_dir": str(tmp_path),
        "learning_rate": 1e-2,
        "max_steps": STEPS,
        "lr_scheduler_type": "constant",
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "max_completion_length": 12,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "seed": 3,
        **more,
    }


def transferring(serve, policy, backend):
    # AsyncGRPO asks for the model by its directory.
    return serve(policy, *EXACT, *transfer(backend), env=DEV, model_name=str(policy))


def log_probs(model):
    with torch.no_grad():
        rows = model(torch.tensor([PROBE])).logits[0, :-1].log_softmax(dim=-1)
    return [row[token].item() for row, token in zip(rows, PROBE[1:], strict=True)]


def served_log_probs(server):
    with unspool.Client(server.url) as client:
        return client.score([PROBE])[0].logprobs[1:]


@pytest.mark.parametrize("trainer_name, transport", [("GRPO", "ipc"), ("GRPO", "gloo"), ("RLOO", "gloo")])
def test_server_mode(serve, policy, tmp_path, trainer_name, transport):
    server = transferring(serve, policy, transport)
    unspool.integrations.trl.install(transport)
    import trl

    config = getattr(trl, f"{trainer_name}Config")(
        use_vllm=True,
        vllm_mode="server",
        vllm_server_base_url=server.url,
        vllm_group_port=free_port(),
        model_init_kwargs={"dtype": "float32"},
        **settings(tmp_path),
    )
    trainer = getattr(trl, f"{trainer_name}Trainer")(
        model=str(policy),
        reward_funcs=share_of_low_ids,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": PROMPTS * 4}),
    )
    before = served_log_probs(server)
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == STEPS
    if trainer_name == "GRPO":  # RLOO does not compare
        gaps = [entry["sampling/sampling_logp_difference/max"] for entry in steps]
        assert max(gaps) < 1e-3, gaps
    # The last step's weights have not been sent; and it was not the first ones that were served meanwhile.
    assert served_log_probs(server) != pytest.approx(before, abs=1e-3)
    assert served_log_probs(server) != pytest.approx(log_probs(trainer.model), abs=1e-3)
    trainer.vllm_generation.sync_weights()
    assert served_log_probs(server) == pytest.approx(log_probs(trainer.model), abs=1e-4)
    trainer.vllm_generation.vllm_client.close_communicator()


def test_update_by_single_tensors(serve, policy):
    """Online DPO's way: one call a tensor, between one start and one finish."""
    server = transferring(serve, policy, "ipc")
    unspool.integrations.trl.install("ipc")
    from transformers import AutoModelForCausalLM
    from trl.generation.vllm_client import VLLMClient

    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    client = VLLMClient(base_url=server.url)
    client.init_communicator(device="cpu")
    with client.weight_update():
        for name, parameter in model.named_parameters():
            client.update_named_param(name, parameter.data)
    assert served_log_probs(server) == pytest.approx(log_probs(model), abs=1e-4)
    client.close_communicator()


@pytest.mark.parametrize("hook", ["weight_transfer", "own calls"])
def test_async(serve, policy, tmp_path, hook):
    """AsyncGRPO: generation is frozen, the weights change, and what was in flight goes on; nothing is aborted."""
    transport = "ipc" if hook == "weight_transfer" else "gloo"
    server = transferring(serve, policy, transport)
    unspool.integrations.trl.install_async_grpo()
    from transformers import AutoTokenizer
    from trl.chat_template_utils import qwen3_chat_template
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

    # Its rollout worker parses answers, and knows how for the templates of some families only.
    tokenizer = AutoTokenizer.from_pretrained(policy)
    tokenizer.chat_template = qwen3_chat_template
    config = AsyncGRPOConfig(
        vllm_server_base_url=server.url,
        max_staleness=2,
        max_inflight_tasks=16,
        token_budget=512,
        **settings(tmp_path, max_completion_length=200, learning_rate=1e-3),
    )
    transfer = unspool.integrations.trl.WeightTransfer(server.url, transport) if transport == "ipc" else None
    trainer = AsyncGRPOTrainer(
        model=str(policy),
        reward_funcs=share_of_low_ids,
        args=config,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": text}] for text in PROMPTS * 4]}),
        weight_transfer=transfer,
    )
    in_flight = []
    pause = trainer.weight_transfer.pause

    def watched_pause():
        pause()
        in_flight.append(sum(server.in_flight()))

    trainer.weight_transfer.pause = watched_pause
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == STEPS
    # Each sync but the first, before which nothing is asked for, met rollouts under way.
    assert len(in_flight) == STEPS + 1 and min(in_flight[1:]) > 0
    # The first step trains on what its own weights drew: the trainer's attention and ours agree.
    assert steps[0]["ratio"] == pytest.approx(1, abs=1e-4) and steps[0]["kl"] < 1e-6
    assert server.metric("vllm:request_success_total", finished_reason="abort") == 0
    if transfer:
        with unspool.Client(server.url) as client:
            assert client.weight_info().version == str(STEPS + 1)
