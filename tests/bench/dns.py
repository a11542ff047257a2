"""Server CPU per DNS query, beside the peers.

All servers run at the same time, pinned to one core; dnsperf runs on another and loads one of them at a time, in
rounds that go through all servers for each set of queries. What a round gives is the CPU time (user and system, all
threads and children) that the server used, divided by the queries it answered, at a fixed rate and at the client's
maximum. Ratios are taken within a round, between neighbours in time, and their median is printed.

Absolute times hold for one machine and one run; ratios travel better.
"""

import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import time

from harness import Directory, parser, run, write
from session import Session
from updates import ALGORITHM, KEY_NAME, NAMES, SECRET, Stream

SITE = "site.bench"
SIGNED = "signed.bench"
LUA = "lua.bench"
BIG = "big.bench"


# --- Servers


class Server(Session):
    """A running server on a core of its own, and where it answers."""

    def __init__(self, name, command, port, core, directory):
        super().__init__(name, ["taskset", "-c", core, *command], directory)
        self.port = port
        # By the transports that it serves.
        self.ports = {"udp": port, "tcp": port}

    def wait(self, name, limit=60):
        """Waits until the server answers for `name` with data."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.ended():
                break
            if ask(self.port, name) == (0, True):
                return
            time.sleep(0.1)
        sys.exit(f"{self.name} does not answer for {name}:\n{self.text()}")


def ask(port, name, rtype=1):
    """Asks once: response code and whether there is an answer."""
    answer = exchange(port, name, rtype)
    return answer and (answer[3] & 15, struct.unpack(">H", answer[6:8])[0] > 0)


def query(name, rtype=1, number=1):
    """A message that asks for a name."""
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack(">6H", number, 0x100, 1, 0, 0, 0) + question + struct.pack(">2H", rtype, 1)


def exchange(port, name, rtype=1):
    """Asks once: the response, or nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.5)
        s.connect(("127.0.0.1", port))
        try:
            s.send(query(name, rtype))
            return s.recv(4096)
        except OSError:
            return None


