"""What a client gets from a service while another one attacks it, beside the peers.

A client and an attacker with addresses of their own, and one server at a time in a namespace behind a link. Without an attack, then
under each one, the client asks 20 times a second, each time by a new connection or socket; a request succeeds if it is answered
rightly within two seconds. Every server has the limits of file descriptors of a systemd unit, and one room for connections
where it has an option for that. Printed are the shares that succeed, of all rounds, and the median time of those.
"""

import base64
import json
import os
import random
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

from dns import query
from harness import Directory, Wire, carry_out, parser
from session import Session

SERVER, CLIENT = "10.78.2.1", "10.78.2.2"
# One attacker, or as many as a rack has machines.
ATTACKERS = [f"10.78.2.{number}" for number in range(100, 116)]
PORT, BACKEND, UPSTREAM = 5300, 5301, 5302
DESCRIPTORS = "1024:"
ROOM = 400
RATE = 20
PATIENCE = 2.0
PASSWORD = "correct horse"
HALF = b"GET /v2/ HTTP/1.1\r\nHost: "

# service: (its names for each server, {attack: (title, what the client does)})
SERVICES = {
    "dns": (["dns-recursor", "unbound", "pdns-recursor"], {
        "silent": ("2,000 new names a second below a zone whose server is silent", "new-name"),
        "idle-tcp": ("500 connections that say nothing", "new-name-tcp"),
        "half-tcp": ("500 connections with half a message", "new-name-tcp"),
        "churn": ("500 connections a second that end at once", "new-name-tcp"),
    }),
    "proxy": (["lb-proxy", "haproxy", "nginx"], {
        "idle-tcp": ("500 connections that say nothing", "http"),
        "half-http": ("500 connections with half a request", "http"),
        "churn": ("500 connections a second that end at once", "http"),
    }),
    "registry": (["registry-svc", "docker-registry"], {
        "idle-crowd": ("1,200 connections that say nothing", "login"),
        "half-crowd": ("1,200 connections with half a request", "login"),
        "wrong-passwords": ("20 wrong passwords a second", "login"),
    }),
    "time": (["timesync-agent", "chronyd"], {
        "flood": ("5,000 requests a second", "ntp"),
        "garbage": ("5,000 datagrams of chance a second", "ntp"),
    }),
}


# --- The other side of the link


def be_client(kind, seconds):
    """Asks at a fixed rate; prints the times of what succeeded and the number of what was asked."""
    ask = {"new-name": ask_udp, "new-name-tcp": ask_tcp, "http": ask_http, "login": ask_registry, "ntp": ask_ntp}[kind]
    times, threads = [], []

    def one():
        begun = time.monotonic()
        try:
            if ask():
                times.append(time.monotonic() - begun)
        except OSError:
            pass

    begun = time.monotonic()
    for number in range(int(seconds * RATE)):
        time.sleep(max(0, begun + number / RATE - time.monotonic()))
        threads.append(threading.Thread(target=one))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(json.dumps({"asked": len(threads), "times": [one for one in times if one <= PATIENCE]}))


def word():
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=12))


def new_query(zone):
    return query(f"{word()}.{zone}", number=random.getrandbits(16))


def is_answer(asked, answer):
    return answer[:2] == asked[:2] and answer[3] & 15 == 0 and struct.unpack(">H", answer[6:8])[0] == 1


def connect(kind=socket.SOCK_STREAM, source=CLIENT):
    made = socket.socket(socket.AF_INET, kind)
    made.settimeout(PATIENCE)
    made.bind((source, 0))
    made.connect((SERVER, PORT))
    return made


def read_exactly(stream, size):
    octets = b""
    while len(octets) < size:
        more = stream.recv(size - len(octets))
        if not more:
            raise OSError("ended")
        octets += more
    return octets


def ask_udp():
    """A new name; asked again after a second, as a stub resolver does."""
    asked = new_query("good.bench")
    with connect(socket.SOCK_DGRAM) as stream:
        for _ in range(2):
            stream.settimeout(PATIENCE / 2)
            stream.send(asked)
            try:
                return is_answer(asked, stream.recv(4096))
            except TimeoutError:
                continue
    return False


def ask_tcp():
    asked = new_query("good.bench")
    with connect() as stream:
        stream.sendall(struct.pack(">H", len(asked)) + asked)
        size, = struct.unpack(">H", read_exactly(stream, 2))
        return is_answer(asked, read_exactly(stream, size))


