"""Measures the memory of a contact, of a ringing call, of a dialog, of 300,000 prefixes, and of a connection. The unit is PSS: the sum over the server's processes of
their own pages and their share of common pages. Memory that several processes share therefore counts once. The figure of prefixes is the difference
between two servers; each of the others is the slope of a line through several points, so one round is enough."""
import pathlib
import re
import signal
import statistics
import subprocess
import time

from . import routed, servers, workloads
from .capacity import ADDRESSES, PHONES
from .connections import measure_connections, server_for
from .settings import PEERS, BenchError, on_core, output_of, program


def run(settings, part):
    for peer in filter(settings.wants, PEERS):
        part.attempt(f"contacts {peer}", contacts, settings, part, peer)
        part.attempt(f"calls {peer}", calls, settings, part, peer)
        part.attempt(f"dialogs {peer}", dialogs, settings, part, peer)
        part.attempt(f"prefixes {peer}", prefixes, settings, part, peer)
        for transport in ("tcp", "tls"):
            part.attempt(f"idle {transport} {peer}", held, settings, part, peer, transport, f"idle-{transport}")
    for peer in filter(settings.wants, PEERS):
        for transport in ("tcp", "tls"):
            part.attempt(f"registered {transport} {peer}", held, settings, part, peer, transport, f"registered-{transport}")


def contacts(settings, part, peer):
    """Bytes of a contact: the slope of memory as contacts are added. They register without digest, so a contact leaves nothing else behind."""
    step, points = settings.count(20_000), []
    start = servers.tandem(settings, challenge=()) if peer == "tandem" else servers.kamailio(settings, ("WITHOUT_DIGEST",), workloads.tuned()[0])
    with start as server:
        for registered in range(0, 5 * step, step):
            command = [program("tandem"), "lab", "run", "populate", "--server", server.address, "--phones", str(step), "--first", str(registered),
                       "--sample", "0", "--stay-registered", "--quiet", *ADDRESSES]
            if not output_of(on_core(settings.client_core, command))[1]:
                raise BenchError("registering the phones failed: see the output of the generator above")
            # Wait until the server frees temporary memory.
            time.sleep(2)
            points.append((registered + step, pss(server.pid)))
    add_line(part, "contact", peer, points)


def add_line(part, row, peer, points):
    """Adds the slope of the line through memory by count."""
    count, memory = zip(*points)
    figures = {"points": points, "r_squared": statistics.correlation(count, memory) ** 2}
    part.add(row, peer, statistics.linear_regression(count, memory).slope, figures, crooked(figures))


def crooked(figures):
    """A remark if memory does not grow linearly: the slope is then a poor estimate of the size of one item."""
    r_squared = figures["r_squared"]
    return [] if r_squared > 0.9 else [f"memory does not grow linearly (r² {r_squared:.2f})"]


def held(settings, part, peer, transport, row):
    """Bytes of a connection: the slope of memory by number of connections. With registrations, some phones chosen at random are called."""
    # If a process may open 20,000 descriptors, Tandem reserves more than a thousand of them for purposes other than connections.
    steps = "1000,5000" if settings.quick else "1000,5000,10000,18000,100000"
    how = ["--unregistered"] if row.startswith("idle") else ["--registrations", settings.count(10_000)]
    with server_for(settings, peer, transport) as server:
        figures = measure_connections(settings, server, transport, "p256", "--steps", steps, *how)
    if figures["connection_bytes"] is None or figures["r_squared"] is None:
        raise BenchError(f"too few steps for a linear fit: {figures['left_out'] or steps}")
    calls = figures["calls"] or {"wrong": 0, "failed": 0}
    lost = [f"{calls[key]:,} calls {key}" for key in ("wrong", "failed") if calls[key]]
    part.add(row, peer, figures["connection_bytes"], figures, lost + crooked(figures))
    if figures["left_out"]:
        part.remark(figures["left_out"])


# So few prefixes that they need no memory to speak of.
FEW = 200


def prefixes(settings, part, peer):
    """Megabytes of 300,000 prefixes: memory with them, less memory with a few."""
    few, all_of_them = (memory_with(settings, peer, count) for count in (FEW, routed.PREFIXES))
    part.add("prefixes", peer, (all_of_them - few) / 1e6, {"few": few, "all": all_of_them})


def memory_with(settings, peer, count):
    """Bytes of a server with so many prefixes, which no call has used."""
    if peer == "tandem":
        start = servers.tandem(settings, more=routed.border(settings.folder, count))
    else:
        start = servers.kamailio_between_gateways(settings, allocator=workloads.tuned()[0], prefixes=count)
    with start as server:
        # Tandem returns the memory of the file and of the table under construction within ten seconds.
        time.sleep(12)
        return pss(server.pid)


def calls(settings, part, peer):
    """Bytes of a ringing call with all its transactions alive: the slope of memory as calls are added."""
    grow(settings, part, "call", peer, ("--rate", "500", "--ringing", "5min"), 5 if settings.quick else 20)


# Seconds until as many transactions end as begin: each lives for 32 s.
EVEN = 36


def dialogs(settings, part, peer):
    """Bytes of an established dialog: the slope of memory as calls are added, once the number of live transactions no longer grows."""
    grow(settings, part, "dialog", peer, ("--rate", str(settings.count(1000)), "--talking", "5min"), 60, EVEN)


def grow(settings, part, row, peer, calls, seconds, skipped=1):
    """Adds calls, and reads the memory each second. `skipped` is the number of seconds that do not count."""
    defines = ("WITH_DIALOG",) if row == "dialog" else ()
    start, points = servers.tandem(settings) if peer == "tandem" else servers.kamailio(settings, defines, workloads.tuned()[0]), []
    with start as server:
        command = [program("tandem"), "lab", "run", "call", "--server", server.address, "--duration", f"{seconds}s", *calls, *PHONES]
        generator = subprocess.Popen(on_core(settings.client_core, command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            for line in generator.stderr:
                progress = re.search(r"failed +(\d+) +in progress +(\d+)", line)
                if not progress:
                    continue
                if progress.group(1) != "0":
                    raise BenchError(f"calls failed: {line.strip()}")
                points.append((int(progress.group(2)), pss(server.pid)))
                if len(points) == seconds:
                    break
        finally:
            generator.send_signal(signal.SIGKILL)
            generator.communicate()
    if len(points) < skipped + 2:
        raise BenchError("the generator ended early: see its output above")
    add_line(part, row, peer, points[skipped:])


def pss(root):
    """PSS of a process and its descendants, in bytes."""
    rollups = (pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in servers.family(root))
    return sum(int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE).group(1)) for rollup in rollups) * 1024
