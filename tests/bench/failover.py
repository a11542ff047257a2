"""From the loss of a server to the last answer and the last connection that lead to it, beside pdns.

Three servers on addresses of this machine; healthd, dns-authd and lb-proxy as they come, and pdns_server with the same zone, as it comes
and with healthd's interval. In each round the port of one server is closed, and all that name it are watched at the same time:
clients that ask the DNS servers 250 times a second, and lb-proxy's own count of connections that failed. The first rounds have no
traffic. In the next ones `--rate` new connections a second go through lb-proxy, so that its first failed connection is evidence. With
`--big NAMES` the last rounds lose a server while dns-authd and pdns load a zone with that many names again.

It measures; the machine must have nothing else to do.
"""

import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import dns
from harness import parser, write

LOST = f"l1.{dns.LUA}"


class Backend:
    """A server that answers each connection with a line, until its port is closed."""

    def __init__(self, address, port):
        self.where, self.listener = (address, port), None
        self.open()

    def open(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(self.where)
        self.listener.listen(4096)
        threading.Thread(target=self.serve, args=[self.listener], daemon=True).start()

    def close(self):
        # An accept under way keeps the port open until it ends.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    @staticmethod
    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(b"here\n")
                except OSError:
                    pass


class Watch(threading.Thread):
    """Asks something again and again: when it last named the lost server."""

    def __init__(self, ask, pause):
        super().__init__(daemon=True)
        self.ask, self.pause, self.last, self.ended = ask, pause, None, False

    def run(self):
        while not self.ended:
            begun = time.monotonic()
            if self.ask():
                self.last = begun
            time.sleep(max(0, self.pause - (time.monotonic() - begun)))


def address_of(port, name):
    """The last address of an answer, which has one."""
    answer = dns.exchange(port, name)
    return socket.inet_ntoa(answer[-4:]) if answer and answer[7] else None


class Bench(dns.Bench):
    def start_all(self):
        self.probe_port = self.port()
        self.masters = [f"127.0.{self.options.port % 250}.{n}" for n in (13, 14, 15)]
        self.backends = [Backend(address, self.probe_port) for address in self.masters]
        head = "$TTL 180\n@ IN SOA ns1 postmaster {serial} 3H 30M 2W 1W\n IN NS ns1\nns1 IN A 192.0.2.1\n"
        members = ", ".join(f"'{address}'" for address in self.masters)
        self.path("zones/lua", head.format(serial=1) + f'l1 IN LUA A "ifportup({self.probe_port}, {{{members}}})"\n')
        zones = {dns.LUA: "lua"}
        if self.options.big:
            self.big = head + "".join(
                f"n{n} IN A 10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(self.options.big)
            )
            self.load_big(1)
            zones[dns.BIG] = "big"
        self.start_authd(zones)
        self.start_pdns("pdns", zones, "yes")
        self.start_pdns("pdns-2s", zones, "yes", {"lua-health-checks-interval": 2})
        self.start_proxy()
        for server in self.servers.values():
            server.wait(LOST, 300)
            if self.options.big:
                server.wait(f"n1.{dns.BIG}", 300)

    def start_proxy(self):
        self.front, self.admin = self.port(), self.port()
        servers = "".join(
            f'[[backend.server]]\nname = "{n}"\naddress = "{address}:{self.probe_port}"\n' for n, address in enumerate(self.masters)
        )
        run = self.path("lb-proxy-run")
        run.mkdir()
        config = self.path(
            "lb-proxy.toml",
            f'version = "v1"\nstate = "{run}"\nadmin.listen = "127.0.0.1:{self.admin}"\nswap.socket = "none"\n'
            f'health.endpoint = "unix:{self.path("authd")}/healthd.sock"\n'
            f'[[frontend]]\nname = "api"\nlisten = ["127.0.0.1:{self.front}"]\nbackend = "api"\n[[backend]]\nname = "api"\n{servers}',
        )
        self.start("lb-proxy", [self.options.binaries / "lb-proxy", "serve", "--config", config, "--admin-socket", run / "admin"], 0, helper=True)

    def load_big(self, serial):
        self.path("zones/big.new", self.big.format(serial=serial)).rename(self.path("zones/big"))

    # --- What leads to the lost server

    def count(self, name, number):
        """One of lb-proxy's counts of a server."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.search(rf'^lb_proxy_server_{name}_total\{{[^}}]*server="{number}"[^}}]*\}} (\S+)', text, re.M)
        return float(found.group(1)) if found else 0.0

    def watches(self, number):
        for name, server in self.servers.items():
            yield name, Watch(lambda port=server.port: address_of(port, LOST) == self.masters[number], 0.004)
        seen = [self.count("connect_errors", number)]

        def is_tried():
            now = self.count("connect_errors", number)
            is_new, seen[0] = now > seen[0], now
            return is_new

        yield "lb-proxy", Watch(is_tried, 0.02)

    def connect(self):
        """One connection through lb-proxy: whether it was answered."""
        try:
            with socket.create_connection(("127.0.0.1", self.front), 10) as connection:
                return connection.recv(16) == b"here\n"
        except OSError:
            return False

    def wait_all_up(self):
        """Until each server names each address."""
        deadline = time.monotonic() + 120
        for server in self.servers.values():
            missing = set(self.masters)
            while missing:
                if time.monotonic() > deadline:
                    sys.exit(f"{server.name} does not name {missing}:\n{server.text()}")
                missing.discard(address_of(server.port, LOST))
                time.sleep(0.005)
        deadline = time.monotonic() + 60
        reached = lambda: [self.count("connects", number) for number in range(3)]
        before = reached()
        while any(now <= old for now, old in zip(reached(), before)):
            if time.monotonic() > deadline:
                sys.exit("lb-proxy does not choose each server")
            self.connect()

    # --- Rounds

    def round(self, kind, number, serial):
        self.wait_all_up()
        # So that no interval of a server begins with the round.
        time.sleep(self.random.uniform(0, 5))
        watches = dict(self.watches(number))
        for watch in watches.values():
            watch.start()
        ended, outcomes = threading.Event(), []

        def load():
            while not ended.is_set():
                outcomes.append(self.connect())
                ended.wait(1 / self.options.rate)

        if kind == "load":
            threading.Thread(target=load, daemon=True).start()
        if kind == "big":
            self.load_big(serial)
            for name in ("pdns", "pdns-2s"):
                subprocess.Popen(
                    ["pdns_control", f"--config-dir={self.path(name)}", "bind-reload-now", dns.BIG],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            time.sleep(0.3)
        time.sleep(0.5)
        lost = time.monotonic()
        self.backends[number].close()
        time.sleep(self.options.window)
        ended.set()
        for watch in watches.values():
            watch.ended = True
            watch.join()
        self.backends[number].open()
        took = {name: max(0.0, watch.last - lost) if watch.last else 0.0 for name, watch in watches.items()}
        print(kind, {name: round(seconds, 3) for name, seconds in took.items()}, f"{outcomes.count(False)} of {len(outcomes)} connections failed",
              file=sys.stderr)
        return {"kind": kind, "seconds": took, "connections": len(outcomes), "failed": outcomes.count(False)}

    def run(self):
        kinds = ["quiet", "load"] + (["big"] if self.options.big else [])
        results, serial = [], 1
        for kind in kinds:
            for number in range(self.options.rounds):
                serial += 1
                results.append(self.round(kind, number % 3, serial))
        return results


def show(results):
    names = list(results[0]["seconds"])
    print(f"\nSeconds from the loss to the last answer or choice: median (greatest)\n\n{'':<8}" + "".join(f"{name:>18}" for name in names))
    for kind in dict.fromkeys(result["kind"] for result in results):
        rounds = [result for result in results if result["kind"] == kind]
        line = f"{kind:<8}"
        for name in names:
            took = [result["seconds"][name] for result in rounds]
            line += f"{statistics.median(took):>10.3f} ({max(took):.3f})"
        print(line)
    print(f"\n{sum(r['failed'] for r in results)} of {sum(r['connections'] for r in results)} connections through lb-proxy failed")


def main():
    accepted = parser(__doc__)
    accepted.add_argument("--rate", type=int, default=100, help="new connections a second in rounds with load")
    accepted.add_argument("--window", type=float, default=8, help="seconds that are watched after a loss")
    accepted.add_argument("--big", type=int, default=0, metavar="NAMES", help="also lose a server while a zone with that many names is loaded")
    accepted.add_argument("--server-core", default="0-1")
    accepted.add_argument("--port", type=int, default=15_500, help="first of some ten ports in use")
    accepted.add_argument("--seed", type=int, default=17)
    options = accepted.parse_args()
    options.before = None
    options.servers = None
    bench = Bench(options)
    bench.random = random.Random(options.seed)
    try:
        bench.start_all()
        results = bench.run()
    finally:
        bench.close()
    show(results)
    write(results, options)


if __name__ == "__main__":
    main()
