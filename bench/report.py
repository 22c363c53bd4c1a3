"""Writes the report from the stored runs: `bench/report/report.md`, `report.json` and the plots."""
import json
import shutil
import subprocess
import time
from collections import Counter

from . import plots, results, rows
from .settings import REPORT, ROOT, BenchError
from .workloads import tuned

NAMES = {"tandem": "Tandem", "plain": "without segmentation", "kamailio": "Kamailio tuned", "stock": "Kamailio stock", "floor": "kernel",
         "before": "Tandem before", "ring": "Tandem on io_uring", "plain-ring": "io_uring without segmentation"}
MESSAGES = {"w1": (1, 1), "w2": (1, 1), "w2c": (2, 2), "w3": (6, 7), "w3d": (6, 7), "w4": (8, 9), "w4d": (8, 9), "w5": (2, 2), "w5c": (6, 6), "w5r": (2, 2), "w6": (6, 7)}
UNCLEAN = " †"
PUBLISHED = ROOT / "docs" / "report"
# Parts that compare with tuned Kamailio.
COMPARING = (*MESSAGES, "memory", "connections", "capacity", "overload")


def number(value):
    if value is None:
        return "-"
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def cell(row, server):
    """Median and range, marked if a run was not clean."""
    figures = row.servers.get(server)
    if not figures:
        return "-"
    spread = f" ({number(figures['low'])}-{number(figures['high'])})" if figures["runs"] > 1 else ""
    return number(figures["median"]) + spread + (UNCLEAN if figures["unclean"] else "")


def ratio(row):
    return f"{row.ratio:.2f}" if row.ratio is not None else "-"


def table(head, lines):
    """A Markdown table. Empty if there are no lines."""
    lines = list(lines)
    if not lines:
        return ""
    text = [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines]]
    return "\n".join(text) + "\n"


def section(title, *paragraphs):
    said = [paragraph.strip() for paragraph in paragraphs if paragraph.strip()]
    return f"## {title}\n\n" + "\n\n".join(said) + "\n" if said else ""


def overview(all_rows):
    """One line for each row of `rows.toml`, by group."""
    groups = {}
    for row in (row for row in all_rows if "." not in row.key and row.ours != "floor"):
        servers = (cell(row, server) for server in (row.ours, "kamailio", "stock"))
        groups.setdefault(row.group, []).append([row.title, row.unit, *servers, ratio(row), number(row.budget), row.verdict, row.elsewhere or "-"])
    head = ["unit", "Tandem", "Kamailio tuned", "Kamailio stock", "ratio", "budget", "result", "measured elsewhere"]
    notes = "\n".join(f"- {row.note}" for row in all_rows if row.note and row.servers)
    return section("All figures", *(table([group, *head], lines) for group, lines in groups.items()), notes)


def not_ahead(all_rows):
    """Rows that are behind Kamailio, over budget, or miss their goal, grouped by explanation."""
    known, grouped = rows.explanations(), {}
    for row in all_rows:
        if row.is_behind or row.misses_budget or row.misses_goal:
            grouped.setdefault(known.get(row.key) or known.get(row.reason) or "", []).append(row)
    paragraphs = []
    for explanation, behind in grouped.items():
        mark = "" if explanation else " - **unexplained**"
        lines = [f"- **{row.title}**, {row.unit}: {figures(row)} - {row.verdict}{mark}" for row in behind]
        paragraphs.append("\n".join(lines) + f"\n\n{explanation.strip()}")
    if not paragraphs:
        paragraphs = ["All measured rows are ahead, and within their budgets and goals."]
    return section("Where Tandem is behind or misses a budget or goal", slower_machine(all_rows), *paragraphs)


# CPU-us of the kernel to receive one datagram and send one, on the machine on which the budgets were set.
BUDGETS_KERNEL = 3.3


