"""examples/dual_write, with each of its parts killed at every step."""
