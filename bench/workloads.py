"""Measures the workloads W1 to W6 and the kernel's floor: CPU time of the server per unit, and delays.

Each server runs alone on one processor. The generator (`tandem lab run --busy-poll`) runs on the other. Servers take turns. Each run starts
with a warm-up. The loads:

    full    as much as one processor of the server carries: 256 units in progress at a time
    equal   the same rate for all servers, which each of them can carry
    after   full load again, and the CPU time in the half minute after it for the cleanup of calls (one round, W4)
    shared  full load again, with all phones at one address: favours Tandem, because datagrams leave in GSO batches (one round)

Stock Kamailio has one round, at full load only. No verdict depends on it.

W3d and W4d are W3 and W4 with one record per call, at full load only. In all of W3 to W4d, Tandem knows the dialogs, saves those that last a second
to SQLite, and keeps session timers. In W3d, Kamailio also keeps dialogs and writes records, in W4d it writes records besides what it does in W4.
In W5 and W5c, Tandem is an edge (`tandem balance`), and the generator plays three nodes behind it. W5 is an OPTIONS that the balancer forwards by its
Call-ID, without a transaction. W5c is a call for which it stays in the path (Record-Route). W5r is W5 with `tandem serve` and a rule.
W6 is a call from a known network through limits and the longest of 300,000 prefixes to one of three gateways, with a dialog and a record.

At all loads except `shared`, the 100,000 phones have 65,535 addresses (in W5 and W5c, 65,000 phones have an address each), so consecutive messages rarely go to the same address.
"""
import json
import pathlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from . import results, routed, servers
from .rows import PERCENTILES
from .settings import BenchError, on_core, output_of, program

# The rate at equal load, as a share of what the slowest server carries at full load.
EQUAL_SHARE = 0.6
LOADS = ("full", "equal", "after", "shared")
SERVERS = ("tandem", "before", "plain", "kamailio", "stock", "ring", "plain-ring")
# The servers whose capacity sets the rate at equal load.
COMPARED = ("tandem", "kamailio")
# Variants that differ from Tandem only if many messages go to one address.
ONLY_SHARED = ("plain", "plain-ring")
# Loads with one round, regardless of --rounds.
ONCE = ("after", "shared")
# Servers that take part at full load only.
ONLY_FULL = ("stock", "before")
# Counts refreshes that Tandem answers without writing them to disk, because the binding was written recently.
NOT_WRITTEN = "tandem_location_refreshes_not_written_total"


# Duration of a run and of the warm-up before it, in seconds.
SECONDS, WARM_UP = 4, 2
PHONES = 100_000
# Addresses of the phones: each in 127/8, or one for all. Callers and callees then have two ports.
APART = ("--addresses", "65535", "--from", "127.1.0.0", "--ports", "1")
TOGETHER = ("--ports", "2")


@dataclass(frozen=True)
class Workload:
    """`profile` is the profile of `tandem lab run` with its options. `delay` is the report's key for the delay of a unit since it was due. `rate`
    is the rate at equal load if this run has no figures at full load."""

    profile: tuple[str, ...]
    delay: str
    rate: int
    challenge: tuple[str, ...] = ("REGISTER",)
    defines: tuple[str, ...] = ()
    # Seconds to measure after the load: the state of a call lives for half a minute after its end.
    linger: int = 0
    # Whether the server writes a record for each call.
    records: bool = False
    loads: tuple[str, ...] = LOADS
    # The routing policy of Tandem, by the folder of the run, if calls go to gateways.
    policy: Callable[[pathlib.Path], str] | None = None
    # Whether Tandem is an edge, and the gateways are its nodes.
    is_edge: bool = False
    phones: int = PHONES


