"""Many calls at a time: they are set up at a rate, held, and ended at the same rate. In the middle, PostgreSQL restarts, or the server is killed
and starts again."""
import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass

from ..capacity import ADDRESSES
from ..settings import BenchError, on_core, program
from .databases import DATABASES
from .server import Tandem, add_subscribers
from .watch import Watch, gauges, resident

# Seconds after the registration of the phones until the first call: the server saves the bindings and returns memory.
SETTLE = 20
# Seconds until as many transactions end as begin: each lives for 32 s.
EVEN = 36
# Seconds for what lives on after the last call: transactions, and memory that the allocator returns.
ZERO_WITHIN, RETURNED = 60, 15
# Goals: bytes of a dialog, and seconds until the server is ready after it was killed.
DIALOG_BYTES, READY_WITHIN = 700, 5
# With fewer dialogs, other memory prevails.
ENOUGH = 10_000
ROWS = "SELECT count(*) FROM dialog"


@dataclass(frozen=True)
class Shape:
    """`calls` are set up at `rate` per second and held for `hold` seconds after the last one. PostgreSQL is away for `away` seconds. The server
    is killed `kill_after` seconds after the last call was answered."""

    calls: int
    rate: int
    hold: int
    away: float
    kill_after: float

    @property
    def ramp(self):
        return self.calls / self.rate

    @property
    def talking(self):
        return self.ramp + self.hold


def run(settings, shape, name, event):
    """Makes the calls with one of the databases. `event` is `restart` (of the database), `kill` (of the server), or empty. Returns the figures."""
    with DATABASES[name](settings.folder) as database:
        add_subscribers(settings, database, 0, phones(shape))
        server = Tandem(settings, database, phones(shape))
        with server, Watch(server, database) as watch:
            course = play(settings, shape, (server, database, watch), event)
            figures = settle(shape, (server, database, watch), course)
        figures |= {"generator": course["report"], "samples": watch.samples, "course": course["times"]}
        figures["records"] = records_of(server.records.read_text().splitlines())
        figures["records"]["rows"] = database.number("SELECT count(*) FROM call_record")
    return figures


def phones(shape):
    """Two for each call."""
    return 2 * shape.calls


def play(settings, shape, parties, event):
    """Runs the generator and, meanwhile, the event. Returns the times, the generator's report, and what was seen at the event and at the top."""
    server, database, watch = parties
    report = settings.folder / "generator.json"
    report.unlink(missing_ok=True)
    command = [program("tandem"), "lab", "run", "call", "--server", server.address, "--rate", str(shape.rate), "--duration", f"{shape.ramp * 1000:.0f}ms",
               "--talking", f"{shape.talking * 1000:.0f}ms", "--phones", str(phones(shape)), "--nonces", "fresh", "--settle", f"{SETTLE}s",
               "--stay-registered", "--quiet", "--json", str(report), *ADDRESSES]
    generator = subprocess.Popen(on_core(settings.client_core, command), stdout=subprocess.DEVNULL)
    try:
        begun = first_call(generator)
        times, seen = {"begun": begun, "last_bye": begun + shape.ramp + shape.talking}, {"before": watch.samples[-2]}
        if event == "restart":
            sleep_until(begun + shape.ramp / 2)
            seen["database_away"] = restart(database, shape.away)
        times["up"] = all_up(shape, begun)
        if event == "kill":
            time.sleep(shape.kill_after)
            seen["killed"] = kill(server, times)
        sleep_until(begun + shape.talking - 2)
        seen["top"], seen["rows_at_top"] = watch.look(), database.number(ROWS)
        generator.wait()
    finally:
        if generator.poll() is None:
            generator.kill()
            generator.wait()
    if not report.exists():
        raise BenchError("the generator failed: see its output above")
    return {"times": times, "seen": seen, "report": json.loads(report.read_text())}


def sleep_until(at):
    time.sleep(max(0.0, at - time.monotonic()))


def first_call(generator):
    while generator.poll() is None:
        if gauges()["created"]:
            return time.monotonic()
        time.sleep(0.1)
    raise BenchError("the generator ended before the first call: see its output above")


def restart(database, away):
    """Stops the database and starts it. Returns the seconds in between."""
    begun = time.monotonic()
    database.stop()
    time.sleep(away)
    database.start()
    return time.monotonic() - begun


def all_up(shape, begun):
    """When all calls are established, or should have been."""
    sleep_until(begun + shape.ramp - 0.5)
    while time.monotonic() < begun + shape.ramp + 5 and gauges()["confirmed"] < shape.calls:
        time.sleep(0.05)
    return time.monotonic()


