"""SmolLM2: what sleep frees, how long it takes, and that cycles leave nothing behind."""

import re
import resource
import time

import pytest

from api.control import DEV, get, greedy, post, refusal, rpc
from harness.bits import assert_same_answer
from harness.client import raw_post

ASLEEP_KB = 100_000  # the weights alone are 270 MB


@pytest.fixture
def server(own_server, smollm2, sanitized):
    if sanitized:
        pytest.skip("a sanitizer's memory says nothing")
    return own_server(smollm2, "--enable-sleep-mode", "--max-model-len", 2048, env=DEV)


def timed(server, path):
    started = time.monotonic()
    post(server, path)
    return time.monotonic() - started


@pytest.mark.parametrize("level", [1, 2])
def test_levels(server, level, report):
    expected = greedy(server)
    awake_kb = server.rss_kb()
    sleep_s = timed(server, f"/sleep?level={level}")
    asleep_kb = server.rss_kb()
    assert asleep_kb < ASLEEP_KB < awake_kb
    wake_s = timed(server, "/wake_up")
    if level == 2:
        started = time.monotonic()
        rpc(server, "reload_weights")
        wake_s += time.monotonic() - started
    assert_same_answer(expected, greedy(server), "after waking")
    report(
        f"level {level}: {awake_kb // 1000} MB awake, {asleep_kb // 1000} MB asleep, "
        f"sleep {sleep_s * 1e3:.0f} ms, wake {wake_s * 1e3:.0f} ms"
    )
    log = server.log()
    for line in (
        "setting pause state to PAUSED_NEW",
        "CuMemAllocator: sleep freed",
        "seconds to fall asleep.",
        "wake up the engine with tags: None",
        "seconds to wake up tags ['weights', 'kv_cache'].",
    ):
        assert line in log
    freed, used = re.search(
        r"Sleep mode freed ([\d.]+) GiB memory, ([\d.]+) GiB memory is still in use\.", log
    ).groups()
    assert float(freed) == pytest.approx((awake_kb - asleep_kb) / 2**20, abs=0.02)
    assert float(used) == pytest.approx(asleep_kb / 2**20, abs=0.02)


def test_cycles_leave_no_growth(server):
    expected = greedy(server)
    sizes = []
    for cycle in range(20):
        post(server, f"/sleep?level={1 + cycle % 2}")
        post(server, "/wake_up")
        if cycle % 2:
            rpc(server, "reload_weights")
        assert_same_answer(expected, greedy(server), f"cycle {cycle}")
        sizes.append(server.rss_kb())
    assert max(sizes[-4:]) < 1.05 * max(sizes[2:6])


@pytest.mark.parametrize("level", [1, 2])
def test_a_wake_without_memory(server, level):
    """It says so, leaves asleep what was asleep, and may be tried again."""
    expected = greedy(server)
    awake_kb = server.rss_kb()
    post(server, f"/sleep?level={level}")
    limits = resource.prlimit(server.pid, resource.RLIMIT_AS)
    for tags in ("", "?tags=weights"):
        asleep_kb = server.rss_kb()
        little = server.address_space_kb() * 1024 + (32 << 20)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (little, limits[1]))
        status, answer = refusal(server, f"/wake_up{tags}")
        resource.prlimit(server.pid, resource.RLIMIT_AS, limits)
        assert status == 500 and "memory" in answer["error"]["message"], answer
        assert get(server, "/is_sleeping") == {"is_sleeping": True}
        info = get(server, "/weight_info")
        assert info["weights_asleep"] and info["kv_cache_asleep"]
        assert server.rss_kb() < asleep_kb + 20_000
    assert post(server, "/wake_up")["status"] == "awake"
    if level == 2:
        rpc(server, "reload_weights")
    assert_same_answer(expected, greedy(server), "after a wake that failed at first")
    assert server.rss_kb() < 1.05 * awake_kb


@pytest.mark.nightly
def test_a_hundred_cycles(server):
    expected = greedy(server)
    sizes = []
    for cycle in range(100):
        post(server, f"/sleep?level={1 + cycle % 2}")
        post(server, "/wake_up")
        if cycle % 2:
            rpc(server, "reload_weights")
        sizes.append(server.rss_kb())
    assert_same_answer(expected, greedy(server), "after a hundred cycles")
    assert max(sizes[-4:]) < 1.02 * max(sizes[2:6])


@pytest.mark.parametrize("delay_s", [0.01, 0.05, 0.2])
def test_killed_in_a_sleep_that_writes(own_server, smollm2, sanitized, tmp_path, delay_s):
    """Weights that are not the checkpoint's are written to a file: nothing of it may outlive the process."""
    if sanitized:
        pytest.skip("timing")
    flags = ("--enable-sleep-mode", "--max-model-len", 2048, "--sleep-directory", tmp_path / "sleep")
    server = own_server(smollm2, *flags, env=DEV)
    expected = greedy(server)
    post(server, "/weight_checker", {"action": "reset"})
    asking = raw_post(server, "/sleep?level=1", {})
    time.sleep(delay_s)
    server.kill()
    asking.close()
    assert list((tmp_path / "sleep").iterdir()) == []
    assert_same_answer(expected, greedy(own_server(smollm2, *flags, env=DEV)), "of a start after the kill")
