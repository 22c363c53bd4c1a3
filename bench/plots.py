"""Draws the report's plots as SVG: the cost of each server with the budget, the delays at equal load, and overload."""
import re
import textwrap

import matplotlib

from .rows import PERCENTILES
from .settings import REPORT

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402  (only once the backend is chosen)

# The order in every panel. The colours stay distinct for colour-blind readers.
SERVERS = {"tandem": ("Tandem", "#0072b2"), "plain": ("without segmentation", "#56b4e9"), "kamailio": ("Kamailio tuned", "#d55e00"),
           "stock": ("Kamailio stock", "#e8a87c")}
# File, title and keys of the rows. A workload's key with a dot names its delays.
PLOTS = {
    "cpu": ("CPU-microseconds per unit at full load: medians, ranges, budget", ("w1", "w2", "w2c", "w3", "w3d", "w4", "w4d", "w5", "w6")),
    "delays": ("Delay at equal load, microseconds: medians and ranges", ("w1", "w2", "w2c", "w3", "w4")),
    "memory": ("Bytes per item: medians, ranges, budget", ("contact", "call", "dialog", "idle-tcp", "idle-tls")),
    "connections": ("CPU-microseconds per connection: medians, ranges, budget",
                    ("tcp", "tls-p256", "tls-p256-resumed", "tls-rsa2048", "tls-rsa2048-resumed")),
}


def draw(all_rows, parts):
    """Draws each plot that has figures. Returns the Markdown that shows each plot, by name."""
    by_key = {row.key: row for row in all_rows}
    # Keep text as text, and make the output deterministic.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tandem", "font.size": 9})
    matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9})
    shown = {}
    for name, (title, keys) in PLOTS.items():
        panels = [key for key in keys if by_key[f"{key}.p50" if name == "delays" else key].servers]
        shown[name] = ""
        if panels:
            draw_panels(name, title, panels, by_key)
            shown[name] = f"![{title}]({name}.svg)"
    shown["overload"] = draw_overload(parts)
    return shown


def draw_overload(parts):
    """Goodput and delay by offered rate, as shares of the best rate, and the recovery after the rate drops."""
    runs = [run for part in parts if part["part"] == "overload" for run in part["runs"]]
    if not runs:
        return ""
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    goodput, delay, recovery = axes
    for run in runs:
        label, colour = SERVERS[run["server"]]
        if run["row"] == "recovery":
            course = run["figures"]["course"]
            recovery.plot([at for at, _, _ in course], [100 * well / due if due else float("nan") for _, due, well in course], color=colour, linewidth=1)
            continue
        points = [(point["factor"], 100 * point["goodput"] / run["figures"]["best"], point["delay"]["p99"] / 1000) for point in run["figures"]["points"]]
        factors, shares, p99 = zip(*points)
        goodput.plot(factors, shares, color=colour, marker="o", markersize=4, label=label)
        delay.plot(factors, p99, color=colour, marker="o", markersize=4)
    goodput.axhline(90, color="black", linestyle="--", linewidth=1)
    goodput.set(title="Goodput", xlabel="offered rate / best rate", ylabel="% of the best rate", ylim=(0, None))
    delay.set(title="p99 of accepted calls", xlabel="offered rate / best rate", ylabel="ms", yscale="log")
    recovery.axvline(0, color="#888888", linewidth=1)
    recovery.set(title="From 3 times the best rate to half of it", xlabel="seconds since the drop", ylabel="% of due calls that succeed", ylim=(0, 105))
    lines, labels = goodput.get_legend_handles_labels()
    by_label = dict(zip(labels, lines))
    figure.legend(list(by_label.values()), list(by_label), loc="upper center", bbox_to_anchor=(0.5, 0), ncol=len(by_label), frameon=False)
    figure.savefig(REPORT / "overload.svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    return "![Goodput, delay and recovery under overload](overload.svg)"


def draw_panels(name, title, keys, by_key):
    figure, axes = pyplot.subplots(1, len(keys), figsize=(2.3 * len(keys) + 1, 3.2), squeeze=False, layout="constrained")
    figure.suptitle(title, fontsize=10)
    handles = {}
    for axis, key in zip(axes[0], keys):
        if name == "delays":
            lines(axis, [by_key[f"{key}.{percentile}"] for percentile in PERCENTILES], handles)
        else:
            bars(axis, by_key[key], handles)
        axis.set_title(textwrap.fill(re.split("[:(]", by_key[key].title)[0], 24))
    figure.legend(list(handles.values()), list(handles), loc="upper center", bbox_to_anchor=(0.5, 0), ncol=len(handles), frameon=False)
    figure.savefig(REPORT / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)


def bars(axis, row, handles):
    """A bar with its range for each server, and the budget as a line."""
    present = [server for server in SERVERS if server in row.servers]
    for place, server in enumerate(present):
        label, colour = SERVERS[server]
        figures = row.servers[server]
        median = figures["median"]
        handles[label] = axis.bar(place, median, color=colour, width=0.75,
                                  yerr=[[median - figures["low"]], [figures["high"] - median]], capsize=3, ecolor="#444444")
        axis.annotate(f"{median:,.0f}" if median >= 100 else f"{median:.1f}", (place, figures["high"]), ha="center", va="bottom", fontsize=8,
                      xytext=(0, 2), textcoords="offset points")
    if row.budget is not None:
        handles["budget"] = axis.axhline(row.budget, color="black", linestyle="--", linewidth=1)
    axis.set_xticks([])
    axis.margins(y=0.12)
    axis.set_ylim(bottom=0)


def lines(axis, percentiles, handles):
    """A line through the percentiles of each server, with its range as a band."""
    present = [row for row in percentiles if row.servers]
    for server in (server for server in SERVERS if any(server in row.servers for row in present)):
        label, colour = SERVERS[server]
        chosen = [(place, row.servers[server]) for place, row in enumerate(present) if server in row.servers]
        places = [place for place, _ in chosen]
        handles[label] = axis.plot(places, [figures["median"] for _, figures in chosen], color=colour, marker="o", markersize=4)[0]
        axis.fill_between(places, [figures["low"] for _, figures in chosen], [figures["high"] for _, figures in chosen], color=colour, alpha=0.2)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.yaxis.set_minor_locator(ticker.NullLocator())
    axis.set_xticks(range(len(present)), [row.reason.replace("999", "99.9") for row in present])
    axis.grid(axis="y", alpha=0.3)
