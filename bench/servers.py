"""The servers under test. Each runs alone, pinned to one processor, and ends before the next one starts.

    with tandem(settings) as server:
        … server.address, server.pid …
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from . import routed
from .settings import ROOT, BenchError, on_core, program

TANDEM, KAMAILIO, FLOOR = 5070, 5080, 5090
ADMIN_PORT = 8070
ADMIN = f"127.0.0.1:{ADMIN_PORT}"
DOMAIN = "tandem.localhost"
# More subscribers than any workload or connection test registers.
SUBSCRIBERS = 120_001
USERS = "user{}"
START_WITHIN = 20
# The file of Tandem's call records.
RECORDS = "calls.jsonl"
# One machine plays all phones, in some parts from few addresses. The limits per source must not affect a figure: by default, an unproven source
# gets a sixteenth of a table and 1,000 connections. Trusted peers have no such limit, but Tandem does not challenge them either.
LIMITS = """[limits]
server_transactions = 8000000
client_transactions = 8000000
response_contexts = 4000000
parked_requests = 400000
held_bytes = 8589934592
[connections]
max_per_peer = 1000000
"""


class Server:
    """A server process that runs for the duration of a `with` block. `is_ready` gets its process ID and returns whether it serves."""

    def __init__(self, name, command, folder, port, is_ready, stream=False, start_within=START_WITHIN):
        self.name, self.command, self.is_ready, self.start_within = name, command, is_ready, start_within
        self.address, self.stream, self.port = f"127.0.0.1:{port}", stream, port
        self.log = folder / f"{name}.log"
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        if is_bound(self.port, self.stream):
            raise BenchError(f"another program uses port {self.port}, which {self.name} needs: stop that program")
        if self.name == "tandem" and is_bound(ADMIN_PORT, True):
            raise BenchError(f"another program uses port {ADMIN_PORT}, which the admin interface needs: stop that program")
        self.log.unlink(missing_ok=True)
        self.start()
        return self

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, cwd=ROOT)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def kill(self):
        """Ends the server as a crash does."""
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def wait_until_ready(self):
        deadline = time.monotonic() + self.start_within
        # Check the process too: another program on the port could report that it is ready.
        while self.process.poll() is not None or not self.is_ready(self.pid):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{self.name} did not start: {last_line(self.log)}")
            time.sleep(0.1)

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        # On the first signal, Tandem waits for calls in set-up. On the second signal, it exits at once.
        for number, patience in ((signal.SIGTERM, 0.3), (signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.pid, number)
                self.process.wait(patience)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        deadline = time.monotonic() + 5
        while is_bound(self.port, self.stream) and time.monotonic() < deadline:
            time.sleep(0.05)


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def is_bound(port, stream=False):
    """Whether a socket is bound to that port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as probe:
        if stream:
            # Recently closed connections are not listeners.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def family(root):
    """The IDs of a process and all its descendants."""
    found = [root]
    for pid in found:
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def has_forked(pid, port, stream=False):
    """Kamailio binds before it forks. It is ready once its number of processes no longer changes."""
    if not is_bound(port, stream):
        return False
    before = len(family(pid))
    time.sleep(0.5)
    return 1 < before == len(family(pid))


