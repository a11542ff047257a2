#!/usr/bin/env python3
"""Asks dns-authd, Knot DNS and NSD the same questions about random zones, and prints where they differ.

Two independent servers that agree with each other and not with us are most likely right. Zones are small and use few
labels, so that wildcards, delegations, aliases and empty non-terminals meet each other often.

    tests/peers/answers.py --seed 1 --zones 300

Wants knotd and nsd installed; whichever is missing is left out.
"""

import argparse
import itertools
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "DNAME": 39, "DS": 43}
NAMES = {number: name for name, number in TYPES.items()}
LABELS = ["a", "b", "*"]


# --- Zones


def random_zone(apex, chance):
    """A zone as a list of (owner, type, data); valid enough for every server."""
    records = [(apex, "SOA", f"a.{apex} h.{apex} 1 2 3 4 60"), (apex, "NS", f"a.{apex}")]
    owners = {apex: {"SOA", "NS"}}

    def name(depth=3):
        return ".".join([*(chance.choice(LABELS) for _ in range(chance.randint(1, depth))), apex])

    def target():
        return chance.choice([name(), name(4), apex, "a.elsewhere.test."])

    def add(owner, rtype, data):
        records.append((owner, rtype, data))
        owners.setdefault(owner, set()).add(rtype)

    for _ in range(chance.randint(1, 9)):
        owner = name() if chance.random() < 0.95 else apex
        has = owners.get(owner, set())
        rtype = chance.choices(["A", "TXT", "CNAME", "DNAME", "NS", "MX", "DS"], [6, 2, 4, 2, 3, 1, 1])[0]
        # What master files forbid: aliases beside other data, wildcards that delegate, doubles.
        if "CNAME" in has or (rtype == "CNAME" and has) or rtype in has - {"A"}:
            continue
        if rtype in ("NS", "DNAME", "DS") and (owner == apex or "*" in owner):
            continue
        if rtype == "DNAME" and "NS" in has or rtype == "NS" and "DNAME" in has:
            continue
        if rtype == "DS" and "NS" not in has:
            continue
        data = {"A": lambda: f"192.0.2.{chance.randint(1, 250)}", "TXT": lambda: f'"{chance.randint(0, 9)}"',
                "MX": lambda: f"10 {target()}", "DS": lambda: "1 13 2 " + "00" * 32}.get(rtype, target)()
        add(owner, rtype, data)
    # Nothing may stand below a DNAME (RFC 6672 §2.4); some servers refuse the zone.
    dnames = [owner for owner, has in owners.items() if "DNAME" in has]
    below = lambda owner: any(owner != d and owner.endswith("." + d) for d in dnames)
    return [record for record in records if not below(record[0])]


def questions(apex):
    names = [apex]
    for depth in range(1, 5):
        labels = LABELS if depth < 4 else ["a", "*"]
        names += [".".join([*label, apex]) for label in itertools.product(labels, repeat=depth)]
    return [(name, rtype) for name in names for rtype in ("A", "TXT", "CNAME", "NS", "DS", "MX")]


# --- Messages


def to_wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def read_name(wire, at):
    labels, end = [], None
    while wire[at]:
        if wire[at] >= 192:
            end = end or at + 2
            at = (wire[at] & 63) << 8 | wire[at + 1]
            continue
        labels.append(wire[at + 1:at + 1 + wire[at]].decode("latin-1").lower())
        at += 1 + wire[at]
    return ".".join(labels) + ".", end or at + 1


def read(wire):
    """rcode, AA, and the records of the three sections as sets."""
    flags, *counts = struct.unpack(">5H", wire[2:12])
    at = 12
    for _ in range(counts[0]):
        at = read_name(wire, at)[1] + 4
    sections = []
    for count in counts[1:]:
        section = set()
        for _ in range(count):
            owner, at = read_name(wire, at)
            rtype, _, ttl, length = struct.unpack(">HHIH", wire[at:at + 10])
            at += 10
            data = wire[at:at + length]
            if rtype in (2, 5, 39):
                data = read_name(wire, at)[0]
            elif rtype == 15:
                data = (data[:2], read_name(wire, at + 2)[0])
            elif rtype == 6:
                data = read_name(wire, at)[0]
            at += length
            if rtype != 41:
                section.add((owner, NAMES.get(rtype, rtype), ttl, data))
        sections.append(section)
    return flags & 15, bool(flags & 0x400), *sections


