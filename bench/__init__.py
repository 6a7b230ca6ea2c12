"""Benchmarks: `python -m bench --list`, `python -m bench NAME --json`, `make bench` for all.

A folder for each part of the product, in it one file a benchmark; catalogue.py has their names. Each starts and stops
what it needs, measures several rounds and returns figures. Figures are medians; what is compared is interleaved in one
run, because the machine is shared and noisy.
"""