# What Kamailio does in W4.
PROVIDER = ("WITH_AUTH", "WITH_DIALOG", "WITH_PROVIDER")
WORKLOADS = {
    "floor": Workload(("echo",), "other_response_delay", 80_000, loads=("full",)),
    "w1": Workload(("keep-alive",), "other_response_delay", 80_000),
    "w2": Workload(("register", "--register-first"), "due_to_registration", 60_000),
    "w2c": Workload(("register", "--register-first", "--nonces", "fresh"), "due_to_registration", 30_000),
    "w3": Workload(("call",), "due_to_answer", 8_000),
    "w3d": Workload(("call",), "due_to_answer", 8_000, defines=("WITH_DIALOG", "WITH_RECORDS"), records=True, loads=("full",)),
    "w4": Workload(("call", "--nonces", "fresh"), "due_to_answer", 7_000, ("REGISTER", "INVITE"), PROVIDER, linger=35),
    "w4d": Workload(("call", "--nonces", "fresh"), "due_to_answer", 7_000, ("REGISTER", "INVITE"), (*PROVIDER, "WITH_RECORDS"), records=True,
                    loads=("full",)),
    "w5": Workload(("options", "--to-phones", *routed.PHONES), "other_response_delay", 40_000, defines=("WITH_BALANCER",), loads=("full", "equal"),
                   is_edge=True, phones=routed.PHONES_BEFORE_NODES),
    "w5c": Workload(("call", *routed.PHONES), "due_to_answer", 12_000, defines=("WITH_BALANCER",), loads=("full", "equal"), is_edge=True,
                    phones=routed.PHONES_BEFORE_NODES),
    "w5r": Workload(("options", "--to-phones", *routed.PHONES), "other_response_delay", 40_000, defines=("WITH_BALANCER",), loads=("full",),
                    policy=routed.balancer),
    "w6": Workload(("call", *routed.PHONES), "due_to_answer", 7_000, records=True, loads=("full", "equal"), policy=routed.border),
}


def tuned():
    """The best allocator and number of children of Kamailio in the last sweep."""
    sweep = next((part for part in results.read() if part["part"] == "sweep"), None)
    best = best_of(sweep["runs"]) if sweep else None
    return best or ("fm", 1)


def server_for(name, workload, settings):
    """The server of that name, configured for a workload."""
    kamailio = servers.kamailio_between_gateways if workload.policy or workload.is_edge else servers.kamailio
    match name:
        case "floor":
            return servers.floor(settings)
        case "kamailio":
            allocator, children = tuned()
            return kamailio(settings, workload.defines, allocator, children)
        case "stock":
            return kamailio(settings, workload.defines, allocator=None, children=4)
        case "before" if not workload.is_edge:
            # It may be too old to write records.
            return servers.tandem(settings, challenge=workload.challenge, binary=settings.before)
    event_loop = "io_uring" if name.endswith("ring") else "epoll"
    segmentation = not name.startswith("plain")
    if workload.is_edge:
        return servers.edge(settings, routed.nodes(), segmentation, event_loop, settings.before if name == "before" else "")
    policy = workload.policy(settings.folder) if workload.policy else ""
    return servers.tandem(settings, challenge=workload.challenge, segmentation=segmentation, event_loop=event_loop, records=workload.records, more=policy)


def measure(settings, server, name, load, pace, phones=None):
    """The figures of one run of the generator. `phones` is their number, if not that of the workload."""
    workload, report = WORKLOADS[name], settings.folder / "run.json"
    phones = phones or workload.phones
    report.unlink(missing_ok=True)
    command = [program("tandem"), "lab", "run", *workload.profile, "--server", server.address, "--phones", str(settings.count(phones)),
               *(TOGETHER if load == "shared" else APART), "--order", "ascending", "--busy-poll", *pace, "--warm-up", settings.time(WARM_UP),
               "--duration", settings.time(SECONDS), "--pid", str(server.pid), "--stay-registered", "--quiet", "--json", str(report)]
    said, _ = output_of(on_core(settings.client_core, command))
    if not report.exists():
        raise BenchError(f"the generator failed for {server.name}: {said or 'see its output above'}")
    return figures_of(json.loads(report.read_text()), workload.delay)


def figures_of(report, delay):
    """The figures of a report that the rows and tables show."""
    units, cost, delays = next(iter(report["units"].values())), report["cost"], report["delays"].get(delay, {})
    return {
        "begun": units["attempted"],
        "failed": units["failed"] + report["unfinished"],
        "retransmitted": report["retransmissions_sent"],
        "units_per_second": report["units_per_second"],
        **{f"delay_{percentile}_us": delays.get(percentile) for percentile in PERCENTILES},
        "server_cpu_us_per_unit": cost["cpu_us_per_unit"],
        "cleanup_us_per_unit": cost["cleanup_us_per_unit"],
        "server_busy": cost["busy"],
        "server_memory_bytes": cost["memory_bytes"],
        "server_peak_memory_bytes": cost["peak_memory_bytes"],
        "generator_cpu_us_per_unit": report["generator_cpu_us_per_unit"],
        "generator_kernel_drops": report["losses"]["kernel_drops"],
        "doubts": report["doubts"],
    }


