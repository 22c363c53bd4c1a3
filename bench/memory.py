"""Measures the memory of a contact, of a ringing call, of a dialog, and of a connection. The unit is PSS: the sum over the server's processes of
their own pages and their share of common pages. Memory that several processes share therefore counts once. Each figure is the slope of a
line through several points, so one round is enough. The figure of a dialog is a difference, because its transactions must end first."""
import pathlib
import re
import signal
import statistics
import subprocess
import time

from . import servers, workloads
from .capacity import ADDRESSES, PHONES
from .connections import measure_connections, server_for
from .settings import PEERS, BenchError, on_core, output_of, program


def run(settings, part):
    for peer in filter(settings.wants, PEERS):
        part.attempt(f"contacts {peer}", contacts, settings, part, peer)
        part.attempt(f"calls {peer}", calls, settings, part, peer)
        part.attempt(f"dialogs {peer}", dialogs, settings, part, peer)
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


def calls(settings, part, peer):
    """Bytes of a ringing call with all its transactions alive: the slope of memory, read each second while calls are added."""
    rate, seconds = 500, 5 if settings.quick else 20
    start, points = servers.tandem(settings) if peer == "tandem" else servers.kamailio(settings, (), workloads.tuned()[0]), []
    with start as server:
        command = [program("tandem"), "lab", "run", "call", "--server", server.address, "--rate", str(rate), "--duration", f"{seconds}s",
                   "--ringing", "5min", *PHONES]
        generator = subprocess.Popen(on_core(settings.client_core, command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            for line in generator.stderr:
                ringing = re.search(r"failed +(\d+) +in progress +(\d+)", line)
                if not ringing:
                    continue
                if ringing.group(1) != "0":
                    raise BenchError(f"ringing calls failed: {line.strip()}")
                points.append((int(ringing.group(2)), pss(server.pid)))
                if len(points) == seconds:
                    break
        finally:
            generator.send_signal(signal.SIGKILL)
            generator.communicate()
    if len(points) < 3:
        raise BenchError("the generator ended early: see its output above")
    add_line(part, "call", peer, points[1:])


DIALOGS, DIALOGS_PER_SECOND = 60_000, 3_000
# Seconds after the last call: a transaction lives for 32 s, and allocators return memory some seconds later.
SETTLED = 45


def dialogs(settings, part, peer):
    """Bytes of a dialog: the growth of memory from registered phones to established calls whose transactions have ended."""
    count = settings.count(DIALOGS)
    seconds = count // DIALOGS_PER_SECOND
    start = servers.tandem(settings) if peer == "tandem" else servers.kamailio(settings, ("WITH_DIALOG",), workloads.tuned()[0])
    with start as server:
        generated = on_core(settings.client_core, [
            program("tandem"), "lab", "run", "call", "--server", server.address, "--quiet", "--rate", str(DIALOGS_PER_SECOND),
            "--duration", f"{seconds}s", *PHONES])
        # As many short calls first: what their transactions leave behind does not count as memory of dialogs.
        if not output_of(generated)[1]:
            part.remark(f"dialogs of {peer}: the short calls before were not clean: see the output of the generator")
        time.sleep(SETTLED)
        before = pss(server.pid)
        generator = subprocess.Popen([*generated, "--talking", "5min"], stdout=subprocess.DEVNULL)
        try:
            time.sleep(seconds + SETTLED)
            after, known = pss(server.pid), servers.metric("tandem_dialogs") if peer == "tandem" else count
        finally:
            generator.send_signal(signal.SIGKILL)
            generator.wait()
    remarks = [] if known == count else [f"{known:,.0f} dialogs instead of {count:,}"]
    part.add("dialog", peer, (after - before) / count, {"dialogs": count, "before": before, "after": after}, remarks)


def pss(root):
    """PSS of a process and its descendants, in bytes."""
    rollups = (pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in servers.family(root))
    return sum(int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE).group(1)) for rollup in rollups) * 1024