class Bench(Directory):
    """Everything of one run: directory, cores, servers."""

    def __init__(self, options):
        super().__init__(options)
        self.options = options
        self.servers = {}
        self.helpers = []
        self.next_port = options.port
        self.certificate = None
        self.random = random.Random(options.seed)

    def port(self):
        self.next_port += 1
        return self.next_port - 1

    def start(self, name, command, port, helper=False, core=None):
        core = self.options.server_core if core is None else core
        server = Server(name, command, port, core, self.directory)
        if helper:
            self.helpers.append(server)
        else:
            self.servers[name] = server
        return server

    def pair(self):
        """A certificate and its key, the same for all."""
        if self.certificate is None:
            certificate, key = self.path("tls.crt"), self.path("tls.key")
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate)
            self.certificate = certificate, key
        return self.certificate

    def builds(self, name):
        """The builds of one of our servers that are measured: what they are called, and their program."""
        yield name, self.options.binaries / name
        if self.options.before:
            yield "before", self.options.before / name

    def wanted(self, name):
        return self.options.servers is None or name in self.options.servers

    def close(self):
        for server in [*self.servers.values(), *self.helpers]:
            server.stop()
        self.remove()

    # --- Authoritative servers

    def start_authorities(self):
        head = (
            "$TTL 180\n@ IN SOA ns1 postmaster 1 3H 30M 2W 1W\n IN NS ns1\n IN NS ns2\n"
            "ns1 IN A 192.0.2.1\nns2 IN A 192.0.2.2\n"
        )
        names = [f"master-{n}" for n in range(3)] + [f"worker-{n}" for n in range(3)] + [f"etcd-{n}" for n in range(3)]
        names += ["helper", "yum", "nexus", "git", "tmp-registry", "api", "api-int", "registry", "quay"]
        self.names = names
        static = "".join(f"{name} IN A 192.168.7.{n + 11}\n" for n, name in enumerate(names))
        self.path("zones/site", head + static + "*.apps IN A 192.168.7.13\n")
        # Three addresses on this machine that accept connections, for the health checks of LUA records.
        masters = [f"127.0.{self.options.port % 250}.{n}" for n in (13, 14, 15)]
        members = ", ".join(f"'{address}'" for address in masters)
        probe_port = self.port()
        for address in masters:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, probe_port))
            # Never accepted: the kernel completes the connections, and drops those above the backlog.
            listener.listen(4096)
            self.helpers_sockets = [*getattr(self, "helpers_sockets", []), listener]
        lua_names = [f"l{n}" for n in range(18)]
        self.lua_names = lua_names
        lua = "".join(f'{name} IN LUA A "ifportup({probe_port}, {{{members}}})"\n' for name in lua_names)
        self.path("zones/lua", head + lua + f'*.w IN LUA A "ifportup({probe_port}, {{{members}}})"\n')
        plain = "".join(f"{name} IN A 192.168.7.13\n" for name in lua_names)
        self.path("zones/lua-static", head + plain + "*.w IN A 192.168.7.13\n")
        zones = {SITE: "site", LUA: "lua"}
        plain_zones = {SITE: "site", LUA: "lua-static"}
        if self.needs_signed():
            self.sign(head + static + "*.apps IN A 192.168.7.13\n")
            zones[SIGNED] = plain_zones[SIGNED] = "signed"
        if self.options.big:
            big = "".join(f"n{n} IN A 10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(self.options.big))
            self.path("zones/big", head + big)
            zones[BIG] = plain_zones[BIG] = "big"
        if self.wanted("dns-authd"):
            self.start_authd(zones)
        if self.wanted("pdns"):
            self.start_pdns("pdns", zones, "yes")
        if self.wanted("pdns-shared"):
            self.start_pdns("pdns-shared", zones, "shared")
        if self.wanted("knot"):
            self.start_knot(plain_zones)
        if self.wanted("nsd"):
            self.start_nsd(plain_zones)
        if self.wanted("floor"):
            self.start_floor()
        for server in self.servers.values():
            if server.name == "floor":
                continue
            server.wait(f"helper.{SITE}", 300)
            server.wait(f"l1.{LUA}")
            if self.options.big:
                server.wait(f"n1.{BIG}", 300)
        time.sleep(2)

    def needs_signed(self):
        return self.options.sets is None or any("signed" in kind for kind in self.options.sets)

    def sign(self, text):
        """A zone with one ECDSA key, NSEC, and signatures that are good for the run."""
        keys = self.path("keys")
        keys.mkdir()
        keygen = ["dnssec-keygen", "-q", "-K", keys, "-a", "ECDSAP256SHA256"]
        names = [run(*keygen, *more, SIGNED).strip() for more in ([], ["-f", "KSK"])]
        published = "".join((keys / f"{name}.key").read_text() for name in names)
        plain = self.path("zones/unsigned", text + published)
        run("dnssec-signzone", "-q", "-K", keys, "-d", keys, "-S", "-o", SIGNED, "-f", self.path("zones/signed"), plain)

    def zone_list(self, name, zones):
        lines = [f'zone "{apex}" {{ type master; file "{self.path(f"zones/{file}")}"; }};\n' for apex, file in zones.items()]
        return self.path(name, "".join(lines))

    def start_authd(self, zones):
        home = self.path("authd")
        home.mkdir()
        health = self.path(
            "healthd.toml",
            f'version = "v1"\nlisten = ["unix:{home}/healthd.sock"]\nstate = "{home}/state"\n[admin]\nlisten = "none"\n',
        )
        healthd = self.start("healthd", [self.options.binaries / "healthd", "serve", "--config", health], 0, helper=True)
        time.sleep(0.5)
        if healthd.ended():
            sys.exit(f"healthd ended:\n{healthd.text()}")
        named = self.zone_list("authd/named.conf", zones)
        for name, program in self.builds("dns-authd"):
            port = self.port()
            certificate, key = self.pair()
            secure = self.port()
            config = self.path(f"{name}.toml", AUTHD.format(
                port=port, named=named, socket=f"{home}/healthd.sock", secure=secure, certificate=certificate, key=key))
            self.start(name, [program, "serve", "--config", config], port).ports["tls"] = secure

    def start_pdns(self, name, zones, lua, more=None):
        port = self.port()
        directory = self.path(name)
        directory.mkdir()
        named = self.zone_list(f"{name}/named.conf", zones)
        settings = {
            "launch": "bind",
            "bind-config": named,
            "local-address": "127.0.0.1",
            "local-port": port,
            "socket-dir": directory,
            "enable-lua-records": lua,
            "receiver-threads": 1,
            "distributor-threads": 1,
            "daemon": "no",
            "guardian": "no",
            "security-poll-suffix": "",
            "version-string": "anonymous",
            **(more or {}),
        }
        self.path(f"{name}/pdns.conf", "".join(f"{key}={value}\n" for key, value in settings.items()))
        self.start(name, ["pdns_server", f"--config-dir={directory}"], port)

    def start_knot(self, zones):
        port = self.port()
        directory = self.path("knot")
        directory.mkdir()
        text = (
            f"server:\n    rundir: {directory}\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    tcp-workers: 1\n"
            f"    background-workers: 1\n    tcp-max-clients: 1000\ndatabase:\n    storage: {directory}/db\n"
            "log:\n  - target: stderr\n    any: warning\n"
            "template:\n  - id: default\n    zonefile-load: whole\n    journal-content: none\n    zonefile-sync: -1\nzone:\n"
        )
        for apex, file in zones.items():
            text += f"  - domain: {apex}\n    file: {self.path(f'zones/{file}')}\n"
        self.start("knot", ["knotd", "--config", self.path("knot/knot.conf", text)], port)

    def start_nsd(self, zones, name="nsd", helper=False, core=None):
        port = self.port()
        directory = self.path(name)
        directory.mkdir()
        certificate, key = self.pair()
        secure = self.port()
        text = (
            f'server:\n  ip-address: 127.0.0.1@{port}\n  ip-address: 127.0.0.1@{secure}\n  tls-port: {secure}\n'
            f'  tls-service-key: "{key}"\n  tls-service-pem: "{certificate}"\n  tcp-count: 200\n'
            f'  server-count: 1\n  username: ""\n  zonesdir: "{self.path("zones")}"\n'
            f'  database: ""\n  pidfile: "{directory}/pid"\n  xfrdfile: "{directory}/xfrd"\n  xfrdir: "{directory}"\n'
            f'  zonelistfile: "{directory}/list"\n  rrl-ratelimit: 0\n  round-robin: no\n'
            "remote-control:\n  control-enable: no\n"
        )
        for apex, file in zones.items():
            text += f'zone:\n  name: "{apex}"\n  zonefile: "{self.path(f"zones/{file}")}"\n'
        config = self.path(f"{name}/nsd.conf", text)
        server = self.start(name, ["nsd", "-d", "-c", config], port, helper=helper, core=core)
        server.ports["tls"] = secure
        return server

    def start_floor(self):
        """No DNS at all: a loop of recvfrom and sendto, which is what the kernel alone takes."""
        port = self.port()
        self.start("floor", [self.options.binaries / "examples/udp_echo", "bare", f"127.0.0.1:{port}"], port)

    # --- Recursors

    def start_recursors(self):
        self.path("zones/hits", "$TTL 86400\n@ IN SOA ns1 postmaster 1 3H 30M 2W 1W\n IN NS ns1\nns1 IN A 192.0.2.1\n"
                  + "".join(f"n{n} IN A 10.0.{n >> 8}.{n & 255}\n" for n in range(1000)) + "*.miss IN A 192.0.2.3\n")
        # The authority shares the client's core: its work is not the recursor's.
        authority = self.start_nsd({SITE: "hits"}, "authority", helper=True, core=self.options.client_core)
        authority.wait(f"n1.{SITE}")
        upstream = authority.port
        if self.wanted("dns-recursor"):
            for name, program in self.builds("dns-recursor"):
                port = self.port()
                certificate, key = self.pair()
                secure = self.port()
                config = self.path(f"{name}.toml", RECURSOR.format(
                    port=port, upstream=upstream, zone=SITE, secure=secure, certificate=certificate, key=key))
                self.start(name, [program, "serve", "--config", config], port).ports["tls"] = secure
        if self.wanted("pdns-recursor"):
            port = self.port()
            directory = self.path("pdns-recursor")
            directory.mkdir()
            settings = {
                "local-address": "127.0.0.1",
                "local-port": port,
                "socket-dir": directory,
                "threads": 1,
                "dnssec": "off",
                "forward-zones": f"{SITE}=127.0.0.1:{upstream}",
                "security-poll-suffix": "",
                "daemon": "no",
                "quiet": "yes",
            }
            self.path("pdns-recursor/recursor.conf", "".join(f"{key}={value}\n" for key, value in settings.items()))
            self.start("pdns-recursor", ["pdns_recursor", f"--config-dir={directory}"], port)
        if self.wanted("unbound"):
            port = self.port()
            certificate, key = self.pair()
            secure = self.port()
            text = (
                f"server:\n  interface: 127.0.0.1@{port}\n  interface: 127.0.0.1@{secure}\n  tls-port: {secure}\n"
                f'  tls-service-key: "{key}"\n  tls-service-pem: "{certificate}"\n  incoming-num-tcp: 200\n'
                f"  num-threads: 1\n  do-not-query-localhost: no\n  use-syslog: no\n"
                f'  module-config: "iterator"\n  chroot: ""\n  username: ""\n  pidfile: "{self.directory}/unbound.pid"\n'
                "  do-daemonize: no\n  msg-cache-size: 64m\n  rrset-cache-size: 128m\n"
                f'remote-control:\n  control-enable: no\nstub-zone:\n  name: "{SITE}"\n  stub-addr: 127.0.0.1@{upstream}\n'
            )
            self.start("unbound", ["unbound", "-d", "-c", self.path("unbound.conf", text)], port).ports["tls"] = secure
        if self.wanted("dnsmasq"):
            port = self.port()
            command = ["dnsmasq", "--no-daemon", f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces",
                       "--no-resolv", "--no-hosts", f"--server=127.0.0.1#{upstream}", "--cache-size=10000",
                       "--dns-forward-max=10000", "--conf-file=/dev/null", f"--pid-file={self.directory}/dnsmasq.pid"]
            self.start("dnsmasq", command, port)
        for server in self.servers.values():
            server.wait(f"n1.{SITE}")
            for n in range(1000):
                if ask(server.port, f"n{n}.{SITE}") != (0, True):
                    sys.exit(f"{server.name} does not resolve n{n}.{SITE}")

    # --- Servers that take updates

    def start_updated(self):
        text = ("$TTL 180\n@ IN SOA ns1 postmaster 1 3H 30M 2W 1W\n IN NS ns1\nns1 IN A 192.0.2.1\n"
                + "".join(f"u{n} IN A 10.0.0.1\n" for n in range(NAMES)))
        if self.wanted("dns-authd"):
            for name, program in self.builds("dns-authd"):
                port, zone = self.port(), self.path(f"{name}/zone", text)
                config = self.path(f"{name}/toml", UPDATED.format(
                    port=port, zone=SITE, file=zone, history=self.path(f"{name}/history"), key=KEY_NAME, secret=SECRET))
                self.start(name, [program, "serve", "--config", config], port)
        if self.wanted("knot"):
            port, zone = self.port(), self.path("knot/zone", f"$ORIGIN {SITE}.\n{text}")
            directory = self.path("knot")
            # Knot makes the directory of its journal, and not the one above.
            (directory / "db").mkdir()
            config = (
                f"server:\n    rundir: {directory}\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    tcp-workers: 1\n"
                f"    background-workers: 1\ndatabase:\n    storage: {directory}/db\nlog:\n  - target: stderr\n    any: warning\n"
                f"key:\n  - id: {KEY_NAME}\n    algorithm: {ALGORITHM}\n    secret: {SECRET}\n"
                f"acl:\n  - id: change\n    key: {KEY_NAME}\n    action: update\n"
                f"zone:\n  - domain: {SITE}\n    file: {zone}\n    acl: change\n    zonefile-sync: -1\n"
            )
            self.start("knot", ["knotd", "--config", self.path("knot/knot.conf", config)], port)
        if self.wanted("bind"):
            port, zone = self.port(), self.path("bind/zone", text)
            directory = self.path("bind")
            config = (
                f'options {{ directory "{directory}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; '
                "pid-file none; session-keyfile none; recursion no; dnssec-validation no; notify no; };\ncontrols {};\n"
                f'key "{KEY_NAME}" {{ algorithm {ALGORITHM}; secret "{SECRET}"; }};\n'
                f'zone "{SITE}" {{ type primary; file "{zone}"; allow-update {{ key "{KEY_NAME}"; }}; }};\n'
            )
            self.start("bind", ["named", "-g", "-n", "1", "-c", self.path("bind/named.conf", config)], port)
        for server in self.servers.values():
            server.wait(f"u1.{SITE}")

    def run_updates(self):
        """All rounds of updates: results["update"][server] = list of measurements."""
        results = {}
        for number in range(self.options.rounds):
            order = list(self.servers.values())
            order = order[number % len(order):] + order[:number % len(order)]
            for server in order:
                stream = Stream(server.port, SITE)
                before = server.cpu()
                count, took = stream.run(self.options.seconds)
                used = server.cpu() - before
                stream.close()
                result = {"us": used / count / 1000, "rate": count / took, "count": count}
                results.setdefault(server.name, []).append(result)
                print(f"round {number + 1} updates {server.name}: {result['us']:.0f} us, {result['rate']:.0f} a second", file=sys.stderr)
        return results

    # --- Queries

    def queries(self, kind):
        """A file of queries for dnsperf."""
        n = 20_000
        pick = self.random.choice
        word = lambda: "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=8))
        makers = {
            "static": lambda: f"{pick(self.names)}.{SITE}",
            "wildcard": lambda: f"{word()}.apps.{SITE}",
            "nxdomain": lambda: f"{word()}.{SITE}",
            "signed": lambda: f"{pick(self.names)}.{SIGNED}",
            "signed-wildcard": lambda: f"{word()}.apps.{SIGNED}",
            "signed-nxdomain": lambda: f"{word()}.{SIGNED}",
            "lua": lambda: f"{pick(self.lua_names)}.{LUA}",
            "lua-wildcard": lambda: f"{word()}.w.{LUA}",
            "big-static": lambda: f"n{self.random.randrange(self.options.big)}.{BIG}",
            "big-nxdomain": lambda: f"{word()}.{BIG}",
            "hit": lambda: f"n{self.random.randrange(1000)}.{SITE}",
            "miss": lambda: f"{word()}.miss.{SITE}",
        }

        def mixed():
            return makers[self.random.choices(["static", "wildcard", "nxdomain"], [60, 35, 5])[0]]()

        make = makers.get(kind, mixed)
        if kind == "miss":
            n = 400_000
        return self.path(f"queries-{kind}", "".join(f"{make()} A\n" for _ in range(n)))

    # --- Measuring

    def measure(self, server, queries, rate):
        """One run of dnsperf against one server."""
        transport = self.options.transport
        command = ["taskset", "-c", str(self.options.client_core), "dnsperf", "-s", "127.0.0.1", "-p", str(server.ports[transport]),
                   "-m", {"tls": "dot"}.get(transport, transport),
                   "-d", str(queries), "-l", str(self.options.seconds), "-c", "16", "-T", "1", "-t", "2"]
        command += ["-D"] if "signed" in queries.name else []
        command += ["-Q", str(rate), "-q", "1000"] if rate else ["-q", "200"]
        before = server.cpu()
        text = subprocess.run(command, capture_output=True, text=True, timeout=self.options.seconds + 30).stdout
        used = server.cpu() - before
        field = lambda name: float(re.search(rf"{name}:\s+([\d.]+)", text)[1])
        completed, lost = field("Queries completed"), field("Queries lost")
        if completed == 0:
            sys.exit(f"{server.name} answered nothing:\n{text}")
        codes = dict(re.findall(r"(NOERROR|NXDOMAIN|SERVFAIL|REFUSED) (\d+)", text))
        return {"us": used / completed / 1000, "qps": field("Queries per second"), "lost": lost, "completed": completed,
                "codes": {code: int(n) for code, n in codes.items()}}

    def run(self, kinds, rates):
        """All rounds: results[kind, rate][server] = list of measurements."""
        results = {}
        skip = lambda kind, name: kind.startswith("lua") and name == "pdns" and not self.options.slow
        for number in range(self.options.rounds):
            for kind in kinds:
                queries = self.queries(kind)
                for rate in rates:
                    order = [server for server in self.servers.values() if self.options.transport in server.ports]
                    # Each round begins with another server, so that none is always the first on a cool core.
                    order = order[number % len(order):] + order[:number % len(order)]
                    for server in order:
                        if skip(kind, server.name):
                            continue
                        if kind == "miss":
                            queries = self.queries(kind)
                        result = self.measure(server, queries, rate)
                        results.setdefault((kind, rate), {}).setdefault(server.name, []).append(result)
                        print(f"round {number + 1} {kind} {rate or 'max'} {server.name}: {result['us']:.2f} us, "
                              f"{result['qps']:.0f} q/s, lost {result['lost']:.0f}, {result['codes']}", file=sys.stderr)
        return results


def table(results, ours):
    """The results as a table in Markdown."""
    median = statistics.median
    for rate in dict.fromkeys(rate for _, rate in results):
        print(f"\n### {'At ' + format(rate, ',') + ' q/s' if rate else 'At the maximum of the client'}\n")
        print("| queries | server | µs CPU a query (min-max) | ours ÷ this (min-max) |" + ("" if rate else " q/s |"))
        print("| --- | --- | --- | --- |" + ("" if rate else " --- |"))
        for (kind, at), servers in results.items():
            if at != rate:
                continue
            for name, rounds in servers.items():
                cost = [one["us"] for one in rounds]
                ratio = "" if name == ours or ours not in servers else None
                if ratio is None:
                    ratios = [mine["us"] / other["us"] for mine, other in zip(servers[ours], rounds)]
                    ratio = f"**{median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
                line = f"| {kind} | {name} | {median(cost):.2f} ({min(cost):.2f}-{max(cost):.2f}) | {ratio} |"
                if not rate:
                    line += f" {median(one['qps'] for one in rounds):,.0f} |"
                print(line)
    lost = sum(one["lost"] for servers in results.values() for rounds in servers.values() for one in rounds)
    print(f"\nLost queries in all runs: {lost:.0f}")


def updates_table(results, ours):
    """The results of updates as a table in Markdown."""
    median = statistics.median
    print("\n| server | µs CPU an update (min-max) | updates a CPU second | updates a second | ours ÷ this (min-max) |")
    print("| --- | --- | --- | --- | --- |")
    for name, rounds in results.items():
        cost = [one["us"] for one in rounds]
        ratio = ""
        if name != ours and ours in results:
            ratios = [mine["us"] / other["us"] for mine, other in zip(results[ours], rounds)]
            ratio = f"**{median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
        print(f"| {name} | {median(cost):.0f} ({min(cost):.0f}-{max(cost):.0f}) | {1e6 / median(cost):,.0f} | "
              f"{median(one['rate'] for one in rounds):,.0f} | {ratio} |")


UPDATED = """version = "v1"
listen = ["127.0.0.1:{port}"]

[admin]
listen = "none"

[health]
endpoint = "none"

[history]
directory = "{history}"

[[key]]
name = "{key}"
secret = "{secret}"

[[zone]]
name = "{zone}"
file = "{file}"

[[zone.update]]
key = "{key}"
"""

AUTHD = """version = "v1"
listen = ["127.0.0.1:{port}"]

[admin]
listen = "none"

[zones]
named-conf = "{named}"

[health]
endpoint = "unix:{socket}"

[tls]
dot = ["127.0.0.1:{secure}"]
certificate = "{certificate}"
key = "{key}"
"""

RECURSOR = """version = "v1"
listen = ["127.0.0.1:{port}"]

[admin]
listen = "none"

[tls]
listen = ["127.0.0.1:{secure}"]
certificate = "{certificate}"
key = "{key}"

[[forward]]
zone = "{zone}"
upstreams = ["127.0.0.1:{upstream}"]
"""


def main():
    accepted = parser(__doc__, before=True)
    accepted.add_argument("what", nargs="*", choices=["authority", "recursor", "updates", []],
                          help="default: all")
    accepted.add_argument("--seconds", type=int, default=4, help="of each run")
    accepted.add_argument("--rate", type=int, default=50_000, help="the fixed rate, q/s")
    accepted.add_argument("--only", choices=["rate", "max"], help="only at the fixed rate, or only at the maximum")
    accepted.add_argument("--sets", type=lambda text: text.split(","), help="of queries: static, wildcard, nxdomain, mixed, "
                        "lua, lua-wildcard, signed, signed-wildcard, signed-nxdomain (with DO); with --big, big-static and big-nxdomain; hit and miss for recursors")
    accepted.add_argument("--transport", choices=["udp", "tcp", "tls"], default="udp",
                          help="over 16 connections; servers without it are left out")
    accepted.add_argument("--servers", type=lambda text: text.split(","), help="names as in the table")
    accepted.add_argument("--big", type=int, default=0, metavar="NAMES", help="also serve a zone with that many names")
    accepted.add_argument("--slow", action="store_true", help="also ask pdns, as sites configure it, for LUA names")
    accepted.add_argument("--server-core", type=int, default=0)
    accepted.add_argument("--client-core", type=int, default=1)
    accepted.add_argument("--port", type=int, default=15_300, help="first of some twenty ports in use")
    accepted.add_argument("--seed", type=int, default=17)
    options = accepted.parse_args()

    rates = {"rate": [options.rate], "max": [0]}.get(options.only, [options.rate, 0])
    measured = {}
    for what in options.what or ["authority", "recursor", "updates"]:
        bench = Bench(options)
        try:
            if what == "updates":
                bench.start_updated()
                measured[what] = bench.run_updates()
                print("\n## Updates of dns-authd and its peers")
                updates_table(measured[what], "dns-authd")
                continue
            if what == "authority":
                bench.start_authorities()
                kinds = ["static", "wildcard", "nxdomain", "mixed", "lua", "lua-wildcard"]
                kinds += ["signed", "signed-wildcard", "signed-nxdomain"] if bench.needs_signed() else []
                kinds += ["big-static", "big-nxdomain"] if options.big else []
                ours = "dns-authd"
            else:
                bench.start_recursors()
                kinds, ours = ["hit", "miss"], "dns-recursor"
            if options.sets:
                kinds = [kind for kind in kinds if kind in options.sets]
            results = bench.run(kinds, rates)
            memory = {server.name: server.resident() / 2**20 for server in bench.servers.values()}
        finally:
            bench.close()
        print(f"\n## {ours} and its peers")
        table(results, ours)
        print("Resident: " + ", ".join(f"{name} {size:.0f} MiB" for name, size in memory.items()))
        measured[what] = [{"set": kind, "rate": rate, "servers": servers} for (kind, rate), servers in results.items()]
    write(measured, options)


if __name__ == "__main__":
    main()
