"""The highest rate of calls, each challenged with 407, that a server carries under a CPU limit as 99 of a hundred calls are answered
within a second of when they were due (`tandem lab capacity`). Response times against the rate are drawn on a page of their own."""
import json
import os
import subprocess

from . import servers, workloads
from .settings import PEERS, REPORT, BenchError, on_core, program

LIMIT = "30m"
PAGE = REPORT / "capacity.html"
# Phones at many addresses, as phones are: a server may give each address only a share of its tables.
ADDRESSES = ["--ports", "1", "--addresses", "250", "--from", "127.1.0.1"]
PHONES = ["--phones", "1000", *ADDRESSES]
# Shorter trials than a transaction lives say nothing; the search's own report says so.
SHORT = ["--duration", "5s", "--warm-up", "2s"]


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


def command_for(settings, server, name, kind, limit, found, page):
    """A search of `tandem lab`, its report beside those of the other servers."""
    others = [peer for peer in (found.with_name(f"{kind}-{peer}.json") for peer in PEERS if peer != name) if peer.exists()]
    beside = [argument for other in others for argument in ("--beside", str(other))]
    return [program("tandem"), "lab", kind, "--name", name.title(), "--cpu", limit, "--pid", str(server.pid), "--p99", "1s",
            "--spacing", "poisson", "--server", server.address, *PHONES, "--json", str(found), *beside, "--html", str(page),
            *(SHORT if settings.quick else [])]


def search(settings, part, name):
    found, repeats = found_of(name), 1 if settings.quick else settings.rounds
    with server_for(settings, name) as server:
        command = command_for(settings, server, name, "capacity", LIMIT, found, PAGE)
        command += ["--repeats", str(repeats), "call", "--rate", "50"]
        subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the search gave no figures: what it said is above")
    figures = json.loads(found.read_text())
    for remark in figures["remarks"]:
        part.remark(f"capacity of {name}: {remark}")
    if figures["capacity"] is None:
        raise BenchError(f"no rate held: {'; '.join(figures['remarks'])}")
    held = [trial for trial in figures["trials"] if trial["rate"] <= figures["capacity"]]
    part.add("capacity", name, figures["capacity"], figures, sorted({doubt for trial in held for doubt in trial["doubts"]}))
