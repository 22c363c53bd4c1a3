"""Reads the rows of the report (`rows.toml`) and their figures from the runs."""
import statistics
import tomllib
from dataclasses import dataclass, field

from .settings import ROOT

FOLDER = ROOT / "bench"
PERCENTILES = ("p50", "p90", "p99", "p999")
# The goal for Tandem's CPU time at equal load, as a ratio to Kamailio's.
EQUAL_GOAL = 0.6


@dataclass
class Row:
    """One figure of the report, with its budget. `source` is the key of its runs. `figure` names one of their figures; if it is empty, the row
    shows their value. `reason` is a second key into `explanations.toml`, besides the row's own key. `ours` is the server that is compared with
    Kamailio."""

    key: str
    group: str
    title: str
    unit: str
    source: str
    reason: str = ""
    figure: str = ""
    ours: str = "tandem"
    budget: float | None = None
    better: str = "lower"
    goal: float | None = None
    awaits: str = ""
    note: str = ""
    elsewhere: str = ""
    servers: dict = field(default_factory=dict)

    def read(self, runs):
        """Computes medians and ranges by server."""
        for run in runs:
            if run["row"] == self.source:
                value = run["figures"].get(self.figure) if self.figure else run["value"]
                if value is not None:
                    self.servers.setdefault(run["server"], []).append((value, bool(run["remarks"])))
        self.servers = {name: summary(values) for name, values in self.servers.items()}
        return self

    def median(self, server):
        return self.servers[server]["median"] if server in self.servers else None

    @property
    def own(self):
        return self.median(self.ours)

    @property
    def ratio(self):
        peer = self.median("kamailio")
        return self.own / peer if self.own is not None and peer else None

    def is_better(self, one, other):
        return one < other if self.better == "lower" else one > other

    @property
    def is_behind(self):
        """Whether Kamailio is equal or better."""
        return self.ratio is not None and not self.is_better(self.own, self.median("kamailio"))

    @property
    def misses_budget(self):
        return self.own is not None and self.budget is not None and self.own != self.budget and not self.is_better(self.own, self.budget)

    @property
    def misses_goal(self):
        """Whether the ratio to Kamailio is above the goal."""
        return self.ratio is not None and self.goal is not None and self.ratio > self.goal

    @property
    def verdict(self):
        if self.awaits:
            return f"not implemented: {self.awaits}"
        if self.own is None:
            return "not measured"
        said = []
        if self.ratio is not None:
            said.append("behind Kamailio" if self.is_behind else "ahead")
        if self.misses_goal:
            said.append(f"misses the goal of {self.goal:.2f}")
        if self.misses_budget:
            said.append("over budget" if self.better == "lower" else "below budget")
        elif self.budget is not None and not said:
            said.append("within budget")
        return ", ".join(said) or "measured"


def summary(values):
    figures = [value for value, _ in values]
    return {"median": statistics.median(figures), "low": min(figures), "high": max(figures), "runs": len(figures),
            "unclean": sum(unclean for _, unclean in values)}


def rows_of(entry):
    """The row of one entry. A workload has more rows: all phones at one address, equal load, the cost after the load, delays."""
    entry = dict(entry)
    is_workload, key = entry.pop("workload", False), entry["key"]
    yield Row(source=key, reason=entry["group"], **entry)
    if not is_workload:
        return
    name, budget = entry["title"].partition(":")[0], entry.get("budget")
    shared = "Full load, all phones at one address"
    yield Row(f"{key}.shared", shared, f"{name}, phones at one address", "CPU-us", f"{key}.shared", reason="shared", budget=budget)
    yield Row(f"{key}.plain", shared, f"{name}, phones at one address, without segmentation", "CPU-us", f"{key}.shared", reason="plain", ours="plain")
    yield Row(f"{key}.equal", "Workloads at equal load", f"{name} at equal load", "CPU-us", f"{key}.equal", reason="equal", goal=EQUAL_GOAL)
    yield Row(f"{key}.after", "After the load", f"{name}: cleanup after a unit", "CPU-us", f"{key}.after", reason="after")
    for percentile in PERCENTILES:
        title = f"{name}, {percentile.replace('999', '99.9')} at equal load"
        goal = 1.0 if percentile in ("p50", "p99") else None
        yield Row(f"{key}.{percentile}", "Delays at equal load", title, "us", f"{key}.equal", percentile, f"delay_{percentile}_us", goal=goal)


def read(parts):
    """Reads all rows, with the figures of these parts."""
    runs = [run for part in parts for run in part["runs"]]
    with open(FOLDER / "rows.toml", "rb") as file:
        entries = tomllib.load(file)["row"]
    return [row.read(runs) for entry in entries for row in rows_of(entry)]


def explanations():
    with open(FOLDER / "explanations.toml", "rb") as file:
        return tomllib.load(file)
