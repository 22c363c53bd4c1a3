"""The workloads W1 to W4 and the kernel's floor: CPU of the server for a unit, and how long units take.

Each server runs alone on one processor and the generator (`tandem-lab`) on the other. Servers take turns; each is warmed up before a
figure. The loads:

    full    as much as one processor of the server carries: 256 units in progress at a time
    equal   the same number of units per second for all, which each of them can carry
    after   full load again, and what is spent in the half minute behind it on what calls leave (one round, W4)
    shared  full load again, with all phones at one address: flattering, because trains of datagrams leave for it (one round)

Stock Kamailio has one round at full load and no other load: it takes longest, and nothing is judged by it.

At all loads but `shared` each of the 100,000 phones has an address of its own, as phones have.
"""
import json
import statistics
from dataclasses import dataclass

from . import results, servers
from .settings import BenchError, on_core, output_of, program

# The share of what the slowest carries at full load that all are offered at equal load.
EQUAL_SHARE = 0.6
LOADS = ("full", "equal", "after", "shared")
SERVERS = ("tandem", "plain", "kamailio", "stock", "ring", "plain-ring")
# Those whose capacity decides what equal load is.
COMPARED = ("tandem", "kamailio")
# Those that differ from others only in what goes to one address.
ONLY_SHARED = ("plain", "plain-ring")
# Loads that have one round, whatever --rounds says.
ONCE = ("after", "shared")
# Counted by Tandem: refreshes that it answers and does not write, because the binding was written not long ago.
NOT_WRITTEN = "tandem_location_refreshes_not_written_total"


@dataclass(frozen=True)
class Workload:
    """`rate` is that of equal load where this run has no full load to take it from."""

    count: int
    rate: int
    challenge: tuple[str, ...] = ("REGISTER",)
    defines: tuple[str, ...] = ()
    # What a call leaves behind lives for half a minute.
    linger: int = 0


WORKLOADS = {
    "floor": Workload(500_000, 80_000),
    "w1": Workload(500_000, 80_000),
    "w2": Workload(400_000, 60_000),
    "w2c": Workload(200_000, 30_000),
    "w3": Workload(60_000, 8_000),
    "w4": Workload(60_000, 7_000, ("REGISTER", "INVITE"), ("WITH_AUTH", "WITH_DIALOG"), linger=35),
}


def tuned():
    """Allocator and children of Kamailio that were best in the last sweep."""
    sweep = next((part for part in results.read() if part["part"] == "sweep"), None)
    best = best_of(sweep["runs"]) if sweep else None
    return best or ("fm", 1)


def server_for(name, workload, settings):
    """The server of that name, set up for a workload."""
    match name:
        case "floor":
            return servers.floor(settings)
        case "kamailio":
            allocator, children = tuned()
            return servers.kamailio(settings, workload.defines, allocator, children)
        case "stock":
            return servers.kamailio(settings, workload.defines, allocator=None, children=4)
    event_loop = "io_uring" if name.endswith("ring") else "epoll"
    segmentation = not name.startswith("plain")
    return servers.tandem(settings, challenge=workload.challenge, segmentation=segmentation, event_loop=event_loop)


def measure(settings, server, name, load, pace, users, count, warm_up):
    """One run of the generator, as it reports it."""
    where = [] if load == "shared" else ["--own-addresses"]
    command = [program("tandem-lab"), name, "--server", server.address, "--users", str(settings.count(users)), *where, *pace,
               "--warm-up", str(settings.count(warm_up)), "--count", str(settings.count(count)), "--pid", str(server.pid), "--json"]
    text, _ = output_of(on_core(settings.client_core, command))
    if not text:
        raise BenchError(f"the generator gave no figures for {server.name}: what it said is above")
    return json.loads(text)


def remarks_on(figures):
    """Why a run is not clean."""
    remarks = [f"{figures[key]:,} {said}" for key, said in
               (("failed", "failed"), ("retransmitted", "sent again"), ("generator_kernel_drops", "dropped by the kernel")) if figures[key]]
    late = figures["generator_late_units"]
    if late * 100 > figures["begun"]:
        remarks.append(f"the generator began {100 * late / figures['begun']:.0f} % of the units more than 1 ms late")
    return remarks


