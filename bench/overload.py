"""Measures how a server under a CPU limit behaves under overload, and how soon it recovers (`tandem lab overload`). Each call is challenged
with 407. The load is open loop, with retransmissions. One round: find each server's best rate, then measure multiples of it."""
import json
import os
import subprocess

from . import capacity, results, routed, servers
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


def run_border(settings, part):
    """The same of Tandem alone, with everything of W6, and digest: 407, a rule, limits, prefixes, gateways, dialogs and records."""
    part.attempt("overload of tandem between gateways", measure_border, settings, part)


def measure_border(settings, part):
    policy = routed.border(settings.folder, authenticate="digest")
    with servers.tandem(settings, challenge=("REGISTER", "INVITE"), users=routed.USERS, more=policy, records=True) as server:
        measure_server(settings, part, ("tandem", "border"), server, routed.PHONES)


def found_of(name):
    return REPORT / f"overload-{name}.json"


def estimate(name):
    """The rate at which the search begins: the result of `capacity`, scaled to this CPU limit."""
    carried = [run["value"] for part in results.read() if part["part"] == "capacity" for run in part["runs"] if run["server"] == name]
    return (carried or [capacity.ESTIMATES[name]])[0] * thousandths(LIMIT) / thousandths(capacity.LIMIT)


def thousandths(limit):
    return int(limit.removesuffix("m"))


def measure(settings, part, name):
    with capacity.server_for(settings, name) as server:
        measure_server(settings, part, (name, ""), server)


def measure_server(settings, part, of, server, phones=()):
    """Measures a running server. `of` is its name and that of its configuration, which begins the names of its rows."""
    name, variant = of
    found, prefix = found_of(variant or name), f"{variant}-" if variant else ""
    found.unlink(missing_ok=True)
    page = REPORT / f"{prefix}{PAGE.name}"
    command = capacity.command_for(settings, server, (variant or name).title(), "overload", LIMIT, found, page)
    command += [*SEARCH, *FACTORS, *(SHORT if settings.quick else STEPS), "call", *phones, "--rate", f"{estimate(name):.0f}"]
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
    part.add(f"{prefix}overload", name, min(beyond), figures, doubts)
    recovery = figures["recovery"]
    if recovery["seconds"] is None:
        part.remark(f"{name} does not recover within the observed {recovery['observed']:.0f} s; the row shows this time")
    part.add(f"{prefix}recovery", name, recovery["observed"] if recovery["seconds"] is None else recovery["seconds"], recovery, recovery["doubts"])
