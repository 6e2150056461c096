"""The environment in which pcluster and boto3 speak to the sandbox instead of AWS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# jsii (which pcluster uses to build templates) prints a 20-line banner on every end-of-life Node.js unless this
# variable holds exactly this sentence; the sentence names Node14, the check applies to every release.
_NODE_ACKNOWLEDGEMENT = (
    "Node14 is now end of life (EOL) as of April 30, 2023. Support of EOL runtimes are only guaranteed for 30 days "
    "after EOL. By silencing this warning you acknowledge that you are using an EOL version of Node and will upgrade "
    "to a supported version as soon as possible."
)


def pcluster_environment(
    endpoint: str, region: str, home: Path, *, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A whole environment for a child process: `base` (this process's own by default), turned to the sandbox.

    `endpoint` is the emulator's URL, `home` the sandbox's folder. Every AWS_* variable of `base` is dropped, the
    user's ~/.aws is not read, and pcluster's log, which names every AWS call with its parameters, goes below
    `home/log`. Credentials are placeholders: the emulator checks none, boto3 insists on some.
    """
    environment = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if not name.startswith("AWS_") and name.lower() not in {"http_proxy", "https_proxy", "all_proxy"}
    }
    environment.update(
        AWS_ENDPOINT_URL=endpoint,
        AWS_ACCESS_KEY_ID="sandbox",
        AWS_SECRET_ACCESS_KEY="sandbox",  # noqa: S106 - a placeholder, no secret
        AWS_REGION=region,
        AWS_DEFAULT_REGION=region,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        HOME=str(home / "log"),
        PCLUSTER_LOG_FILE=str(home / "log" / "pcluster.log"),
        JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=_NODE_ACKNOWLEDGEMENT,
    )
    return environment
