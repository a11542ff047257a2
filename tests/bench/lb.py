"""What a proxy costs: per byte, per request, per connection, per idle connection; beside the peers.

A client, a proxy and a server, each in a network namespace, joined by two links. A round goes through all ways from the
client to the server - the proxies, the kernel's own forwarding, plain routing - one at a time: the proxy is started,
measured and stopped. What it used is the time on a core of all threads of all of its processes, to the nanosecond.
Ratios are taken within a round, between neighbours in time, and their median is printed.

bulk and download are one stream from the client and to it, keep requests on connections that stay, close a connection
for each request, idle connections that rest. Everything that lb-proxy is measured by, on a machine with nothing else to do:

  tests/bench/lb --rounds 9 --ways lb-proxy,haproxy,haproxy-splice,haproxy-64k,nginx
  for n in 1 64 1000; do tests/bench/lb keep close --connections $n --rounds 9 --ways lb-proxy,haproxy,haproxy-64k,nginx; done

"machine" figures are the CPU of the whole path: client, kernel, proxy and server.

All three share the cores of this machine, so rates say how fast a whole machine is; the machine must have nothing else
to do. Absolute numbers hold for one machine and one run; ratios travel better.
"""

import json
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness import Directory, carry_out, parser, run
from session import Session

CLIENT, LB_CLIENT, LB_SERVER, SERVER = "10.77.1.2", "10.77.1.1", "10.77.2.1", "10.77.2.2"
# Each way has a server's address of its own: for a minute the server remembers who closed connections it had
# (TIME-WAIT), and whose clock does not fit what another way has left there is not heard.
SERVERS = "10.77.2.{}"
BULK, HTTP, ECHO = 5201, 8080, 8007
PORTS = [BULK, HTTP, ECHO]
GIB = 2**30

# What is measured, and the bound that lb-proxy is meant to keep against each peer.
# measure: (title, unit, "less" or "more" is better)
FIGURES = {
    "bulk-cpu": ("bulk, CPU of the proxy", "ms/GiB", "less"),
    "bulk-machine": ("bulk, CPU of the machine", "ms/GiB", "less"),
    "bulk-rate": ("bulk", "Gbit/s", "more"),
    "download-cpu": ("download, CPU of the proxy", "ms/GiB", "less"),
    "download-machine": ("download, CPU of the machine", "ms/GiB", "less"),
    "download-rate": ("download", "Gbit/s", "more"),
    "keep-cpu": ("request, CPU of the proxy", "µs", "less"),
    "keep-machine": ("request, CPU of the machine", "µs", "less"),
    "keep-rate": ("requests", "/s", "more"),
    "keep-p50": ("request, p50", "ms", "less"),
    "keep-p99": ("request, p99", "ms", "less"),
    "keep-p99.9": ("request, p99.9", "ms", "less"),
    "close-cpu": ("connection, CPU of the proxy", "µs", "less"),
    "close-machine": ("connection, CPU of the machine", "µs", "less"),
    "close-rate": ("connections", "/s", "more"),
    "close-p50": ("connection, p50", "ms", "less"),
    "close-p99": ("connection, p99", "ms", "less"),
    "close-p99.9": ("connection, p99.9", "ms", "less"),
    "idle": ("idle connection", "B", "less"),
}
GOALS = {
    ("lb-proxy", "haproxy"): {
        "bulk-cpu": 0.30, "bulk-rate": 1.5, "download-cpu": 0.30, "download-rate": 1.5, "keep-cpu": 0.85, "close-cpu": 0.85,
        "keep-p99": 1.0, "close-p99": 1.0, "idle": 0.12,
    },
    ("lb-proxy", "haproxy-splice"): {"bulk-cpu": 0.30, "bulk-rate": 1.5, "download-cpu": 0.30, "download-rate": 1.5},
    ("lb-proxy", "haproxy-64k"): {"bulk-cpu": 0.35, "download-cpu": 0.35},
    ("kernel", "route"): {"bulk-machine": 1.05, "keep-machine": 1.05, "bulk-rate": 0.95, "keep-rate": 0.95},
    # What the rules cost, without what it costs to know connections at all.
    ("kernel", "conntrack"): {"keep-machine": 1.05, "keep-rate": 0.95, "close-machine": 1.1},
}


# --- Namespaces


