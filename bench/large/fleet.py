"""A million bindings of two nodes that share them through Redis: how long a new node takes, how late a change is at the other node, and how they
agree after a partition. Node b reaches Redis through a relay of this process, which the partition stops: no reset, no data, as if a cable was pulled."""
import json
import pathlib
import re
import select
import shutil
import socket
import statistics
import subprocess
import threading
import time
import urllib.request

from .. import servers
from ..capacity import ADDRESSES
from ..servers import DOMAIN, LIMITS
from ..settings import BenchError, on_core, program
from .watch import resident

PORTS = {"a": (5071, 8071), "b": (5072, 8072)}
REDIS, RELAY = 6391, 6392
RATE = 2_000
# Seconds.
LAG_TIME, PARTITION, PATIENCE = 30, 60, 300
# Changes at each node during the partition. Half of them are of phones that the other node hears of, too.
CHANGES = 10_000
# A change is at the other node within this many milliseconds, 99 times of 100.
MOST_LAG = 100
SAMPLES = 300


def run(settings, bindings, partition):
    """Returns the figures."""
    with Redis(settings) as redis, Relay(RELAY, REDIS) as relay, Node(settings, "a", REDIS) as a:
        populated = populate(settings, a, bindings)
        begun = time.monotonic()
        with Node(settings, "b", RELAY) as b:
            ready_after = time.monotonic() - begun
            counted = b.value("tandem_registrations")
            memory = {"a": resident(a.pid), "b": resident(b.pid), "redis": redis.memory()}
            lag = under_load(settings, a, b, bindings)
            healed = divided(a, b, relay, partition)
            return {
                "bindings": bindings, "populated": populated, "ready_after": ready_after, "counted": counted, "memory": memory, "lag": lag,
                "partition": partition, "changes": CHANGES, **healed,
                "errors": {node.name: node.value("tandem_fleet_store_errors_total") for node in (a, b)},
            }


def problems(figures):
    """What is not as required."""
    late, differing = figures["lag"]["seen"]["p99"], figures["differing"]
    registered = figures["registered"]
    checks = [
        (figures["counted"] < figures["bindings"], f"the new node was ready with {figures['counted']:,.0f} bindings"),
        (late > MOST_LAG, f"p99 of the lag is {late:.1f} ms, more than {MOST_LAG}"),
        (figures["lag"]["failed"], f"{figures['lag']['failed']:,} REGISTERs failed under load"),
        (differing, f"{differing:,} phones of the partition differ"),
        (registered["a"] != registered["b"], f"the nodes have {registered} bindings"),
    ]
    return [said for is_wrong, said in checks if is_wrong]


