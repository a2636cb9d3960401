"""What the tests of the control plane share: commands, streams that are watched, and a second checkpoint."""

import json
import shutil
import threading
import time

from harness.chat import CHAT, HI
from harness.client import complete, request, stream_many

DEV = {"VLLM_SERVER_DEV_MODE": "1"}
GENERATE = "/inference/v1/generate"


def post(server, path, body=None):
    """The 200 answer of a command."""
    status, _, answer = request(server, "POST", path, body)
    assert status == 200, f"{path}: {status} {answer}"
    return answer


def get(server, path):
    status, _, answer = request(server, "GET", path)
    assert status == 200, f"{path}: {status} {answer}"
    return answer


def refusal(server, path, body=None):
    """(status, body) of a command that must fail."""
    status, _, answer = request(server, "POST", path, body)
    assert status >= 400, f"{path}: {status} {answer}"
    return status, answer


def rpc(server, method, **kwargs):
    return post(server, "/collective_rpc", {"method": method, "kwargs": kwargs})["results"]


def reset(server):
    """Awake, with the served checkpoint's weights and an empty prefix cache, whatever a test left behind."""
    post(server, "/wake_up")
    post(server, "/resume")
    rpc(server, "reload_weights")
    post(server, "/reset_prefix_cache?reset_running_requests=true")
    post(server, "/update_weight_version", {"new_version": "default"})


def greedy(server, prompt=(5, 6, 7), max_tokens=12, **fields):
    """A whole answer with the bits of its log-probs."""
    body = {"prompt": list(prompt), "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": 2}
    return complete(server, body, return_token_ids=True, return_tokens_as_token_ids=True, **fields)


class Background(threading.Thread):
    """Runs something that answers later; `result` and `error` are what came of it."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work = work
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.work()
        except Exception as error:  # noqa: BLE001, shown by whoever waits
            self.error = error

    def wait(self, timeout_s):
        self.join(timeout_s)
        assert not self.is_alive(), f"no answer after {timeout_s} s"
        if self.error:
            raise self.error
        return self.result


class Stream(Background):
    """A long stream, watched while it runs."""

    def __init__(self, server, path=GENERATE, **fields):
        self.seen = []
        if path == GENERATE:
            body = {"token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 400, "ignore_eos": True, **fields}}
        elif path == CHAT:
            body = {"messages": HI, "max_tokens": 400, "ignore_eos": True, "return_token_ids": True, **fields}
        else:
            body = {"prompt": [5, 6, 7], "max_tokens": 400, "ignore_eos": True, "return_token_ids": True, **fields}
        super().__init__(lambda: stream_many(server, [body], path, on_chunk=self.seen.append)[0])

    def wait_for_tokens(self, count, timeout_s):
        until(lambda: len(self.token_ids()) >= count or not self.is_alive(), timeout_s, "the stream brings no tokens")

    def token_ids(self):
        return sum((choice.get("token_ids") or [] for chunk in list(self.seen) for choice in chunk["choices"]), [])

    def finish_reasons(self):
        reasons = (choice["finish_reason"] for chunk in self.seen for choice in chunk["choices"])
        return [reason for reason in reasons if reason]


TRIES = 20  # a tiny model may be done before it is interrupted
LONG = 1900  # tokens; as many as a tiny model has room for


def frozen_stream(server, patience, clear_cache, **fields):
    """A stream of LONG tokens that a pause in mode keep met after its 40th."""
    for _ in range(TRIES):
        stream = Stream(server, max_tokens=LONG, temperature=0, **fields)
        stream.wait_for_tokens(40, 10 * patience)
        post(server, f"/pause?mode=keep&clear_cache={'true' if clear_cache else 'false'}")
        if server.in_flight() != (0, 0):
            return stream
        post(server, "/resume")
        stream.wait(60 * patience)
    raise AssertionError("no pause met a stream")


def aborted_streams(server, patience, command, count=1, path=GENERATE):
    """Streams of LONG tokens that a command, command(), ended in their middle, and its answer."""
    for _ in range(TRIES):
        streams = [Stream(server, path, max_tokens=LONG) for _ in range(count)]
        for stream in streams:
            stream.wait_for_tokens(3, 10 * patience)
        answer = command()
        ends = set()
        for stream in streams:
            stream.wait(5 * patience)
            (end,) = stream.finish_reasons()
            assert end == "abort" or (end == "length" and len(stream.token_ids()) == LONG)
            ends.add(end)
        if ends == {"abort"}:
            return streams, answer
        reset(server)
    raise AssertionError("no command met the streams")


def until(condition, timeout_s, what):
    """Waits for a condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} after {timeout_s} s"
        time.sleep(0.005)


def until_or_done(condition, asked, timeout_s, what):
    """Waits for a condition, or till all that was asked for is done: a tiny model may be before it is looked at."""
    until(lambda: condition() or not any(one.is_alive() for one in asked), timeout_s, what)


def read_tensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        begin, end = (start + offset for offset in tensor["data_offsets"])
        tensors[name] = (tensor["dtype"], tensor["shape"], data[begin:end])
    return tensors


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


# Of each element, the byte with the upper bits of the mantissa.
MANTISSA = {"BF16": (0, 2, 0x08), "F16": (0, 2, 0x40), "F32": (2, 4, 0x08)}


def change_weights(model, folder, edit=None):
    """A copy of a model whose weights differ in one bit of the mantissa each, or as edit(tensors) has it; the folder."""
    shutil.copytree(model, folder)
    for path in folder.glob("*.safetensors"):
        tensors = read_tensors(path)
        if edit:
            edit(tensors)
        else:
            tensors = {
                name: (dtype, shape, flipped(content, *MANTISSA[dtype]))
                for name, (dtype, shape, content) in tensors.items()
            }
        write_tensors(path, tensors)
    return folder


def flipped(content, first, step, mask):
    data = bytearray(content)
    data[first::step] = bytes(byte ^ mask for byte in data[first::step])
    return bytes(data)
