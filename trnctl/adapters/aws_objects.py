"""Texts that go into the cluster's bucket, and come back from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.errors import CloudError
from trnctl.ports import StoredObject

Call = Callable[..., dict[str, Any]]  # service, operation, parameters -> answer
List = Callable[..., list[dict[str, Any]]]  # service, operation, key of the list, parameters -> all pages
_READERS = 8  # objects that are fetched side by side; botocore keeps ten connections


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


def list_objects(pages: List, bucket: str, prefix: str) -> list[StoredObject]:
    """The objects whose keys begin with `prefix`, in S3's order, which is that of the keys."""
    try:
        found = pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    except NoSuchThing as error:
        raise _no_bucket(bucket) from error
    return [StoredObject(item["Key"], int(item["Size"]), item["LastModified"]) for item in found]


def get_objects(call: Call, bucket: str, keys: Iterable[str]) -> dict[str, str]:
    """Texts by key, fetched side by side; what is not there is left out. CloudError when the bucket is not there."""

    def text_of(key: str) -> str | None:
        try:
            body: bytes = call("s3", "get_object", Bucket=bucket, Key=key)["Body"].read()
        except NoSuchThing as error:
            if error.code == "NoSuchBucket":
                raise _no_bucket(bucket) from error
            return None
        return body.decode("utf-8", "replace")

    wanted = list(keys)
    with ThreadPoolExecutor(max_workers=_READERS) as pool:
        texts = dict(zip(wanted, pool.map(text_of, wanted), strict=True))
    return {key: text for key, text in texts.items() if text is not None}


def delete_objects(call: Call, bucket: str, keys: Iterable[str]) -> None:
    """Delete objects one by one: there are a handful. In a bucket that keeps versions the older ones stay, as its owner
    wants it."""
    for key in keys:
        try:
            call("s3", "delete_object", Bucket=bucket, Key=key)
        except NoSuchThing as error:
            if error.code == "NoSuchBucket":
                raise _no_bucket(bucket) from error


def _no_bucket(bucket: str) -> CloudError:
    return CloudError(f"There is no bucket {bucket}.", remedy="Correct `bucket` in the cluster file.")


def _region_of(answer: Mapping[str, Any]) -> str:
    """Where the bucket lies, as the answer's header has it ('' where the endpoint does not tell)."""
    return str(answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", ""))
