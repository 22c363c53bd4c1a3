"""Measures how a server under a CPU limit behaves under overload, and how soon it recovers (`tandem lab overload`). Each call is challenged
with 407. The load is open loop, with retransmissions. One round: find each server's best rate, then measure multiples of it."""
import json
import os
import subprocess

from . import capacity, results
from .settings import PEERS, REPORT, BenchError, on_core, program

LIMIT = "200m"
PAGE = REPORT / "overload.html"
# From this factor on, a server is overloaded, and the goal applies.
BEYOND = 1.5
# Each step is longer than the lifetime of a transaction (32 s), so the server holds the full load of the step.
STEPS = ["--step-duration", "24s", "--step-warm-up", "12s"]
FACTORS = ["--factors", "1,1.2,1.5,2,3"]
SHORT = ["--step-duration", "4s", "--step-warm-up", "2s"]
# The best rate only sets the scale, so a resolution of a tenth is enough.
SEARCH = ["--growth", "1.2", "--resolution", "0.1"]


def run(settings, part):
    if os.geteuid() != 0:
        raise BenchError("the CPU limit needs a control group, which only root may create: run scripts/bench as root")
    for old in [found_of(name) for name in PEERS] + [PAGE]:
        old.unlink(missing_ok=True)
    for name in filter(settings.wants, PEERS):
        part.attempt(f"overload of {name}", measure, settings, part, name)


def found_of(name):
    return REPORT / f"overload-{name}.json"


def estimate(name):
    """The rate at which the search begins: the result of `capacity`, scaled to this CPU limit."""
    carried = [run["value"] for part in results.read() if part["part"] == "capacity" for run in part["runs"] if run["server"] == name]
    return (carried or [capacity.ESTIMATES[name]])[0] * thousandths(LIMIT) / thousandths(capacity.LIMIT)


def thousandths(limit):
    return int(limit.removesuffix("m"))


def measure(settings, part, name):
    found = found_of(name)
    found.unlink(missing_ok=True)
    with capacity.server_for(settings, name) as server:
        command = capacity.command_for(settings, server, name.title(), "overload", LIMIT, found, PAGE)
        command += [*SEARCH, *FACTORS, *(SHORT if settings.quick else STEPS), "call", "--rate", f"{estimate(name):.0f}"]
        subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the measurement failed: see its output above")
    figures = json.loads(found.read_text())
    for remark in figures["remarks"]:
        part.remark(f"best rate of {name}: {remark}")
    doubts = [f"at {point['factor']:g} times the best rate: {'; '.join(point['doubts'])}" for point in figures["points"] if point["doubts"]]
    beyond = [point["goodput"] / figures["best"] * 100 for point in figures["points"] if point["factor"] >= BEYOND]
    if not beyond:
        raise BenchError("no rate above the best rate was offered")
    part.add("overload", name, min(beyond), figures, doubts)
    recovery = figures["recovery"]
    if recovery["seconds"] is None:
        part.remark(f"{name} does not recover within the observed {recovery['observed']:.0f} s; the row shows this time")
    part.add("recovery", name, recovery["observed"] if recovery["seconds"] is None else recovery["seconds"], recovery, recovery["doubts"])
