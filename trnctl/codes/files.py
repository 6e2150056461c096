"""Codes of findings on the form of a file: YAML, keys, types, and how single values are written."""

from __future__ import annotations

from trnctl.findings import Level

FILES: tuple[tuple[str, Level, str, str], ...] = (
    # ---------------------------------------------------------------------------------------------- YAML
    ("file-empty", "error", "There is nothing in the file.", "Write it; `trnctl init` makes one to start from."),
    ("not-a-cluster-file", "error", "The file is something else than the configuration of a ParallelCluster 3 cluster.", "Name the cluster's file, or convert this one as the finding says."),
    ("yaml-syntax", "error", "The file is not YAML.", "Check the line and the one before it: indentation, brackets, quotes, a missing colon."),
    ("yaml-tag", "error", "A YAML tag stands before a value.", "Write the plain value, without a tag."),
    ("yaml-merge", "error", "`<<` merges something that is no mapping.", "Give it an alias of a mapping (*name)."),
    ("yaml-too-deep", "error", "A value contains itself or is nested too deeply.", "Write it flat, without such an alias."),
    ("template-not-rendered", "error", "The file is a template, with {{ … }} or {% … %} in it.", "Render the template, and validate what comes out."),
    ("placeholder", "error", "A value is still to be filled in: <…>, ${…}, subnet-xxxxxxxx. It is a warning where the form alone would pass.", "Write the real value."),
    # ---------------------------------------------------------------------------------------------- keys
    ("duplicate-key", "error", "A key stands twice; the later one would win silently.", "Keep one of the two."),
    ("key-not-text", "error", "YAML reads a key as a number, true, false or nothing.", "Put the key in quotes."),
    ("unknown-key", "error", "Nothing knows this key.", "Correct its spelling, or remove it."),
    ("misplaced-key", "error", "The key exists, but not here.", "Move it to the path that the finding names."),
    ("key-too-new", "error", "The key came with a later version of ParallelCluster.", "Remove it, or use that version."),
    ("key-removed", "error", "This version of ParallelCluster has removed the key.", "Remove it, or stay on an older version."),
    ("missing-key", "error", "A key that must be there is missing.", "Add it."),
    ("empty-value", "error", "A key stands there without a value.", "Give it a value, or remove the key."),
    ("ignored-key", "warning", "What is written here is not read.", "Remove it, or move it to where it is read."),
    # --------------------------------------------------------------------------------------------- types
    ("wrong-type", "error", "The value is of another type than the one that is wanted.", "Write it as the finding shows."),
    ("not-text", "error", "YAML reads the value as a number, a date, true or false, but text is wanted.", "Put it in quotes."),
    ("not-plain", "error", "YAML reads the value differently than it looks.", "Put it in quotes when text is meant."),
    ("control-character", "error", "A character stands here that no file can carry.", "Remove it."),
    ("unknown-value", "error", "The word is not among those that are known here.", "Write one of those that the finding lists."),
    ("out-of-range", "error", "The number is too small or too large.", "Write one within the bounds that the finding names."),
    ("too-long", "error", "The text is too long.", "Shorten it."),
    ("list-length", "error", "The list has too few or too many items.", "Write as many as the finding says."),
    ("json", "error", "The text is not JSON.", "Write one JSON object, in quotes or as a block (`|`)."),
    # ----------------------------------------------------------------------------------- ids, names, paths
    ("subnet-id", "error", "The text is not a subnet's id.", "Write the whole id: `subnet-` and 17 (in old accounts 8) characters."),
    ("sg-id", "error", "The text is not a security group's id.", "Write the whole id: `sg-` and 17 (in old accounts 8) characters."),
    ("ami-id", "error", "The text is not an image's id.", "Write the whole id: `ami-` and 17 (in old accounts 8) characters."),
    ("fs-id", "error", "The text is not a file system's id.", "Write the whole id: `fs-` and 17 characters."),
    ("vol-id", "error", "The text is not a volume's id.", "Write the whole id: `vol-` and 17 characters."),
    ("snap-id", "error", "The text is not a snapshot's id.", "Write the whole id: `snap-` and 17 characters."),
    ("cr-id", "error", "The text is not a capacity reservation's id.", "Write the whole id, `cr-` and 17 characters: a capacity block has one too, once it is bought."),
    ("access-point-id", "error", "The text is not the id of an EFS access point.", "Write the whole id: `fsap-` and 17 characters."),
    ("fsx-volume-id", "error", "The text is not the id of an FSx volume.", "Write the whole id: `fsvol-` and 17 characters."),
    ("file-cache-id", "error", "The text is not a file cache's id.", "Write the whole id: `fc-` and 8 to 18 characters."),
    ("backup-id", "error", "The text is not a backup's id.", "Write the whole id: `backup-` and its characters."),
    ("arn", "error", "The text is not the ARN that is wanted.", "Write it in full, as the finding shows."),
    ("policy-arn", "error", "The text is not a policy's ARN.", "Write it in full, as in arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess."),
    ("bucket-name", "error", "The text is not a bucket's name.", "Write the bare name, without `s3://` and without a path."),
    ("s3-uri", "error", "The text is not a place in S3.", "Write it as in `s3://bucket/prefix`."),
    ("script-url", "error", "Nodes cannot fetch this script; a path on this machine is nothing to them.", "Put it into a bucket (`s3://bucket/script.sh`) or on a web server (`https://…`)."),
    ("cidr", "error", "The text is neither an IPv4 CIDR nor a prefix list's id.", "Write an address with its prefix length, as in 203.0.113.7/32, or `pl-…`."),
    ("mount-directory", "error", "The text cannot be a mount directory.", "Write an absolute path, as in /fsx."),
    ("file-system-path", "error", "The text is not a path in a file system.", "Write an absolute path, as in /data."),
    ("time-of-week", "error", "The text is not a time of the week.", "Write d:HH:MM, as in 1:05:00."),
    ("time-of-day", "error", "The text is not a time of day.", "Write HH:MM in quotes."),
    ("database-name", "error", "The text is not a database's name.", "Use small letters, digits and underscores, 64 at most."),
    ("instance-type-form", "error", "The text is not an instance type.", "Write it as in trn1.32xlarge."),
    ("key-name", "error", "The text is not a key pair's name.", "Use at most 255 ASCII characters."),
    ("pcluster-version", "error", "The text is not a version of ParallelCluster 3.", 'Write it as in "3.16.1".'),
)  # fmt: skip
