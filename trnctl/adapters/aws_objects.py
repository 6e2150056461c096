"""Texts that go into the cluster's bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.errors import CloudError

Call = Callable[..., dict[str, Any]]  # service, operation, parameters -> answer


def put_objects(call: Call, region: str, bucket: str, objects: Mapping[str, str]) -> None:
    """Write texts by key. CloudError, before anything is written, for a bucket that is not there or not in `region`.

    No ACL is asked for: an object is private without one, and buckets of today refuse most (S3 Object Ownership).
    """
    if not objects:
        return
    try:
        answer = call("s3", "head_bucket", Bucket=bucket)
    except NoSuchThing as error:
        raise CloudError(
            f"There is no bucket {bucket}.",
            remedy=f"Make it: aws s3 mb s3://{bucket} --region {region}; or correct `bucket` in the cluster file.",
        ) from error
    place = _region_of(answer)
    if place not in ("", region):
        raise CloudError(
            f"The bucket {bucket} is in {place}, and the cluster in {region}.",
            remedy=f"Name a bucket in {region}: aws s3 mb s3://NAME --region {region}.",
        )
    for key, text in objects.items():
        call("s3", "put_object", Bucket=bucket, Key=key, Body=text.encode(), ContentType="text/plain; charset=utf-8")


def _region_of(answer: Mapping[str, Any]) -> str:
    """Where the bucket lies, as the answer's header has it ('' where the endpoint does not tell)."""
    return str(answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", ""))
