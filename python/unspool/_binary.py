"""Where the server is."""

import os
from pathlib import Path


def binary():
    """The server's path: the environment's UNSPOOL_BINARY, or the one that was installed with this package."""
    path = Path(os.environ.get("UNSPOOL_BINARY") or Path(__file__).with_name("bin") / "unspool")
    if not path.is_file():
        raise FileNotFoundError(f"no server at {path}: install the package with pip, or set UNSPOOL_BINARY")
    return str(path)
