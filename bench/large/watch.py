"""Watches a server during a run: its metrics, CPU time and memory, each second."""
import itertools
import os
import pathlib
import re
import statistics
import threading
import time
from http.client import HTTPException

from .. import servers

# The sums of these metrics, by the name in a sample.
METRICS = {
    "early": r'tandem_dialogs\{state="early"',
    "confirmed": r'tandem_dialogs\{state="confirmed"',
    "created": "tandem_dialogs_created_total",
    "dialogs_unsaved": "tandem_dialogs_unsaved",
    "dialogs_lag": "tandem_dialogs_save_lag_seconds",
    "save_failures": "tandem_dialogs_save_failures_total",
    "locations_unsaved": "tandem_location_unsaved",
    "transactions": "tandem_transactions",
    "contexts": "tandem_response_contexts",
    "records_waiting": "tandem_call_records_waiting",
    "records_lost": "tandem_call_records_lost_total",
    "retransmitted": "tandem_retransmissions_total",
    "kernel_drops": "tandem_kernel_drops_total",
    "gateway_calls": "tandem_gateway_calls",
    "limit_calls": "tandem_limit_calls",
}
PATTERNS = {name: re.compile(rf"{pattern}(\{{|,|\}}|$)") for name, pattern in METRICS.items()}
TICK = os.sysconf("SC_CLK_TCK")


def gauges():
    """The current values of METRICS."""
    found = servers.metrics()
    return {name: sum(value for key, value in found if pattern.match(key)) for name, pattern in PATTERNS.items()}


def resident(pid):
    """Resident memory of a process, in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE).group(1)) * 1024


def cpu_seconds(root):
    """CPU time of a process and its descendants, those that have ended included."""
    ticks = 0
    for pid in servers.family(root):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        # Own user and system time, and that of children that have ended.
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICK


class Watch:
    """Samples each second for the duration of a `with` block. The server may end and start again."""

    def __init__(self, server, database):
        self.server, self.database, self.samples = server, database, []
        self.is_over, self.thread = threading.Event(), threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def watch(self):
        while not self.is_over.wait(1 - time.monotonic() % 1):
            self.look()

    def look(self):
        """Takes a sample, unless the server is away."""
        try:
            sample = {"at": time.monotonic(), "memory": resident(self.server.pid), "cpu": cpu_seconds(self.server.pid), "database_cpu": self.database_cpu()}
            self.samples.append(sample | gauges())
        except (OSError, HTTPException, AttributeError, ValueError):
            return None
        return self.samples[-1]

    def database_cpu(self):
        try:
            return cpu_seconds(self.database.pid) if self.database.pid else 0.0
        except OSError:
            return None

    def between(self, begin, end):
        return [sample for sample in self.samples if begin <= sample["at"] <= end]

    def most(self, name, begin=0.0, end=float("inf")):
        return max((sample[name] for sample in self.between(begin, end)), default=None)

    def busy(self, name, begin, end):
        """Processors busy in this time, by the growth of a CPU time, which starts at zero when the process restarts."""
        samples = [sample for sample in self.between(begin, end) if sample[name] is not None]
        if len(samples) < 2:
            return None
        grown = (max(0.0, later[name] - earlier[name]) for earlier, later in itertools.pairwise(samples))
        return sum(grown) / (samples[-1]["at"] - samples[0]["at"])

    def slope(self, begin, end):
        """Bytes of memory for each dialog that is added in this time. None if there are too few samples."""
        points = [(sample["confirmed"], sample["memory"]) for sample in self.between(begin, end)]
        if len(points) < 5 or len({confirmed for confirmed, _ in points}) < 2:
            return None
        return statistics.linear_regression(*zip(*points)).slope