def tandem_says(health):
    """Whether the admin interface reports this state of health."""
    try:
        with urllib.request.urlopen(f"http://{ADMIN}/health/{health}", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


def tandem_says_ready(_):
    return tandem_says("ready")


def metric_if_any(name):
    """The sum of a metric of the running Tandem. None if this Tandem does not have the metric."""
    values = metric_values(name)
    return sum(values) if values else None


def metric(name):
    """The sum of a metric of the running Tandem."""
    return sum(metric_values(name))


def metric_values(name):
    return [value for found, value in metrics() if re.match(rf"{name}(\{{|$)", found)]


def metrics():
    """The names, with their labels, and values of all metrics of the running Tandem."""
    with urllib.request.urlopen(f"http://{ADMIN}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(None, 1) for line in lines if not line.startswith("#")]
    return [(name, float(value)) for name, value in pairs]


def subscribers(folder, domains, each, binary="", users=USERS):
    """A database with subscribers user0, user1, … of each domain, created once per run and program: an earlier build may not know the tables of this
    one. `binary` is another program than the one that was built, `users` the pattern of their names."""
    names = "" if users == USERS else "-numbers"
    database = folder / f"{domains[0]}-{len(domains)}-{each}{names}{'-before' if binary else ''}.db"
    if not database.exists():
        lines, config = folder / "subscribers.csv", folder / "import.toml"
        lines.write_text("".join(f"{users.format(user)},{domain},password{user}\n" for domain in domains for user in range(each)))
        config.write_text(f'domains = {json.dumps(domains)}\n[database]\nurl = "sqlite:{database}"\n')
        command = [binary or program("tandem"), "user", "import", "--config", str(config), str(lines)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            database.unlink(missing_ok=True)
            raise BenchError(f"importing the subscribers failed: {done.stdout.strip().splitlines()[-1:]}")
    return database


def tandem_config(settings, database, domains, transport, key, challenge, pins, segmentation, event_loop, more):
    certificate = ""
    if transport == "tls":
        certificate = f'[[certificate]]\nchain = "{settings.folder}/{key}.pem"\nkey = "{settings.folder}/{key}.key"\n'
    pins = pins or [settings.server_core]
    return f"""domains = {json.dumps(domains)}
[[listen]]
transport = "{transport}"
address = "127.0.0.1:{TANDEM}"
{certificate}[workers]
count = {len(pins)}
pin = {pins}
event_loop = "{event_loop}"
[udp]
segmentation = {json.dumps(segmentation)}
{more}{LIMITS}[database]
url = "sqlite:{database}"
[auth]
challenge = {json.dumps(list(challenge))}
algorithms = ["MD5"]
[admin]
listen = "{ADMIN}"
"""


def tandem(settings, transport="udp", key="p256", challenge=("REGISTER",), pins=None, segmentation=True, event_loop="epoll",
           domains=(DOMAIN,), each=SUBSCRIBERS, more="", records=False, binary="", users=USERS):
    """Tandem with subscribers and without registrations. `pins` are the processors of its workers. Default: one worker on the server's processor.
    With `records`, it writes a record for each call. `binary` is another program than the one that was built,
    `users` the pattern of the names of its subscribers."""
    domains = list(domains)
    database = settings.folder / "tandem.db"
    for old in [*settings.folder.glob("tandem.db*"), *settings.folder.glob(RECORDS)]:
        old.unlink()
    if records:
        more += f'[records]\nfile = "{settings.folder / RECORDS}"\n'
    shutil.copy(subscribers(settings.folder, domains, each, binary, users), database)
    if transport == "tls":
        make_certificate(settings.folder, key)
    config = settings.folder / "tandem.toml"
    config.write_text(tandem_config(settings, database, domains, transport, key, challenge, pins, segmentation, event_loop, more))
    command = [binary or program("tandem"), "serve", "--config", str(config)]
    if not pins:
        command = on_core(settings.server_core, command)
    return Server("tandem", command, settings.folder, TANDEM, tandem_says_ready, stream=transport != "udp")


def edge(settings, nodes, segmentation=True, event_loop="epoll", binary=""):
    """An edge over UDP, with one worker. `nodes` are its nodes in the format of its configuration. They need not answer before it counts as started."""
    config = settings.folder / "edge.toml"
    config.write_text(f"""[[listen]]
transport = "udp"
address = "127.0.0.1:{TANDEM}"
[workers]
count = 1
pin = [{settings.server_core}]
event_loop = "{event_loop}"
[udp]
segmentation = {json.dumps(segmentation)}
[admin]
listen = "{ADMIN}"
{nodes}""")
    command = on_core(settings.server_core, [binary or program("tandem"), "balance", "--config", str(config)])
    return Server("tandem", command, settings.folder, TANDEM, lambda _: tandem_says("live"))


def records(settings, server):
    """The number of call records that a server has written. It must have ended."""
    if server.name == "tandem":
        return (settings.folder / RECORDS).read_bytes().count(b"\n")
    return server.log.read_bytes().count(b"log_write_cdr")


def kamailio_command(settings, defines=(), allocator="fm", children=1, config="kamailio.cfg", places=()):
    """The command that starts Kamailio. If `allocator` is None, Kamailio uses its default allocator. `places` are names in the configuration, and the
    paths that replace them."""
    folder = settings.folder
    text = (ROOT / "bench" / "kamailio" / config).read_text()
    for name, path in places:
        text = text.replace(name, str(path))
    path = folder / "kamailio.cfg"
    path.write_text(text)
    chosen = ["-x", allocator] if allocator else []
    named = [argument for define in defines for argument in ("-A", define)]
    return ["kamailio", "-DD", "-E", "-f", str(path), "-m", "2048", "-M", "64", "-n", str(children), "-Y", str(folder),
            "-P", str(folder / "kamailio.pid"), *chosen, *named]


def kamailio(settings, defines=(), allocator="fm", children=1):
    """Kamailio over UDP."""
    return over_udp(settings, kamailio_command(settings, defines, allocator, children))


def kamailio_between_gateways(settings, defines=(), allocator="fm", children=1, prefixes=routed.PREFIXES):
    """Kamailio over UDP, with gateways and prefixes."""
    tables = routed.write_for_kamailio(settings.folder, prefixes)
    places = (("DISPATCHER_LIST", settings.folder / "dispatcher.list"), ("PREFIX_TABLES", tables))
    return over_udp(settings, kamailio_command(settings, defines, allocator, children, "routed.cfg", places))


def over_udp(settings, command):
    return Server("kamailio", on_core(settings.server_core, command), settings.folder, KAMAILIO, lambda pid: has_forked(pid, KAMAILIO))


def kamailio_connections(settings, transport, key="p256", allocator="fm"):
    """Kamailio over TCP or TLS."""
    defines, port = (), KAMAILIO
    if transport == "tls":
        make_certificate(settings.folder, key)
        (settings.folder / "tls.cfg").write_text(
            "[server:default]\nmethod = TLSv1.2+\nverify_certificate = no\nrequire_certificate = no\n"
            f"private_key = {settings.folder}/{key}.key\ncertificate = {settings.folder}/{key}.pem\n"
        )
        defines, port = ("WITH_TLS",), KAMAILIO + 1
    places = [("TLS_CONFIG", settings.folder / "tls.cfg")]
    command = kamailio_command(settings, defines, allocator, config="connections.cfg", places=places)
    return Server("kamailio", on_core(settings.server_core, command), settings.folder, port, lambda pid: has_forked(pid, port, True), stream=True)


def floor(settings):
    """A server that only echoes datagrams: the kernel's cost to receive one datagram and send one."""
    command = on_core(settings.server_core, [program("tandem"), "bench", "floor", f"127.0.0.1:{FLOOR}"])
    return Server("floor", command, settings.folder, FLOOR, lambda _: is_bound(FLOOR))


def make_certificate(folder, key):
    """Creates a self-signed certificate for this kind of key, once per run."""
    if (folder / f"{key}.pem").exists():
        return
    kind = {"p256": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "rsa2048": ["rsa:2048"]}[key]
    command = ["openssl", "req", "-x509", "-nodes", "-days", "30", "-subj", f"/CN={DOMAIN}", "-addext", f"subjectAltName=DNS:{DOMAIN}",
               "-newkey", *kind, "-keyout", str(folder / f"{key}.key"), "-out", str(folder / f"{key}.pem")]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise BenchError(f"openssl could not create a certificate: {done.stderr.strip()}")