def slower_machine(all_rows):
    """A note on the budgets if this machine is slower than the machine on which they were set."""
    floor = next(row for row in all_rows if row.key == "floor").median("floor")
    if not floor or floor <= BUDGETS_KERNEL:
        return ""
    return (f"On this machine, the kernel takes {number(floor)} CPU-us to receive one datagram and send one. On the machine on which the budgets "
            f"were set, it took 2.8 to {BUDGETS_KERNEL}. This machine is slower by a factor of at least {floor / BUDGETS_KERNEL:.1f}. The budgets "
            "are not adjusted for this.")


def figures(row):
    said = [f"Tandem {cell(row, row.ours)}"]
    if row.ratio is not None:
        said.append(f"Kamailio {cell(row, 'kamailio')}")
    if row.budget is not None:
        said.append(f"budget {number(row.budget)}")
    return ", ".join(said)


def workloads(all_rows, load):
    """The table of the workloads at a load."""
    by_key = {row.key: row for row in all_rows}
    servers = {"full": ("tandem", "kamailio", "stock"), "shared": ("tandem", "plain", "kamailio")}.get(load, ("tandem", "kamailio"))
    lines = []
    for name, (taken, sent) in MESSAGES.items():
        row = by_key.get(name if load == "full" else f"{name}.{load}")
        if not row or not row.servers:
            continue
        line = [f"{name.title()} ({taken}/{sent})", *(cell(row, server) for server in servers), ratio(row)]
        if load == "full":
            line += [number(row.budget), number(kernel_share(all_rows, taken + sent))]
        lines.append(line)
    head = ["in/out", *(NAMES[server] for server in servers), "ratio", *(["budget", "kernel, without batches"] if load == "full" else [])]
    return table(head, lines)


def before(all_rows):
    """Tandem beside an earlier build, if that was measured (`--before`)."""
    lines = []
    for row in (row for row in all_rows if row.key in MESSAGES and {"tandem", "before"} <= row.servers.keys()):
        lines.append([row.key.title(), cell(row, "tandem"), cell(row, "before"), f"{row.own / row.median('before'):.2f}"])
    text = "In W3d and W4d, the earlier build writes no records: its figures are those of W3 and W4." if lines else ""
    return "\n\n".join((text, table(["CPU-us", NAMES["tandem"], NAMES["before"], "ratio"], lines)))


def kernel_share(all_rows, messages):
    """CPU-us of the kernel for this number of messages. Each counts as half of the floor's cost, although sending costs more than receiving."""
    floor = next(row for row in all_rows if row.key == "floor").median("floor")
    return floor * messages / 2 if floor else None


