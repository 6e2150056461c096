"""Evidence in, findings out: pure."""
