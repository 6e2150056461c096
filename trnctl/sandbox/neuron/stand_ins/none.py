"""The trnctl sandbox has no stand-in for this recipe's training script, and refuses instead of pretending."""

import sys

sys.exit("trnctl sandbox: there is no stand-in for this training script; it runs on a cluster on AWS only")
