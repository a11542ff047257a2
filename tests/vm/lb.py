"""What lb-proxy's kernel path costs beside plain routing, on a machine whose clock counts instructions.

With `proxies` as its argument: what lb-proxy costs beside the other proxies. With ways: in which functions of the kernel a connection
for one request spends its instructions.

A client, a node and a server in network namespaces, as tests/bench/lb.py makes them. Each figure is the difference of two runs of
different length, so that what it costs to start and to stop is not in it. Rounds are interleaved, each begins with another way, and
ratios are taken within a round.
"""

import collections
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import lb  # noqa: E402

WAYS = ["route", "conntrack", "kernel-rules", "kernel"]
PROXIES = ["lb-proxy", "haproxy", "haproxy-splice", "nginx"]
ROUNDS = 4
PROXY_ROUNDS = 1
KIB = 1024
BULK_KIB = (16 * KIB, 64 * KIB)
SECONDS = (1, 2)
# Each in instructions, a thousand of them: the machine is told that one takes 4 ns.
UNITS = {"bulk": "a MiB", "request": "a request", "connection": "a connection"}
INSTRUCTION = 4
# A sample every 5,000 instructions.
SAMPLES = 50_000
FUNCTIONS = 120


def busy():
    """Nanoseconds in which the only core was not idle."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    idle, waiting = int(fields[4]), int(fields[5])
    return time.monotonic_ns() - (idle + waiting) * 10_000_000


class Bench(lb.Bench):
    """The ways of the kernel alone."""

    def start(self):
        site = self.path("server.conf", lb.SERVER_CONF.format(directory=self.directory, http=lb.HTTP))
        echo = [sys.executable, lb.__file__, "--be-echo", f"0.0.0.0:{lb.ECHO}"]
        for name, command in [
            ("server", ["nginx", "-p", self.directory, "-c", site]),
            ("iperf3", ["iperf3", "-s", "-p", lb.BULK]),
            ("echo", echo),
        ]:
            self.helpers.append(self.process(name, self.wires.server, command))
        self.wait(self.helpers[0], lb.SERVER)

    def cost(self, *command, clock=busy):
        before = clock()
        text = self.as_client(*command).stdout
        return clock() - before, text

    def bulk(self, address):
        small, large = (self.cost("iperf3", "-c", address, "-p", lb.BULK, "-n", f"{size}K")[0] for size in BULK_KIB)
        return (large - small) / (BULK_KIB[1] - BULK_KIB[0]) * KIB

    def requests(self, address, *header, clock=busy):
        used, done = [], []
        for seconds in SECONDS:
            command = ["wrk", "-t1", "-c16", f"-d{seconds}s", *header, f"http://{address}:{lb.HTTP}/"]
            cost, text = self.cost(*command, clock=clock)
            used.append(cost)
            done.append(int(re.search(r"(\d+) requests in", text)[1]))
        return (used[1] - used[0]) / (done[1] - done[0])

    def proxy(self, way):
        """What the threads of a proxy have of a request and of a connection."""
        running, address = self.open(way)
        try:
            # The first second fills what is allocated once.
            self.requests(address, "-H", "Connection: close", clock=running.cpu)
            result = {
                "request": self.requests(address, clock=running.cpu),
                "connection": self.requests(address, "-H", "Connection: close", clock=running.cpu),
            }
            return {key: value / INSTRUCTION / 1000 for key, value in result.items()}
        finally:
            running.stop()

    def profile(self, way):
        """Thousands of instructions a connection takes, by function; what it costs to write samples is among them."""
        running, address = self.open(way)
        record = self.directory / "perf.data"
        close = ["-H", "Connection: close", f"http://{address}:{lb.HTTP}/"]
        try:
            self.as_client("wrk", "-t1", "-c16", "-d1s", *close)
            perf = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", SAMPLES, "-o", record, "--"]
            text = self.as_client(*perf, "wrk", "-t1", "-c16", "-d2s", *close).stdout
        finally:
            running.stop()
        number = int(re.search(r"(\d+) requests in", text)[1])
        report = ["perf", "report", "-q", "-i", str(record), "--stdio", "--sort", "symbol", "-F", "sample,symbol"]
        functions = collections.Counter()
        for line in subprocess.run(report, capture_output=True, text=True).stdout.splitlines():
            found = re.match(r"\s*(\d+)\s+\[.\]\s+(\S+)", line)
            if found and not re.search("idle|halt", found[2]):
                functions[found[2]] += int(found[1])
        one = 1e9 / SAMPLES / INSTRUCTION / 1000 / number
        print(f"{way}: {number} connections, {functions.total() * one:.1f} thousand instructions each")
        for name, samples in functions.most_common(FUNCTIONS):
            print(f"  {way} {samples * one:.2f} {name}")

    def measure(self, way):
        running, address = self.open(way)
        try:
            result = {
                "bulk": self.bulk(address),
                "request": self.requests(address),
                "connection": self.requests(address, "-H", "Connection: close"),
            }
            return {key: value / INSTRUCTION / 1000 for key, value in result.items()}
        finally:
            text = running.text() if isinstance(running, lb.Process) else ""
            running.stop()
            if "flow table" in text:
                print(f"{way}:", text.strip().splitlines()[-1], file=sys.stderr)


def main():
    proxies = sys.argv[1:] == ["proxies"]
    ways, against = (PROXIES, "haproxy") if proxies else (WAYS, "route")
    bench = Bench(SimpleNamespace(
        ways=ways, rounds=PROXY_ROUNDS if proxies else ROUNDS, seconds=60, workers=1, idle=100, patience=60,
        binaries=Path("/bin"), keep=False, what=[],
    ))
    try:
        bench.start()
        if proxies:
            bench.measure = bench.proxy
        elif sys.argv[1:]:
            for way in sys.argv[1:]:
                bench.profile(way)
            return
        results = bench.run()
    finally:
        bench.close()
    for figure, unit in UNITS.items():
        if figure not in results[against][0]:
            continue
        print(f"{figure}, thousand instructions {unit}: median, and divided by {against} (min-max)")
        for way in ways:
            values = [one[figure] for one in results[way]]
            ratio = lb.ratios(results, way, against, figure) or [1.0]
            middle = statistics.median(ratio)
            print(f"  {way}: {statistics.median(values):.0f}, {middle:.3f} ({min(ratio):.3f}-{max(ratio):.3f})")


if __name__ == "__main__":
    main()
