"""The highest rate of calls, each challenged with 407, that a server carries under a CPU limit as 99 of a hundred INVITEs are answered
within a second (`tandem lab capacity`). Response times against the rate are drawn on a page of their own."""
import json
import os
import subprocess

from . import servers, workloads
from .settings import PEERS, REPORT, BenchError, on_core, program

LIMIT = "30m"
PAGE = REPORT / "capacity.html"


def found_of(name):
    return REPORT / f"capacity-{name}.json"


def run(settings, part):
    if os.geteuid() != 0:
        raise BenchError("the CPU limit is a control group, which only root may make: run it as root, or with sudo")
    # What an earlier run found is not to stand beside this one's.
    for old in [found_of(name) for name in PEERS] + [PAGE]:
        old.unlink(missing_ok=True)
    for name in filter(settings.wants, PEERS):
        part.attempt(f"capacity of {name}", search, settings, part, name)


def server_for(settings, name):
    if name == "tandem":
        return servers.tandem(settings, challenge=("REGISTER", "INVITE"))
    return servers.kamailio(settings, ("WITH_AUTH",), *workloads.tuned())


def search(settings, part, name):
    found, others = found_of(name), [found_of(peer) for peer in PEERS if peer != name]
    duration, repeats = ("5s", 1) if settings.quick else ("10s", settings.rounds)
    beside = [argument for other in others if other.exists() for argument in ("--beside", str(other))]
    with server_for(settings, name) as server:
        command = [program("tandem"), "lab", "capacity", "--name", name.title(), "--cpu", LIMIT, "--pid", str(server.pid), "--p99", "1s",
                   "--nonces", "fresh", "--spacing", "poisson", "--server", server.address, "--repeats", str(repeats), "--duration", duration,
                   "--phones", "1000", "--json", str(found), *beside, "--html", str(PAGE), "call", "--rate", "50"]
        subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the search gave no figures: what it said is above")
    figures = json.loads(found.read_text())
    if figures["capacity"] is None:
        raise BenchError(f"no rate held: {'; '.join(figures['remarks'])}")
    held = [trial for trial in figures["trials"] if trial["rate"] <= figures["capacity"]]
    part.add("capacity", name, figures["capacity"], figures, sorted({doubt for trial in held for doubt in trial["doubts"]}))