def remarks_on(figures):
    """The reasons why a run is not clean."""
    counts = (("failed", "failed"), ("retransmitted", "retransmitted"))
    return [f"{figures[key]:,} {said}" for key, said in counts if figures[key]] + figures["doubts"]


def run(settings, part, name):
    """Measures a workload at all requested loads."""
    workload = WORKLOADS[name]
    chosen = ["floor"] if name == "floor" else [server for server in SERVERS if settings.wants(server)]
    for load in settings.loads:
        if load not in workload.loads:
            continue
        if load == "after" and (not workload.linger or settings.quick):
            continue
        taking_part, pace = [server for server in chosen if server not in ONLY_SHARED], ["--window", "256"]
        if load == "shared":
            taking_part = chosen
        if load != "full":
            taking_part = [server for server in taking_part if server not in ONLY_FULL]
        if load == "equal":
            rate, taking_part = equal_load(part, name, taking_part)
            pace = ["--rate", str(rate)]
        if load == "after":
            pace += ["--linger", f"{workload.linger}s"]
            taking_part = [server for server in chosen if server in ("tandem", "kamailio")]
        for number in range(1 if load in ONCE else settings.rounds):
            for server in taking_part:
                if server == "stock" and number:
                    continue
                part.attempt(f"{name} {load} {server}", measure_server, settings, part, name, load, server, pace)


def measure_server(settings, part, name, load, server, pace):
    with server_for(server, WORKLOADS[name], settings) as running:
        figures = measure(settings, running, name, load, pace)
        if name in ("w2", "w2c") and running.name == "tandem":
            figures["refreshes_not_written"] = servers.metric_if_any(NOT_WRITTEN)
    remarks = remarks_on(figures)
    if WORKLOADS[name].records and server != "before":
        figures["records"] = servers.records(settings, running)
        # The calls of the warm-up have records, too.
        if figures["records"] < figures["begun"] - figures["failed"]:
            remarks.append(f"only {figures['records']:,} records")
    value = figures["cleanup_us_per_unit" if load == "after" else "server_cpu_us_per_unit"]
    part.add(name if load == "full" else f"{name}.{load}", server, value, figures, remarks)


def equal_load(part, name, chosen):
    """The rate that all servers can carry, and the servers that take part. The report names the others."""
    carried = {server: statistics.median(run["figures"]["units_per_second"] for run in part.runs(name, server))
               for server in chosen if part.runs(name, server)}
    compared = [carried[server] for server in carried if server in COMPARED]
    rate = two_digits(min(compared) * EQUAL_SHARE) if compared else WORKLOADS[name].rate
    taking_part = []
    for server in chosen:
        if carried.get(server, rate * 2) * 0.8 < rate:
            part.remark(f"{name} at equal load ({rate:,} units/s) leaves out {server}, which carries only {carried[server]:,.0f} at full load")
        else:
            taking_part.append(server)
    return rate, taking_part


def two_digits(number):
    return int(float(f"{number:.1e}"))


ALLOCATORS, CHILDREN = ("fm", "qm", "tlsf"), (1, 2, 4)


def sweep(settings, part):
    """Measures W3 at full load against Kamailio with each allocator and each number of children."""
    for allocator in ALLOCATORS:
        for children in CHILDREN:
            part.attempt(f"{allocator}, {children} children", measure_sweep, settings, part, allocator, children)
    best = best_of(part.kept["runs"])
    if best:
        part.remark(f"Kamailio takes the least CPU time with -x {best[0]} and children={best[1]}: the later parts use this as `tuned`")


def measure_sweep(settings, part, allocator, children):
    with servers.kamailio(settings, (), allocator, children) as running:
        figures = measure(settings, running, "w3", "full", ["--window", "256"], phones=20_000)
    part.add("sweep", f"{allocator} {children}", figures["server_cpu_us_per_unit"], figures, remarks_on(figures))


def best_of(runs):
    """The allocator and number of children with the lowest median. Uses only clean runs if there are any."""
    # Failed calls cost little, so runs with failures would look cheap.
    costs, clean = {}, [run for run in runs if not run["remarks"]]
    for run in clean or runs:
        costs.setdefault(run["server"], []).append(run["value"])
    if not costs:
        return None
    allocator, children = min(costs, key=lambda server: statistics.median(costs[server])).split()
    return allocator, int(children)
