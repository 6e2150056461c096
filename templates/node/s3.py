"""The few calls to S3 that nodes make, with the rights of their instance: list, get, put, delete.

Travels with the head node's script, and lies in a run's folder for its jobs. Nodes have no AWS software that could be
relied on (ParallelCluster's images lost the first AWS CLI in 3.16.2), so a request is signed here, as AWS's Signature
Version 4 is published. Credentials come from the environment, else from the instance's metadata (IMDSv2); the endpoint
from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, where one is set. A proxy is not asked. Only Python 3.6.
"""

import hashlib
import hmac
import json
import os
import time
from contextlib import suppress

METADATA = "http://169.254.169.254"
PATIENCE_S = 20  # for each answer of S3's
METADATA_PATIENCE_S = 3
DEADLINE_TRIES = 3  # of a request that met a 5xx, or a connection that broke
EMPTY = hashlib.sha256(b"").hexdigest()


class Unreachable(Exception):
    """S3 refused, or gave no answer; the text says which and what it said."""


class Bucket:
    """A bucket, by its name. `region` is where the cluster lies: S3 itself tells when the bucket lies elsewhere."""

    def __init__(self, name, region="", environ=None):
        environ = os.environ if environ is None else environ
        self.name = name
        self._endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        self._metadata = Metadata(environ)
        self._region = region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
        self._keys, self._connection, self._tag = keys_of(environ), None, ""

    def list(self, prefix):
        """[(key, bytes, seconds since 1970 when it was written)] of all objects whose keys begin so, by key."""
        import calendar
        from xml.etree import ElementTree

        found, more = [], {}
        while more is not None:
            query = dict(more, **{"list-type": "2", "prefix": prefix})
            tree = ElementTree.fromstring(self._ask("GET", "", query))  # noqa: S314  the answer is AWS's own
            space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
            for item in tree.iter(space + "Contents"):
                moment = time.strptime(item.findtext(space + "LastModified")[:19], "%Y-%m-%dT%H:%M:%S")
                size = int(item.findtext(space + "Size"))
                found.append((item.findtext(space + "Key"), size, float(calendar.timegm(moment))))
            token = tree.findtext(space + "NextContinuationToken")
            more = {"continuation-token": token} if token else None
        return found

    def get(self, key):
        """The bytes of an object; None when it is not there."""
        return self._ask("GET", key, {}, absent=True)

    def put(self, key, content):
        """Write an object."""
        self._ask("PUT", key, {}, content)

    def begin(self, key):
        """Begin to write an object in parts; the id of the upload."""
        from xml.etree import ElementTree

        tree = ElementTree.fromstring(self._ask("POST", key, {"uploads": ""}))  # noqa: S314  the answer is AWS's own
        space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
        return tree.findtext(space + "UploadId")

    def part(self, key, upload, number, content):
        """Write one part; its tag, which `finish` wants."""
        self._ask("PUT", key, {"partNumber": str(number), "uploadId": upload}, content)
        return self._tag

    def finish(self, key, upload, tags):
        """Make an object of the parts, whose tags these are, in order."""
        rows = enumerate(tags, start=1)
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in rows)
        whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = self._ask("POST", key, {"uploadId": upload}, whole)
        if b"<Error>" in answer:  # S3 may say 200 first and fail then
            raise Unreachable(f"S3 did not put the parts of s3://{self.name}/{key} together: {said(answer)}")

    def abandon(self, key, upload):
        """Let the parts of an upload go, which would cost otherwise; silent when that cannot be."""
        with suppress(OSError, Unreachable):
            self._ask("DELETE", key, {"uploadId": upload}, absent=True)

    def delete(self, key):
        """Remove an object; silent when it is gone."""
        self._ask("DELETE", key, {}, absent=True)

    def close(self):
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(self, method, key, query, content=b"", absent=False):
        for left in reversed(range(DEADLINE_TRIES)):
            try:
                code, headers, body = self._once(method, key, query, content)
            except OSError as error:
                self.close()
                if not left:
                    raise Unreachable(f"S3 gave no answer: {error}") from error
                continue
            elsewhere = headers.get("x-amz-bucket-region", "")
            if code in (301, 307, 400) and elsewhere and elsewhere != self._region:
                self._region = elsewhere
            elif code < 300:
                self._tag = headers.get("etag", "")
                return body
            elif code in (400, 403) and b"ExpiredToken" in body and left:
                self._keys = keys_of(os.environ)  # an instance's keys live for hours, an export may live longer
            elif code == 404 and absent and b"NoSuchBucket" not in body:
                return None
            elif code < 500 or not left:
                raise Unreachable(f"S3 answered {code} to {method} of s3://{self.name}/{key}: {said(body)}")
            else:
                time.sleep(1)
        raise Unreachable(f"S3 gave no answer for s3://{self.name}/{key}")

    def _once(self, method, key, query, content):
        from http import client
        from urllib.parse import urlsplit

        if self._keys is None:
            self._keys = self._metadata.keys()
        if not self._region:
            self._region = self._metadata.region()
        tail = ".cn" if self._region.startswith("cn-") else ""
        where = urlsplit(self._endpoint or f"https://s3.{self._region}.amazonaws.com{tail}")
        path, words = target(self.name, key, query)
        headers = signed((method, where.netloc, path, words, content), self._region, self._keys, time.gmtime())
        if self._connection is None:
            kind = client.HTTPSConnection if where.scheme == "https" else client.HTTPConnection
            self._connection = kind(where.netloc, timeout=PATIENCE_S)
        try:
            self._connection.request(method, path + ("?" + words if words else ""), content or None, headers)
            answer = self._connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def target(bucket, key, query):
    """A request's path and query, quoted as the signature wants them. The bucket stands in the path: a name with dots
    fits no certificate."""
    from urllib.parse import quote

    path = quote(f"/{bucket}/{key}" if key else f"/{bucket}", safe="/-_.~")
    return path, "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))


