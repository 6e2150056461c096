"""The one call to DynamoDB that a head node makes, with its own rights, signed as `s3` signs. Only Python 3.6."""

import json
import os
import time

import s3

PATIENCE_S = 20
VERSION = "DynamoDB_20120810"


def call(operation, request, region, environ=None):
    """The answer to an operation, as DynamoDB's JSON protocol has it. s3.Unreachable when it refuses or is silent."""
    from http import client
    from urllib.parse import urlsplit

    environ = os.environ if environ is None else environ
    endpoint = environ.get("AWS_ENDPOINT_URL_DYNAMODB") or environ.get("AWS_ENDPOINT_URL")
    tail = ".cn" if region.startswith("cn-") else ""
    where = urlsplit(endpoint or f"https://dynamodb.{region}.amazonaws.com{tail}")
    body, keys = json.dumps(request).encode(), s3.keys_of(environ) or s3.Metadata(environ).keys()
    more = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"{VERSION}.{operation}"}
    headers = s3.signed(
        ("POST", where.netloc, "/", "", body), region, keys, time.gmtime(), service="dynamodb", more=more
    )
    kind = client.HTTPSConnection if where.scheme == "https" else client.HTTPConnection
    connection = kind(where.netloc, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        status, said = answer.status, answer.read().decode("utf-8", "replace")
    except (OSError, client.HTTPException) as error:
        raise s3.Unreachable(f"DynamoDB gave no answer: {error}") from error
    finally:
        connection.close()
    if status != 200:
        raise s3.Unreachable(f"DynamoDB answered {status} to {operation}: {said[:500]}")
    return json.loads(said or "{}")
