#!/usr/bin/env python3
"""timesync-agent and chronyd in clknetsim, each as the client of a chronyd, with the same clocks, networks and seeds.

    tests/bench/accuracy.py --clknetsim DIR --agent PROGRAM [--seeds 5] [--first 101] [--cache FILE] [NAME ...]

DIR has `clknetsim` and `clknetsim.so`, built by its `make`. PROGRAM is linked dynamically: built in a shell without
tests/target.sh. It prints rows of the table in docs/time-accuracy.md: medians over the seeds, the agent first. A NAME is that of a
scenario, or of a scenario and its polls: `B`, `B 6-10`. FILE keeps what chronyd did, which no change of the agent changes.

One simulation runs at a time. The programs run without the right to set the clock of this machine.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

LENGTH, SETTLED = 20_000, 4_000
# When something happens in a scenario in which something does; its figures count from then on.
EVENT = 10_000


def late(base, mean, more=""):
    return f"(+ {base} (* {mean} (exponential)) {more})"


def crystal(frequency="2e-5", wander="1e-9", more=""):
    return f"(+ {frequency} (sum (* {wander} (normal))) {more})"


def from_event(value):
    """In an expression of a delay: this much more from the event on."""
    return f"(* {value} (min 1 (max 0 (* 1e9 (+ time -{EVENT})))))"


USUAL, QUIET, SHORT = late("1e-4", "1e-4"), late("5e-5", "5e-6"), late("1e-4", "1e-5")
WIDE = late("2e-2", "2e-3")
HEAVY = "(+ 1e-4 (* 1e-5 (exponential) (exponential) (exponential)))"
LOSSY = late("1e-4", "1e-4", "(* -1 (min 1 (max 0 (* 1e9 (+ 0.3 (* -1 (uniform)))))))")
CONGESTED = "(* 2e-3 (exponential) (min 1 (max 0 (* 1e9 (+ 300 (* -1 (% time 1200)))))))"
NEIGHBOUR = late("1e-4", "1e-4", "(* 5e-3 (exponential) (min 1 (max 0 (* 1e9 (+ 120 (* -1 (% time 240)))))))")


def jump(ppm):
    return crystal(more=f'(file "jump-{ppm}")')


def scenario(offset=0.05, frequency=crystal(), there=USUAL, back=USUAL, servers=(0.0,), polls=("4-6", "6-10"), since=SETTLED, options=""):
    return locals()


SCENARIOS = {
    "A": scenario(offset=1.1, frequency=crystal("1e-4")),
    "B": scenario(polls=("4-6", "6-10", "0-3")),
    "C": scenario(there=QUIET, back=QUIET),
    "D": scenario(there=WIDE, back=WIDE),
    "E": scenario(frequency=crystal(wander="1e-8")),
    "F": scenario(servers=(0.0, 0.0, 0.5, 0.0)),
    "G": scenario(there=HEAVY, back=HEAVY),
    "H": scenario(there=late("1e-4", "1e-5", CONGESTED), back=SHORT),
    "I": scenario(frequency=crystal(more="(* 1e-6 (sine 7200))")),
    "J": scenario(there=LOSSY, back=LOSSY),
    "M": scenario(there=NEIGHBOUR, back=NEIGHBOUR),
    "one way 2 ms": scenario(there=late("1e-4", "1e-5", "(* 2e-3 (exponential))"), back=SHORT),
    "one way 2 ms, asymmetry": scenario(there=late("1e-4", "1e-5", "(* 2e-3 (exponential))"), back=SHORT, options="asymmetry -0.5"),
    "one way 200 us": scenario(there=late("1e-4", "1e-5", "(* 2e-4 (exponential))"), back=SHORT),
    "way back 2 ms": scenario(there=SHORT, back=late("1e-4", "1e-5", "(* 2e-3 (exponential))")),
    "jump 2 ppm": scenario(frequency=jump(2), since=EVENT),
    "jump 5 ppm": scenario(frequency=jump(5), since=EVENT),
    "jump 20 ppm": scenario(frequency=jump(20), since=EVENT),
    "route there 1 ms": scenario(there=late("1e-4", "1e-5", from_event("1e-3")), back=SHORT, since=EVENT),
    "route both 5 ms": scenario(there=late("1e-4", "1e-5", from_event("5e-3")), back=late("1e-4", "1e-5", from_event("5e-3")), since=EVENT),
}


def world(kind):
    client = len(kind["servers"]) + 1
    lines = [f"node{client}_offset = {kind['offset']}", f"node{client}_freq = {kind['frequency']}"]
    for server, error in enumerate(kind["servers"], 1):
        lines += [
            f"node{server}_offset = {error}",
            f"node{client}_delay{server} = {kind['there']}",
            f"node{server}_delay{client} = {kind['back']}",
        ]
    return "\n".join(lines) + "\n"


def client(kind, polls):
    low, high = polls.split("-")
    more = "xleave" if int(low) < 4 else ""
    sources = [
        f"server 192.168.123.{server} iburst minpoll {low} maxpoll {high} {more} {kind['options']}"
        for server in range(1, len(kind["servers"]) + 1)
    ]
    return "\n".join(sources) + "\nmakestep 1.0 3\n"


def simulate(arguments, kind, polls, program, seed):
    """RMS and largest offset in µs, RMS of the frequency in ppb, requests."""
    library = os.path.join(arguments.clknetsim, "clknetsim.so")
    nodes = [("chronyd", "local stratum 1\nallow\n")] * len(kind["servers"]) + [(program, client(kind, polls))]
    with tempfile.TemporaryDirectory() as directory:
        def write(name, text):
            path = os.path.join(directory, name)
            with open(path, "w") as file:
                file.write(text)
            return path

        for ppm in (2, 5, 20):
            write(f"jump-{ppm}", "0\n" * EVENT + f"{ppm}e-6\n" * (LENGTH - EVENT + 10))
        socket, running = os.path.join(directory, "socket"), []
        for node, (name, lines) in enumerate(nodes, 1):
            lines += f"driftfile {directory}/drift{node}\npidfile {directory}/pid{node}\nbindcmdaddress /\ncmdport 0\n"
            config = write(f"config{node}", lines)
            command = ["setpriv", "--inh-caps=-sys_time", "--bounding-set=-sys_time"] if os.geteuid() == 0 else []
            command += [
                "env", f"LD_PRELOAD={library}", f"CLKNETSIM_NODE={node}", f"CLKNETSIM_SOCKET={socket}",
                f"CLKNETSIM_RANDOM_SEED={seed}{node}", "CLKNETSIM_CONNECT_TIMEOUT=60",
            ]
            if name == "agent":
                command += [arguments.agent, "solo", "--chrony-conf", config]
            else:
                command += ["chronyd", "-d", "-U", "-u", "root", "-f", config]
            log = open(os.path.join(directory, f"log{node}"), "w")
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        result = subprocess.run(
            ["timeout", "300", os.path.join(arguments.clknetsim, "clknetsim"), "-l", str(LENGTH), "-r", str(kind["since"]),
             "-s", socket, write("world", world(kind)), str(len(nodes))],
            env={**os.environ, "CLKNETSIM_RANDOM_SEED": str(seed)}, cwd=directory, capture_output=True, text=True,
        )
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        text = result.stdout[result.stdout.rfind("RMS offset:"):]

        def figure(name):
            found = re.search(name + r":\s+(\S+)", text)
            if not found:
                logs = [open(os.path.join(directory, f"log{node}")).read() for node in range(1, len(nodes) + 1)]
                sys.exit("\n".join([result.stderr, result.stdout, *logs]))
            return float(found.group(1))

        interval = figure("Mean outgoing packet interval")
        return [figure("RMS offset") * 1e6, figure("Maximum absolute offset") * 1e6, figure("RMS frequency") * 1e9, LENGTH / interval]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clknetsim", required=True)
    options.add_argument("--agent", required=True)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--first", type=int, default=101)
    options.add_argument("--cache")
    options.add_argument("names", nargs="*")
    arguments = options.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    known = {}
    if arguments.cache and os.path.exists(arguments.cache):
        with open(arguments.cache) as file:
            known = json.load(file)
    print("| scenario | polls | RMS, µs | max, µs | frequency, ppb | requests | RMS, of chronyd's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, kind in SCENARIOS.items():
        for polls in kind["polls"]:
            if arguments.names and not {name, f"{name} {polls}"} & set(arguments.names):
                continue
            own, peers = [], []
            for seed in seeds:
                own.append(simulate(arguments, kind, polls, "agent", seed))
                key = f"{name} {polls} {seed}"
                if key not in known:
                    known[key] = simulate(arguments, kind, polls, "chronyd", seed)
                peers.append(known[key])
            pairs = list(zip(map(statistics.median, zip(*own)), map(statistics.median, zip(*peers))))
            cells = [f"**{own:.{digits}f}** / {peer:.{digits}f}" for (own, peer), digits in zip(pairs, (1, 0, 0, 0))]
            print(f"| {name} | {polls} | {' | '.join(cells)} | {pairs[0][0] / pairs[0][1]:.2f} |", flush=True)
            if arguments.cache:
                with open(arguments.cache, "w") as file:
                    json.dump(known, file)


main()
