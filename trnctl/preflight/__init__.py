"""Preflight: everything that can be told of a ParallelCluster configuration before it costs money, pure.

schema, sections_*   the keys of ParallelCluster 3.0 to 3.16 as data, with the versions that know them
forms                how ids, names and paths must look
reading              a file against the schema: unknown, misplaced, missing and malformed values
belongs              where a key that stands in the wrong place belongs
config               what the file says, as rules ask for it
rules_*              one small function per rule, on the file alone
facts, online_*      what AWS was asked, and the rules that compare the file with the answers
judge                all of it: a text in, a verdict out
mapped               findings on a rendered document, brought back to the lines of `trnctl.yaml`
"""
