"""What a registry costs: per GiB pushed and pulled, per manifest, and in memory; beside Debian's docker-registry.

Both registries run at the same time on loopback, over plain HTTP, with their data in neighbouring directories of one
filesystem; only one of them is loaded at a time. With --tls both serve TLS 1.3 with one certificate. With --replicas there are
three registries of each kind: registry-svc's nodes replicate what one of them is given, docker-registry has to be given it three times.
The cost is then that of all three. A round goes through all measurements with each, and begins with the
other than the round before. What a registry used is the user and system time of its process, all threads. Ratios are
taken within a round, and their median is printed.

Clients and registries share the cores of this machine, so rates say how fast a whole machine is; the machine must have
nothing else to do. Absolute numbers hold for one machine and one run; ratios travel better.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness import Directory, carry_out, parser, run
from session import Session

MIB, GIB = 2**20, 2**30
MANIFEST = "application/vnd.oci.image.manifest.v1+json"

# What is measured. measure: (title, unit, "less" or "more" is better, the ratio that registry-svc is meant to keep)
FIGURES = {
    "push-cpu": ("POST and PUT of one blob, CPU", "s/GiB", "less", 0.35),
    "both-cpu": ("push and first GET of it, CPU", "s/GiB", "less", 0.5),
    "push-rate": ("POST and PUT of one blob", "MiB/s", "more", None),
    "many-cpu": ("skopeo push of 200 layers, CPU", "s", "less", 0.3),
    "many-time": ("skopeo push of 200 layers", "s", "less", None),
    "again-cpu": ("the same push again, CPU", "s", "less", None),
    "first-cpu": ("first GET of it, CPU", "s/GiB", "less", None),
    "first-rate": ("first GET of it", "MiB/s", "more", None),
    "second-cpu": ("second GET of it, CPU", "s/GiB", "less", None),
    "second-rate": ("second GET of it", "MiB/s", "more", None),
    "get-cpu": ("GET from the page cache, CPU", "s/GiB", "less", 1.0),
    "get-rate": ("GET from the page cache", "MiB/s", "more", 1.2),
    "cold-cpu": ("GET of one blob from the disk, CPU", "s/GiB", "less", None),
    "cold-rate": ("GET of one blob from the disk", "MiB/s", "more", None),
    "get4-cpu": ("four GETs of it at once, CPU", "s/GiB", "less", None),
    "get4-rate": ("four GETs of it at once", "MiB/s", "more", None),
    "tag-rate": ("GET of a manifest by tag", "/s", "more", 15),
    "tag-p99": ("GET of a manifest by tag, p99", "ms", "less", None),
    "rss": ("largest resident memory", "MiB", "less", 0.6),
}


class Registry(Session):
    """One registry: its process, its port, its directory."""

    def __init__(self, name, command, port, directory, root, tls):
        super().__init__(name, command, directory)
        self.port, self.directory, self.root, self.tls = port, directory, root, tls
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        # Those that are to have what this one is given, and whether it gives it to them.
        self.fellows, self.replicates = [], False

    def cpu(self):
        """What all of them have used, that are to have the same."""
        return super().cpu() + sum(fellow.cpu() for fellow in self.fellows)

    def wait(self, limit=30):
        """Waits until it answers."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and not self.ended():
            try:
                if self.ask("GET", "/v2/")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit(f"{self.name} does not answer:\n{self.text()}")

    def peak(self):
        """The most resident memory there was, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024

    def ask(self, method, path, body=None, headers=None):
        """One request of its own connection: status, headers, octets."""
        if self.tls:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=ANY)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), answer.read()
        finally:
            connection.close()

    def expect(self, wanted, method, path, body=None, headers=None):
        status, answered, octets = self.ask(method, path, body, headers)
        if status != wanted:
            sys.exit(f"{self.name}: {method} {path}: {status}, not {wanted}: {octets[:300]!r}")
        return answered

    def forget(self):
        """Takes everything that it has stored from the page cache, as a loss of power does."""
        os.sync()
        for path in self.root.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    # --- What is done to it

    def push(self, repository, blob, digest):
        """A blob from a file, by sendfile: POST, then one PUT."""
        where = self.expect(202, "POST", f"/v2/{repository}/blobs/uploads/")["location"]
        path = re.sub(r"^https?://[^/]+", "", where)
        path += ("&" if "?" in path else "?") + f"digest={digest}"
        size = blob.stat().st_size
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=300)
        if self.tls:
            stream = ANY.wrap_socket(stream)
        with stream, open(blob, "rb") as file:
            head = (f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/octet-stream\r\n"
                    f"Content-Length: {size}\r\nConnection: close\r\n\r\n")
            stream.sendall(head.encode())
            stream.sendfile(file)
            answer = stream.recv(4096)
        if b" 201 " not in answer.split(b"\r\n", 1)[0]:
            sys.exit(f"{self.name}: PUT of a blob: {answer[:300]!r}")

    def all(self):
        return [self, *self.fellows]

    def give(self, push, names):
        """Pushes to it, and waits until its fellows have files of these names; or pushes to them too."""
        push(self)
        for fellow in self.fellows:
            if not self.replicates:
                push(fellow)
                continue
            deadline = time.monotonic() + 120
            missing = set(names)
            while missing := {name for name in missing if not any(fellow.root.glob(f"blobs/*/*/{name}"))}:
                if time.monotonic() > deadline:
                    sys.exit(f"{fellow.name} does not get {missing}:\n{fellow.text()}")
                time.sleep(0.01)

    def delete_blob(self, repository, digest):
        """So that the next round writes it again; the octets may stay until a sweep."""
        self.ask("DELETE", f"/v2/{repository}/blobs/{digest}")


class Bench(Directory):
    def __init__(self, options):
        super().__init__(options, options.directory)
        self.options = options
        self.registries = []

    def close(self):
        for registry in self.registries:
            for one in registry.all():
                one.stop()
        self.remove()

    def ours(self, number, ports):
        """Number one, or one more node of its cluster."""
        name = f"registry-svc-{number}"
        text = OURS.format(port=free_port(), admin=free_port(), root=self.directory / name, plain=str(not self.tls).lower())
        if self.tls:
            text += f'[[tls.certificates]]\ncertificate = "{self.tls}.pem"\nkey = "{self.tls}.key"\n'
        if len(ports) > 1:
            peers = [f'{{ name = "registry-svc-{other}", address = "127.0.0.1:{port}" }}'
                     for other, port in enumerate(ports) if other != number]
            self.certify(name)
            path = self.directory / name
            text += (f'[cluster]\nnode = "{name}"\nlisten = ["127.0.0.1:{ports[number]}"]\npeers = [{", ".join(peers)}]\n'
                     f'ca = "{self.directory}/ca.pem"\ncertificate = "{path}.pem"\nkey = "{path}.key"\n')
        port = int(re.search(r"listen = ..127.0.0.1:(\d+)", text)[1])
        config = self.path(f"{name}.toml", text)
        return Registry(name, [self.options.binaries / "registry-svc", "serve", "--config", config], port, self.directory,
                        self.directory / name, self.tls)

    def theirs(self, number):
        name = f"docker-registry-{number}"
        port = free_port()
        text = THEIRS.format(port=port, root=self.directory / name)
        if self.tls:
            text += f"  tls:\n    certificate: {self.tls}.pem\n    key: {self.tls}.key\n"
        config = self.path(f"{name}.yml", text)
        return Registry(name, ["docker-registry", "serve", config], port, self.directory, self.directory / name, self.tls)

    def certify(self, name):
        """A certificate for a name, by an authority that is made with the first."""
        make = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        path, authority = self.directory / name, self.directory / "ca"
        if not authority.with_suffix(".pem").exists():
            run(*make, "-x509", "-subj", "/CN=nodes", "-keyout", f"{authority}.key", "-out", f"{authority}.pem")
        run(*make, "-x509", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-keyout", f"{path}.key", "-out", f"{path}.pem",
            "-addext", "basicConstraints=critical,CA:FALSE")

    def start(self):
        self.tls = None
        if self.options.tls:
            self.certify("server")
            self.tls = self.directory / "server"
        count = 3 if self.options.replicas else 1
        ports = [free_port() for _ in range(count)]
        for first, *fellows in ([self.ours(number, ports) for number in range(count)],
                                [self.theirs(number) for number in range(count)]):
            first.name, first.fellows = first.name.rpartition("-")[0], fellows
            first.replicates = first.name == "registry-svc"
            self.registries.append(first)
            for one in (first, *fellows):
                one.wait()

    def images(self):
        """An image of 200 layers of 1 MiB in an OCI layout; layers that do not compress, as real ones."""
        layout = self.directory / "image"
        blobs = layout / "blobs/sha256"
        blobs.mkdir(parents=True)

        def blob(octets):
            name = hashlib.sha256(octets).hexdigest()
            (blobs / name).write_bytes(octets)
            return {"digest": f"sha256:{name}", "size": len(octets)}

        layers = [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **blob(os.urandom(MIB))} for _ in range(200)]
        config = {"architecture": "amd64", "os": "linux", "config": {},
                  "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}}
        config = {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(json.dumps(config).encode())}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        self.manifest = json.dumps(manifest).encode()
        entry = {"mediaType": MANIFEST, **blob(self.manifest), "annotations": {"org.opencontainers.image.ref.name": "1"}}
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        return layout

    def random_blob(self, number):
        """A file that neither registry has seen, and its digest."""
        path = self.directory / "blob"
        digest = hashlib.sha256()
        with open(path, "wb") as file:
            for _ in range(self.options.size):
                piece = os.urandom(MIB)
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        return path, f"sha256:{digest.hexdigest()}"

    def measure(self, registry, number, blob, digest, layout):
        result = {}
        share = self.options.size * MIB / GIB

        def cost(act):
            before, begun = registry.cpu(), time.monotonic()
            act()
            taken = time.monotonic() - begun
            # What it still does for what it has answered is part of the price.
            time.sleep(0.3)
            return (registry.cpu() - before) / 1e9, taken

        used, taken = cost(lambda: registry.give(lambda one: one.push("bench/blob", blob, digest), [digest.partition(":")[2]]))
        result["push-cpu"], result["push-rate"] = used / share, self.options.size / taken

        url = f"{registry.url}/v2/bench/blob/blobs/{digest}"
        pull = ["curl", "-sSfk", "-o", "/dev/null", url]

        def get(name):
            used, taken = cost(lambda: run(*pull))
            result[f"{name}-cpu"], result[f"{name}-rate"] = used / share, self.options.size / taken

        # What is pushed past the page cache comes from the disk; later pulls bring it into the page cache.
        get("first")
        result["both-cpu"] = result["push-cpu"] + result["first-cpu"]
        get("second")

        def four():
            running = [subprocess.Popen(pull) for _ in range(4)]
            if any([one.wait() for one in running]):
                sys.exit(f"{registry.name}: GET failed")

        used, taken = cost(four)
        result["get4-cpu"], result["get4-rate"] = used / share / 4, 4 * self.options.size / taken
        get("get")
        registry.forget()
        get("cold")
        for one in registry.all():
            one.delete_blob("bench/blob", digest)

        names = os.listdir(layout / "blobs/sha256")
        push = lambda one: run("skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", "--preserve-digests",
                               f"oci:{layout}:1", f"docker://127.0.0.1:{one.port}/bench/many{number}:1")
        result["many-cpu"], result["many-time"] = cost(lambda: registry.give(push, names))
        result["again-cpu"], _ = cost(lambda: registry.give(push, names))

        done = run("wrk", "-t1", "-c32", f"-d{self.options.seconds}s", "--latency", "-H", f"Accept: {MANIFEST}",
                   f"{registry.url}/v2/bench/many{number}/manifests/1")
        if "Non-2xx" in done or "Socket errors" in done:
            sys.exit(f"{registry.name}: {done}")
        result["tag-rate"] = float(re.search(r"Requests/sec:\s+([\d.]+)", done)[1])
        amount, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", done).groups()
        result["tag-p99"] = float(amount) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
        result["rss"] = registry.peak()
        return result

    def run(self):
        results = {registry.name: [] for registry in self.registries}
        for number in range(self.options.rounds):
            # The layers differ in each round, so that none is there already.
            shutil.rmtree(self.directory / "image", ignore_errors=True)
            layout = self.images()
            blob, digest = self.random_blob(number)
            order = self.registries if number % 2 == 0 else self.registries[::-1]
            for registry in order:
                os.sync()
                result = self.measure(registry, number, blob, digest, layout)
                results[registry.name].append(result)
                shown = ", ".join(f"{name} {value:.3g}" for name, value in result.items())
                print(f"round {number + 1} {registry.name}: {shown}", flush=True)
        return results


# Whoever serves is trusted.
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def table(results):
    print(f"\n{'':34} {'registry-svc':>13} {'docker-registry':>16} {'ratio':>7}  goal")
    for name, (title, unit, better, goal) in FIGURES.items():
        ours = [result[name] for result in results["registry-svc"]]
        theirs = [result[name] for result in results["docker-registry"]]
        ratio = statistics.median(a / b if b else float("inf") for a, b in zip(ours, theirs))
        verdict = ""
        if goal:
            kept = ratio <= goal if better == "less" else ratio >= goal
            verdict = f"{'≤' if better == 'less' else '≥'} {goal}" + ("" if kept else "  MISSED")
        print(f"{title:34} {statistics.median(ours):>7.4g} {unit:5} {statistics.median(theirs):>10.4g} {unit:5} {ratio:>7.2f}  {verdict}")


OURS = """version = "v1"
listen = ["127.0.0.1:{port}"]
plain = {plain}
admin.listen = "127.0.0.1:{admin}"
root = "{root}"

[access]
anonymous = "all"
"""

THEIRS = """version: 0.1
log:
  accesslog:
    disabled: true
  level: error
storage:
  filesystem:
    rootdirectory: {root}
  delete:
    enabled: true
  cache:
    blobdescriptor: inmemory
http:
  addr: 127.0.0.1:{port}
"""


def main():
    accepted = parser(__doc__)
    accepted.add_argument("--size", type=int, default=1024, metavar="MIB", help="of the blob")
    accepted.add_argument("--tls", action="store_true")
    accepted.add_argument("--replicas", action="store_true")
    accepted.add_argument("--seconds", type=int, default=4, help="of each run of wrk")
    accepted.add_argument("--directory", type=Path, help="where both keep their data (default: the system's for temporary files)")
    options = accepted.parse_args()
    carry_out(Bench(options), table, options)


if __name__ == "__main__":
    main()
