"""The commands: each parses, calls one action and shows the result."""