def ask(port, name, rtype):
    query = struct.pack(">6H", 7, 0, 1, 0, 0, 1) + to_wire(name) + struct.pack(">2H", TYPES[rtype], 1)
    query += b"\0" + struct.pack(">HHIH", 41, 4096, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect(("127.0.0.1", port))
        s.send(query)
        try:
            return read(s.recv(4096))
        except OSError as error:
            return f"no answer: {error}"


def essence(answer, owners):
    """What servers have to agree on.

    NS records that come along with an answer are a matter of taste; so is glue made from a wildcard below a delegation, which
    RFC 1034 section 4.3.2 step 3b does not ask for.
    """
    if isinstance(answer, str):
        return answer
    rcode, authoritative, answers, authority, additional = answer
    matters = {record for record in authority if record[1] != "NS" or not authoritative and not answers}
    glue = {record for record in additional if any(record[0] == ns[3] for ns in authority if ns[1] == "NS") and record[0] in owners}
    return rcode, authoritative, frozenset(answers), frozenset(matters), frozenset(glue if not authoritative else ())


# --- Servers


def start(command, directory, log):
    return subprocess.Popen([str(word) for word in command], cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def knot(directory, port, zones):
    text = (f"server:\n    rundir: {directory}/knot\n    listen: 127.0.0.1@{port}\ndatabase:\n    storage: {directory}/knot\n"
            "log:\n  - target: stderr\n    any: warning\ntemplate:\n  - id: default\n    zonefile-load: whole\n"
            "    journal-content: none\n    zonefile-sync: -1\n    semantic-checks: off\nzone:\n")
    text += "".join(f"  - domain: {apex}\n    file: {file}\n" for apex, file in zones)
    (directory / "knot").mkdir()
    (directory / "knot.conf").write_text(text)
    return ["knotd", "--config", directory / "knot.conf"]


def nsd(directory, port, zones):
    text = (f'server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: ""\n  database: ""\n  zonesdir: "{directory}"\n'
            f'  pidfile: "{directory}/nsd.pid"\n  xfrdfile: "{directory}/xfrd"\n  xfrdir: "{directory}"\n  rrl-ratelimit: 0\n'
            f'  zonelistfile: "{directory}/list"\nremote-control:\n  control-enable: no\n')
    text += "".join(f'zone:\n  name: "{apex}"\n  zonefile: "{file}"\n' for apex, file in zones)
    (directory / "nsd.conf").write_text(text)
    return ["nsd", "-d", "-c", directory / "nsd.conf"]


def authd(directory, port, zones, binary):
    text = f'version = "v1"\nlisten = ["127.0.0.1:{port}"]\nadmin.listen = "none"\n'
    text += "".join(f'[[zone]]\nname = "{apex}"\nfile = "{file}"\n' for apex, file in zones)
    (directory / "authd.toml").write_text(text)
    return [binary, "serve", "--config", directory / "authd.toml"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zones", type=int, default=200)
    parser.add_argument("--port", type=int, default=16_300)
    parser.add_argument("--binary", type=Path, default=HOME / "target/debug/dns-authd")
    parser.add_argument("--show", type=int, default=10, help="differences to print")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    directory = Path(tempfile.mkdtemp(prefix="outpost-peers-"))
    zones, texts = [], {}
    for n in range(options.zones):
        apex = f"z{n}.test."
        lines = [f"{owner} 60 IN {rtype} {data}\n" for owner, rtype, data in random_zone(apex, chance)]
        texts[apex] = "".join(lines)
        file = directory / f"z{n}.zone"
        file.write_text(texts[apex])
        zones.append((apex, file))
    commands = {"dns-authd": authd(directory, options.port, zones, options.binary.resolve())}
    if shutil.which("knotd"):
        commands["knot"] = knot(directory, options.port + 1, zones)
    if shutil.which("nsd"):
        commands["nsd"] = nsd(directory, options.port + 2, zones)
    ports = {name: options.port + {"dns-authd": 0, "knot": 1, "nsd": 2}[name] for name in commands}
    logs = {name: open(directory / f"{name}.log", "wb") for name in commands}
    processes = {name: start(command, directory, logs[name]) for name, command in commands.items()}
    differences = asked = split = 0
    kinds = {}
    try:
        for name, port in ports.items():
            deadline = time.monotonic() + 30
            while isinstance(ask(port, zones[-1][0], "SOA"), str):
                if time.monotonic() > deadline or processes[name].poll() is not None:
                    sys.exit(f"{name} does not answer:\n{(directory / f'{name}.log').read_text()[-2000:]}")
                time.sleep(0.1)
        for apex, _ in zones:
            # A zone that a peer does not serve tells nothing.
            peers = [name for name in ports if name != "dns-authd" and ask(ports[name], apex, "SOA")[0] == 0]
            owners = {line.split()[0] for line in texts[apex].splitlines()}
            for question in questions(apex):
                asked += 1
                got = {name: essence(ask(ports[name], *question), owners) for name in ["dns-authd", *peers]}
                theirs = {got[name] for name in peers}
                split += len(theirs) > 1
                if len(theirs) == 1 and got["dns-authd"] not in theirs:
                    differences += 1
                    ours, other = got["dns-authd"], theirs.pop()
                    part = [what for what, x, y in zip(("rcode", "AA", "answer", "authority", "glue"), ours, other) if x != y]
                    kinds[tuple(part)] = kinds.get(tuple(part), 0) + 1
                    if kinds[tuple(part)] <= options.show:
                        print(f"--- {question} {part}\n{texts[apex]}ours: {ours}\nthey: {other}\n")
    finally:
        for name, process in processes.items():
            process.send_signal(signal.SIGTERM)
        for process in processes.values():
            process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)
    others = " and ".join(sorted(set(ports) - {"dns-authd"}))
    print(f"seed {options.seed}: {asked} questions; {others} differ from each other in {split}; we differ from what they "
          f"agree on in {differences} {kinds or ''}")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