def run(settings, part, name):
    """A workload at all loads that are wanted."""
    workload = WORKLOADS[name]
    chosen = ["floor"] if name == "floor" else [server for server in SERVERS if settings.wants(server)]
    for load in settings.loads:
        if name == "floor" and load != "full":
            continue
        if load == "after" and (not workload.linger or settings.quick):
            continue
        taking_part, pace = [server for server in chosen if server not in ONLY_SHARED], ["--window", "256"]
        if load == "shared":
            taking_part = chosen
        if load != "full":
            taking_part = [server for server in taking_part if server != "stock"]
        if load == "equal":
            rate, taking_part = equal_load(part, name, taking_part)
            pace = ["--rate", str(rate)]
        if load == "after":
            pace += ["--linger", str(workload.linger)]
            taking_part = [server for server in chosen if server in ("tandem", "kamailio")]
        for number in range(1 if load in ONCE else settings.rounds):
            for server in taking_part:
                if server == "stock" and number:
                    continue
                part.attempt(f"{name} {load} {server}", measure_server, settings, part, name, load, server, pace)


def measure_server(settings, part, name, load, server, pace):
    workload = WORKLOADS[name]
    count, warm_up = workload.count, workload.count // 2
    if load == "equal":
        # Nobody is busy: the clock decides how long it takes.
        count //= 2
    if server == "stock":
        # It takes so long that a quarter must do.
        count, warm_up = count // 4, warm_up // 4
    with server_for(server, workload, settings) as running:
        figures = measure(settings, running, name, load, pace, 100_000, count, warm_up)
        if name in ("w2", "w2c") and running.name == "tandem":
            figures["refreshes_not_written"] = servers.metric_if_any(NOT_WRITTEN)
    value = figures["clean_up_us_per_unit" if load == "after" else "server_cpu_us_per_unit"]
    part.add(name if load == "full" else f"{name}.{load}", server, value, figures, remarks_on(figures))


def equal_load(part, name, chosen):
    """Units per second that all who take part can carry, and who does; others are named in the report."""
    carried = {server: statistics.median(run["figures"]["units_per_second"] for run in part.runs(name, server))
               for server in chosen if part.runs(name, server)}
    compared = [carried[server] for server in carried if server in COMPARED]
    rate = two_digits(min(compared) * EQUAL_SHARE) if compared else WORKLOADS[name].rate
    taking_part = []
    for server in chosen:
        if carried.get(server, rate * 2) * 0.8 < rate:
            part.remark(f"{name} at equal load, {rate:,} a second, without {server}, which carries {carried[server]:,.0f} at full load")
        else:
            taking_part.append(server)
    return rate, taking_part


def two_digits(number):
    return int(float(f"{number:.1e}"))


ALLOCATORS, CHILDREN = ("fm", "qm", "tlsf"), (1, 2, 4)


def sweep(settings, part):
    """W3 at full load against Kamailio with each allocator and each number of children."""
    for allocator in ALLOCATORS:
        for children in CHILDREN:
            part.attempt(f"{allocator}, {children} children", measure_sweep, settings, part, allocator, children)
    best = best_of(part.kept["runs"])
    if best:
        part.remark(f"Kamailio costs least with -x {best[0]} and children={best[1]}: that is `tuned` in all that follows")


def measure_sweep(settings, part, allocator, children):
    with servers.kamailio(settings, (), allocator, children) as running:
        figures = measure(settings, running, "w3", "full", ["--window", "256"], users=20_000, count=30_000, warm_up=10_000)
    part.add("sweep", f"{allocator} {children}", figures["server_cpu_us_per_unit"], figures, remarks_on(figures))


def best_of(runs):
    """Allocator and children with the lowest median, of clean runs where there are any."""
    # Calls that fail cost little.
    costs, clean = {}, [run for run in runs if not run["remarks"]]
    for run in clean or runs:
        costs.setdefault(run["server"], []).append(run["value"])
    if not costs:
        return None
    allocator, children = min(costs, key=lambda server: statistics.median(costs[server])).split()
    return allocator, int(children)