class Wires:
    """client - lb - server."""

    def __init__(self):
        tag = f"outpost-bench-{os.getpid()}"
        self.client, self.lb, self.server = (f"{tag}-{name}" for name in ("client", "lb", "server"))
        self.made = []
        for name in (self.client, self.lb, self.server):
            run("ip", "netns", "add", name)
            self.made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for name, link, address, peer in [
            (self.client, "up0", CLIENT, LB_CLIENT),
            (self.server, "up1", SERVER, LB_SERVER),
        ]:
            far = {"up0": "in", "up1": "out"}[link]
            run("ip", "-n", name, "link", "add", link, "type", "veth", "peer", "name", far, "netns", self.lb)
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            run("ip", "-n", self.lb, "addr", "add", f"{peer}/24", "dev", far)
            run("ip", "-n", name, "link", "set", link, "up")
            run("ip", "-n", self.lb, "link", "set", far, "up")
            run("ip", "-n", name, "route", "add", "default", "via", peer)
        for number in range(len(EVERY_WAY)):
            run("ip", "-n", self.server, "addr", "add", f"{SERVERS.format(10 + number)}/24", "dev", "up1")
        # Without these every relay stands still when its 28,000 ports wait out their minute.
        for name in self.made:
            self.sysctl(name, "net/ipv4/tcp_tw_reuse", 1)
            self.sysctl(name, "net/ipv4/ip_local_port_range", "9000 65000")
            self.sysctl(name, "net/core/somaxconn", 65535)
            self.sysctl(name, "net/ipv4/tcp_max_syn_backlog", 65535)
        self.sysctl(self.lb, "net/ipv4/ip_forward", 1)
        self.sysctl(self.lb, "net/netfilter/nf_conntrack_tcp_timeout_time_wait", 1, must=False)

    def sysctl(self, name, key, value, must=True):
        done = subprocess.run(["ip", "netns", "exec", name, "sh", "-c", f'echo "{value}" >/proc/sys/{key}'],
                              capture_output=True, text=True)
        if done.returncode != 0 and must:
            sys.exit(f"{key}: {done.stderr}")

    def close(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


# --- Processes


class Process(Session):
    """A program in a namespace."""

    def __init__(self, name, namespace, command, directory):
        super().__init__(name, ["ip", "netns", "exec", namespace, *command], directory)

    def memory(self):
        """Its proportional share of memory, in bytes."""
        total = 0
        for pid in self.members():
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Pss:\s+(\d+) kB", text, re.M)[1]) * 1024
        return total


class Nothing:
    """Plain routing: nobody in between."""

    def cpu(self):
        return 0

    def stop(self):
        pass


class Conntrack(Nothing):
    """Plain routing by a node whose kernel tracks connections, as it does wherever one rule asks for their state."""

    def __init__(self, namespace):
        self.nft = ["ip", "netns", "exec", namespace, "nft"]
        run(*self.nft, "add table inet tracked")
        run(*self.nft, "add chain inet tracked forward { type filter hook forward priority 0; }")
        run(*self.nft, "add rule inet tracked forward ct state established,related accept")

    def stop(self):
        run(*self.nft, "delete table inet tracked")


def machine_cpu():
    """Nanoseconds that all cores were busy."""
    tick = os.sysconf("SC_CLK_TCK")
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) * 1_000_000_000 // tick


# --- Ways from the client to the server


