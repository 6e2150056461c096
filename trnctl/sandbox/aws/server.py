"""Puts the emulator together and serves it on a loopback port."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnctl.sandbox.aws.images import write_images
from trnctl.sandbox.aws.seeds import Seeds
from trnctl.sandbox.ports import Account, Machines

if TYPE_CHECKING:
    from trnctl.sandbox.aws.front import Route

HOST = "127.0.0.1"


class Emulator:
    """An AWS account in this process, listening as soon as it is made; `serve_forever` answers.

    `port` 0 takes any free one; `resource_seconds` is what each resource of a stack takes, `fleet_seconds` each
    change of a fleet's status. One emulator a process at a time: moto keeps its state per process, and a new
    emulator starts with an empty account.
    """

    def __init__(
        self,
        *,
        machines: Machines,
        home: Path,
        region: str = "us-west-2",
        port: int = 0,
        resource_seconds: float = 0.1,
        fleet_seconds: float = 0.5,
        seeds: Seeds | None = None,
    ) -> None:
        _prepare(home)
        _import_moto()
        from trnctl.sandbox.aws.assembly import assemble

        self._parts = assemble(
            machines=machines,
            region=region,
            port=port,
            resource_seconds=resource_seconds,
            fleet_seconds=fleet_seconds,
            seeds=seeds or Seeds(),
        )
        self.region = region

    @property
    def account(self) -> Account:
        """What the machines ask of EC2."""
        return self._parts.account

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._parts.server.port)

    @property
    def endpoint(self) -> str:
        """The URL for AWS_ENDPOINT_URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def routes(self) -> MutableMapping[str, Route]:
        """Further control routes, by path; the machines add theirs."""
        return self._parts.front.routes

    def serve_forever(self) -> None:
        """Answer requests until `stop` is called, from another thread or from a signal handler's thread."""
        self._parts.fleet.start()
        self._parts.server.serve_forever()

    def stop(self) -> None:
        """End `serve_forever` and close the port. The machines are not touched."""
        self._parts.fleet.stop()
        self._parts.server.shutdown()
        self._parts.server.server_close()


def serve(**options: Any) -> None:
    """Make an Emulator and serve until the process ends; the keywords are Emulator's."""
    Emulator(**options).serve_forever()


def _prepare(home: Path) -> None:
    """Set what moto reads from the environment when it is imported, and where the log goes."""
    if "moto.ec2.models.amis" in sys.modules and "MOTO_AMIS_PATH" not in os.environ:
        raise RuntimeError("moto was imported before the emulator: it has not read the emulator's images")
    images = home / "aws" / "images.json"
    write_images(images)
    os.environ["MOTO_AMIS_PATH"] = str(images)
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # the policies that AdditionalIamPolicies may name
    # moto opens boto3 sessions of its own, which fail over a profile that does not exist.
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        os.environ.pop(name, None)
    log = home / "log"
    log.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log / "account.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
    logger = logging.getLogger("trnctl.sandbox.aws")
    for old in logger.handlers:
        old.close()
    logger.handlers = [handler]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request


def _import_moto() -> None:
    """Import moto without the garbage collector, which takes a quarter of the time over its tables of types."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import trnctl.sandbox.aws.assembly  # noqa: F401 - imported for the time that it takes
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