def ask_http(path="/", headers=""):
    with connect() as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: site\r\nConnection: close\r\n{headers}\r\n".encode())
        return stream.recv(4096).startswith(b"HTTP/1.1 200")


def authorization(password):
    return f"Authorization: Basic {base64.b64encode(f'pusher:{password}'.encode()).decode()}\r\n"


def ask_registry():
    return ask_http("/v2/", authorization(PASSWORD))


def ask_ntp():
    with connect(socket.SOCK_DGRAM) as stream:
        stream.send(b"\x23" + bytes(39) + struct.pack(">Q", 1))
        return len(stream.recv(512)) >= 48


def be_attacker(kind, seconds, sources):
    """Attacks from one address or from several until the time is over."""
    addresses = ATTACKERS[:sources]
    acts = {
        "silent": lambda: flood(seconds, addresses, 2000, lambda: new_query("silent.bench")),
        "flood": lambda: flood(seconds, addresses, 5000, lambda: b"\x23" + bytes(47)),
        "garbage": lambda: flood(seconds, addresses, 5000, lambda: os.urandom(random.randrange(1, 200))),
        "idle-tcp": lambda: hold(seconds, addresses, 500, b""),
        "half-tcp": lambda: hold(seconds, addresses, 500, b"\0"),
        "half-http": lambda: hold(seconds, addresses, 500, HALF),
        "idle-crowd": lambda: hold(seconds, addresses, 1200, b""),
        "half-crowd": lambda: hold(seconds, addresses, 1200, HALF),
        "churn": lambda: churn(seconds, addresses, 500),
        "wrong-passwords": lambda: guess(seconds, addresses, 20),
    }
    acts[kind]()


def flood(seconds, addresses, rate, make):
    streams = [connect(socket.SOCK_DGRAM, address) for address in addresses]
    paced(seconds, rate, lambda number: streams[number % len(streams)].send(make()))


def hold(seconds, addresses, count, octets):
    """So many connections; one that is ended is opened again."""
    streams = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for number in range(min(count - len(streams), 50)):
            try:
                stream = connect(source=addresses[(len(streams) + number) % len(addresses)])
                stream.sendall(octets)
                streams[stream.fileno()] = stream
            except OSError:
                break
        poll = select.poll()
        for number in streams:
            poll.register(number, select.POLLIN)
        for number, _ in poll.poll(50):
            try:
                ended = not streams[number].recv(4096)
            except OSError:
                ended = True
            if ended:
                streams.pop(number).close()


def churn(seconds, addresses, rate):
    def once(number):
        connect(source=addresses[number % len(addresses)]).close()
    paced(seconds, rate, once)


def guess(seconds, addresses, rate):
    def once(number):
        def one():
            try:
                with connect(source=addresses[number % len(addresses)]) as stream:
                    stream.sendall(f"GET /v2/ HTTP/1.1\r\nHost: site\r\n{authorization(word())}\r\n".encode())
                    stream.recv(4096)
            except OSError:
                pass
        threading.Thread(target=one, daemon=True).start()
    paced(seconds, rate, once)


def paced(seconds, rate, act):
    begun = time.monotonic()
    for number in range(int(seconds * rate)):
        wait = begun + number / rate - time.monotonic()
        if wait > 0.001:
            time.sleep(wait)
        if wait < -seconds:
            break
        try:
            act(number)
        except OSError:
            pass


