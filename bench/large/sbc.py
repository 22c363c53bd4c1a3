"""The SBC run: calls of customers go through a rule, a large prefix table, limits and three gateways, until all of them are up. They are held, and
end. While they begin, a gateway goes silent, another one closes its port, the prefixes are replaced, PostgreSQL restarts, and the server is killed
and starts again. No call may fail."""
import json
import subprocess
import time

from ..capacity import ADDRESSES
from ..settings import BenchError, on_core, program
from . import admin
from .calls import RETURNED, ROWS, ZERO_WITHIN, all_up, first_call, phones, records_of, restart, sleep_until, until_zero
from .databases import DATABASES
from .gateways import Gateways
from .prefixes import COUNTRY, Prefixes
from .server import Tandem, add_subscribers
from .watch import Watch, gauges, resident

NAMES = ("carrier-1", "carrier-2", "carrier-3")
# When each event happens, as a part of the time in which calls begin, and what a gateway does from then on.
GATEWAY_EVENTS = ((0.08, 1, "silent"), (0.22, 1, "answering"), (0.28, 2, "closed"), (0.40, 2, "answering"))
PREFIXES_AT, DATABASE_AT, KILL_AT = 0.48, 0.58, 0.72
EVENTS = ("gateways", "prefixes", "database", "kill")
# Seconds that the gateways have to read what the killed server had sent.
READ = 0.1
# Calls of this many seconds may be neither saved nor counted as unsaved yet.
UNCOUNTED = 2
# The generator and the gateways share a processor, which must not be busier than this.
BUSY = 0.9
# Goal: seconds until the server is ready after it was killed.
READY_WITHIN = 5


def routing(shape, ports, prefixes):
    """The sections that an operator adds for this traffic. Rates are twice those of ordinary traffic: after an outage, the calls of that time arrive at
    once."""
    gateways = "".join(f"""[[gateway]]
name = "{name}"
destination = "sip:127.0.0.1:{port};transport=udp"
max_calls = {shape.calls * 2 // 3}
calls_per_second = {shape.rate}
burst = {shape.rate * 2}
probe_interval = "5s"
probe_timeout = "2s"
misses = 3
answers = 2
""" for name, port in zip(NAMES, ports))
    rate = f"calls_per_second = {shape.rate * 2}\nburst = {shape.rate * 4}\n"
    return f"""[[network]]
name = "customers"
addresses = ["127.1.0.0/24"]
{gateways}[[group]]
name = "carriers"
members = {json.dumps(NAMES)}
[[group]]
name = "carriers-2"
algorithm = "least_calls"
members = {json.dumps(NAMES[::-1])}
{prefixes.section}[call_limits]
max_calls = {shape.calls * 11 // 10}
{rate}source_max_calls = {max(20, shape.calls // 60)}
subscriber_max_calls = 4
[[limit]]
name = "customers"
networks = ["customers"]
max_calls = {shape.calls * 11 // 10}
{rate}[[limit]]
name = "retail"
max_calls = {shape.calls * 11 // 10}
[[rule]]
name = "emergency"
user = ["110", "112"]
action = "group"
group = "carriers"
authenticate = "never"
[[rule]]
name = "premium"
user = ["{COUNTRY}900*"]
action = "refuse"
status = 603
[[rule]]
name = "retail"
method = ["INVITE"]
source = ["customers"]
user = ["{COUNTRY}*"]
action = "prefixes"
limit = "retail"
authenticate = "digest"
"""


def run(settings, shape, name, size, events):
    """Makes the calls with one of the databases, `size` prefixes and these events. Returns the figures."""
    with DATABASES[name](settings.folder) as database, Gateways(settings, len(NAMES)) as gateways:
        add_subscribers(settings, database, 0, phones(shape), COUNTRY + "{:09}")
        prefixes = Prefixes(settings, database, size, phones(shape))
        prefixes.write("carriers")
        server = Tandem(settings, database, phones(shape), routing(shape, gateways.ports, prefixes))
        with server, Watch(server, database) as watch:
            run_of = Course(settings, shape, (server, database, watch), gateways, prefixes)
            run_of.play(events)
            figures = run_of.settle()
        figures |= {"samples": watch.samples, "times": run_of.times}
        figures["records"] = records_of(server.records.read_text().splitlines())
        figures["records"]["rows"] = database.number("SELECT count(*) FROM call_record")
    return figures