class Bench(Directory):
    """Everything of one run."""

    def __init__(self, options):
        super().__init__(options)
        self.options = options
        self.wires = Wires()
        self.helpers = []

    def process(self, name, namespace, command):
        return Process(name, namespace, command, self.directory)

    def start(self):
        site = self.path("server.conf", SERVER_CONF.format(directory=self.directory, http=HTTP))
        self.helpers.append(self.process("server", self.wires.server, ["nginx", "-p", self.directory, "-c", site]))
        self.helpers.append(self.process("iperf3", self.wires.server, ["iperf3", "-s", "-p", BULK]))
        echo = [sys.executable, __file__, "--be-echo", f"0.0.0.0:{ECHO}"]
        self.helpers.append(self.process("echo", self.wires.server, echo))
        self.wait(self.helpers[0], SERVER)

    def wait(self, process, address):
        """Waits until every port is served."""
        probe = [sys.executable, __file__, "--be-probe", ",".join(f"{address}:{port}" for port in PORTS if port != BULK)]
        deadline = time.monotonic() + self.options.patience
        while time.monotonic() < deadline:
            if isinstance(process, Process) and process.ended():
                break
            if subprocess.run(["ip", "netns", "exec", self.wires.client, *probe], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"{getattr(process, 'name', 'route')} does not serve:\n{getattr(process, 'text', lambda: '')()}")

    def open(self, way):
        """Starts a way: what runs, and the address at which the client finds the server."""
        self.server = SERVERS.format(10 + EVERY_WAY.index(way))
        if way == "route":
            running, address = Nothing(), self.server
        elif way == "conntrack":
            running, address = Conntrack(self.wires.lb), self.server
        else:
            maker = {
                "lb-proxy": self.lb_proxy, "before": self.before, "kernel": self.kernel, "kernel-rules": self.kernel_rules, "haproxy": self.haproxy,
                "haproxy-splice": self.haproxy_splice, "haproxy-64k": self.haproxy_64k, "nginx": self.nginx,
            }[way]
            running, address = self.process(way, self.wires.lb, maker()), LB_CLIENT
        try:
            self.wait(running, address)
        except BaseException:
            running.stop()
            raise
        return running, address

    def before(self):
        return self.lb_proxy(binaries=self.options.before)

    def lb_proxy(self, path="user", flow_table="true", binaries=None):
        text = LB_PROXY_HEAD.format(directory=self.directory, workers=self.options.workers, flow_table=flow_table)
        for port in PORTS:
            text += LB_PROXY_PAIR.format(port=port, listen=LB_CLIENT, server=self.server, path=path)
        config = self.path(f"lb-proxy-{path}.toml", text)
        return [(binaries or self.options.binaries) / "lb-proxy", "serve", "--config", config]

    def kernel(self):
        return self.lb_proxy("kernel")

    def kernel_rules(self):
        return self.lb_proxy("kernel", "false")

    def haproxy(self, tuning="", name="haproxy", defaults=""):
        text = HAPROXY_HEAD.format(workers=self.options.workers, connections=self.options.idle + 1000, tuning=tuning,
                                   defaults=defaults)
        text += "".join(f"listen p{port}\n bind {LB_CLIENT}:{port}\n server one {self.server}:{port}\n" for port in PORTS)
        return ["haproxy", "-db", "-f", self.path(f"{name}.cfg", text)]

    def haproxy_splice(self):
        # A quarter of maxconn, as it would have it, does not fit below the usual hard limit on descriptors.
        return self.haproxy(name="haproxy-splice", tuning=" maxpipes 400\n", defaults=" option splice-auto\n")

    def haproxy_64k(self):
        return self.haproxy(name="haproxy-64k", tuning=" tune.bufsize 65536\n")

    def nginx(self):
        servers = "".join(f"  server {{ listen {LB_CLIENT}:{port}; proxy_pass {self.server}:{port}; }}\n" for port in PORTS)
        text = NGINX.format(workers=self.options.workers, connections=2 * self.options.idle + 2000, servers=servers,
                            directory=self.directory)
        return ["nginx", "-p", self.directory, "-c", self.path("nginx.conf", text)]

    def close(self):
        for process in self.helpers:
            process.stop()
        self.wires.close()
        self.remove()

    # --- Measuring

    def as_client(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.wires.client, *map(str, command)], capture_output=True,
                              text=True, timeout=self.options.seconds + 120)

    def stream(self, running, address, kind):
        command = ["iperf3", "-c", address, "-p", BULK] + (["-R"] if kind == "download" else [])
        # The first second fills buffers and opens the window: it is not counted.
        self.as_client(*command, "-t", 1)
        before, machine = running.cpu(), machine_cpu()
        done = self.as_client(*command, "-t", self.options.seconds, "-J")
        used, machine = running.cpu() - before, machine_cpu() - machine
        try:
            total = json.loads(done.stdout)["end"]["sum_received"]
        except (KeyError, ValueError):
            sys.exit(f"iperf3: {done.stdout}{done.stderr}")
        gib = total["bytes"] / GIB
        return {f"{kind}-cpu": used / gib / 1e6, f"{kind}-machine": machine / gib / 1e6,
                f"{kind}-rate": total["bits_per_second"] / 1e9}

    def requests(self, running, address, kind):
        threads = min(2, self.options.connections)
        script = self.path("tail.lua", TAIL)
        command = ["wrk", f"-t{threads}", f"-c{self.options.connections}", "--latency", "-s", script]
        if kind == "close":
            command += ["-H", "Connection: close"]
        url = f"http://{address}:{HTTP}/"
        self.as_client(*command, "-d1s", url)
        before, machine = running.cpu(), machine_cpu()
        text = self.as_client(*command, f"-d{self.options.seconds}s", url).stdout
        used, machine = running.cpu() - before, machine_cpu() - machine
        found = re.search(r"(\d+) requests in ([\d.]+)(m?s)", text)
        if not found or found[1] == "0":
            sys.exit(f"wrk: {text}")
        number = int(found[1])
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        return {
            f"{kind}-cpu": used / number / 1e3, f"{kind}-machine": machine / number / 1e3,
            f"{kind}-rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            f"{kind}-p50": milliseconds(re.search(r"50%\s+([\d.]+)(us|ms|s)", text)),
            f"{kind}-p99": milliseconds(re.search(r"99%\s+([\d.]+)(us|ms|s)", text)),
            f"{kind}-p99.9": float(re.search(r"p99\.9 (\d+) us", text)[1]) / 1000,
            f"{kind}-errors": (sum(map(int, errors.groups())) if errors else 0) + (int(other[1]) if other else 0),
        }

    def idle(self, running, address):
        """Bytes that one idle connection takes in the proxy, once it has carried a little each way."""
        number = self.options.idle
        # One connection first, so that what is allocated once is not counted.
        holder = [sys.executable, __file__, "--be-holder", f"{address}:{ECHO}:{{}}:{self.options.patience}"]
        self.as_client(*holder[:-1], holder[-1].format(8))
        before = running.memory()
        held = subprocess.Popen(["ip", "netns", "exec", self.wires.client, *holder[:-1], holder[-1].format(number)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            line = held.stdout.readline().strip()
            if line != "held":
                sys.exit(f"holding {number} connections: {line!r}")
            time.sleep(1)
            return {"idle": (running.memory() - before) / number}
        finally:
            held.stdin.close()
            held.wait(60 + 10 * self.options.patience)

    def measure(self, way):
        running, address = self.open(way)
        result = {}
        try:
            for kind in ("bulk", "download"):
                if kind in self.options.what:
                    result |= self.stream(running, address, kind)
            for kind in ("keep", "close"):
                if kind in self.options.what:
                    result |= self.requests(running, address, kind)
            if "idle" in self.options.what and way not in ("route", "conntrack", "kernel", "kernel-rules"):
                result |= self.idle(running, address)
            if isinstance(running, Process) and running.ended():
                sys.exit(f"{way} ended:\n{running.text()}")
        finally:
            running.stop()
        return result

    def run(self):
        """All rounds: results[way] = list of measurements."""
        results = {way: [] for way in self.options.ways}
        for number in range(self.options.rounds):
            # Each round begins with another way, so that none is always the first.
            start = number % len(self.options.ways)
            for way in self.options.ways[start:] + self.options.ways[:start]:
                result = self.measure(way)
                results[way].append(result)
                line = ", ".join(f"{key} {value:.4g}" for key, value in result.items())
                print(f"round {number + 1} {way}: {line}", file=sys.stderr)
        return results


def milliseconds(match):
    return float(match[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[match[2]]


# --- What is printed


def table(results):
    """The results as tables in Markdown."""
    median = statistics.median
    ways = list(results)
    for figure, (title, unit, _) in FIGURES.items():
        have = [way for way in ways if results[way] and figure in results[way][0]]
        if not have:
            continue
        print(f"\n### {title}, {unit}\n\n| way | median (min-max) | lb-proxy ÷ this (min-max) |\n| --- | --- | --- |")
        for way in have:
            values = [one[figure] for one in results[way]]
            line = f"| {way} | {number(median(values))} ({number(min(values))}-{number(max(values))}) |"
            ratio = ratios(results, "lb-proxy", way, figure)
            print(line + (f" **{median(ratio):.2f}** ({min(ratio):.2f}-{max(ratio):.2f}) |" if ratio else " |"))
    print("\n### Goals\n\n| what | of | against | goal | median (min-max) |\n| --- | --- | --- | --- | --- |")
    for (ours, peer), goals in GOALS.items():
        for figure, goal in goals.items():
            ratio = ratios(results, ours, peer, figure)
            if not ratio:
                continue
            title, _, better = FIGURES[figure]
            middle = median(ratio)
            kept = middle <= goal if better == "less" else middle >= goal
            sign = "≤" if better == "less" else "≥"
            verdict = "" if kept else ", **missed**"
            print(f"| {title} | {ours} | {peer} | {sign} {goal:g} | {middle:.2f} ({min(ratio):.2f}-{max(ratio):.2f}){verdict} |")
    errors = {way: sum(value for one in rounds for key, value in one.items() if key.endswith("-errors"))
              for way, rounds in results.items()}
    print("\nErrors that the client saw in all runs: " + ", ".join(f"{way} {count:.0f}" for way, count in errors.items()))


def ratios(results, ours, peer, figure):
    if ours == peer or ours not in results or peer not in results:
        return []
    pairs = zip(results[ours], results[peer])
    return [mine[figure] / other[figure] for mine, other in pairs if figure in mine and other.get(figure)]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# --- Helpers that run inside a namespace


def endpoint(text):
    host, _, port = text.partition(":")
    return host, int(port)


def be_probe(text):
    """Ends with success if every address accepts a connection and has a server behind it."""
    for one in text.split(","):
        host, port = endpoint(one)
        try:
            with socket.create_connection((host, port), 0.5) as connection:
                connection.settimeout(1)
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                if not connection.recv(1):
                    return 1
        except OSError:
            return 1
    return 0


def be_echo(text):
    """Sends back what it is sent, on any number of connections."""
    raise_limit()
    listener = socket.create_server(endpoint(text), backlog=4096)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    continue
                connection.setblocking(False)
                connections[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
                continue
            connection = connections[fd]
            try:
                octets = connection.recv(65536)
                if octets:
                    connection.send(octets)
                    continue
            except OSError:
                pass
            poll.unregister(fd)
            connections.pop(fd).close()


def be_holder(text):
    """Opens connections, exchanges 1 KiB on each, says so, and holds them until its input ends."""
    raise_limit()
    host, port, count, patience = text.split(":")
    held, octets = [], os.urandom(1024)
    for _ in range(int(count)):
        connection = socket.create_connection((host, int(port)), int(patience))
        connection.sendall(octets)
        back = b""
        while len(back) < len(octets):
            more = connection.recv(len(octets))
            if not more:
                print(f"connection {len(held)} ended", flush=True)
                return 1
            back += more
        held.append(connection)
    if int(count) > 100:
        print("held", flush=True)
        sys.stdin.read()
    return 0


def raise_limit(number=100_000):
    """Descriptors for 20,000 connections; what is started inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
            return number
        except (ValueError, OSError):
            number = hard
    if soft == resource.RLIM_INFINITY or soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    return number


# --- Configurations


# wrk prints no percentile beyond 99.
TAIL = """done = function(summary, latency, requests)
  io.write(string.format("p99.9 %d us\\n", latency:percentile(99.9)))
end
"""

SERVER_CONF = """daemon off;
worker_processes 1;
pid {directory}/server.pid;
error_log {directory}/server.error.log crit;
events {{ worker_connections 20000; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  server {{
    listen {http} backlog=4096;
    location / {{ return 200 "hello from the server\\n"; }}
  }}
}}
"""

LB_PROXY_HEAD = """version = "v1"
workers = {workers}

[admin]
listen = "none"

[health]
endpoint = "none"

[swap]
socket = "{directory}/lb-proxy.swap"

[kernel]
flow-table = {flow_table}
"""

LB_PROXY_PAIR = """
[[frontend]]
name = "p{port}"
listen = ["{listen}:{port}"]
backend = "p{port}"
path = "{path}"

[[backend]]
name = "p{port}"
[[backend.server]]
name = "one"
address = "{server}:{port}"
"""

HAPROXY_HEAD = """global
 nbthread {workers}
 maxconn {connections}
{tuning}defaults
 mode tcp
 timeout connect 5s
 timeout client 1h
 timeout server 1h
{defaults}"""

NGINX = """load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log {directory}/nginx.error.log crit;
worker_rlimit_nofile 100000;
events {{ worker_connections {connections}; }}
stream {{
  proxy_timeout 1h;
{servers}}}
"""

MODES = ["bulk", "download", "keep", "close", "idle"]
WAYS = ["lb-proxy", "haproxy", "haproxy-splice", "nginx", "kernel", "conntrack", "route"]
EVERY_WAY = [*WAYS, "haproxy-64k", "kernel-rules", "before"]


def main():
    for name, be in (("--be-probe", be_probe), ("--be-echo", be_echo), ("--be-holder", be_holder)):
        if sys.argv[1:2] == [name]:
            sys.exit(be(sys.argv[2]))
    commas = lambda text: text.split(",")
    accepted = parser(__doc__, before=True)
    accepted.add_argument("what", nargs="*", choices=[*MODES, []], help="default: all")
    accepted.add_argument("--seconds", type=int, default=4, help="of each run")
    accepted.add_argument("--ways", type=commas, default=WAYS, help=f"of {', '.join(EVERY_WAY)}")
    accepted.add_argument("--connections", type=int, default=64, help="of the client that asks")
    accepted.add_argument("--idle", type=int, default=20_000, metavar="N", help="idle connections that are held")
    accepted.add_argument("--workers", type=int, default=os.cpu_count(), help="threads of each proxy")
    accepted.add_argument("--patience", type=int, default=10, help="seconds in which a server has to serve, and to answer")
    options = accepted.parse_args()
    if options.before and "before" not in options.ways:
        options.ways = [*options.ways, "before"]
    options.what = options.what or MODES
    limit = raise_limit()
    options.idle = min(options.idle, (limit - 3000) // 2)

    carry_out(Bench(options), table, options)


if __name__ == "__main__":
    main()
