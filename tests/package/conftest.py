"""The package as it lies in the tree, in front of whatever is installed."""

import sys

import pytest

from harness.server import ROOT

sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture
def fake():
    from fake_server import FakeServer

    with FakeServer() as server:
        yield server
