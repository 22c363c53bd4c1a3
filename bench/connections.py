#!/usr/bin/env python3
"""Keeps the runs of bench/connections (`add FILE PEER NAME < RUN`), and shows them as Markdown tables (`show FILE`)."""
import json
import statistics
import sys

PEERS = ("tandem", "kamailio")
BUDGET_CPU = {"TCP": 35, "TLS full p256": 200, "TLS full rsa2048": 380}
BUDGET_BYTES = {"idle tcp": 1_000, "idle tls": 12_000}


def add(path, peer, name):
    run = json.load(sys.stdin)
    run["peer"], run["name"] = peer, name
    with open(path, "a") as file:
        file.write(json.dumps(run) + "\n")
    print(f"{peer:<9} {name:<18} {in_short(run)}")


def in_short(run):
    if run["measured"] == "held":
        points = ", ".join(f'{step["connections"]}: {step["memory_bytes"] / 1e6:.1f} MB' for step in run["steps"])
        calls = run["calls"]
        rang = f'; {calls["answered"]} of {calls["made"]} calls rang where they should' if calls else ""
        left_out = f'; {run["left_out"]}' if run["left_out"] else ""
        return f'{run["connection_bytes"]:.0f} bytes each, r^2 {run["r_squared"]:.5f} ({points}){rang}{left_out}'
    failed = f', {run["failed"]} failed ({run["failure"]})' if run["failed"] else ""
    short = f'{run["server_cpu_us_each"]:.1f} us of CPU each, p50 {run["delay_p50_us"]} us, p99 {run["delay_p99_us"]} us{failed}'
    if run["measured"] == "churn":
        for title in ("calls_alone", "calls_beside"):
            calls = run[title]
            short += f'; {title.replace("_", " ")}: p50 {calls["delay_p50_us"]} us, p99 {calls["delay_p99_us"]} us, {calls["failed"] + calls["wrong"]} of {calls["made"]} failed'
    return short


def show(path):
    runs = [json.loads(line) for line in open(path)]
    units(runs)
    held(runs)
    churn(runs)


def names(runs, measured):
    return list(dict.fromkeys(run["name"] for run in runs if run["measured"] == measured))


def of(runs, peer, name):
    return [run for run in runs if (run["peer"], run["name"]) == (peer, name)]


def units(runs):
    if not names(runs, "units"):
        return
    print("CPU-microseconds of the server for connect, handshake, OPTIONS, close; median (range).\n")
    print("| | Tandem | Kamailio | ratio | budget | a second and core, Tandem / Kamailio |")
    print("|---|---|---|---|---|---|")
    for name in names(runs, "units"):
        cells, medians = [], []
        for peer in PEERS:
            cost = [run["server_cpu_us_each"] for run in of(runs, peer, name)]
            failed = sum(run["failed"] for run in of(runs, peer, name))
            medians.append(statistics.median(cost) if cost else None)
            cells.append(f"{medians[-1]:.1f} ({min(cost):.1f}-{max(cost):.1f}{f', {failed} failed' if failed else ''})" if cost else "-")
        ratio = f"{medians[0] / medians[1]:.2f}" if all(medians) else "-"
        rates = " / ".join(f"{1e6 / median:,.0f}" if median else "-" for median in medians)
        print(f'| {name} | {" | ".join(cells)} | {ratio} | {BUDGET_CPU.get(name, "-")} | {rates} |')
    print()


def held(runs):
    chosen = [run for run in runs if run["measured"] == "held"]
    if not chosen:
        return
    print("Memory (PSS of all processes, MB) by connections, and the line through it. `registered`: less what a registration takes by itself.\n")
    counts = sorted({step["connections"] for run in chosen for step in run["steps"]})
    print(f'| | server | 0 | {" | ".join(f"{count:,}" for count in counts)} | bytes each | r² | budget | taken in/s | CPU-us each | calls that rang where they should |')
    print("|---|---|" + "---|" * (len(counts) + 7))
    for run in chosen:
        memory = {step["connections"]: f'{step["memory_bytes"] / 1e6:.1f}' for step in run["steps"]}
        last, calls = run["steps"][-1], run["calls"]
        cells = [run["name"], run["peer"], f'{run["base_bytes"] / 1e6:.1f}', *(memory.get(count, "-") for count in counts)]
        cells += [f'{run["connection_bytes"]:,.0f}', f'{run["r_squared"]:.5f}', f'{BUDGET_BYTES.get(run["name"], "-")}']
        cells += [f'{last["accepted_per_second"]:,.0f}', f'{last["server_cpu_us_each"]:.0f}']
        cells += [f'{calls["answered"]} of {calls["made"]}' if calls else "-"]
        print(f'| {" | ".join(cells)} |')
    print()
    for reason in dict.fromkeys(run["left_out"] for run in chosen if run["left_out"]):
        print(f"{reason}.\n")


def churn(runs):
    chosen = [run for run in runs if run["measured"] == "churn"]
    if not chosen:
        return
    print("Calls while connections come and go; microseconds.\n")
    print("| | a second | CPU each | busy | failed | calls alone: p50 / p99 / most | calls beside | calls failed |")
    print("|---|---|---|---|---|---|---|---|")
    for run in chosen:
        alone, beside = (
            " / ".join(f'{run[title][f"delay_{which}_us"]:,}' for which in ("p50", "p99", "max")) for title in ("calls_alone", "calls_beside")
        )
        failed = sum(run[title]["failed"] + run[title]["wrong"] for title in ("calls_alone", "calls_beside"))
        print(f'| {run["name"]} | {run["rate"]:,} | {run["server_cpu_us_each"]:.1f} | {100 * run["server_busy"]:.0f} % | {run["failed"]} of {run["done"] + run["failed"]} | {alone} | {beside} | {failed} |')
    print()


if sys.argv[1] == "add":
    add(*sys.argv[2:5])
else:
    show(sys.argv[2])