def be_authority():
    """Answers every name below good.bench, and none below silent.bench."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    stream.bind(("127.0.0.1", UPSTREAM))
    while True:
        asked, peer = stream.recvfrom(4096)
        if b"\x06silent" in asked.lower():
            continue
        end = 12
        while end < len(asked) and asked[end]:
            end += asked[end] + 1
        question = asked[12:end + 5]
        is_address = question[-4:-2] == b"\0\1"
        record = b"\xc0\x0c\0\1\0\1\0\0\x0e\x10\0\4\xc0\0\2\1" if is_address else b""
        head = asked[:2] + struct.pack(">HHHHH", 0x8580, 1, len(record) and 1, 0, 0)
        stream.sendto(head + question + record, peer)


# --- Servers


class Bench(Directory):
    def __init__(self, options):
        super().__init__(options)
        self.options = options
        self.wire = Wire([CLIENT, *ATTACKERS], [SERVER])
        self.helpers = []

    def start(self):
        self.helpers.append(self.inside("authority", [sys.executable, __file__, "--be-authority"]))
        site = self.path("site.conf", SITE.format(directory=self.directory, port=BACKEND))
        self.helpers.append(self.inside("site", ["nginx", "-p", self.directory, "-c", site]))

    def close(self):
        for helper in self.helpers:
            helper.stop()
        self.wire.close()
        self.remove()

    def inside(self, name, command):
        limited = ["ip", "netns", "exec", self.wire.server, "prlimit", f"--nofile={DESCRIPTORS}", "--", *command]
        return Session(name, limited, self.directory)

    def ours(self, name, text):
        config = self.path(f"{name}.toml", text)
        return [self.options.binaries / name, "serve", "--config", config]

    def command(self, name):
        """The command of a server."""
        place = {"port": PORT, "server": SERVER, "directory": self.directory, "upstream": UPSTREAM, "backend": BACKEND, "room": ROOM}
        own = self.directory / f"{name}-data"
        own.mkdir(exist_ok=True)
        if name in ("docker-registry", "registry-svc"):
            program = self.options.binaries / "registry-svc"
            line = subprocess.run([program, "password", "--cost", "5", "pusher"], input=PASSWORD + "\n", text=True, capture_output=True, check=True)
            self.path("users", line.stdout)
        text = CONFIGURATIONS[name].format(own=own, **place)
        if name in ("dns-recursor", "lb-proxy", "registry-svc", "timesync-agent"):
            if name == "timesync-agent":
                self.path("time.conf", f"port {PORT}\nallow\nlocal stratum 8\ncmdport 0\nbindcmdaddress /\n")
            return self.ours(name, text)
        if name == "pdns-recursor":
            self.path(f"{own}/recursor.conf", text)
            return ["pdns_recursor", f"--config-dir={own}"]
        config = self.path(f"{name}.conf", text)
        return {
            "unbound": ["unbound", "-d", "-c", config],
            "haproxy": ["haproxy", "-db", "-f", config],
            "nginx": ["nginx", "-p", own, "-c", config],
            "docker-registry": ["docker-registry", "serve", config],
            "chronyd": [shutil.which("chronyd"), "-x", "-U", "-d", "-u", "root", "-f", config],
        }[name]

    # --- Measuring

    def outside(self, *words):
        command = ["ip", "netns", "exec", self.wire.client, sys.executable, __file__, *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, kind, seconds):
        return json.loads(self.outside("--be-client", kind, seconds).communicate()[0])

    def measure(self, name, attack, kind, sources):
        """One attack on a server that was just started, and what its client gets."""
        server = self.inside(name, self.command(name))
        try:
            deadline = time.monotonic() + 30
            while not self.ask(kind, 0.1)["times"]:
                if server.ended() or time.monotonic() > deadline:
                    sys.exit(f"{name} does not serve:\n{server.text()}")
            if attack == "none":
                return self.ask(kind, self.options.seconds)
            attacker = self.outside("--be-attacker", attack, self.options.seconds + 4, sources)
            time.sleep(2)
            try:
                return self.ask(kind, self.options.seconds)
            finally:
                attacker.kill()
                attacker.wait()
        finally:
            server.stop()

    def run(self):
        results = {}
        for service in self.options.services:
            servers, attacks = SERVICES[service]
            kinds = list(dict.fromkeys(kind for _, kind in attacks.values()))
            runs = [("none", kind, 1) for kind in kinds]
            runs += [(attack, kind, sources) for attack, (_, kind) in attacks.items() for sources in (1, len(ATTACKERS))]
            for number in range(self.options.rounds):
                for attack, kind, sources in runs:
                    for name in servers:
                        got = self.measure(name, attack, kind, sources)
                        results.setdefault(f"{service} {attack} {kind} {sources}", {}).setdefault(name, []).append(got)
                        print(f"round {number + 1} {service} {attack} {sources} {name}: {len(got['times'])} of {got['asked']}", file=sys.stderr)
        return results


def show(results):
    for service, (servers, attacks) in SERVICES.items():
        rows = {key: row for key, row in results.items() if key.split()[0] == service}
        if not rows:
            continue
        print(f"\n| {service} | {' | '.join(servers)} |\n| --- |{' --- |' * len(servers)}")
        for key, row in rows.items():
            _, attack, kind, sources = key.split()
            title = attacks[attack][0] if attack != "none" else "no attack" + (", TCP" if kind.endswith("tcp") else "")
            title += f", from {sources} addresses" if int(sources) > 1 else ""
            print(f"| {title} | {' | '.join(cell(row[name]) for name in servers)} |")


def cell(runs):
    times = [one for run in runs for one in run["times"]]
    share = 100 * len(times) / sum(run["asked"] for run in runs)
    return f"{share:.0f} %, {1000 * statistics.median(times):.1f} ms" if times else "0 %"


SITE = """daemon off;
worker_processes 1;
pid {directory}/site.pid;
error_log {directory}/site.error.log crit;
events {{ worker_connections 1000; }}
http {{
  access_log off;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }}
}}
"""

CONFIGURATIONS = {
    "dns-recursor": """version = "v1"
