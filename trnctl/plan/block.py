"""A capacity block's end, and what it means for a job: pure arithmetic on times."""

from __future__ import annotations

from datetime import datetime, timedelta

from trnctl.errors import RefusedError
from trnctl.plan.cap import minutes_of, slurm_time

MARGIN = timedelta(minutes=30)  # EC2 takes a block's instances so long before its end
_FEWEST_MINUTES = 10.0


def clip_to_block(time_limit: str | None, block: str, ends: datetime, now: datetime) -> str | None:
    """The time limit of a job that begins now and must be over before EC2 takes the block's instances: Slurm's form,
    None when the limit that was asked for is short enough. RefusedError when there is hardly time left."""
    minutes = (ends - MARGIN - now).total_seconds() / 60
    if minutes < _FEWEST_MINUTES:
        when = f"at {ends - MARGIN:%Y-%m-%d %H:%M} UTC"
        raise RefusedError(
            f"the capacity block {block} gives its instances back {when}, 30 minutes before its end",
            remedy="submit to another queue, or name another block in trnctl.yaml and update the cluster",
        )
    asked = minutes_of(time_limit) if time_limit else None
    return None if asked is not None and asked <= minutes else slurm_time(int(minutes))
