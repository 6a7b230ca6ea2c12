"""Benchmarks: `python -m bench --list`, `python -m bench NAME --json`, `make bench` for all.

One file a benchmark: it starts and stops what it needs, measures several rounds and returns figures. Figures are
medians; what is compared is interleaved in one run, because the machine is shared and noisy.
"""
