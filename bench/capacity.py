"""The highest rate of calls, each challenged with 407, that a server carries under a CPU limit as 99 of a hundred INVITEs are answered
within a second (`tandem lab capacity`). Response times against the rate are drawn on a page of their own."""
import json
import os
import shlex
import subprocess

from . import servers, workloads
from .settings import REPORT, BenchError, program

LIMIT = "30m"


def run(settings, part):
    if os.geteuid() != 0:
        part.remark("the CPU limit is a control group, which only root may make: run it as root, or with sudo")
        raise BenchError("capacity needs root")
    ours = REPORT / "capacity-tandem.json"
    ours.unlink(missing_ok=True)
    if settings.wants("tandem"):
        command = servers.prepare_tandem(settings, challenge=("REGISTER", "INVITE"))
        part.attempt("Tandem", search, settings, part, "tandem", f"127.0.0.1:{servers.TANDEM}", command, [])
    if settings.wants("kamailio"):
        allocator, children = workloads.tuned()
        command = servers.kamailio_command(settings, ("WITH_AUTH",), allocator, children)
        beside = ["--html", str(REPORT / "capacity.html"), *(["--beside", str(ours)] if ours.exists() else [])]
        part.attempt("Kamailio", search, settings, part, "kamailio", f"127.0.0.1:{servers.KAMAILIO}", command, beside)


def search(settings, part, name, address, start, more):
    log, page = settings.folder / f"capacity-{name}.log", REPORT / f"capacity-{name}.json"
    duration, repeats = ("5s", 1) if settings.quick else ("15s", settings.rounds)
    command = [program("tandem"), "lab", "capacity", "--name", name.title(), "--cpu", LIMIT, "--p99", "1s", "--nonces", "fresh",
               "--spacing", "poisson", "--server", address, "--start", f"{shlex.join(start)} >{shlex.quote(str(log))} 2>&1",
               "--repeats", str(repeats), "--duration", duration, "--phones", "1000", "--json", str(page), *more, "call", "--rate", "50"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode > 1 or not page.exists():
        raise BenchError("the search gave no figures: what it said is above")
    figures = json.loads(page.read_text())
    if figures["capacity"] is None:
        raise BenchError(f"no rate held: {'; '.join(figures['remarks'])}")
    held = [trial for trial in figures["trials"] if trial["rate"] <= figures["capacity"]]
    part.add("capacity", name, figures["capacity"], figures, sorted({doubt for trial in held for doubt in trial["doubts"]}))
