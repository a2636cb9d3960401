"""Clients and trainers as they are on PyPI, against a server each needs."""

import os
import sys

import pytest
from openai import AsyncOpenAI

from harness.server import ROOT, TINY_MODELS

sys.path.insert(0, str(ROOT / "python"))

# Nothing here may look for models on a hub, nor report to one.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["DISABLE_MLFLOW_INTEGRATION"] = "TRUE"
# Tiny models: a second thread of torch's would mostly wait for the first.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="module")
def server(serve, smollm2):
    return serve(smollm2, "--enable-scale-out", "--max-model-len", 2048, model_name="policy")


@pytest.fixture
def openai_client(server):
    """A new one for each test: its connections belong to the event loop that first uses it."""
    return AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="session")
def policy():
    """The tiny model that trainers train: float32, head not tied."""
    return TINY_MODELS / "llama-f32"
