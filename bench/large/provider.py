"""The traffic of a provider: all subscribers are in PostgreSQL and registered. They send keep-alives, refresh their registrations, and call. The
largest share of this traffic that the machine carries is searched from above."""
import json
import subprocess
import time

from ..capacity import ADDRESSES
from ..settings import BenchError, on_core, program
from .databases import Postgres
from .server import Tandem, add_subscribers
from .watch import Watch, resident

# Seconds: transactions live for 32 s, so that after the warm-up as many end as begin.
WARM_UP = 35
# Delays in the report, by kind of unit.
DELAYS = {"keep-alives": "other_response_delay", "registrations": "due_to_registration", "calls": "due_to_response"}


def run(settings, sizes, shares, seconds, phones=ADDRESSES):
    """Yields the figures of each number of subscribers with each share, from the largest share to the first one that holds. `phones` are the
    options of the generator for their sockets."""
    known = 0
    with Postgres(settings.folder) as database:
        for subscribers in sorted(sizes):
            imported = {"subscribers": subscribers - known, "seconds": add_subscribers(settings, database, known, subscribers - known)}
            known = subscribers
            for share in sorted(shares, reverse=True):
                figures = measure(settings, database, subscribers, share, seconds, phones) | {"imported": imported}
                yield figures
                if not problems(figures):
                    break


def measure(settings, database, subscribers, share, seconds, phones):
    """Registers all subscribers with a new server, and makes their traffic."""
    server = Tandem(settings, database, subscribers)
    clear(database)
    begun = time.monotonic()
    with server, Watch(server, database) as watch:
        ready, memory = time.monotonic() - begun, resident(server.pid)
        report = generate(settings, server, subscribers, share, seconds, phones)
        ended = time.monotonic()
    registered = report["populated"]
    return {
        "subscribers": subscribers, "share": share, "ready_after": ready, "generator": report, "samples": watch.samples,
        "registered": {"phones": registered["phones"], "seconds": registered["seconds"], "put_off": registered["put_off"]},
        "memory": {"subscribers_read": memory, "traffic": report["cost"]["memory_bytes"], "peak": report["cost"]["peak_memory_bytes"]},
        # The calls of the last seconds still ring.
        "busy": {name: watch.busy(name, ended - seconds - 5, ended - 5) for name in ("cpu", "database_cpu")},
        "retransmitted": watch.most("retransmitted"), "kernel_drops": watch.most("kernel_drops"),
    }


def clear(database):
    """Deletes the bindings of the run before: the phones of the next run have other ports."""
    exists = database.number("SELECT count(*) FROM pg_tables WHERE tablename = 'location'")
    if exists:
        database.execute("TRUNCATE location, dialog, call_record")


def generate(settings, server, subscribers, share, seconds, phones):
    found = settings.folder / "generator.json"
    found.unlink(missing_ok=True)
    command = [program("tandem"), "lab", "run", "itsp", "--server", server.address, "--subscribers", str(subscribers), "--share", str(share),
               "--warm-up", f"{WARM_UP}s", "--duration", f"{seconds}s", "--pid", str(server.pid), "--stay-registered", "--settle", "5s",
               "--quiet", "--json", str(found), *phones]
    subprocess.run(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    if not found.exists():
        raise BenchError("the generator failed: see its output above")
    return json.loads(found.read_text())


def problems(figures):
    """Why this share does not hold."""
    report = figures["generator"]
    failed = sum(ends["failed"] for ends in report["units"].values())
    checks = [
        (failed or report["unfinished"], f"{failed:,} units failed, {report['unfinished']:,} did not end: {report['failures']}"),
        (figures["kernel_drops"], f"the kernel dropped {figures['kernel_drops']:,.0f} datagrams for the server"),
    ]
    return [said for is_wrong, said in checks if is_wrong] + report["doubts"]