class Course:
    """One run: its parties, what happened when, and what was seen."""

    def __init__(self, settings, shape, parties, gateways, prefixes):
        self.settings, self.shape, self.gateways, self.prefixes = settings, shape, gateways, prefixes
        self.server, self.database, self.watch = parties
        self.times, self.seen, self.report = {}, {}, None
        # What the gateways had answered when the server was killed, and calls that it had not saved.
        self.answered_before, self.lost = [0] * len(NAMES), 0
        # The gateways as the server counted them, before it was killed and at the end.
        self.lives = []

    def play(self, events):
        """Runs the generator and, meanwhile, the events."""
        shape, file = self.shape, self.settings.folder / "generator.json"
        file.unlink(missing_ok=True)
        command = [program("tandem"), "lab", "run", "call", "--server", self.server.address, "--rate", str(shape.rate),
                   "--duration", f"{shape.ramp * 1000:.0f}ms", "--talking", f"{shape.talking * 1000:.0f}ms", "--phones", str(phones(shape)),
                   "--user", COUNTRY + "{:09}", "--nonces", "fresh", "--registered", "--ignore-icmp", "--quiet", "--json", str(file), *ADDRESSES]
        self.seen["prefixes"] = admin.call("prefixes.stats")
        generator = subprocess.Popen(on_core(self.settings.client_core, command), stdout=subprocess.DEVNULL)
        try:
            begun = self.times["begun"] = first_call(generator)
            self.times["last_bye"], cpu = begun + shape.ramp + shape.talking, self.gateways.cpu()
            for part, event in self.events(events):
                sleep_until(begun + part * shape.ramp)
                event()
            self.times["up"] = all_up(shape, begun)
            self.seen["gateways_busy"] = (self.gateways.cpu() - cpu) / self.since()
            sleep_until(begun + shape.talking - 2)
            self.look_at_top()
            generator.wait()
        finally:
            if generator.poll() is None:
                generator.kill()
                generator.wait()
        if not file.exists():
            raise BenchError("the generator failed: see its output above")
        self.report = json.loads(file.read_text())

    def events(self, wanted):
        """The events in their order, each with its time as a part of the time in which calls begin."""
        found = []
        if "gateways" in wanted:
            found += [(part, lambda number=number, word=word: self.behave(number, word)) for part, number, word in GATEWAY_EVENTS]
        if "prefixes" in wanted:
            found.append((PREFIXES_AT, self.replace_prefixes))
        if "database" in wanted and self.database.pid:
            found.append((DATABASE_AT, self.restart_database))
        if "kill" in wanted:
            found.append((KILL_AT, self.kill))
        return found

    def since(self):
        return time.monotonic() - self.times["begun"]

    def behave(self, number, behaviour):
        self.gateways.behave(number, behaviour)
        self.seen.setdefault("gateways", []).append({"at": self.since(), "gateway": NAMES[number - 1], "does": behaviour})

    def replace_prefixes(self):
        self.prefixes.write("carriers-2")
        begun = self.since()
        reloaded = admin.call("prefixes.reload")
        found = admin.call("prefixes.lookup", number=f"{COUNTRY}{0:09}")["candidates"][0]["groups"]
        self.seen["reload"] = {"at": begun, "seconds": self.since() - begun, "prefixes": reloaded["prefixes"], "groups": found}

    def restart_database(self):
        begun = self.since()
        self.seen["database"] = {"at": begun, "away": restart(self.database, self.shape.away)}

    def kill(self):
        """Kills the server and starts it again. Only the calls that it had saved are known then."""
        self.lives.append(admin.gateways())
        begun, before = self.since(), gauges()
        self.server.kill()
        time.sleep(READ)
        counts, saved = self.gateways.counts(), self.database.number(ROWS)
        self.answered_before = [gateway["answered"] for gateway in counts]
        self.lost = sum(gateway["live"] for gateway in counts) - saved
        started = self.since()
        self.server.start()
        self.seen["killed"] = {
            "at": begun, "known": before["confirmed"], "unsaved": before["dialogs_unsaved"], "restored": saved, "lost": self.lost,
            "away": self.since() - begun, "ready_after": self.since() - started, "memory": resident(self.server.pid)}

    def look_at_top(self):
        """What all parties count while all calls are up and none begins or ends."""
        self.seen["top"] = {
            "server": gauges(), "rows": self.database.number(ROWS), "limits": admin.limits(), "gateways": admin.gateways(),
            "counts": self.gateways.counts(), "memory": resident(self.server.pid)}

    def settle(self):
        """Waits until nothing is left. Returns the figures."""
        self.lives.append(admin.gateways())
        for name in NAMES:
            # Ends its probes, which have transactions.
            admin.call("gateways.disable", name=name)
        zero = until_zero(self.database, self.times["last_bye"])
        time.sleep(RETURNED)
        begun, watch, shape = self.times["begun"], self.watch, self.shape
        end = (self.times["last_bye"] - shape.ramp, self.times["last_bye"] + 1)
        return {
            "generator": self.report, "seen": self.seen, "zero": zero, "answered_before": self.answered_before, "lost": self.lost,
            "lives": self.lives, "counts": self.gateways.counts(),
            "memory": {"top": self.seen["top"]["memory"], "after": resident(self.server.pid)},
            "busy": {name: [watch.busy(name, begun, begun + shape.ramp), watch.busy(name, *end)] for name in ("cpu", "database_cpu")},
            "most": {name: watch.most(name, begun) for name in ("dialogs_unsaved", "dialogs_lag", "records_waiting", "save_failures", "kernel_drops")},
            "retransmitted": watch.most("retransmitted"), "records_lost": watch.most("records_lost"),
        }


