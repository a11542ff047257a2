"""A large Kubernetes cluster: memory, time to the first answer, CPU a change, and what a query costs beside a static zone.

An API server of this benchmark has the Services and their EndpointSlices; clusterd lists and watches them, dns-authd has their names, and
a static zone with as many names of the same shape. With --coredns, CoreDNS's kubernetes plugin follows the same API server, and answers the same queries.

Absolute times hold for one machine and one run; ratios travel better.
"""

import http.server
import json
import statistics
import struct
import sys
import threading
import time
import urllib.parse

from dns import Bench, exchange, table
from harness import parser, write

DOMAIN = "cluster.local"
STATIC = "static.bench"
SHOP = "shop"


# --- The API server


class Api:
    """Lists with pages and watches, of the kinds that a DNS server follows. One counter of versions for all."""

    def __init__(self, options):
        self.changed = threading.Condition()
        self.version = 1000
        self.objects = {"services": {}, "endpointslices": {}, "namespaces": {}, "nodes": {}}
        self.log = []
        self.put("namespaces", {"metadata": {"name": SHOP}})
        for number in range(options.services):
            self.put("services", service(number))
            self.put("endpointslices", slice_of(number, options.endpoints // options.services, 0))
        self.log.clear()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                api.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def put(self, resource, thing):
        with self.changed:
            self.version += 1
            thing["metadata"]["resourceVersion"] = str(self.version)
            meta = thing["metadata"]
            key = f"{meta.get('namespace', '')}/{meta['name']}"
            event = "MODIFIED" if key in self.objects[resource] else "ADDED"
            self.objects[resource][key] = thing
            self.log.append((self.version, resource, event, thing))
            self.changed.notify_all()

    def answer(self, request):
        path, _, query = request.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        if path == "/version":
            return send(request, 200, {"major": "1", "minor": "30", "gitVersion": "v1.30.0"})
        groups = {"/api/v1/": ("services", "namespaces", "nodes"), "/apis/discovery.k8s.io/v1/": ("endpointslices",)}
        found = [kind for group, kinds in groups.items() for kind in kinds if path == group + kind]
        if path == "/apis/discovery.k8s.io/v1":
            return send(request, 200, {"kind": "APIResourceList", "groupVersion": "discovery.k8s.io/v1", "resources": [
                {"name": "endpointslices", "kind": "EndpointSlice", "namespaced": True, "verbs": ["list", "watch"]}]})
        if not found:
            return send(request, 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": path})
        return self.watch(request, found[0], query) if query.get("watch") in ("1", "true") else self.list(request, found[0], query)

    def list(self, request, resource, query):
        with self.changed:
            items, version = list(self.objects[resource].values()), self.version
        begin = int(query.get("continue", 0))
        end = min(begin + int(query.get("limit") or len(items) or 1), len(items))
        metadata = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = str(end)
        kinds = {"services": "Service", "endpointslices": "EndpointSlice", "namespaces": "Namespace", "nodes": "Node"}
        version = "discovery.k8s.io/v1" if resource == "endpointslices" else "v1"
        send(request, 200, {"kind": kinds[resource] + "List", "apiVersion": version, "metadata": metadata, "items": items[begin:end]})

    def watch(self, request, resource, query):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        position = int(query.get("resourceVersion") or 0)
        ends = time.monotonic() + int(query.get("timeoutSeconds", 300))
        try:
            while time.monotonic() < ends:
                with self.changed:
                    news = [it for it in self.log if it[0] > position and it[1] == resource]
                    if not news:
                        self.changed.wait(0.5)
                        continue
                for version, _, event, thing in news:
                    chunk(request, {"type": event, "object": thing})
                    position = version
            request.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass

    def close(self):
        self.server.shutdown()


def send(request, code, body):
    octets = json.dumps(body).encode()
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(octets)))
    request.end_headers()
    request.wfile.write(octets)


def chunk(request, body):
    octets = json.dumps(body).encode() + b"\n"
    request.wfile.write(f"{len(octets):x}\r\n".encode() + octets + b"\r\n")
    request.wfile.flush()


def meta(name, **more):
    """As the API has it, managed fields included: they are most of an object."""
    managed = [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:ports": {}}}}]
    return {"name": name, "namespace": SHOP, "uid": f"00000000-0000-4000-8000-{abs(hash(name)) % 10**12:012}",
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed, **more}


def service(number):
    """Nine of ten have an address; the others are headless."""
    address = "None" if number % 10 == 9 else f"172.30.{number >> 8}.{number & 255}"
    return {"metadata": meta(f"s{number}", labels={"app": f"s{number}"}), "spec": {
        "clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", "selector": {"app": f"s{number}"},
        "ipFamilies": ["IPv4"], "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]}}


def slice_of(number, size, round_):
    """The endpoints of a Service; those of another round have other addresses."""
    def endpoint(place):
        which = number * size + place
        address = f"10.{128 + (round_ & 1) * 4 + (which >> 16)}.{which >> 8 & 255}.{which & 255}"
        return {"addresses": [address], "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": f"worker-{which % 50}", "targetRef": {"kind": "Pod", "namespace": SHOP, "name": f"s{number}-{place}"}}
    labels = {"kubernetes.io/service-name": f"s{number}", "app": f"s{number}"}
    return {"metadata": meta(f"s{number}-x", labels=labels), "addressType": "IPv4",
            "endpoints": [endpoint(place) for place in range(size)], "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]}


# --- The servers


class Cluster(Bench):
    """clusterd and dns-authd, and CoreDNS if there is one."""

    def __init__(self, options):
        super().__init__(options)
        self.api = Api(options)
        self.figures = {}

    def start_all(self):
        last = f"s{self.options.services - 2}.{SHOP}.svc.{DOMAIN}"
        self.start_clusterd()
        begun = time.monotonic()
        self.start_authd()
        self.until(self.servers["dns-authd"], last, begun, "dns-authd: list by clusterd, first answer for the last Service")
        self.servers["dns-authd"].wait(f"s1.{SHOP}.svc.{STATIC}", 300)
        if self.options.coredns:
            corefile = self.path("Corefile", COREFILE.format(port=self.port(), api=self.api.url, domain=DOMAIN))
            begun = time.monotonic()
            self.start("coredns", [self.options.coredns, "-conf", corefile], self.next_port - 1)
            self.until(self.servers["coredns"], last, begun, "CoreDNS: first answer for the last Service")
        time.sleep(2)
        self.memory("with the whole cluster")

    def start_clusterd(self):
        config = self.path("clusterd.toml", CLUSTERD.format(home=self.directory, api=self.api.url))
        command = [self.options.binaries / "clusterd", "serve", "--config", config]
        self.clusterd = self.start("clusterd", command, 0, helper=True)

    def start_authd(self):
        count = self.options.services
        self.path("static.zone", "$TTL 5\n@ IN SOA ns1 postmaster 1 3H 30M 2W 1W\n IN NS ns1\nns1 IN A 192.0.2.1\n"
                  + "".join(f"s{n}.{SHOP}.svc IN A 172.30.{n >> 8}.{n & 255}\n" for n in range(count)))
        port = self.port()
        config = self.path("dns-authd.toml", AUTHD.format(
            port=port, home=self.directory, domain=DOMAIN, static=STATIC, zone=self.directory / "static.zone"))
        self.start("dns-authd", [self.options.binaries / "dns-authd", "serve", "--config", config], port)

    def until(self, server, name, begun, what, wanted=None, limit=300):
        """Asks until there is an answer, with that address if one is wanted; notes the seconds since `begun`."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            answer = exchange(server.port, name)
            if answer and answer[3] & 15 == 0 and struct.unpack(">H", answer[6:8])[0] > 0 and (wanted is None or wanted in answer):
                took = time.monotonic() - begun
                if what:
                    self.note(what, f"{took:.3f} s", took)
                return took
            if server.ended():
                break
            time.sleep(0.002)
        sys.exit(f"{server.name} does not answer for {name}:\n{server.text()}")

    def note(self, what, text, value):
        print(f"{what}: {text}", file=sys.stderr)
        self.figures[what] = {"text": text, "value": value}

    def memory(self, when):
        for server in [self.clusterd, *self.servers.values()]:
            size = server.resident()
            self.note(f"{server.name}: resident, {when}", f"{size / 2**20:.0f} MiB", size)

    # --- Measuring

    def run_changes(self):
        """Endpoints of single headless Services change: CPU a change, and the time until the answer has it."""
        servers = [self.clusterd, *self.servers.values()]
        before = {server.name: server.cpu() for server in servers}
        idle = time.monotonic()
        time.sleep(self.options.seconds)
        per_second = {server.name: (server.cpu() - before[server.name]) / (time.monotonic() - idle) for server in servers}
        size = self.options.endpoints // self.options.services
        headless = list(range(9, self.options.services, 10))
        delays = {server.name: [] for server in self.servers.values()}
        before = {server.name: server.cpu() for server in servers}
        begun = time.monotonic()
        for count in range(self.options.changes):
            number = headless[count % len(headless)]
            changed = slice_of(number, size, count // len(headless) + 1)
            wanted = bytes(int(part) for part in changed["endpoints"][0]["addresses"][0].split("."))
            at = time.monotonic()
            self.api.put("endpointslices", changed)
            for server in self.servers.values():
                delays[server.name].append(self.until(server, f"s{number}.{SHOP}.svc.{DOMAIN}", at, None, wanted, 30))
        took = time.monotonic() - begun
        for server in servers:
            used = server.cpu() - before[server.name] - per_second[server.name] * took
            self.note(f"{server.name}: CPU a change", f"{used / self.options.changes / 1000:.0f} µs", used / self.options.changes)
        for name, times in delays.items():
            times.sort()
            text = f"median {statistics.median(times) * 1000:.1f} ms, 99 % {times[len(times) * 99 // 100] * 1000:.1f} ms"
            self.note(f"{name}: from a change to the answer", text, times)

    def run_restart(self):
        """A start without the API: clusterd has the cluster on its disk."""
        self.api.close()
        self.api.server.server_close()
        for server in (self.servers.pop("dns-authd"), self.clusterd):
            server.stop()
        self.helpers.remove(self.clusterd)
        begun = time.monotonic()
        self.start_clusterd()
        self.start_authd()
        last = f"s{self.options.services - 2}.{SHOP}.svc.{DOMAIN}"
        self.until(self.servers["dns-authd"], last, begun, "both: start without the API, first answer for the last Service")

    def queries(self, kind):
        count = self.options.services
        pick = self.random.randrange
        word = lambda: "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=8))
        makers = {
            "static": lambda: f"s{pick(count)}.{SHOP}.svc.{STATIC}",
            "service": lambda: f"s{pick(count // 10) * 10}.{SHOP}.svc.{DOMAIN}",
            "headless": lambda: f"s{pick(count // 10) * 10 + 9}.{SHOP}.svc.{DOMAIN}",
            "nxdomain": lambda: f"{word()}.{SHOP}.svc.{DOMAIN}",
            "static-nxdomain": lambda: f"{word()}.{SHOP}.svc.{STATIC}",
        }
        return self.path(f"queries-{kind}", "".join(f"{makers[kind]()} A\n" for _ in range(20_000)))

    def run_queries(self):
        """Rounds of all sets, one after the other: results[kind][server]."""
        results = {}
        pairs = {"service": "static", "nxdomain": "static-nxdomain", "headless": "static"}
        for number in range(self.options.rounds):
            for kind in ["static", "service", "headless", "static-nxdomain", "nxdomain"]:
                for server in self.servers.values():
                    if server.name == "coredns" and kind.startswith("static"):
                        continue
                    result = self.measure(server, self.queries(kind), self.options.rate)
                    results.setdefault((kind, self.options.rate), {}).setdefault(server.name, []).append(result)
                    print(f"round {number + 1} {kind} {server.name}: {result['us']:.2f} us, lost {result['lost']:.0f}, {result['codes']}", file=sys.stderr)
        for kind, other in pairs.items():
            ours, base = (results[one, self.options.rate]["dns-authd"] for one in (kind, other))
            ratios = [one["us"] / two["us"] for one, two in zip(ours, base)]
            text = f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
            self.note(f"dns-authd: a query of {kind} ÷ one of {other}", text, ratios)
        return results

    def close(self):
        self.api.close()
        super().close()


CLUSTERD = """version = "v1"
socket = "{home}/clusterd.sock"
state = "{home}/clusterd"

[admin]
listen = "none"

[api]
addresses = ["{api}"]
"""

AUTHD = """version = "v1"
listen = ["127.0.0.1:{port}"]

[admin]
listen = "none"

[health]
endpoint = "none"

[kubernetes]
socket = "{home}/clusterd.sock"
domain = "{domain}"
reverse = ["172.30.0.0/16"]

[[zone]]
name = "{static}"
file = "{zone}"
"""

COREFILE = """.:{port} {{
    bind 127.0.0.1
    kubernetes {domain} 172.30.0.0/16 {{
        endpoint {api}
    }}
}}
"""


def main():
    accepted = parser(__doc__)
    accepted.add_argument("--services", type=int, default=5_000)
    accepted.add_argument("--endpoints", type=int, default=50_000)
    accepted.add_argument("--changes", type=int, default=500)
    accepted.add_argument("--seconds", type=int, default=4, help="of each run")
    accepted.add_argument("--rate", type=int, default=50_000, help="q/s")
    accepted.add_argument("--coredns", metavar="PROGRAM", help="CoreDNS, to be measured beside dns-authd")
    accepted.add_argument("--server-core", type=int, default=0)
    accepted.add_argument("--client-core", type=int, default=1)
    accepted.add_argument("--port", type=int, default=15_900, help="first of some ports in use")
    accepted.add_argument("--seed", type=int, default=17)
    options = accepted.parse_args()
    options.transport = "udp"
    bench = Cluster(options)
    try:
        bench.start_all()
        results = bench.run_queries()
        bench.run_changes()
        bench.memory("after the changes")
        bench.run_restart()
    finally:
        bench.close()
    print(f"\n## {options.services:,} Services, {options.endpoints:,} endpoints")
    table(results, "dns-authd")
    print("\n| | |\n| --- | --- |")
    for what, figure in bench.figures.items():
        print(f"| {what} | {figure['text']} |")
    measured = [{"set": kind, "rate": rate, "servers": servers} for (kind, rate), servers in results.items()]
    write({"queries": measured, "figures": bench.figures}, options)


if __name__ == "__main__":
    main()
