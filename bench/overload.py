"""What a server under a CPU limit still does when it is offered more calls than it carries, each challenged with 407, open loop and with
retransmissions, and how soon it recovers (`tandem lab overload`). Servers take turns."""
import json
import os
import subprocess

from . import capacity
from .settings import PEERS, REPORT, BenchError, on_core, program

LIMIT = "200m"
PAGE = REPORT / "overload.html"
# From here on a server is overloaded, and the goal holds.
BEYOND = 1.5
SHORT = ["--step-duration", "4s", "--step-warm-up", "2s"]


def run(settings, part):
    if os.geteuid() != 0:
        raise BenchError("the CPU limit is a control group, which only root may make: run it as root, or with sudo")
    for old in [found_of(name) for name in PEERS] + [PAGE]:
        old.unlink(missing_ok=True)
    for _ in range(settings.rounds):
        for name in filter(settings.wants, PEERS):
            part.attempt(f"overload of {name}", measure, settings, part, name)


def found_of(name):
    return REPORT / f"overload-{name}.json"


def best_of(part, name):
    """The best rate that an earlier round found for a server: it is searched once."""
    runs = part.runs("overload", name)
    return ["--best", str(runs[0]["figures"]["best"])] if runs else []


def measure(settings, part, name):
    found = found_of(name)
    found.unlink(missing_ok=True)
    with capacity.server_for(settings, name) as server:
        command = capacity.command_for(settings, server, name, "overload", LIMIT, found, PAGE)
        command += [*(SHORT if settings.quick else []), *best_of(part, name), "call", "--rate", "400"]
        subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the measurement gave no figures: what it said is above")
    figures = json.loads(found.read_text())
    for remark in figures["remarks"]:
        part.remark(f"best rate of {name}: {remark}")
    doubts = [f"at {point['factor']:g} times the best rate: {'; '.join(point['doubts'])}" for point in figures["points"] if point["doubts"]]
    beyond = [point["goodput"] / figures["best"] * 100 for point in figures["points"] if point["factor"] >= BEYOND]
    if not beyond:
        raise BenchError("no rate above the best one was offered")
    part.add("overload", name, min(beyond), figures, doubts)
    recovery = figures["recovery"]
    if recovery["seconds"] is None:
        part.remark(f"{name} does not recover within the {recovery['observed']:.0f} s that are looked at; the row has these seconds")
    part.add("recovery", name, recovery["observed"] if recovery["seconds"] is None else recovery["seconds"], recovery, recovery["doubts"])