class Redis:
    """A Redis server without persistence."""

    def __init__(self, settings):
        self.folder, self.process = settings.folder, None

    def __enter__(self):
        server = shutil.which("redis-server") or shutil.which("valkey-server")
        if not server:
            raise BenchError("redis-server is missing: install the package redis-server")
        if servers.is_bound(REDIS, True):
            raise BenchError(f"another program uses port {REDIS}: stop it")
        with open(self.folder / "redis.log", "w") as log:
            command = [server, "--port", str(REDIS), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until("Redis answers", lambda: servers.is_bound(REDIS, True), 20)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def memory(self):
        return resident(self.process.pid)


class Relay:
    """Forwards connections to a port, until `cut` is set: then data and new connections wait."""

    def __init__(self, port, to):
        self.to, self.cut, self.is_over = to, threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", port))

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.listener.close()

    def accept(self):
        while not self.is_over.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        while self.cut.is_set():
            time.sleep(0.01)
        with client, socket.create_connection(("127.0.0.1", self.to)) as server:
            other = {client: server, server: client}
            while not self.is_over.is_set():
                if self.cut.is_set():
                    time.sleep(0.01)
                    continue
                for end in select.select([client, server], [], [], 0.1)[0]:
                    try:
                        data = end.recv(1 << 16)
                        other[end].sendall(data)
                    except OSError:
                        return
                    if not data:
                        return


class Node(servers.Server):
    """A node of the fleet with one worker. Anybody may register: the subject is what becomes of the bindings."""

    def __init__(self, settings, name, redis):
        self.sip, self.admin = PORTS[name]
        config = settings.folder / f"node-{name}.toml"
        config.write_text(f"""domains = ["{DOMAIN}"]
[[listen]]
transport = "udp"
address = "127.0.0.1:{self.sip}"
[workers]
count = 1
[node]
name = "{name}"
{LIMITS.replace("[limits]", "[limits]" + chr(10) + "bindings = 3000000" + chr(10) + "pending_changes = 2000000")}[database]
url = "sqlite:{settings.folder}/node-{name}.db"
[auth]
challenge = []
[registrar]
max_contacts = 3
[location]
store = "redis://127.0.0.1:{redis}"
[admin]
listen = "127.0.0.1:{self.admin}"
""")
        command = [program("tandem"), "serve", "--config", str(config)]
        super().__init__(f"node-{name}", command, settings.folder, self.sip, lambda _: self.is_up(), start_within=PATIENCE)
        self.name = f"node-{name}"

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=60) as answer:
            return answer.read().decode()

    def is_up(self):
        try:
            return "ready" in self.get("/health/ready")
        except OSError:
            return False

    def value(self, metric):
        """The sum of a metric over its labels."""
        found = re.findall(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics"), re.MULTILINE)
        return sum(map(float, found))

    def buckets(self, metric):
        """The buckets of a histogram: their upper bounds in seconds, and their counts."""
        found = re.findall(rf'^{metric}_bucket{{le="([^"]+)"}} (\d+)', self.get("/metrics"), re.MULTILINE)
        return {float(bound): int(count) for bound, count in found}

    def quantiles(self, metric, before):
        """Upper bounds of p50 and p99 of what a histogram has counted since it was `before`, in milliseconds."""
        counts = [(bound, count - before.get(bound, 0)) for bound, count in self.buckets(metric).items()]
        total = counts[-1][1]
        bound = lambda part: next(bound for bound, count in counts if count >= part * total) * 1e3
        return {"p50": bound(0.5), "p99": bound(0.99), "count": total}

    def bindings_of(self, user):
        """The bindings of a user: contact and q."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "location.get", "params": {"address": f"{user}@{DOMAIN}"}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}/rpc", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        bindings = found.get("result", {}).get("bindings", [])
        return sorted((binding["contact"], binding.get("q")) for binding in bindings)


class Phones:
    """Registers phones at a node, a few hundred at a time."""

    def __init__(self, node):
        self.node, self.number = node, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", node.sip))
        self.socket.settimeout(2)

    def register(self, user, q="1.0"):
        self.send(user, q)
        if b" 200 " not in self.socket.recv(4096).split(b"\r\n", 1)[0]:
            raise BenchError(f"{self.node.name} did not register {user}")

    def register_all(self, users, q):
        """Sends at about the rate of the contract, and repeats what is not answered."""
        waiting = dict.fromkeys(users)
        while waiting:
            for position, user in enumerate(list(waiting)):
                self.send(user, q)
                if position % 20 == 19:
                    time.sleep(20 / RATE)
                    self.collect(waiting, 0)
            self.collect(waiting, 1)

    def collect(self, waiting, patience):
        while waiting and select.select([self.socket], [], [], patience)[0]:
            answer = self.socket.recv(4096)
            if b" 200 " in answer.split(b"\r\n", 1)[0]:
                waiting.pop(re.search(rb"^To: <sip:([^@]+)@", answer, re.MULTILINE).group(1).decode(), None)

    def send(self, user, q):
        self.number += 1
        at = "%s:%d" % self.socket.getsockname()
        self.socket.send(f"""REGISTER sip:{DOMAIN} SIP/2.0
Via: SIP/2.0/UDP {at};branch=z9hG4bK{self.node.name}{self.number};rport
Max-Forwards: 70
From: <sip:{user}@{DOMAIN}>;tag={self.number}
To: <sip:{user}@{DOMAIN}>
Call-ID: {user}-{self.node.name}
CSeq: {self.number} REGISTER
Contact: <sip:{user}@192.0.2.1>;q={q}
Expires: 3600
Content-Length: 0

""".replace("\n", "\r\n").encode())


def populate(settings, node, bindings):
    report = lab(settings, "populate", node, "--phones", str(bindings), "--sample", "0", "--stay-registered")
    found = node.value("tandem_registrations")
    if found < bindings:
        raise BenchError(f"only {found:,.0f} of {bindings:,} phones are registered")
    return {"seconds": report["populated"]["seconds"]} if "populated" in report else {}


def lab(settings, profile, node, *options):
    found = settings.folder / f"{profile}.json"
    found.unlink(missing_ok=True)
    command = [program("tandem"), "lab", "run", profile, "--server", node.address, "--quiet", "--json", str(found), *ADDRESSES, *options]
    done = subprocess.run(on_core(settings.client_core, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not found.exists():
        raise BenchError(f"the generator failed: {done.stdout.strip().splitlines()[-1:]}")
    return json.loads(found.read_text())


def under_load(settings, a, b, bindings):
    """REGISTERs at node a at the rate of the contract, and the time until node b has some of them, as its admin interface shows."""
    result = {}

    def load():
        result["report"] = lab(settings, "register", a, "--first", str(bindings), "--phones", "20000", "--rate", str(RATE), "--stay-registered", "--duration", f"{LAG_TIME}s")

    before = a.buckets("tandem_fleet_round_trip_seconds")
    generator = threading.Thread(target=load)
    generator.start()
    seen, phones = [], Phones(a)
    end = time.monotonic() + LAG_TIME - 5
    time.sleep(5)
    while time.monotonic() < end and len(seen) < SAMPLES:
        user = f"sample{len(seen)}"
        phones.register(user)
        begun = time.monotonic()
        while not b.bindings_of(user):
            if time.monotonic() - begun > 10:
                raise BenchError(f"{b.name} has not heard of {user} after 10 s")
        seen.append((time.monotonic() - begun) * 1e3)
        time.sleep(0.05)
    generator.join()
    if "report" not in result:
        raise BenchError("the generator failed")
    ends = result["report"]["units"]
    failed = sum(unit["failed"] for unit in ends.values())
    cut = statistics.quantiles(seen, n=100)
    return {"samples": len(seen), "failed": failed, "seen": {"p50": cut[49], "p99": cut[98], "max": max(seen)},
            "metric": a.quantiles("tandem_fleet_round_trip_seconds", before)}


def divided(a, b, relay, seconds):
    """Cuts node b off, changes bindings at both nodes, and waits until they agree."""
    shared = [f"both{number}" for number in range(CHANGES // 2)]
    own = {node.name: [f"{node.name}-{number}" for number in range(CHANGES // 2)] for node in (a, b)}
    begun = time.monotonic()
    relay.cut.set()
    # Node b is later, so its change wins.
    Phones(a).register_all(shared + own[a.name], "0.1")
    Phones(b).register_all(shared + own[b.name], "0.9")
    changed = time.monotonic() - begun
    time.sleep(max(0.0, seconds - changed))
    apart = {node.name: node.value("tandem_registrations") for node in (a, b)}
    healed = time.monotonic()
    relay.cut.clear()
    equal = lambda: a.value("tandem_registrations") == b.value("tandem_registrations") == apart[a.name] + len(own[b.name])
    wait_until("both nodes have the same number of bindings", equal, PATIENCE)
    agreed = time.monotonic() - healed
    expected = dict.fromkeys(shared + own[b.name], 0.9) | dict.fromkeys(own[a.name], 0.1)
    differing = lambda: sum(not is_as(node, user, q) for user, q in expected.items() for node in (a, b))
    wrong = differing()
    return {"changed_in": changed, "apart": apart, "agreed_after": agreed, "differing": wrong,
            "registered": {"a": a.value("tandem_registrations"), "b": b.value("tandem_registrations")}}


def is_as(node, user, q):
    found = node.bindings_of(user)
    return len(found) == 1 and abs(float(found[0][1]) - q) < 0.001


def wait_until(what, is_so, patience):
    deadline = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchError(f"after {patience} s it is still not so that {what}")
        time.sleep(0.05)
