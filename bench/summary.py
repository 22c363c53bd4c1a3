#!/usr/bin/env python3
"""Medians, ranges and ratios of the runs in results.jsonl, as a Markdown table."""
import json
import statistics
import sys

BUDGET = {"W1": 4.0, "W2": 5.0, "W2c": 9.0, "W3": 28.0, "W4": 38.0}


def cell(runs):
    if not runs:
        return "-"
    cpu = [run["server_cpu_us_per_unit"] for run in runs]
    dirty = sum(bool(run["failed"] or run["retransmitted"] or run["generator_kernel_drops"]) for run in runs)
    note = f", {dirty} of {len(runs)} runs not clean" if dirty else ""
    return f"{statistics.median(cpu):.2f} ({min(cpu):.2f}-{max(cpu):.2f}{note})"


runs = [json.loads(line) for line in open(sys.argv[1])]
print("| workload | Tandem, CPU-us per unit | Kamailio `-x fm`, 1 child | ratio | budget | Tandem p99 us | Kamailio p99 us |")
print("|---|---|---|---|---|---|---|")
for workload in dict.fromkeys(run["workload"] for run in runs):
    of = {peer: [run for run in runs if run["workload"] == workload and run["peer"] == peer] for peer in ("tandem", "kamailio")}
    median = {peer: statistics.median(run["server_cpu_us_per_unit"] for run in of[peer]) for peer in of if of[peer]}
    p99 = {peer: f'{statistics.median(run["delay_p99_us"] for run in of[peer]):.0f}' for peer in of if of[peer]}
    ratio = f'{median["tandem"] / median["kamailio"]:.2f}' if len(median) == 2 else "-"
    print(f'| {workload} | {cell(of["tandem"])} | {cell(of["kamailio"])} | {ratio} | {BUDGET[workload]} | {p99.get("tandem", "-")} | {p99.get("kamailio", "-")} |')
