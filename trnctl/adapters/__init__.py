"""Each file implements one door, and translates foreign failures exactly once."""
