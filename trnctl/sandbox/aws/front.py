"""The HTTP door of the emulator: control routes below /_sandbox, faults of the AWS API, and moto behind them."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4
from xml.sax.saxutils import escape

from trnctl.sandbox.aws import image_builder, prices
from trnctl.sandbox.aws.faults import ApiFault, Faults

_log = logging.getLogger(__name__)

Route = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_PREFIX = "/_sandbox"


class Front:
    """A WSGI application.

    `routes` maps a path (`/_sandbox/…`) to a function of the request's JSON body, or of its query when it has
    none; more may be added at any time. A ValueError or LookupError that it raises becomes a 400, anything else
    a 500. moto is entered by one request at a time, because its backends know no locks.
    """

    def __init__(self, moto: Any, faults: Faults, lock: threading.RLock, region: str) -> None:
        self.routes: MutableMapping[str, Route] = {}
        self._moto, self._faults, self._lock, self._region = moto, faults, lock, region
        self._calls: Counter[str] = Counter()
        self._own: dict[tuple[str, str], Route] = {
            ("GET", "/health"): lambda _: {"status": "ok", "region": self._region},
            ("GET", "/calls"): lambda _: {"total": self._calls.total(), "calls": dict(self._calls)},
            ("DELETE", "/calls"): self._clear_calls,
            ("GET", "/faults"): lambda _: {"faults": self._faults.listing()},
            ("POST", "/faults"): lambda body: {"fault": self._faults.add(body)},
            ("DELETE", "/faults"): self._clear_faults,
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(_PREFIX):
            status, answer = self._control(environ)
            return _respond(start_response, status, "application/json", json.dumps(answer, default=str))
        service, action = _called(environ)
        self._calls[f"{service}:{action}"] += 1
        if fault := self._faults.api(service, action):
            content_type, text = _error(environ, service, fault)
            return _respond(start_response, f"{fault.status} Fault", content_type, text)
        if (service, action) == ("pricing", "GetProducts"):
            answer = prices.get_products(json.loads(_body(environ) or b"{}"))
            return _respond(start_response, "200 OK", "application/x-amz-json-1.1", json.dumps(answer))
        if service == "imagebuilder":  # moto has no such service, and pcluster asks it for the state of an image
            return self._image_builder(environ, start_response)
        with self._lock:
            answered: Iterable[bytes] = self._moto(environ, start_response)
            return answered

    def _image_builder(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        arn = dict(parse_qsl(environ.get("QUERY_STRING", ""))).get("imageBuildVersionArn", "")
        found = image_builder.get_image(self._region, arn) if environ["PATH_INFO"] == "/GetImage" else None
        if found is None:
            missing = json.dumps({"__type": "ResourceNotFoundException", "message": f"There is no image {arn}."})
            return _respond(start_response, "404 Not Found", "application/json", missing)
        return _respond(start_response, "200 OK", "application/json", json.dumps(found))

    def _control(self, environ: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        route = self._own.get((method, path.removeprefix(_PREFIX))) or self.routes.get(path)
        if route is None:
            return "404 Not Found", {"error": f"There is no {method} {path}."}
        try:
            return "200 OK", route(_arguments(environ))
        except (ValueError, LookupError, TypeError) as error:
            return "400 Bad Request", {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the client must get an answer, and the log the traceback
            _log.exception("%s %s", method, path)
            return "500 Internal Server Error", {"error": f"{type(error).__name__}: {error}"}

    def _clear_calls(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        self._calls.clear()
        return {}

    def _clear_faults(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        self._faults.clear()
        return {}


def _respond(start_response: Callable[..., Any], status: str, content_type: str, text: str) -> list[bytes]:
    body = text.encode()
    start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body)))])
    return [body]


def _body(environ: dict[str, Any]) -> bytes:
    """The request's body, which moto can still read afterwards."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _arguments(environ: dict[str, Any]) -> Mapping[str, Any]:
    body = _body(environ)
    if not body:
        return dict(parse_qsl(environ.get("QUERY_STRING", "")))
    arguments = json.loads(body)
    if not isinstance(arguments, dict):
        raise ValueError("The body must be a JSON object.")
    return arguments


def _called(environ: dict[str, Any]) -> tuple[str, str]:
    """Service and action of an AWS call: from its signature, and from the target header, the form or the path."""
    scope = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    service = scope.group(1) if scope else "unsigned"
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return service, target.rsplit(".", 1)[-1]
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        form = re.search(rb"(?:^|&)Action=(\w+)", _body(environ))
        if form:
            return service, form.group(1).decode()
    return service, f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"


def _error(environ: dict[str, Any], service: str, fault: ApiFault) -> tuple[str, str]:
    """Content type and text of an error in the protocol of the service."""
    message, request = fault.message or fault.code, uuid4()
    if environ.get("HTTP_X_AMZ_TARGET"):
        return "application/x-amz-json-1.0", json.dumps({"__type": fault.code, "message": message})
    detail = f"<Code>{escape(fault.code)}</Code><Message>{escape(message)}</Message>"
    if service == "ec2":
        text = f"<Response><Errors><Error>{detail}</Error></Errors><RequestID>{request}</RequestID></Response>"
    elif service == "s3":
        text = f"<Error>{detail}<RequestId>{request}</RequestId></Error>"
    else:
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type>{detail}</Error><RequestId>{request}</RequestId></ErrorResponse>"
        )
    return "text/xml", text
