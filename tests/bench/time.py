"""Server CPU per NTP response, beside chronyd, and what a second core brings.

A client and the servers, each side in a network namespace, joined by a link. All servers run at the same time, without
touching any clock (`--no-clock`, `-x`), each at a port of its own; the generator loads one of them at a time, in rounds that go
through all of them for each load. What a round gives is the CPU time (user and system, all threads, to the nanosecond)
that the server used, divided by the responses that arrived. Ratios are taken within a round, between neighbours in
time, and their median is printed.

With --rest SECONDS an agent and a chronyd that ask a server every 64 s, and such ones that may be asked besides, are left alone for
that long afterwards: how often a second they wake up, and the memory that they have.

Servers of one core are pinned to one, the generator to another. With two cores there is a generator on each as well, and the
scheduler does as it likes. Absolute times hold for one machine and one run; ratios travel better.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time

from harness import Directory, Wire, parser, write
from session import Session

CLIENT, SERVER = "10.78.1.2", "10.78.1.1"

# load: (title, sockets, requests on the way of each)
LOADS = {
    "busy": ("many at a time", 16, 16),
    "some": ("some at a time", 8, 2),
    "single": ("one at a time", 1, 1),
}
# Seconds after which a client only asks now and then.
SETTLED = 150
# The goal: so many responses per CPU-second for each of chronyd's, on one core.
GOAL = 1.25


class Server(Session):
    """A running server, at its port."""

    def __init__(self, name, wire, command, port, cores, directory):
        super().__init__(name, ["ip", "netns", "exec", wire.server, "taskset", "-c", cores, *command], directory)
        self.port = port


class Bench(Directory):
    def __init__(self, options):
        super().__init__(options)
        self.options = options
        self.wire = Wire([CLIENT], [SERVER])
        self.servers = {}

    def agent(self, name, port, threads, cores, lines="allow\nlocal stratum 8\n"):
        conf = self.path(f"{name}.conf", f"port {port}\n{lines}cmdport 0\nbindcmdaddress /\n")
        toml = self.path(f"{name}.toml", f"""version = "v1"
chrony-conf = "{conf}"
threads = {threads}
correct-clock = false
health.endpoint = "none"
[admin]
listen = "127.0.0.1:{port + 1}"
""")
        command = [self.options.binaries / "timesync-agent", "serve", "--config", toml]
        self.servers[name] = Server(name, self.wire, command, port, cores, self.directory)

    def chronyd(self, name, port, cores, lines="allow\nlocal stratum 8\n"):
        directory = self.directory / name
        directory.mkdir()
        conf = self.path(f"{name}.conf", f"""port {port}
{lines}cmdport 0
bindcmdaddress /
pidfile {directory}/pid
""")
        chronyd = shutil.which("chronyd")
        command = [chronyd, "-x", "-U", "-d", "-u", "root", "-f", conf]
        self.servers[name] = Server(name, self.wire, command, port, cores, self.directory)

    def generate(self, server, load, cores, seconds):
        """Runs a generator on each core; responses and losses of all."""
        _, sockets, window = LOADS[load]
        generators = [
            subprocess.Popen(
                ["ip", "netns", "exec", self.wire.client, "taskset", "-c", str(core),
                 self.options.binaries / "examples" / "ntp_load", f"{SERVER}:{server.port}", str(seconds), str(sockets), str(window)],
                stdout=subprocess.PIPE, text=True,
            )
            for core in cores
        ]
        counts = [json.loads(generator.communicate()[0]) for generator in generators]
        total = {key: sum(count[key] for count in counts) for key in ("answered", "lost", "wrong")}
        total["seconds"] = max(count["seconds"] for count in counts)
        return total

    def wait(self, server):
        """Until it answers."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if server.ended():
                break
            count = self.generate(server, "single", [0], 1)
            if count["answered"] and not count["wrong"]:
                return
        sys.exit(f"{server.name} does not answer:\n{server.text()}")

    def measure(self, name, load, cores):
        server = self.servers[name]
        before = server.cpu()
        count = self.generate(server, load, cores, self.options.seconds)
        used = server.cpu() - before
        if count["wrong"]:
            sys.exit(f"{name} gave {count['wrong']} wrong answers")
        answered = max(count["answered"], 1)
        return {
            "cost": used / answered / 1000,
            "rate": count["answered"] / count["seconds"],
            "lost": count["lost"] / (answered + count["lost"]),
        }

    def rounds(self, names, loads, cores):
        """Each load, round and server: what it cost."""
        results = {}
        for number in range(self.options.rounds):
            for load in loads:
                order = names[number % len(names):] + names[: number % len(names)]
                for name in order:
                    results.setdefault((load, name), []).append(self.measure(name, load, cores))
        return results

    def rest(self, seconds):
        """Wake-ups a second and octets of memory of programs that have next to nothing to do."""
        source = f"server {SERVER} port {self.servers['chronyd'].port} iburst minpoll 6 maxpoll 6\n"
        names = []
        for number, (name, lines) in enumerate({"client": "", "server": "allow\n"}.items()):
            port = 20123 + 100 * number
            self.agent(f"timesync-agent, {name}", port, 1, "0,1", source + lines)
            self.chronyd(f"chronyd, {name}", port + 50, "0,1", source + lines)
            names += [f"timesync-agent, {name}", f"chronyd, {name}"]
        # Until the first burst and the polls that learn the frequency are over.
        time.sleep(SETTLED)
        before = {name: self.servers[name].waits() for name in names}
        time.sleep(seconds)
        return {
            name: ((self.servers[name].waits() - before[name]) / seconds, self.servers[name].resident())
            for name in names
        }

    def close(self):
        for server in self.servers.values():
            server.stop()
        self.wire.close()
        self.remove()


