"""Errors become two lines and an exit code here; nothing below catches them for show."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process and exit."""
    raise SystemExit(0)