def rates(parts, load):
    """Units per second by server, and the share of time in which the server was busy."""
    lines = []
    for name in MESSAGES:
        runs = [run for part in parts for run in part["runs"] if run["row"] == (name if load == "full" else f"{name}.{load}")]
        said = []
        for server in ("tandem", "plain", "kamailio", "stock"):
            chosen = [run["figures"] for run in runs if run["server"] == server]
            middle = sorted(chosen, key=lambda run: run["units_per_second"])[len(chosen) // 2] if chosen else None
            said.append(f"{middle['units_per_second']:,.0f} ({100 * middle['server_busy']:.0f} %)" if middle else "-")
        if runs:
            lines.append([name.title(), *said])
    return table(["units per second (server busy)", *(NAMES[server] for server in ("tandem", "plain", "kamailio", "stock"))], lines)


def generator(parts):
    """The generator's own CPU time per unit at full load, by server. Includes the floor."""
    lines = []
    for name in ("floor", *MESSAGES):
        runs = [run for part in parts for run in part["runs"] if run["row"] == name and run["server"] in ("floor", "tandem", "kamailio")]
        said = []
        for server in ("floor", "tandem", "kamailio"):
            values = [run["figures"]["generator_cpu_us_per_unit"] for run in runs if run["server"] == server]
            said.append(number(rows.statistics.median(values)) if values else "-")
        if runs:
            lines.append([name.title(), *said])
    return table(["CPU-us of the generator per unit, by server", "floor", "Tandem", "Kamailio tuned"], lines)


def not_written(parts):
    """Refreshes that Tandem answered without writing them, including those of the warm-up."""
    lines = []
    for name in ("w2", "w2c"):
        runs = [run for part in parts for run in part["runs"] if run["row"] == name and run["server"] == "tandem"]
        known = [run["figures"]["refreshes_not_written"] for run in runs if run["figures"].get("refreshes_not_written") is not None]
        if known:
            lines.append(f"- {name.title()}: Tandem answered {number(rows.statistics.median(known))} refreshes per run without writing them to disk, because "
                         "they moved the expiry in the database by less than an eighth of the binding's lifetime. Kamailio writes no bindings to disk here.")
        elif runs:
            lines.append(f"- {name.title()}: this version of Tandem does not count refreshes that it does not write.")
    return "\n".join(lines)


def overload(parts, drawn):
    """The behaviour of servers at and above their best rate."""
    runs = [run for part in parts if part["part"] == "overload" for run in part["runs"] if run["row"] == "overload"]
    lines = []
    for run in runs:
        best = run["figures"]["best"]
        for point in run["figures"]["points"]:
            lines.append([NAMES[run["server"]], f"{point['factor']:g}", number(point["offered"]), number(point["goodput"]),
                          f"{100 * point['goodput'] / best:.0f} %", f"{point['refused']:,}", f"{point['delay']['p50'] / 1000:,.1f}",
                          f"{point['delay']['p99'] / 1000:,.1f}", f"{point['retransmissions']:,}"])
    head = ["server", "x best", "offered, calls/s", "goodput", "% of best rate", "503", "p50 ms", "p99 ms", "retransmissions"]
    text = ("Calls with 407 on 200m of a processor (20 %), open loop with retransmissions. p50 and p99 are delays of accepted calls, measured from the "
            "time at which they were due.")
    page = "[Details](overload.html)." if (REPORT / "overload.html").exists() else ""
    return section("Overload", text if lines else "", table(head, lines), drawn["overload"], remarks_of(parts, ("overload",)), page)


def delays(all_rows):
    lines = []
    for name in MESSAGES:
        chosen = [row for row in all_rows if row.key in [f"{name}.{percentile}" for percentile in rows.PERCENTILES] and row.servers]
        for server in ("tandem", "kamailio", "stock"):
            if any(server in row.servers for row in chosen):
                found = {row.reason: cell(row, server) for row in chosen}
                lines.append([name.title(), NAMES[server], *(found.get(percentile, "-") for percentile in rows.PERCENTILES)])
    return table(["us", "server", "p50", "p90", "p99", "p99.9"], lines)


def event_loops(all_rows):
    lines = [[row.title, *(cell(row, server) for server in ("tandem", "ring", "plain", "plain-ring"))] for row in all_rows
             if {"ring", "plain-ring"} & row.servers.keys() and not row.figure and row.ours == "tandem"]
    return section("Event loops", table(["CPU-us", "epoll", "io_uring", "epoll without segmentation", "io_uring without segmentation"], lines))


def sweep(parts):
    """CPU time of Kamailio by allocator and number of children."""
    costs = {}
    for run in (run for part in parts if part["part"] == "sweep" for run in part["runs"]):
        costs.setdefault(tuple(run["server"].split()), []).append((run["value"], bool(run["remarks"])))
    if not costs:
        return ""
    allocators, children = (list(dict.fromkeys(key[place] for key in costs)) for place in (0, 1))
    cells = {key: number(rows.summary(values)["median"]) + (UNCLEAN if rows.summary(values)["unclean"] else "") for key, values in costs.items()}
    lines = [[f"`-x {allocator}`", *(cells.get((allocator, count), "-") for count in children)] for allocator in allocators]
    head = ["W3, CPU-us per call", *(f"{count} {'child' if count == '1' else 'children'}" for count in children)]
    return section("Kamailio: allocator and number of children", table(head, lines), remarks_of(parts, ("sweep",)),
                   "*Stock* uses the default allocator (`q_malloc`, with checks) and 4 children. Tuned and stock both have enough memory and large enough "
                   "receive buffers; see [docs/performance.md](../../docs/performance.md#how-kamailio-is-configured).")


def remarks_of(parts, names):
    said = dict.fromkeys(f"- {remark}" for part in parts if part["part"] in names for remark in part["remarks"])
    return "\n".join(said)


def capacity(parts):
    """The results of `tandem lab capacity`, with a link to its page."""
    runs = [run for part in parts if part["part"] == "capacity" for run in part["runs"]]
    lines = []
    for run in runs:
        trials = [trial for trial in run["figures"]["trials"] if trial["rate"] == run["value"]]
        middle = sorted(trials, key=lambda trial: trial["delay"]["p99"])[len(trials) // 2]
        delay = [f"{middle['delay'][percentile] / 1000:,.1f}" for percentile in rows.PERCENTILES]
        lines.append([NAMES[run["server"]], number(run["value"]) + (UNCLEAN if run["remarks"] else ""), *delay, str(len(run["figures"]["trials"]))])
    page = "[Response times by rate](capacity.html)." if (REPORT / "capacity.html").exists() else ""
    page = "\n\n".join(said for said in (remarks_of(parts, ("capacity",)), page) if said)
    return section("Capacity on 30m of a processor (3 %)", table(["highest rate that held", "calls/s", "p50 ms", "p90", "p99", "p99.9", "trials"], lines),
                   spread(runs), page)


def spread(runs):
    """The spread of the results of a server's searches."""
    found = {}
    for run in runs:
        found.setdefault(run["server"], []).append(run["value"])
    return "\n".join(f"- {NAMES[server]}: {len(values)} searches; the highest result is {100 * (max(values) / min(values) - 1):.0f} % above the lowest"
                     for server, values in found.items() if len(values) > 1)


def unclean(parts):
    """Every run that was not clean, with the reasons."""
    lines = [f"- {run['row']}, {NAMES.get(run['server'], run['server'])}, {number(run['value'])}: {'; '.join(run['remarks'])}"
             for part in parts for run in part["runs"] if run["remarks"]]
    return section("Runs that were not clean", "\n".join(lines) or "None.")


def missing(parts):
    return section("Missing figures", "\n".join(f"- {part['part']}: {said}" for part in parts for said in part["missing"]))


def rounds_of(part):
    """The number of rounds that were measured. It is below the requested number if the run was stopped."""
    turns = Counter((run["row"], run["server"]) for run in part["runs"])
    return max(turns.values(), default=0)


def measured_on(parts):
    described = table(["machine", ""], parts[-1]["machine"].items())
    differing = sorted({name for part in parts for name, value in part["machine"].items() if parts[-1]["machine"].get(name) != value})
    if differing:
        described += f"\nFor some parts, these properties differed: {', '.join(differing)}. `report.json` has their values.\n"
    lines = []
    for part in parts:
        loads = f"{part['load_at_begin'][0]:.1f}, {part['load_at_end'][0]:.1f}"
        commit = part["commit"] + ("" if part["built"] else " (not built by this run)")
        begun = time.strftime("%Y-%m-%d %H:%M", time.gmtime(part["begun"]))
        lines.append([part["part"], begun, f"{(part['ended'] - part['begun']) / 60:.1f}", str(rounds_of(part)), loads, commit])
    return section("Machine and runs", described, table(["part", "start, UTC", "minutes", "rounds", "load average at start, end", "commit"], lines))


HEAD = """# Tandem and Kamailio

`make bench` wrote this report. [docs/performance.md](../../docs/performance.md) describes the measurements.

- Figures are medians (lowest-highest). *Ratio* is Tandem / Kamailio tuned.
- CPU-us are microseconds of CPU time per unit, of all the server's processes, including kernel time.
- *Kamailio tuned* has the allocator `-x {}` and children={}. *Kamailio stock* has its default allocator and 4 children.
- A figure with † includes runs that were not clean.
- Figures under *measured elsewhere* are from another machine, with the same method. Use them for orientation only.
"""
QUICK = "\n**This is a quick run, with one short round of each part. Do not quote its figures.**\n"


def tuned_otherwise(parts):
    """A warning about parts whose tuned Kamailio is not the best of the stored sweep."""
    others = [part["part"] for part in parts if part["part"] in COMPARING and tuple(part["tuned"]) != tuple(tuned())]
    return f"\n**Measured with a Kamailio that is not the best of the last sweep: {', '.join(others)}.**\n" if others else ""


def write():
    """Writes the report, its JSON and its plots."""
    parts = results.read()
    if not parts:
        raise BenchError("no stored figures: run scripts/bench first")
    all_rows = rows.read(parts)
    drawn = plots.draw(all_rows, parts)
    full = ("256 units in progress at a time, from 100,000 phones with 65,535 addresses. CPU-us per unit. The numbers after a workload's name are the "
            "messages that the server receives and sends per unit.")
    shared = ("Full load again, with all phones at one address, like a trunk or another server. Most messages leave in GSO batches, which favours "
              "Tandem.")
    equal = "The same rate for all servers: 60 % of what the slower of Tandem and Kamailio tuned carries."
    text = [
        HEAD.format(*tuned()) + tuned_otherwise(parts) + (QUICK if any(part["quick"] for part in parts) else ""),
        missing(parts), overview(all_rows), not_ahead(all_rows),
        section("Full load", full, workloads(all_rows, "full"), rates(parts, "full"), generator(parts), not_written(parts), before(all_rows), drawn["cpu"]),
        section("Full load, all phones at one address", shared, workloads(all_rows, "shared")),
        section("Equal load", equal, workloads(all_rows, "equal"), rates(parts, "equal"), remarks_of(parts, MESSAGES),
                delays(all_rows), drawn["delays"]),
        section("After the load", "CPU time for the cleanup of calls, in the half minute after the load.", workloads(all_rows, "after")),
        event_loops(all_rows), sweep(parts), section("Memory", drawn["memory"], remarks_of(parts, ("memory",))),
        section("Connections", drawn["connections"]), capacity(parts), overload(parts, drawn), unclean(parts), measured_on(parts),
    ]
    (REPORT / "report.md").write_text("\n".join(part for part in text if part))
    everything = {"rows": [as_json(row) for row in all_rows], "parts": parts}
    (REPORT / "report.json").write_text(json.dumps(everything, indent=1))
    print(f"wrote {REPORT}/report.md, report.json, {len(plots.PLOTS)} plots")


def publish(names):
    """Copies the report to docs/report unchanged, with report.json, so that readers can check its figures. All named parts must have been
    measured, with programs built from the same source."""
    parts = results.read()
    if not (REPORT / "report.json").exists():
        raise BenchError("no report to publish: run scripts/bench first")
    if any(part["quick"] for part in parts):
        raise BenchError("the figures of a quick run cannot be published: run scripts/bench without --quick")
    lacking = [part["part"] for part in parts if part["missing"]]
    if lacking:
        raise BenchError(f"parts with missing figures: {', '.join(lacking)}; run them again")
    absent = [name for name in names if name not in [part["part"] for part in parts]]
    if absent:
        raise BenchError(f"parts without figures: {', '.join(absent)}; run them first")
    commits = sorted({part["commit"] for part in parts})
    if any(differ(commits[0], commit) for commit in commits[1:]):
        raise BenchError(f"the parts were measured at different commits ({', '.join(commits)}): run scripts/bench without naming parts")
    PUBLISHED.mkdir(exist_ok=True)
    for old in PUBLISHED.iterdir():
        old.unlink()
    kept = [path for pattern in ("report.md", "report.json", "*.svg", "capacity.html", "overload.html") for path in sorted(REPORT.glob(pattern))]
    for path in kept:
        shutil.copy(path, PUBLISHED)
    print(f"copied {len(kept)} files to {PUBLISHED}")


def differ(one, other):
    """Whether the programs of two commits may differ. Changes to bench/ or docs/ do not affect them."""
    sources = ("crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml")
    return subprocess.run(["git", "diff", "--quiet", one, other, "--", *sources], cwd=ROOT, stderr=subprocess.DEVNULL).returncode != 0


def as_json(row):
    return {name: value for name, value in vars(row).items() if value not in ("", None)} | {"ratio": row.ratio, "verdict": row.verdict}