def median(results, key):
    return statistics.median(result[key] for result in results)


def ratio(ours, theirs):
    """Responses per CPU-second, ours by theirs: median and quartiles of the rounds."""
    ratios = sorted(theirs["cost"] / ours["cost"] for ours, theirs in zip(ours, theirs))
    quarter = len(ratios) // 4
    return statistics.median(ratios), ratios[quarter], ratios[-1 - quarter]


def show(title, results, names, loads, ours, theirs):
    print(f"\n{title}")
    for load in loads:
        for name in names:
            rounds = results[load, name]
            print(f"  {LOADS[load][0]:15} {name:16} {median(rounds, 'cost'):6.2f} µs/response"
                  f" {1e6 / median(rounds, 'cost'):9,.0f} per CPU-second {median(rounds, 'rate'):9,.0f}/s"
                  f"  lost {median(rounds, 'lost'):.2%}")
        middle, low, high = ratio(results[load, ours], results[load, theirs])
        print(f"  {LOADS[load][0]:15} {ours} ÷ {theirs}: {middle:.2f} ({low:.2f}-{high:.2f})")


def main():
    accepted = parser(__doc__)
    accepted.add_argument("--seconds", type=int, default=2)
    accepted.add_argument("--loads", default="busy,some,single")
    accepted.add_argument("--rest", type=int, default=0, metavar="SECONDS")
    options = accepted.parse_args()
    loads = options.loads.split(",")
    for load in loads:
        if load not in LOADS:
            accepted.error(f"loads are {', '.join(LOADS)}")
    bench = Bench(options)
    try:
        bench.agent("timesync-agent", 10123, 1, "1")
        bench.chronyd("chronyd", 12123, "1")
        both = "0,1"
        bench.agent("two-threads", 14123, 2, both)
        bench.agent("one-thread", 16123, 1, both)
        bench.chronyd("chronyd-both", 18123, both)
        for server in bench.servers.values():
            bench.wait(server)
        one = ["timesync-agent", "chronyd"]
        results = bench.rounds(one, loads, [0])
        show("One core", results, one, loads, *one)
        two = ["two-threads", "one-thread", "chronyd-both"]
        more = bench.rounds(two, ["busy"], [0, 1])
        show("Two cores, shared with two generators", more, two, ["busy"], "two-threads", "one-thread")
        middle, low, high = ratio(more["busy", "two-threads"], more["busy", "chronyd-both"])
        print(f"  {LOADS['busy'][0]:15} two-threads ÷ chronyd-both: {middle:.2f} ({low:.2f}-{high:.2f})")
        middle, _, _ = ratio(results[loads[0], one[0]], results[loads[0], one[1]])
        print(f"\nGoal: {GOAL} × chronyd's responses per CPU-second on one core; {loads[0]}: {middle:.2f}"
              f" {'kept' if middle >= GOAL else 'MISSED'}")
        if options.rest:
            print("\nAt rest")
            for name, (wakes, memory) in bench.rest(options.rest).items():
                print(f"  {name:24} {wakes:7.3f} wake-ups a second {memory / 1e6:6.1f} MB")
        write({f"{load} {name}": rounds for (load, name), rounds in {**results, **more}.items()}, options)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
