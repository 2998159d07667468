"""Benchmarks: ratios, side by side in one run, by hand or in the lab. Never part of the tests."""
