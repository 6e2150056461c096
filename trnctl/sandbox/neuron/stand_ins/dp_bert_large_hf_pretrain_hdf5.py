"""Not the public BERT pre-training script: the trnctl sandbox's stand-in for it, which takes the same arguments,
prints the same lines and trains nothing. The sandbox put it where the recipe's source is expected; on a cluster on
AWS the real one lies here."""

import sys

from trnctl.sandbox.neuron.bert_training import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
