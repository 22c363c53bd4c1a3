"""Measures how Tandem scales with its workers: calls (W3) or keep-alives (W1) through 1, 2, 4, … workers. Each worker is pinned to its own
processor. Generators run on the other processors. A worker hands over a message if another worker is the home of its call. The column "handed
over" counts these messages per unit. CPU is the run time of all threads of the server."""
import os
import signal
import subprocess
import time

from . import servers
from .arguments import Parser, whole
from .settings import on_core, program

MORE = "steering = {}\n[log]\nlevel = \"warn\"\n"
SECONDS = 4
PROFILES = {"w1": "keep-alive", "w3": "call"}
METRICS = {"contexts": "tandem_response_contexts_created_total", "requests": "tandem_requests_total", "handed": "tandem_handovers_total",
           "cpu": "tandem_process_cpu_seconds_total"}


def arguments_of(words):
    parser = Parser(prog="scripts/bench scaling", description=__doc__)
    parser.add_argument("workers", nargs="*", type=whole, default=[1, 2, 4, 8])
    parser.add_argument("--one-core", action="store_true", help="pin all workers to one core, to measure the overhead of several workers")
    parser.add_argument("--no-steering", action="store_true", help="let the kernel select the worker by the addresses of a datagram, not by Call-ID")
    parser.add_argument("--generators", type=whole, default=8, help="number of generators, each with the phones of its own domain (8)")
    parser.add_argument("--window", type=whole, default=256, help="units in progress at a time per generator (256)")
    parser.add_argument("--workload", choices=("w1", "w3"), default="w3")
    return parser.parse_args(words)


def run(settings, arguments):
    print(f"{'workers':<8} {'units/s':>10} {'CPU us/unit':>12} {'busy cores':>14} {'handed over':>14} retransmitted, dropped")
    for workers in arguments.workers:
        cores = sorted(os.sched_getaffinity(0))
        if workers > len(cores) and not arguments.one_core:
            print(f"{workers:<8} skipped: this process may use only {len(cores)} processors", flush=True)
            continue
        pins = [settings.server_core] * workers if arguments.one_core else cores[:workers]
        domains = [f"d{number}.localhost" for number in range(arguments.generators)]
        more = MORE.format("false" if arguments.no_steering else "true")
        with servers.tandem(settings, pins=pins, domains=domains, each=1000, more=more):
            print(line(arguments, workers, measure(arguments, [core for core in cores if core not in pins] or cores, domains)), flush=True)


def measure(arguments, cores, domains):
    """Metrics of the server over a few seconds in the middle of the run, while all generators are running."""
    generators = []
    try:
        for number, domain in enumerate(domains):
            core = cores[number % len(cores)]
            command = [program("tandem"), "lab", "run", PROFILES[arguments.workload], "--server", f"127.0.0.1:{servers.TANDEM}", "--domain", domain,
                       "--busy-poll", "--ports", "2", "--window", str(arguments.window), "--duration", "1h"]
            generators.append(subprocess.Popen(on_core(core, command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(SECONDS)
        before, begun = {name: servers.metric(metric) for name, metric in METRICS.items()}, time.monotonic()
        time.sleep(SECONDS)
        grown = {name: servers.metric(metric) - before[name] for name, metric in METRICS.items()}
        grown["seconds"] = time.monotonic() - begun
        grown["running"] = sum(generator.poll() is None for generator in generators)
        grown["again"] = servers.metric("tandem_retransmissions_total")
        grown["dropped"] = servers.metric("tandem_kernel_drops_total")
        return grown
    finally:
        for generator in generators:
            generator.send_signal(signal.SIGKILL)
            generator.wait()


def line(arguments, workers, grown):
    # A call has two response contexts: its INVITE and its BYE.
    units = max(grown["contexts"] / 2 if arguments.workload == "w3" else grown["requests"], 1)
    seconds, cpu = grown["seconds"], grown["cpu"]
    return (f"{workers:<8} {units / seconds:>10.0f} {cpu * 1e6 / units:>12.2f} {cpu / seconds:>14.2f} {grown['handed'] / units:>14.2f} "
            f"{grown['again']:.0f}, {grown['dropped']:.0f} (generators running: {grown['running']}/{arguments.generators})")
