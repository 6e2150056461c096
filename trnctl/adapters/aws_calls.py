"""One call to AWS: botocore's exceptions as CloudErrors, and what is simply not there told from what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trnctl.adapters.aws_errors import cloud_error
from trnctl.errors import CloudError

# HeadBucket answers without a body: its code is the bare status.
_GONE = ("FileSystemNotFound", "MountTargetNotFound", "ResourceNotFoundException", "NoSuchBucket", "NoSuchKey", "404")


class NoSuchThing(CloudError):
    """AWS says that there is no such stack, table, volume, file system, bucket or object; never leaves the adapter.
    `code` is AWS's own word for it."""

    def __init__(self, message: str, *, remedy: str, code: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


def _is_absence(code: str, message: str) -> bool:
    """CloudFormation has no code of its own for a missing stack: it is a ValidationError with these words."""
    if code == "ValidationError":
        return "does not exist" in message
    return code.endswith(".NotFound") or code in _GONE


@contextmanager
def translated(service: str, operation: str) -> Iterator[None]:
    """Turn botocore's exceptions into CloudErrors, once. `operation` is botocore's name of the call ('': none yet)."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    words = "".join(word.capitalize() for word in operation.split("_"))
    action = f"{service}:{words}" if words else service
    try:
        yield
    except ClientError as error:
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if _is_absence(code, message):
            raise NoSuchThing(f"{action}: {message}", remedy="Check the name.", code=code) from error
        raise cloud_error(message, code=code, action=action) from error
    except BotoCoreError as error:
        raise cloud_error(str(error), code=type(error).__name__, action=action) from error
    except ResponseParserError as error:  # a proxy's page, or an emulator that does not know the operation
        raise CloudError(
            f"The answer to {action} was not AWS's: {str(error).partition(',')[0]}.",
            remedy="Check AWS_ENDPOINT_URL and the proxy, if one is set.",
        ) from error
