"""What can go wrong between a program and a server; every exception of this package's calls is an UnspoolError."""

from __future__ import annotations

import json


class UnspoolError(Exception):
    """The base of them all."""


class Unreachable(UnspoolError, ConnectionError):
    """No connection, or it ended before the answer: the server is not there, or went away."""


class RequestTimeout(UnspoolError, TimeoutError):
    """No answer within the client's timeout. The connection is closed, which ends the request on the server as well."""


class TransferError(UnspoolError):
    """A weight transfer that failed on the sender's side. The server has its old weights."""


class ApiError(UnspoolError):
    """An answer other than 200.

    status: of HTTP; 400 what was asked is wrong, 404 an unknown route (development routes need the server's
    VLLM_SERVER_DEV_MODE=1), 409 not in this state (docs/control.md), 503 not now.
    type: the error's type, as "BadRequestError". message: why. param: the field that is meant, or None.
    """

    def __init__(self, status: int, type: str, message: str, param: str | None = None, path: str = ""):
        super().__init__(f"{path}: HTTP {status}, {type}: {message}")
        self.status = status
        self.type = type
        self.message = message
        self.param = param
        self.path = path

    @classmethod
    def from_answer(cls, status: int, path: str, body: bytes) -> ApiError:
        """Of the three shapes there are: an envelope, a flat {"error": text}, and {"detail": text} where there is no route."""
        text = body.decode(errors="replace")
        try:
            answer = json.loads(text)
        except ValueError:
            return cls(status, "Error", text[:1000], path=path)
        fields = answer if isinstance(answer, dict) else {}
        error = fields.get("error", fields.get("detail", text[:1000]))
        if isinstance(error, dict):
            return cls(status, str(error.get("type")), str(error.get("message")), error.get("param"), path)
        return cls(status, "Error", str(error), path=path)
