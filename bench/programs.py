"""Measures individual programs of Tandem: the stack, the load generator, the analyzer, and the micro-benchmarks."""
import json
import os
import re
import resource
import signal
import subprocess
import time

from . import servers
from .capacity import PHONES
from .settings import BUILDS, REPORT, ROOT, BenchError, on_core, output_of, program


def stack(settings, part):
    """Transactions per second between a client stack and a server stack on one processor."""
    ports = "1,100,1000" if settings.quick else "1,100,1000,10000"
    command = [program("tandem"), "bench", "stack", "--event-loop", "epoll", "--ports", ports, "--runs", str(settings.rounds),
               "--transactions", "50000", "--cpu", str(settings.server_core), "--json"]
    text, _ = output_of(command)
    if not text:
        raise BenchError("tandem bench stack failed: see its output above")
    for row in json.loads(text):
        for run in row["runs"]:
            remarks = [f"{run[key]:,} {key}" for key in ("failed", "retransmitted", "lost") if run[key]]
            part.add(f"stack-{row['cell']['transport']}-{row['cell']['ports']}", "tandem", run["rate"], run | {"cell": row["cell"]}, remarks)


GENERATOR_RATE = 30_000


def generator(settings, part):
    """Calls per second that one processor makes and answers, computed from the CPU time of a call at `GENERATOR_RATE`."""
    figures_file = settings.folder / "generator.json"
    command = [program("tandem"), "lab", "run", "call", "--direct", "--rate", str(GENERATOR_RATE), "--ports", "1", "--quiet",
               "--duration", "3s" if settings.quick else "10s", "--cpus", str(settings.client_core), "--json", str(figures_file)]
    for _ in range(settings.rounds):
        figures_file.unlink(missing_ok=True)
        subprocess.run(command, stdout=subprocess.DEVNULL)
        if not figures_file.exists():
            raise BenchError("the generator failed: see its output above")
        figures = json.loads(figures_file.read_text())
        failed = sum(ends["failed"] for ends in figures["units"].values()) + figures["unfinished"]
        remarks = figures["doubts"] + ([f"{failed:,} failed"] if failed else [])
        part.add("generator", "tandem", 1e6 / figures["generator_cpu_us_per_unit"], figures, remarks)


CALLS_PER_SECOND = 1000


def analyzer(settings, part):
    """Packets of captured calls that the analyzer reads per second of CPU time."""
    if os.geteuid() != 0:
        raise BenchError("only root may capture packets: run scripts/bench as root")
    capture = settings.folder / "calls.pcap"
    record(settings, capture)
    command = [program("tandem"), "analyze", "--pcap", str(capture), "--server", f"127.0.0.1:{servers.TANDEM}"]
    for _ in range(settings.rounds):
        before = cpu_of_children()
        text, well = output_of(on_core(settings.server_core, command))
        seconds = cpu_of_children() - before
        packets = re.search(r"^packets (\d+)", text, re.MULTILINE)
        if not well or not packets:
            raise BenchError("the analyzer failed: see its output above")
        figures = {"packets": int(packets.group(1)), "cpu_seconds": seconds, "bytes": capture.stat().st_size}
        part.add("analyzer", "tandem", figures["packets"] / seconds, figures)
    capture.unlink()


def cpu_of_children():
    """CPU time of all child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record(settings, capture):
    """Captures calls with 407 through Tandem."""
    seconds = 4 if settings.quick else 36
    dump = ["tcpdump", "-i", "lo", "-n", "-Z", "root", "-B", "65536", "-w", str(capture), "udp", "port", str(servers.TANDEM)]
    calls = [program("tandem"), "lab", "run", "call", "--server", f"127.0.0.1:{servers.TANDEM}", "--nonces", "fresh", "--quiet",
             "--rate", str(CALLS_PER_SECOND), "--duration", f"{seconds}s", *PHONES]
    with servers.tandem(settings, challenge=("REGISTER", "INVITE")):
        dumping = subprocess.Popen(dump, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            subprocess.run(on_core(settings.client_core, calls), stdout=subprocess.DEVNULL)
            time.sleep(1)
        finally:
            dumping.send_signal(signal.SIGINT)
            dumping.wait()
    if not capture.exists() or not capture.stat().st_size:
        raise BenchError("tcpdump captured no packets")


# The micro-benchmarks in the report: their rows, and how the output of cargo bench names them.
MICRO = {"parse": r"─ parse\b.*\n.*─ invite\s(.*)", "lookup": r"─ lookup\b.*\n.*─ 300000\s(.*)"}


def messages(settings, part):
    """The micro-benchmarks. The report shows two of their figures; micro.txt has all of them."""
    if not BUILDS:
        raise BenchError("the micro-benchmarks must be built first: run without BENCH_NO_BUILD")
    packages = ("sip-message", "sip-transaction", "sip-routing", "sip-elements")
    named = [argument for package in packages for argument in ("--package", package)]
    done = subprocess.run(["cargo", "bench", "--quiet", *named], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    (REPORT / "micro.txt").write_text(done.stdout)
    if done.returncode:
        raise BenchError("cargo bench failed: see its output above")
    for row, pattern in MICRO.items():
        add_micro(part, row, re.search(pattern, done.stdout))


def add_micro(part, row, line):
    """Adds the median of a micro-benchmark, in microseconds."""
    times = re.findall(r"([\d.]+) (ns|µs)", line.group(1)) if line else []
    if len(times) < 3:
        raise BenchError(f"the output of cargo bench has no figure for `{row}`: see micro.txt")
    fastest, slowest, median = (float(number) / (1000 if unit == "ns" else 1) for number, unit in times[:3])
    part.add(row, "tandem", median, {"fastest": fastest, "slowest": slowest})
