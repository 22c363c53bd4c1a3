"""Describes the machine and the measured programs."""
import os
import platform
import re
import resource
import shutil
import subprocess

from .settings import ROOT, program


def said(*command):
    """The first line that a command prints. Empty if the command does not exist."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip().partition("\n")[0]


def commit():
    return said("git", "describe", "--always", "--dirty", "--abbrev=12") or "unknown"


def field(path, pattern):
    with open(path) as file:
        found = re.search(pattern, file.read(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def describe():
    """The report's description of the machine, by name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    megabytes = int(field("/proc/meminfo", r"^MemTotal:\s*(\d+)")) // 1024
    return {
        "processor": field("/proc/cpuinfo", r"^(?:model name|Model)\s*:(.*)"),
        "processors": f"{os.cpu_count()}{', virtual' if ' hypervisor' in field('/proc/cpuinfo', r'^flags(.*)') else ''}",
        "memory": f"{megabytes:,} MB",
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": field("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "descriptors per process": f"{soft:,}, at most {hard:,}",
        "Tandem": said(program("tandem"), "--version"),
        "Tandem's allocator": "jemalloc",
        "rustc": said("rustc", "--version"),
        "Kamailio": said("kamailio", "-v").removeprefix("version: "),
        "Python": platform.python_version(),
    }
