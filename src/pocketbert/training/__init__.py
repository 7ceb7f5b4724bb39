"""Training: the one loop that every method shares, and the ideas that make it fast without changing the mathematics."""
