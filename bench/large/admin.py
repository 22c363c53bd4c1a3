"""The admin interface of the running Tandem."""
import itertools
import json
import urllib.error
import urllib.request

from ..servers import ADMIN
from ..settings import BenchError

NUMBERS = itertools.count(1)


def call(method, **params):
    """The result of a method."""
    body = json.dumps({"jsonrpc": "2.0", "id": next(NUMBERS), "method": method, "params": params}).encode()
    request = urllib.request.Request(f"http://{ADMIN}/rpc", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
    except (urllib.error.URLError, OSError) as error:
        raise BenchError(f"{method} failed: {error}") from None
    if "error" in found:
        raise BenchError(f"{method} failed: {found['error']['message']}")
    return found["result"]


def gateways():
    """The gateways, by name."""
    return {gateway["name"]: gateway for gateway in call("gateways.list")["gateways"]}


def limits():
    """The live calls of the limits, by name."""
    return {limit["name"]: limit["live"] for limit in call("limits.list")["limits"]}
