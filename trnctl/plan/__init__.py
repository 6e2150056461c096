"""Arithmetic on values: layouts, rules, cost."""
