"""The traffic that a trainer makes, against any server with vLLM's /v1/completions.

Prompts are random token ids, new ones for every round, so that every engine does the same work and no prefix cache helps.
A case's figure is the median over its rounds; the first round warms up and is not counted.
"""

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field

import aiohttp

FIRST_ID = 256  # ids below may be special


@dataclass
class Plan:
    """One round of a case: bodies to send, how many at once, what to count, and the arithmetic in it."""

    bodies: list = field(default_factory=list)
    width: int = 1
    tokens: int = 0  # what the tokens per second count
    generated: int = 0  # what the server must report in all
    operations: int = 0

    def add(self, model, prompt, generated, n=1, scored=False, **body):
        self.bodies.append({"prompt": prompt, "max_tokens": generated, "n": n, **body})
        self.generated += n * generated
        self.operations += model.request(len(prompt), generated, n, scored)


def ids(dice, model, count):
    return [dice.randrange(FIRST_ID, model.vocab) for _ in range(count)]


def single(model, dice):
    plan = Plan()
    plan.add(model, ids(dice, model, 64), 192)
    plan.tokens = plan.generated
    return plan


def group(model, dice):
    plan = Plan(width=8)
    for _ in range(8):
        plan.add(model, ids(dice, model, 256), 96, n=8, logprobs=0)
    plan.tokens = plan.generated
    return plan


def prefill(model, dice):
    plan = Plan(width=4)
    for _ in range(4):
        plan.add(model, ids(dice, model, 1536), 1)
    plan.tokens = 4 * 1536
    return plan


def serve(model, dice):
    shape = random.Random(7)  # the same lengths every round
    plan = Plan(width=32)
    for _ in range(64):
        prompt, generated = shape.randrange(32, 256), shape.randrange(16, 128)
        plan.add(model, ids(dice, model, prompt), generated)
    plan.tokens = plan.generated
    return plan


def score(model, dice):
    plan = Plan(width=16)
    for _ in range(16):
        plan.add(model, ids(dice, model, 512), 1, scored=True, prompt_logprobs=0)
    plan.tokens = 16 * 512
    return plan


CASES = {"single": single, "group": group, "prefill": prefill, "serve": serve, "score": score}
STREAMS, STREAM_PROMPT, STREAM_TOKENS = 16, 32, 64


class Driver:
    def __init__(self, url, model_name, model):
        self.url = url
        self.model_name = model_name
        self.model = model
        self.round = 0

    def dice(self):
        self.round += 1
        return random.Random(1000 + self.round)

    def session(self):
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))

    def body(self, fields):
        return {"model": self.model_name, "temperature": 1.0, "ignore_eos": True, **fields}

    async def post(self, http, fields):
        async with http.post(self.url + "/v1/completions", json=self.body(fields)) as reply:
            answer = await reply.json()
            if reply.status != 200:
                raise RuntimeError(f"HTTP {reply.status}: {str(answer)[:300]}")
            return answer["usage"]["completion_tokens"]

    async def one_round(self, plan):
        """Seconds for all of the plan's requests."""
        gate = asyncio.Semaphore(plan.width)
        async with self.session() as http:

            async def one(body):
                async with gate:
                    return await self.post(http, body)

            started = time.perf_counter()
            counts = await asyncio.gather(*map(one, plan.bodies))
            seconds = time.perf_counter() - started
        if sum(counts) != plan.generated:
            raise RuntimeError(f"{sum(counts)} tokens were generated, not {plan.generated}")
        return seconds

    async def case(self, name, rounds):
        """(tokens per second, operations per second), medians."""
        seconds = []
        for _ in range(rounds + 1):
            plan = CASES[name](self.model, self.dice())
            seconds.append(await self.one_round(plan))
        median = statistics.median(seconds[1:])
        return plan.tokens / median, plan.operations / median

    async def stream(self, rounds):
        """(milliseconds to the first token, milliseconds between tokens), medians over all streams."""
        first, gaps = [], []
        for number in range(rounds + 1):
            dice = self.dice()
            async with self.session() as http:
                bodies = [
                    {"prompt": ids(dice, self.model, STREAM_PROMPT), "max_tokens": STREAM_TOKENS, "stream": True}
                    for _ in range(STREAMS)
                ]
                for times in await asyncio.gather(*(self.one_stream(http, body) for body in bodies)):
                    if number:
                        first.append(times[1] - times[0])
                        gaps += [b - a for a, b in zip(times[1:], times[2:], strict=False)]
        return 1e3 * statistics.median(first), 1e3 * statistics.median(gaps)

    async def one_stream(self, http, body):
        """When it was asked for, and when each chunk came."""
        times = [time.perf_counter()]
        async with http.post(self.url + "/v1/completions", json=self.body(body)) as reply:
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    times.append(time.perf_counter())
        return times
