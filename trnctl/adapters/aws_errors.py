"""AWS's refusals in our words: one table for boto3's exceptions and for pcluster's messages, which quote them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trnctl.errors import CloudError, CloudUnreachable, ThrottledError


@dataclass(frozen=True)
class _Refusal:
    """A kind of refusal: `pattern` is looked for in AWS's error code and message."""

    pattern: str
    message: str
    remedy: str
    error: type[CloudError] = CloudError


_REFUSALS = (
    _Refusal(
        r"ExpiredToken|RequestExpired|token included in the request is expired|SSO.*(expired|invalid)"
        r"|Token has expired|Error loading SSO Token",
        "the AWS credentials have expired",
        "Renew them: aws sso login, or however this account gives them out; then run the command again.",
    ),
    _Refusal(
        r"Unable to locate credentials|Credentials not found|Partial credentials|NoCredentials",
        "there are no AWS credentials on this machine",
        "Run aws configure or aws sso login, set AWS_PROFILE, or use --profile. Without an account: trnctl --sandbox.",
    ),
    _Refusal(
        r"config profile .* could not be found",
        "the AWS profile does not exist",
        "Choose one of those that aws configure list-profiles shows: --profile, or AWS_PROFILE.",
    ),
    _Refusal(
        r"InvalidClientTokenId|UnrecognizedClient|SignatureDoesNotMatch|AuthFailure|InvalidAccessKeyId"
        r"|security token included in the request is invalid",
        "AWS does not accept these credentials",
        "Check which ones are used: aws sts get-caller-identity. Check this machine's clock as well.",
    ),
    _Refusal(
        r"region needs to be set|must specify a region|NoRegion",
        "no AWS region is set",
        "Write cluster.region in trnctl.yaml, or use --region.",
    ),
    _Refusal(
        r"Could not connect to the endpoint URL|EndpointConnection|ConnectTimeout|Connect timeout|ReadTimeout"
        r"|Read timeout|Connection was closed|ProxyConnection|Failed to connect to proxy|SSL validation failed|SSLError"
        r"|timed out",
        "AWS could not be reached",
        "Check the network, a proxy, and AWS_ENDPOINT_URL if it is set. If it is the sandbox's: trnctl sandbox up.",
        CloudUnreachable,
    ),
    _Refusal(
        r"Throttl|Rate exceeded|RequestLimitExceeded|TooManyRequests|SlowDown|BandwidthLimitExceeded",
        "AWS throttles this account's requests",
        "Wait a minute and run the command again; something else may be asking AWS a great deal.",
        ThrottledError,
    ),
    _Refusal(
        r"AccessDenied|UnauthorizedOperation|not authorized to perform|AccessDeniedException|UnauthorizedAccess",
        "these AWS credentials may not do that",
        "Ask for the permission{action}; trnctl doctor --policy prints all that trnctl needs.",
    ),
    _Refusal(
        r"OptInRequired|SubscriptionRequired|InvalidRegion|not subscribed",
        "this account may not use that service or region",
        "Enable the region or the service for the account, or choose another region.",
    ),
    _Refusal(
        r"InternalFailure|InternalError|ServiceUnavailable|Service Unavailable|InternalServerError",
        "AWS had an error of its own",
        "Run the command again in a minute; health.aws.amazon.com tells of wider trouble.",
    ),
    _Refusal(
        r"InsufficientInstanceCapacity|not enough capacity|InsufficientHostCapacity",
        "AWS has no such instances free in that zone now",
        "Try another zone or later, or reserve: a capacity block or an on-demand reservation (queues[].capacity).",
    ),
    _Refusal(
        r"VcpuLimitExceeded|LimitExceeded|QuotaExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded",
        "a quota of this account is used up",
        "Ask for more at Service Quotas in this region (Running On-Demand Trn instances), or ask for less.",
    ),
)  # fmt: skip
# IAM names the action in its message: "… is not authorized to perform: ec2:DescribeInstances because …".
_ACTION = re.compile(r"not authorized to perform:? \[?([a-z0-9-]+:[A-Za-z0-9]+)")


def known_refusal(said: str, *, code: str = "", action: str = "") -> CloudError | None:
    """The CloudError for what AWS said; None when the table does not know it.

    `code` is AWS's error code where there is one, `action` what was asked (`ec2:DescribeInstances`).
    """
    for refusal in _REFUSALS:
        if re.search(refusal.pattern, f"{code} {said}"):
            named = _ACTION.search(said)
            asked = named[1] if named else action
            where = f" ({asked})" if asked else ""
            what = refusal.message[0].upper() + refusal.message[1:]
            return refusal.error(
                f"{what}{where}. It said: {_one_line(said or code)}",
                remedy=refusal.remedy.replace("{action}", f" {asked}" if asked else ""),
            )
    return None


def cloud_error(said: str, *, code: str = "", action: str = "") -> CloudError:
    """The CloudError for what AWS said, also for what the table does not know."""
    return known_refusal(said, code=code, action=action) or CloudError(
        f"AWS refused{f' ({action})' if action else ''}: {_one_line(f'{code}: {said}' if code else said)}",
        remedy="Look up the error code in the service's documentation; trnctl doctor checks credentials and region.",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
