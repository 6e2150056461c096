"""botocore's clients for one region, made when they are wanted, and their answers without botocore's exceptions.

`status` must be quick, so that clients are made one by one (which is not safe in threads, and the costly part) while
the answers to the first questions are already on their way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from trnctl.adapters.aws_calls import translated

if TYPE_CHECKING:
    from botocore.session import Session

T = TypeVar("T")
_CALLS = logging.getLogger("trnctl.calls")  # what `-v` shows


class Clients:
    """One client a service. `environ`, `profile` and `endpoint_url` are as for BotoCloud."""

    def __init__(
        self,
        *,
        region: str,
        profile: str | None = None,
        endpoint_url: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.region = region
        self._environ = os.environ if environ is None else environ
        # AWS_PROFILE is botocore's own to read: as an argument it would go before keys in the environment, which
        # pcluster puts first, and the two would act in different accounts.
        self._profile = profile
        self._endpoint = endpoint_url or self._environ.get("AWS_ENDPOINT_URL") or None
        self._session: Session | None = None
        self._clients: dict[str, Any] = {}

    def elsewhere(self, region: str) -> Clients:
        """The same credentials and endpoint in another region."""
        return Clients(region=region, profile=self._profile, endpoint_url=self._endpoint, environ=self._environ)

    def call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One answer; CloudError when AWS refuses, NoSuchThing when what was named is not there."""
        client = self.client(service)
        _CALLS.debug("aws %s %s in %s", service, operation, self.region)
        with translated(service, operation):
            answer: dict[str, Any] = getattr(client, operation)(**parameters)
            return answer

    def pages(self, service: str, operation: str, key: str, /, **parameters: object) -> list[dict[str, Any]]:
        """All pages of a list."""
        client = self.client(service)
        _CALLS.debug("aws %s %s in %s, all pages", service, operation, self.region)
        with translated(service, operation):
            if not client.can_paginate(operation):
                return list(getattr(client, operation)(**parameters)[key])
            pages = client.get_paginator(operation).paginate(**parameters)
            return [item for page in pages for item in page.get(key, [])]

    def soon(self, pool: ThreadPoolExecutor, service: str, question: Callable[..., T], *words: object) -> Future[T]:
        """Make the service's client here and now, then ask in a thread."""
        self.client(service)
        return pool.submit(question, *words)

    def client(self, service: str) -> Any:
        """botocore's client of a service. Made by one thread at a time: that is the caller's care."""
        if service not in self._clients:
            from botocore.config import Config

            with translated(service, ""):
                if self._session is None:
                    self._session = self._new_session()
                patient = Config(
                    connect_timeout=5,
                    read_timeout=30,
                    retries={"mode": "standard", "total_max_attempts": 4},
                    max_pool_connections=10,
                )
                self._clients[service] = self._session.create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=self._endpoint,
                    config=patient,
                    **self._keys(),
                )
        return self._clients[service]

    def _new_session(self) -> Session:
        import botocore.session

        return botocore.session.Session(profile=self._profile)

    def _keys(self) -> dict[str, Any]:
        """Keys of a handed-in environment; botocore itself reads this process's one, and everything else."""
        if self._environ is os.environ or "AWS_ACCESS_KEY_ID" not in self._environ:
            return {}
        names = {
            "aws_access_key_id": "AWS_ACCESS_KEY_ID",
            "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "aws_session_token": "AWS_SESSION_TOKEN",
        }
        return {argument: self._environ[name] for argument, name in names.items() if name in self._environ}
