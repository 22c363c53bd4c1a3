#!/usr/bin/env python3
"""Medians, ranges and ratios of the runs in results.jsonl, as Markdown tables."""
import json
import statistics
import sys

BUDGET = {"W1": 4.0, "W2": 5.0, "W2c": 9.0, "W3": 28.0, "W4": 38.0}
MESSAGES = {"W1": (1, 1), "W2": (1, 1), "W2c": (2, 2), "W3": (6, 7), "W4": (8, 9)}

runs = [json.loads(line) for line in open(sys.argv[1])]


def of(workload, load, peer):
    return [run for run in runs if (run["workload"], run["load"], run["peer"]) == (workload, load, peer)]


def median(chosen, key="server_cpu_us_per_unit"):
    return statistics.median(run[key] for run in chosen)


def cost(chosen):
    if not chosen:
        return "-"
    cpu = [run["server_cpu_us_per_unit"] for run in chosen]
    dirty = sum(bool(run["failed"] or run["retransmitted"] or run["generator_kernel_drops"]) for run in chosen)
    note = f", {dirty} of {len(chosen)} runs not clean" if dirty else ""
    return f"{median(chosen):.2f} ({min(cpu):.2f}-{max(cpu):.2f}{note})"


def number(chosen, key, form="{:.0f}"):
    return form.format(median(chosen, key)) if chosen else "-"


def kernel_share(workload, load):
    """Half of the floor's cost for a message in, half for one out, is only roughly right: sending is the dearer half."""
    floor = of("Floor", load, "floor")
    return f"{median(floor) * sum(MESSAGES[workload]) / 2:.1f}" if floor else "-"


for load, title in (("full", "Full load: 256 units in progress at a time"), ("equal", "Equal load")):
    chosen = [workload for workload in BUDGET if any(of(workload, load, peer) for peer in ("tandem", "plain", "kamailio"))]
    if not chosen:
        continue
    print(f"## {title}\n")
    print("CPU-microseconds per unit: median (range). Pairs: Tandem / Kamailio.\n")
    print("| workload | Tandem | without segmentation | Kamailio `-x fm`, 1 child | ratio | budget | kernel's floor, one by one | units/s | p50 us | p99 us |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for workload in chosen:
        tandem, plain, kamailio = (of(workload, load, peer) for peer in ("tandem", "plain", "kamailio"))
        ratio = f"{median(tandem) / median(kamailio):.2f}" if tandem and kamailio else "-"
        pairs = [
            f"{number(tandem, key)} / {number(kamailio, key)}" for key in ("units_per_second", "delay_p50_us", "delay_p99_us")
        ]
        print(f"| {workload} | {cost(tandem)} | {cost(plain)} | {cost(kamailio)} | {ratio} | {BUDGET[workload]} | {kernel_share(workload, load)} | {' | '.join(pairs)} |")
    print()

rings = [(load, workload) for load in ("full", "equal") for workload in BUDGET if of(workload, load, "ring")]
if rings:
    print("## Event loops\n")
    print("CPU-microseconds per unit: median (range).\n")
    print("| load | workload | epoll | io_uring | ratio | without segmentation: epoll | io_uring | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for load, workload in rings:
        cells = []
        for ours, ring in (("tandem", "ring"), ("plain", "plain-ring")):
            pair = of(workload, load, ours), of(workload, load, ring)
            ratio = f"{median(pair[1]) / median(pair[0]):.2f}" if all(pair) else "-"
            cells += [cost(pair[0]), cost(pair[1]), ratio]
        print(f"| {load} | {workload} | {' | '.join(cells)} |")
    print()

after = [run for run in runs if run["load"] == "after"]
if after:
    print("## After the load\n")
    print("What is spent in the half minute after a unit, when its transactions end, is in none of the figures above.\n")
    print("| workload | server | CPU-us per unit |")
    print("|---|---|---|")
    for run in after:
        print(f'| {run["workload"]} | {run["peer"]} | {run["clean_up_us_per_unit"]:.2f} |')
