"""Spec -> text, pure and deterministic: every value is quoted for the language that it lands in."""
