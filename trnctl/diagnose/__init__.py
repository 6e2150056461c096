"""Evidence in, findings out: pure.

text        one line of any log: cleaned of colour, escapes and wrapping; its node and its time
kinds       which log, dump or script a file is, told by its content
documents   JSON of pcluster and of AWS as lines of evidence
signatures  what is known of failures, read from data: patterns, context, cause, remedy, examples
scan        a stream of bytes against all patterns, in bounded memory
judge       what was hit, weighed against the rest: findings, causes before symptoms, without the victims
"""
