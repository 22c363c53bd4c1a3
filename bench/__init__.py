"""Measures the cost of Tandem and Kamailio: starts both in turns, measures them, writes the report. See `scripts/bench --help`."""
