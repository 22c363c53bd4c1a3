"""Measures the cost of short TCP and TLS connections: connect, handshake, one OPTIONS, close. Clients run on a separate processor
(`tandem bench connections`)."""
import json

from . import servers, workloads
from .settings import PEERS, BenchError, on_core, output_of, program

# Row, key of the server, kind of handshake, number of connections.
UNITS = (
    ("tcp", "p256", "plain", 20_000),
    ("tls-p256", "p256", "full", 5_000),
    ("tls-p256-resumed", "p256", "resumed", 5_000),
    ("tls-rsa2048", "rsa2048", "full", 3_000),
    ("tls-rsa2048-resumed", "rsa2048", "resumed", 5_000),
)


def server_for(settings, peer, transport, key="p256"):
    if peer == "tandem":
        return servers.tandem(settings, transport=transport, key=key, challenge=())
    return servers.kamailio_connections(settings, transport, key, workloads.tuned()[0])


def measure_connections(settings, server, transport, key, *how):
    """The report of one run of the clients."""
    command = [program("tandem"), "bench", "connections", "--server", server.address, "--transport", transport, "--key", key,
               "--pid", str(server.pid), "--json", *map(str, how)]
    text, _ = output_of(on_core(settings.client_core, command))
    if not text:
        raise BenchError(f"the clients of {server.name} failed: see their output above")
    return json.loads(text)


def run(settings, part):
    for _ in range(settings.rounds):
        for row, key, handshakes, count in UNITS:
            for peer in filter(settings.wants, PEERS):
                part.attempt(f"{row} {peer}", units, settings, part, peer, row, key, handshakes, settings.count(count))
    if settings.wants("tandem"):
        for transport in ("tcp", "tls"):
            part.attempt(f"churn {transport}", churn, settings, part, transport)


def units(settings, part, peer, row, key, handshakes, count):
    transport = "tcp" if handshakes == "plain" else "tls"
    with server_for(settings, peer, transport, key) as server:
        figures = measure_connections(settings, server, transport, key, "--handshakes", handshakes, "--count", count)
    part.add(row, peer, figures["server_cpu_us_each"], figures, failures(figures))


def churn(settings, part, transport):
    """A thousand connections per second, with calls at the same time."""
    with server_for(settings, "tandem", transport) as server:
        figures = measure_connections(settings, server, transport, "p256", "--churn", 1000)
    beside = figures["calls_beside"]
    part.add(f"churn-{transport}", "tandem", figures["server_cpu_us_each"], figures, failures(figures) + failures(beside, " calls"))


def failures(figures, of=""):
    return [f"{figures['failed']:,}{of} failed ({figures['failure']})"] if figures["failed"] else []
