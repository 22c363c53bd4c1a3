"""Finds the capacity of a server (`tandem lab capacity`): the highest call rate that it carries under a CPU limit. Each call is
challenged with 407. A rate holds if 99 of 100 calls are answered within a second of their due time. Each round has one search for Tandem;
only the first round has one for Kamailio. The first search of a server begins at an estimate. Later searches start a new server and begin
at the result of the first one. A separate page plots response times by rate."""
import json
import os
import subprocess

from . import servers, workloads
from .settings import PEERS, REPORT, BenchError, on_core, program

LIMIT = "30m"
PAGE = REPORT / "capacity.html"
# Real phones have many addresses, and a server may give each address only a share of its tables.
ADDRESSES = ["--ports", "1", "--addresses", "250", "--from", "127.1.0.1"]
PHONES = ["--phones", "1000", *ADDRESSES]
# For quick runs. Trials shorter than the lifetime of a transaction are not meaningful, and the search reports them as such.
SHORT = ["--duration", "5s", "--warm-up", "2s"]
# Calls per second at which a first search begins. A trial takes 97 s, so a wrong estimate makes the search long: four trials if it is wrong by
# a factor of 1.2, eight if by two.
ESTIMATES = {"tandem": 330, "kamailio": 165}
FIRST = ["--growth", "1.2", "--resolution", "0.05"]
# A search that begins at the result of an earlier one. It takes two trials if both searches agree.
AGAIN = ["--growth", "1.05", "--resolution", "0.05"]


def found_of(name, number=1):
    return REPORT / f"capacity-{name}{f'-{number}' if number > 1 else ''}.json"


def run(settings, part):
    if os.geteuid() != 0:
        raise BenchError("the CPU limit needs a control group, which only root may create: run scripts/bench as root")
    # Remove the results of an earlier run, so that the report does not mix them with this run's.
    for old in [*REPORT.glob("capacity-*.json"), PAGE]:
        old.unlink(missing_ok=True)
    for number in range(1, settings.rounds + 1):
        for name in filter(settings.wants, PEERS):
            if number == 1 or name == "tandem":
                part.attempt(f"capacity of {name}, search {number}", search, settings, part, name, number)


def server_for(settings, name):
    if name == "tandem":
        return servers.tandem(settings, challenge=("REGISTER", "INVITE"))
    return servers.kamailio(settings, ("WITH_AUTH",), *workloads.tuned())


def command_for(settings, server, title, kind, limit, found, page):
    """The command of a `tandem lab` search. Its page also shows the earlier searches of the same kind."""
    others = sorted(other for other in REPORT.glob(f"{kind}-*.json") if other != found)
    beside = [argument for other in others for argument in ("--beside", str(other))]
    return [program("tandem"), "lab", kind, "--name", title, "--cpu", limit, "--pid", str(server.pid), "--p99", "1s",
            "--spacing", "poisson", "--server", server.address, *PHONES, "--json", str(found), *beside, "--html", str(page),
            *(SHORT if settings.quick else [])]


def beginning(part, name):
    """Arguments for the start of a search: the rate that an earlier search found, or the estimate."""
    earlier = part.runs("capacity", name)
    return [*AGAIN, "call", "--rate", f"{earlier[0]['value']:.1f}"] if earlier else [*FIRST, "call", "--rate", str(ESTIMATES[name])]


def search(settings, part, name, number):
    found = found_of(name, number)
    title = name.title() + (f", search {number}" if number > 1 else "")
    with server_for(settings, name) as server:
        command = command_for(settings, server, title, "capacity", LIMIT, found, PAGE) + beginning(part, name)
        subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the search failed: see its output above")
    figures = json.loads(found.read_text())
    for remark in figures["remarks"]:
        part.remark(f"capacity of {title}: {remark}")
    if figures["capacity"] is None:
        raise BenchError(f"no rate held: {'; '.join(figures['remarks'])}")
    held = [trial for trial in figures["trials"] if trial["rate"] <= figures["capacity"]]
    part.add("capacity", name, figures["capacity"], figures, sorted({doubt for trial in held for doubt in trial["doubts"]}))