listen = ["{server}:{port}"]
admin.listen = "none"
allow-from = ["10.78.2.0/24"]
[[forward]]
zone = "good.bench"
upstreams = ["127.0.0.1:{upstream}"]
[[forward]]
zone = "silent.bench"
upstreams = ["127.0.0.1:{upstream}"]
""",
    "unbound": """server:
  interface: {server}@{port}
  access-control: 10.78.2.0/24 allow
  do-not-query-localhost: no
  use-syslog: no
  module-config: "iterator"
  chroot: ""
  username: ""
  pidfile: "{own}/pid"
  do-daemonize: no
remote-control:
  control-enable: no
forward-zone:
  name: "good.bench"
  forward-addr: 127.0.0.1@{upstream}
forward-zone:
  name: "silent.bench"
  forward-addr: 127.0.0.1@{upstream}
""",
    "pdns-recursor": """local-address={server}
local-port={port}
allow-from=10.78.2.0/24
socket-dir={own}
dnssec=off
forward-zones=good.bench=127.0.0.1:{upstream},silent.bench=127.0.0.1:{upstream}
security-poll-suffix=
daemon=no
quiet=yes
""",
    "lb-proxy": """version = "v1"
max-connections = {room}
[admin]
listen = "none"
[health]
endpoint = "none"
[swap]
socket = "{own}/swap"
[[frontend]]
name = "site"
listen = ["{server}:{port}"]
backend = "site"
limits = {{ connections = 100, sources = 65536 }}
[[backend]]
name = "site"
[[backend.server]]
name = "one"
address = "127.0.0.1:{backend}"
""",
    "haproxy": """global
 maxconn {room}
defaults
 mode tcp
 timeout connect 5s
 timeout client 30s
 timeout server 30s
listen site
 bind {server}:{port}
 server one 127.0.0.1:{backend}
""",
    "nginx": """load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes 1;
pid {own}/pid;
error_log {own}/error.log crit;
events {{ worker_connections {room}; }}
stream {{ server {{ listen {server}:{port}; proxy_pass 127.0.0.1:{backend}; proxy_timeout 30s; }} }}
""",
    "registry-svc": """version = "v1"
listen = ["{server}:{port}"]
plain = true
admin.listen = "none"
root = "{own}"
[access]
htpasswd = "{directory}/users"
""",
    "docker-registry": """version: 0.1
log:
  accesslog:
    disabled: true
  level: error
storage:
  filesystem:
    rootdirectory: {own}
http:
  addr: {server}:{port}
auth:
  htpasswd:
    realm: site
    path: {directory}/users
""",
    "timesync-agent": """version = "v1"
chrony-conf = "{directory}/time.conf"
correct-clock = false
health.endpoint = "none"
admin.listen = "none"
""",
    "chronyd": """port {port}
allow
local stratum 8
cmdport 0
bindcmdaddress /
pidfile {own}/pid
""",
}


def main():
    if sys.argv[1:2] == ["--be-client"]:
        return be_client(sys.argv[2], float(sys.argv[3]))
    if sys.argv[1:2] == ["--be-attacker"]:
        return be_attacker(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
    if sys.argv[1:2] == ["--be-authority"]:
        return be_authority()
    accepted = parser(__doc__)
    accepted.set_defaults(rounds=2)
    accepted.add_argument("services", nargs="*", choices=[*SERVICES, []], help="default: all")
    accepted.add_argument("--seconds", type=int, default=5, help="of each run")
    options = accepted.parse_args()
    options.services = options.services or list(SERVICES)
    carry_out(Bench(options), show, options)


if __name__ == "__main__":
    main()
