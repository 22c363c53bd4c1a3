"""The settings of a run, and the paths of programs and reports."""
import os
import pathlib
import subprocess
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "bench" / "report"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The program of the packages.
BINARIES = pathlib.Path(os.environ.get("BENCH_BINARIES", TARGET / "pgo")).resolve()
# The servers of all parts. The workloads have more servers.
PEERS = ("tandem", "kamailio")
BUILD_MINUTES = 15
BUILDS = not {"BENCH_NO_BUILD", "BENCH_BINARIES"} & os.environ.keys()


class BenchError(Exception):
    """The reason why a figure cannot be measured, and how to fix it, on one line."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run. Servers run on the first processor, clients on the second."""

    rounds: int
    quick: bool
    loads: tuple[str, ...]
    servers: tuple[str, ...]
    folder: pathlib.Path
    server_core: int
    client_core: int
    # An earlier build of Tandem to compare with, or nothing.
    before: str = ""

    def count(self, whole):
        """The number, or a tenth of it in a quick run."""
        return whole // 10 if self.quick else whole

    def time(self, seconds):
        """A time for the command line, or a tenth of it in a quick run."""
        return f"{seconds * 1000 // (10 if self.quick else 1)}ms"

    def wants(self, server):
        """Whether this server takes part. The io_uring variants of Tandem take part only if `--servers` names them, an earlier Tandem if
        `--before` does."""
        if server == "before":
            return bool(self.before)
        return server in self.servers if self.servers else server not in ("ring", "plain-ring")


def build():
    """Builds the measured programs, unless BENCH_NO_BUILD or BENCH_BINARIES is set."""
    if BUILDS:
        print(f"building, up to {BUILD_MINUTES} minutes", flush=True)
    if BUILDS and subprocess.run(["scripts/pgo"], cwd=ROOT).returncode:
        raise BenchError("the build failed: see the output of scripts/pgo above")
    if not os.path.exists(program("tandem")):
        raise BenchError(f"{program('tandem')} does not exist: run without BENCH_NO_BUILD and BENCH_BINARIES to build it")


def settings_of(folder, rounds=1, quick=False, loads=(), servers=(), before=""):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("this process may use only one processor: it needs two, one for the server and one for the clients")
    return Settings(1 if quick else rounds, quick, loads, servers, pathlib.Path(folder), cores[0], cores[1], before)


def program(name):
    """The path of a program of this project."""
    return str(BINARIES / name)


def output_of(command, timeout=900):
    """The standard output of a command, and whether it succeeded. Its standard error is shown."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=timeout)
    except FileNotFoundError:
        raise BenchError(f"{command[0]} not found: run scripts/bench, which installs and builds what it needs") from None
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} timed out after {timeout} s") from None
    return done.stdout, done.returncode == 0


def on_core(core, command):
    """The command, pinned to one processor."""
    return ["taskset", "-c", str(core), *command]
