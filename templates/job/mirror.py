"""Copy a run's small records to the cluster's bucket, so that they outlive the cluster and its file system.

Runs on a stage's first node when the stage begins and ends, and on the head node when a job could write no end itself;
from the run's folder, whose run.json names the place (`mirror`, s3://BUCKET/trnctl/CLUSTER/runs/RUN). Exit code 1, with
the reason on stdout, when they could not be copied: that fails no run. Only Python 3.6.
"""

import json
import sys
from pathlib import Path

import s3

# What is copied: some kilobytes a run. Logs, checkpoints and scripts (which hold the values of the user's variables)
# are not.
RECORDS = ("run.json", "submitted.json", "results.json", "ended/*.json", "logs/*/attempts.json")


def main(folder):
    """Copy them; the exit code."""
    try:
        manifest = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"the records cannot be mirrored: {error}")
        return 1
    if not manifest.get("mirror"):
        return 0
    name, prefix = s3.split(manifest["mirror"])
    bucket = s3.Bucket(name, manifest.get("region", ""))
    try:
        for path in sorted(path for pattern in RECORDS for path in folder.glob(pattern)):
            bucket.put(prefix + str(path.relative_to(folder)), path.read_bytes())
    except (s3.Unreachable, OSError) as error:
        print("the records are not mirrored to {}: {}".format(manifest["mirror"], error))
        return 1
    finally:
        bucket.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
