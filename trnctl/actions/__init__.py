"""One verb per module: `plan_x(...)` is pure and returns frozen data, `x(...)` carries it out through the doors."""
