"""The files that lie in the sandbox where the recipes expect their training scripts; they are copied, not imported."""