def signed(asked, region, keys, moment, *, service="s3", more=None):
    """The headers of a request (method, host, path, query, content) with its signature (AWS Signature Version 4).
    `more` are headers that another service wants."""
    method, host, path, words, content = asked
    stamp = time.strftime("%Y%m%dT%H%M%SZ", moment)
    digest = hashlib.sha256(content).hexdigest() if content else EMPTY
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp, **(more or {})}
    if keys[2]:
        headers["x-amz-security-token"] = keys[2]
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([method, path, words, lines, names, digest])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + keys[1].encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys[0]}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def keys_of(environ):
    """(access key, secret key, session token or '') of the environment; None when it has none."""
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], environ.get("AWS_SESSION_TOKEN", "")
    return None


class Metadata:
    """The instance's metadata, by IMDSv2: which role it has, its keys, its region."""

    def __init__(self, environ):
        self._endpoint = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA
        self._token = ""

    def keys(self):
        """The keys of the instance's role. Unreachable without one, or where this user may not ask: on a head node
        that keeps its metadata to itself (Imds/Secured) only root and the system's first user may."""
        role = self._ask("iam/security-credentials/").split("\n")[0]
        found = json.loads(self._ask("iam/security-credentials/" + role))
        return found["AccessKeyId"], found["SecretAccessKey"], found["Token"]

    def region(self):
        """The region that the instance is in."""
        return self._ask("placement/region")

    def _ask(self, what):
        if not self._token:
            head = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
            self._token = self._once("PUT", "/latest/api/token", head)
        return self._once("GET", "/latest/meta-data/" + what, {"X-aws-ec2-metadata-token": self._token})

    def _once(self, method, path, headers):
        from http import client
        from urllib.parse import urlsplit

        connection = client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=METADATA_PATIENCE_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace").strip()
        except (OSError, client.HTTPException) as error:
            raise Unreachable(f"this user gets no credentials from the instance's metadata: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise Unreachable(f"the instance's metadata answered {answer.status} to {path}")
        return text


def said(body):
    """What S3 says in its answer."""
    from xml.etree import ElementTree

    with suppress(ElementTree.ParseError):
        tree = ElementTree.fromstring(body)  # noqa: S314  the answer is AWS's own
        return "{}: {}".format(tree.findtext("Code") or "?", tree.findtext("Message") or "")
    return body[:200].decode("utf-8", "replace") or "nothing more"


def split(url):
    """The bucket and the prefix of s3://BUCKET/PREFIX, the prefix with a slash at its end unless it is empty."""
    bucket, _, prefix = url[len("s3://") :].partition("/")
    prefix = prefix.strip("/")
    return bucket, prefix + "/" if prefix else ""
