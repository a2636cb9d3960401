"""What the GRPO examples share: TRL's trainer against a server of ours, and what each step took."""

import argparse
import csv
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

# Models are directories here.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from transformers import PrinterCallback, TrainerCallback  # noqa: E402

import unspool  # noqa: E402
import unspool.integrations.trl  # noqa: E402

FIELDS = ("step", "reward", "gap_mean", "gap_max", "generate_s", "sync_s", "step_s", "completion_tokens")


class StepLog(TrainerCallback):
    """One row a step, out of TRL's metrics and clocks around its calls; on paper after each, for a run may be cut short."""

    def __init__(self, path):
        self.rows = []
        self._path = path
        self._seconds = {}
        self._started = 0.0

    def time(self, field, owner, method):
        """Adds the seconds of owner.method to `field`, from now on."""
        function = getattr(owner, method)

        def timed(*args, **kwargs):
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds[field] = self._seconds.get(field, 0.0) + time.perf_counter() - started

        setattr(owner, method, timed)

    def watch(self, trainer):
        if trainer.use_vllm:
            self.time("generate_s", trainer.vllm_generation, "generate")
            self.time("sync_s", trainer.vllm_generation, "sync_weights")
        else:
            self.time("generate_s", trainer, "_generate_single_turn")
        trainer.add_callback(self)

    def on_step_begin(self, args, state, control, **kwargs):
        self._started = time.perf_counter()
        self._seconds = {}

    def on_step_end(self, args, state, control, **kwargs):
        self._seconds["step_s"] = time.perf_counter() - self._started

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "reward" not in logs:
            return  # the summary at the end
        self.rows.append(
            {
                "step": state.global_step,
                "reward": logs["reward"],
                # How far the trainer's log-probs are from those that the server sampled with. Only with a server.
                "gap_mean": logs.get("sampling/sampling_logp_difference/mean"),
                "gap_max": logs.get("sampling/sampling_logp_difference/max"),
                "completion_tokens": logs["completions/mean_length"] * args.generation_batch_size,
                **{field: self._seconds.get(field) for field in ("generate_s", "sync_s", "step_s")},
            }
        )

        self._write()
        told = (f"{name} {value:.3g}" for name, value in self.rows[-1].items() if value is not None and name != "step")
        print(f"step {state.global_step}/{state.max_steps}:", ", ".join(told), flush=True)

    def _write(self):
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in self.rows
            )


def read_log(path):
    """The rows of a log's file; what is missing is None."""
    with open(path, newline="") as file:
        return [{k: float(v) if v else None for k, v in row.items()} for row in csv.DictReader(file)]


def plot(rows, path, title, beside=None):
    """Reward, gap, and seconds a step into a PNG; `beside` are the rows of the same run generating with transformers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (reward, gap, seconds) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    steps = [row["step"] for row in rows]
    reward.plot(steps, [row["reward"] for row in rows], label="unspool")
    reward.set(title=title, xlabel="step", ylabel="reward")
    if rows[0]["gap_max"] is not None:
        gap.semilogy(steps, [row["gap_max"] for row in rows], label="largest")
        gap.semilogy(steps, [row["gap_mean"] for row in rows], label="mean")
        gap.legend()
    gap.set(title="log-prob gap, rollout to trainer", xlabel="step", ylabel="nats")
    for field, label in (("step_s", "step"), ("generate_s", "generation"), ("sync_s", "weight sync")):
        if rows[0][field] is not None:
            seconds.semilogy(steps, [row[field] for row in rows], label=label)
    if beside:
        steps = [row["step"] for row in beside]
        reward.plot(steps, [row["reward"] for row in beside], "--", label="transformers")
        seconds.semilogy(steps, [row["generate_s"] for row in beside], "--", label="generation, transformers")
        reward.legend()
    seconds.legend(fontsize="small", loc="upper right")
    seconds.set(title="seconds a step", xlabel="step")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def add_arguments(parser, steps, out):
    """The options of every example; parse() reads them."""
    parser.add_argument("--steps", type=int, default=steps, help=f"optimizer steps ({steps})")
    parser.add_argument("--url", help="a running server; without one, one is started")
    parser.add_argument("--transport", choices=["ipc", "gloo"], default="ipc", help="how weights get to it (ipc)")
    parser.add_argument(
        "--generate", choices=["unspool", "transformers"], default="unspool", help="who draws completions (unspool)"
    )
    parser.add_argument(
        "--sync", action=argparse.BooleanOptionalAction, default=True, help="send the server new weights at every step"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(out), help=f"where to write .csv and .png ({out})")
    parser.add_argument("--beside", type=Path, help="a CSV of the same run with --generate transformers, for the plot")


def parse(parser):
    args = parser.parse_args()
    if args.generate == "transformers" and (args.url or not args.sync):
        parser.error("--generate transformers has no server: neither --url nor --no-sync has a meaning with it")
    return args


@contextmanager
def served(model, args, **flags):
    """The URL of a server of `model` as the trainer wants it: --url, or one that is started here."""
    if args.generate == "transformers" or args.url:
        yield args.url
        return
    with unspool.launch(
        model,
        logprobs_mode="processed_logprobs",  # of what was really sampled from
        max_logprobs=-1,
        weight_transfer_config={"backend": args.transport},
        transfer_python=sys.executable,
        disable_uvicorn_access_log=True,
        **flags,
    ) as server:
        yield server.url


def train(model, dataset, reward, url, args, **config):
    """TRL's GRPO on `model`, in float32; the log of its steps."""
    if args.generate == "unspool":
        unspool.integrations.trl.install(args.transport)
        config.update(use_vllm=True, vllm_mode="server", vllm_server_base_url=url)
    from trl import GRPOConfig, GRPOTrainer

    settings = {
        "output_dir": str(args.out.parent / "trainer"),
        "model_init_kwargs": {"dtype": "float32"},
        "max_steps": args.steps,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_dropout": True,
        "seed": args.seed,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    trainer = GRPOTrainer(
        model=str(model), reward_funcs=reward, args=GRPOConfig(**settings, **config), train_dataset=dataset
    )
    trainer.remove_callback(PrinterCallback)
    log = StepLog(args.out.with_suffix(".csv"))
    log.watch(trainer)
    if not args.sync:
        trainer.vllm_generation.sync_weights = lambda: None
    trainer.train()
    return log


def report(log, args, title):
    """The plot, and a line of averages. The first step is left out of the seconds: it pays for first touches."""
    beside = read_log(args.beside) if args.beside else None
    plot(log.rows, args.out.with_suffix(".png"), title, beside)
    usual = log.rows[1:] or log.rows
    for field in ("step_s", "generate_s", "sync_s"):
        if usual[0][field] is not None:
            print(f"{field:<12} {sum(row[field] for row in usual) / len(usual):8.3f} a step")
    print(f"reward       {log.rows[0]['reward']:.3f} at first, {log.rows[-1]['reward']:.3f} at last")
    if log.rows[0]["gap_max"] is not None:
        print(f"largest gap  {max(row['gap_max'] for row in log.rows):.2e} nats")
    print(f"wrote {args.out.with_suffix('.csv')} and {args.out.with_suffix('.png')}")
