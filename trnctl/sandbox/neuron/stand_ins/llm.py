"""Not the public training script: the trnctl sandbox's stand-in for it and its siblings, which takes the arguments of
the one whose name it bears, prints the same lines and trains nothing. The sandbox put it where the recipe's source is
expected; on a cluster on AWS the real one lies here."""

import sys

from trnctl.sandbox.neuron.llm_training import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
