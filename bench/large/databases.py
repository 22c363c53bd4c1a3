"""The databases of large runs. Each knows its URL and counts rows. PostgreSQL is a server of its own, which ends with the run."""
import glob
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from ..settings import BenchError

POSTGRES_USER = "postgres"
START_WITHIN = 60


class Sqlite:
    """A database file."""

    name, pid = "sqlite", None

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "sqlite"
        self.file = self.folder / "tandem.db"
        self.url = f"sqlite:{self.file}"

    def __enter__(self):
        self.folder.mkdir()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def number(self, query):
        """The number that a query returns."""
        connection = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(query).fetchone()[0]
        finally:
            connection.close()


class Postgres:
    """A PostgreSQL server with its own settings, except for port and socket. It refuses to run as root."""

    name = "postgres"

    def __init__(self, _):
        self.folder, self.process, self.port = None, None, None

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f"postgres://{POSTGRES_USER}@127.0.0.1:{self.port}/tandem"

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-capacity-"))
        try:
            if os.geteuid() == 0:
                shutil.chown(self.folder, POSTGRES_USER)
            self.run("initdb", "-D", str(self.folder / "data"), "-U", POSTGRES_USER, "-A", "trust", "-E", "UTF8", "--locale=C")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            self.start()
            self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", POSTGRES_USER, "tandem")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program, *arguments):
        done = subprocess.run([*as_user(), postgres_program(program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise BenchError(f"{program} failed: {done.stderr.strip()}")

    def start(self):
        """Starts the server and waits until it answers."""
        # Also ends if this program is killed.
        command = [*as_user("--pdeathsig", "INT"), postgres_program("postgres"), "-D", str(self.folder / "data"),
                   "-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "unix_socket_directories="]
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_WITHIN
        while self.process.poll() is None and time.monotonic() < deadline:
            if self.ask("template1", "SELECT 1").returncode == 0:
                return
            time.sleep(0.05)
        raise BenchError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-300:]}")

    def stop(self):
        """Ends all connections, and the server. Its data stay."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(START_WITHIN)

    def ask(self, database, query):
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", POSTGRES_USER, "-d", database, "-AtX", "-v", "ON_ERROR_STOP=1", "-c", query]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def execute(self, query):
        done = self.ask("tandem", query)
        if done.returncode:
            raise BenchError(f"psql failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def number(self, query):
        """The number that a query returns."""
        return int(self.execute(query))


DATABASES = {"postgres": Postgres, "sqlite": Sqlite}


def as_user(*options):
    """The words before a command of PostgreSQL."""
    user = ["--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, *options] if user or options else []


def postgres_program(name):
    """Debian keeps the server's programs apart, one folder for each version."""
    found = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
    return max(found, key=lambda path: int(path.split("/")[4].split(".")[0])) if found else name