def problems(shape, figures):
    """What should not have happened."""
    report, seen, records = figures["generator"], figures["seen"], figures["records"]
    ends, top, killed = report["units"]["calls"], seen["top"], seen.get("killed")
    replaced = sum(gateway["replaced"] for gateway in figures["counts"])
    known = shape.calls - figures["lost"] + replaced
    byes = report["delays"].get("session_disconnect_delay", {}).get("count", 0)
    reload = seen.get("reload")
    checks = [
        (ends["attempted"] != shape.calls, f"{ends['attempted']:,} calls begun instead of {shape.calls:,}"),
        (ends["failed"] or report["unfinished"], f"{ends['failed']:,} calls failed, {report['unfinished']:,} did not end: {report['failures']}"),
        (byes != shape.calls, f"{byes:,} BYEs answered with 200"),
        (None in figures["zero"].values(), f"not zero after {ZERO_WITHIN} s: {[name for name, at in figures['zero'].items() if at is None]}"),
        (not records["lines"] == records["calls"] == records["rows"] == known,
         f"{records['lines']:,} records of {records['calls']:,} calls in the file, {records['rows']:,} in the database, instead of {known:,}"),
        (figures["records_lost"], f"{figures['records_lost']:,.0f} records lost"),
        (reload and reload["groups"] != ["carriers-2"], "the prefixes were not replaced"),
        (killed and killed["ready_after"] > READY_WITHIN, f"not ready within {READY_WITHIN} s"),
        (killed and figures["lost"] > killed["unsaved"] + UNCOUNTED * shape.rate, "saved dialogs were not restored"),
        (report["generator_busy"] + seen["gateways_busy"] > BUSY, "the processor of the generator and the gateways was too busy"),
        (any(counts["unacknowledged"] for counts in figures["counts"]), "a gateway had no ACK for a call"),
    ]
    found = [said for is_wrong, said in checks if is_wrong]
    return found + of_top(top, known) + of_gateways(figures) + report["doubts"]


def of_top(top, known):
    """What does not count the calls that are up."""
    counted = {"dialogs": top["server"]["confirmed"], "rows": top["rows"], "calls of all gateways": top["server"]["gateway_calls"]}
    counted |= {f"calls of the limit {name}": live for name, live in top["limits"].items()}
    found = [f"{count:,.0f} {what} at the top instead of {known:,}" for what, count in counted.items() if count != known]
    up = sum(counts["live"] for counts in top["counts"])
    return found + [f"gateway {name} is {gateway['state']} at the top" for name, gateway in top["gateways"].items() if gateway["state"] != "active"] + (
        [f"{up:,} calls up at the gateways, fewer than the {known:,} that are known"] if up < known else [])


def of_gateways(figures):
    """Where the server has counted otherwise than the gateways, since it began."""
    found = []
    for name, counts, before in zip(NAMES, figures["counts"], figures["answered_before"]):
        gateway = figures["lives"][-1][name]
        ended = gateway["answered"] + sum(gateway["failed"].values()) + gateway["timeouts"] + gateway["transport_errors"] + gateway["abandoned"]
        if gateway["answered"] != counts["answered"] - before:
            found.append(f"{name}: {gateway['answered']:,} calls answered, but it counted {counts['answered'] - before:,}")
        if gateway["tried"] != ended:
            found.append(f"{name}: {gateway['tried']:,} calls tried, but {ended:,} have an outcome")
        if counts["live"] or counts["ended"] != counts["answered"]:
            found.append(f"{name}: {counts['answered']:,} calls answered, {counts['ended']:,} ended")
    return found
