"""Benchmarks: sampling responses, grading them, and the numbers that come of it."""
