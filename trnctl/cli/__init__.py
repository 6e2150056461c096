"""The commands: each parses, calls one action and shows the result.

Modules that hold commands do without `from __future__ import annotations`: Typer would evaluate every annotation
again from its text, which takes a third of the start.
"""
