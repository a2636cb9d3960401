"""Clients of the real model, as a trainer has them."""

import pytest
from openai import AsyncOpenAI


@pytest.fixture(scope="module")
def server(serve, smollm2):
    return serve(smollm2, "--enable-scale-out", "--max-model-len", 2048, model_name="policy")


@pytest.fixture
def openai_client(server):
    """A new one for each test: its connections belong to the event loop that first uses it."""
    return AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