def kill(server, times):
    """Kills the server and starts it again. Returns what it knew before and after."""
    before = gauges()
    times["killed"] = time.monotonic()
    server.kill()
    started = time.monotonic()
    server.start()
    times["ready"] = time.monotonic()
    after = gauges()
    return {"unsaved": before["dialogs_unsaved"], "known": before["confirmed"], "restored": after["confirmed"],
            "ready_after": times["ready"] - started, "memory": resident(server.pid)}


def settle(shape, parties, course):
    """Waits until nothing is left. Returns the figures of the server."""
    server, database, watch = parties
    times, seen = course["times"], course["seen"]
    zero = until_zero(database, times["last_bye"])
    time.sleep(RETURNED)
    after, begun, top = resident(server.pid), times["begun"], seen["top"] or {}
    memory, before = top.get("memory", 0), seen["before"]["memory"]
    # A server that started again has nothing in common with the one before.
    grown = None if "killed" in seen else (memory - before) / shape.calls
    end = (times["last_bye"] - shape.ramp, times["last_bye"] + 1)
    return {
        "event": {name: seen[name] for name in ("database_away", "killed") if name in seen},
        "dialogs_at_top": top.get("confirmed"), "rows_at_top": seen["rows_at_top"], "zero": zero,
        "memory": {"before": before, "top": memory, "after": after},
        "dialog_bytes": {"from_before": grown, "from_after": (memory - after) / shape.calls,
                         "slope": watch.slope(begun + EVEN, begun + shape.ramp)},
        "busy": {name: [watch.busy(name, begun, begun + shape.ramp), watch.busy(name, *end)] for name in ("cpu", "database_cpu")},
        "most": {name: watch.most(name, begun) for name in ("dialogs_unsaved", "dialogs_lag", "records_waiting", "save_failures", "kernel_drops")},
        "retransmitted": watch.most("retransmitted"), "records_lost": watch.most("records_lost"),
    }


def until_zero(database, last_bye):
    """Seconds from the last BYE until nothing is left, for each table. None if something stays."""
    zero = dict.fromkeys(("early", "confirmed", "dialogs_unsaved", "records_waiting", "contexts", "transactions", "rows", "gateway_calls", "limit_calls"))
    while None in zero.values() and time.monotonic() < last_bye + ZERO_WITHIN:
        left = gauges() | {"rows": database.number(ROWS)}
        for name in (name for name in zero if zero[name] is None and not left[name]):
            zero[name] = time.monotonic() - last_bye
        time.sleep(0.25)
    return zero


def records_of(lines):
    """Counts of the records in a file: lines, different calls, and how the calls ended."""
    records = [json.loads(line) for line in lines]
    return {"lines": len(records), "calls": len({record["call_id"] for record in records}),
            "ended_by": dict(Counter(record["ended_by"] for record in records))}


def problems(shape, figures):
    """What should not have happened."""
    report, killed = figures["generator"], figures["event"].get("killed")
    ends, records = report["units"]["calls"], figures["records"]
    known = int(killed["restored"]) if killed else shape.calls
    byes = report["delays"].get("session_disconnect_delay", {}).get("count", 0)
    checks = [
        (ends["attempted"] != shape.calls, f"{ends['attempted']:,} calls begun instead of {shape.calls:,}"),
        (ends["failed"] or report["unfinished"], f"{ends['failed']:,} calls failed, {report['unfinished']:,} did not end: {report['failures']}"),
        (byes != shape.calls, f"{byes:,} BYEs answered with 200"),
        (report["retransmissions_sent"] or figures["retransmitted"],
         f"retransmissions: {report['retransmissions_sent']:,} of the phones, {figures['retransmitted']:,.0f} of the server"),
        (figures["dialogs_at_top"] != known, f"{figures['dialogs_at_top']} dialogs at the top instead of {known:,}"),
        (figures["rows_at_top"] != known, f"{figures['rows_at_top']:,} rows at the top instead of {known:,}"),
        (None in figures["zero"].values(), f"not zero after {ZERO_WITHIN} s: {[name for name, at in figures['zero'].items() if at is None]}"),
        (not records["lines"] == records["calls"] == records["rows"] == known,
         f"{records['lines']:,} records of {records['calls']:,} calls in the file, {records['rows']:,} in the database, instead of {known:,}"),
        (figures["records_lost"], f"{figures['records_lost']:,.0f} records lost"),
        (shape.calls >= ENOUGH and (figures["dialog_bytes"]["from_before"] or 0) > DIALOG_BYTES, f"more than {DIALOG_BYTES} bytes for a dialog"),
        (killed and killed["ready_after"] > READY_WITHIN, f"not ready within {READY_WITHIN} s"),
        (killed and killed["known"] - killed["restored"] > killed["unsaved"], "saved dialogs were not restored"),
    ]
    return [said for is_wrong, said in checks if is_wrong] + report["doubts"]
