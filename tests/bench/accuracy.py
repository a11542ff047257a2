#!/usr/bin/env python3
"""timesync-agent and chronyd in clknetsim, each as the client of a chronyd, with the same clocks, networks and seeds.

    tests/bench/accuracy.py --clknetsim DIR --agent PROGRAM [--seeds 5] [--first 101] [--cache FILE] [--holdover | --leap | --start] [NAME ...]

DIR has `clknetsim` and `clknetsim.so`, built by its `make`. PROGRAM is linked dynamically: built in a shell without
tests/target.sh. It prints rows of the table in docs/time-accuracy.md: medians over the seeds, the agent first. A NAME is that of a
scenario, or of a scenario and its polls: `B`, `B 6-10`. FILE keeps what chronyd did, which no change of the agent changes.
With --holdover the server is silent for eight hours after a day, and figures are root mean squares over the seeds; with --leap a
day ends with a leap second, which needs the zone right/UTC; with --start some of the servers are an hour wrong, and figures are the
worst of all seeds.

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


def rms(values):
    return (sum(value * value for value in values) / len(values)) ** 0.5


def silent_from(second):
    """In an expression of a delay: every packet is lost from this second on."""
    return f"(* -1 (min 1 (max 0 (* 1e9 (+ time -{second})))))"


DAY, HOLDOVER = 86_400, 8 * 3600
AWAY = late("1e-4", "1e-4", silent_from(DAY))
# Crystals by how much their frequency wanders, at random in each second or with the temperature of the day.
HOLDOVERS = {
    "1e-10 in a second": crystal(wander="1e-10"),
    "1e-9 in a second": crystal(wander="1e-9"),
    "1e-8 in a second": crystal(wander="1e-8"),
    "1e-9 in a second, and 1 ppm in a day": crystal(more=f"(* 1e-6 (sine {DAY}))"),
}

# The world begins with the last day of 2016, which had a leap second: the simulated kernel counts days from there.
LEAP_START, LEAP_AT, LEAP_LENGTH = 1_483_228_800 - DAY, DAY, 2 * DAY
SMEAR = "leapsecmode slew\nsmoothtime 400 0.001 leaponly\n"
# The half of a smear by these options: until then its rate grows by 0.001 ppm in each second, and shrinks after.
SMEAR_HALF = (1e9) ** 0.5
# For each: what the client is told to do, and whether its server smears.
LEAPS = {
    "`system`": ("leapsecmode system\n", False),
    "`step`": ("leapsecmode step\n", False),
    "`slew`": ("leapsecmode slew\n", False),
    "`ignore`": ("leapsecmode ignore\n", False),
    "the server smears": ("", True),
}

# Servers that are an hour wrong, beside servers that are right: how many of each, how long a packet takes one way from and to
# each kind, from which second on the right ones answer, and the options of all.
NEAR, FAR, HOUR = late("5e-4", "1e-5"), late("1e-2", "1e-5"), 3600.0
STARTS = {
    "2 of 5 near": (2, NEAR, 3, FAR, 0, "iburst"),
    "3 of 7 near": (3, NEAR, 4, FAR, 0, "iburst"),
    "2 of 5 near, without `iburst`": (2, NEAR, 3, FAR, 0, ""),
    "2 of 5, all near": (2, NEAR, 3, NEAR, 0, "iburst"),
    "2 of 5 far": (2, FAR, 3, NEAR, 0, "iburst"),
    "1 of 3, the others 4 s late": (1, NEAR, 2, FAR, 4, "iburst"),
    "1 of 3, the others 20 s late": (1, NEAR, 2, FAR, 20, "iburst"),
    "2 of 5, the others 20 s late": (2, NEAR, 3, FAR, 20, "iburst"),
}
# Errors count from these seconds on, to the end of the run.
START_SECONDS, START_LENGTH = (10, 60, 400), 1500


def silent_until(second):
    """In an expression of a delay: every packet is lost until this second."""
    return f"(* -1 (min 1 (max 0 (* 1e9 (+ {second} (* -1 time))))))" if second else ""


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
    nodes = [("chronyd", "local stratum 1\nallow\n")] * len(kind["servers"]) + [(program, client(kind, polls))]
    text, _ = run(arguments, world(kind), nodes, seed, LENGTH, kind["since"])
    text = text[text.rfind("RMS offset:"):]
    rms, most, frequency, interval = (
        float(re.search(name + r":\s+(\S+)", text).group(1))
        for name in ("RMS offset", "Maximum absolute offset", "RMS frequency", "Mean outgoing packet interval")
    )
    return [rms * 1e6, most * 1e6, frequency * 1e9, LENGTH / interval]


def run(arguments, world, nodes, seed, length, since, start=None):
    """Runs programs with their configurations. Returns the report of the simulator, and the offset of the last node in each second."""
    library = os.path.join(arguments.clknetsim, "clknetsim.so")
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
            if start:
                command.append(f"CLKNETSIM_START_DATE={start}")
            if name == "agent":
                command += [arguments.agent, "solo", "--chrony-conf", config]
            else:
                command += ["chronyd", "-d", "-U", "-u", "root", "-f", config]
            log = open(os.path.join(directory, f"log{node}"), "w")
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        offsets = os.path.join(directory, "offsets")
        result = subprocess.run(
            ["timeout", "300", os.path.join(arguments.clknetsim, "clknetsim"), "-l", str(length), "-r", str(since), "-o", offsets,
             "-s", socket, write("world", world), str(len(nodes))],
            env={**os.environ, "CLKNETSIM_RANDOM_SEED": str(seed)}, cwd=directory, capture_output=True, text=True,
        )
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if "RMS offset:" not in result.stdout:
            logs = [open(os.path.join(directory, f"log{node}")).read() for node in range(1, len(nodes) + 1)]
            sys.exit("\n".join([result.stderr, result.stdout, *logs]))
        with open(offsets) as file:
            return result.stdout, [float(line.split()[-1]) for line in file]


def holdover(arguments, frequency, program, seed):
    """RMS in µs before the server falls silent; offset in ms at the end of the hours without it, and RMS in them."""
    kind = scenario(frequency=frequency, there=AWAY, back=AWAY)
    nodes = [("chronyd", "local stratum 1\nallow\n"), (program, client(kind, "6-10"))]
    _, offsets = run(arguments, world(kind), nodes, seed, DAY + HOLDOVER, DAY)
    return [rms(offsets[SETTLED:DAY]) * 1e6, abs(offsets[-1]) * 1e3, rms(offsets[DAY:]) * 1e3]


def smeared(second):
    """Where a clock that is smeared is at a second, beside one without leap seconds."""
    since = second - LEAP_AT
    if since <= 0:
        return 0.0
    if since < SMEAR_HALF:
        return -0.5e-9 * since * since
    left = max(0.0, 2 * SMEAR_HALF - since)
    return -1.0 + 0.5e-9 * left * left


def leap(arguments, mode, is_smeared, program, seed):
    """Largest error in µs away from the leap second, seconds with an error of more than a millisecond, and the last such second after it."""
    lines, polls = mode, "minpoll 6 maxpoll 6"
    upstream = "refclock SHM 0 dpoll 6 poll 6\nallow\nleapsectz right/UTC\n"
    nodes = [("chronyd", upstream)]
    if is_smeared:
        nodes.append((program, f"server 192.168.123.1 iburst {polls}\nallow\n{SMEAR}"))
    server = len(nodes)
    nodes.append((program, f"server 192.168.123.{server} iburst {polls}\nmakestep 1.0 3\n{lines}"))
    # A clock that has the leap second: `sum` counts seconds.
    text = [f"node1_refclock = (+ 1 (* 1e-9 (normal)) (* -1 (equal 0.1 (max (sum 1.0) {LEAP_AT}) {LEAP_AT})))"]
    for node in range(2, len(nodes) + 1):
        text += [f"node{node}_freq = {crystal()}"]
        for other in range(1, node):
            text += [f"node{node}_delay{other} = {USUAL}", f"node{other}_delay{node} = {USUAL}"]
    _, offsets = run(arguments, "\n".join(text) + "\n", nodes, seed, LEAP_LENGTH, SETTLED, LEAP_START)

    def truth(second):
        return smeared(second) if is_smeared else -1.0 if second > LEAP_AT else 0.0

    errors = {second: abs(offset - truth(second)) for second, offset in enumerate(offsets, 1) if second > SETTLED}
    wrong = [second for second, error in errors.items() if error > 1e-3]
    after = max([second - LEAP_AT for second in wrong if second > LEAP_AT], default=0)
    usual = max(error for error in errors.values() if error <= 1e-3)
    return [usual * 1e6, len(wrong), after]


def start(arguments, case, program, seed):
    """The largest errors in ms from each of the seconds on."""
    n_wrong, wrong, n_right, right, since, options = case
    client, lines, sources = n_wrong + n_right + 1, [], []
    for server in range(1, client):
        is_wrong = server <= n_wrong
        delay = wrong if is_wrong else right.replace("(+ ", f"(+ {silent_until(since)} ", 1)
        lines += [f"node{server}_offset = {HOUR if is_wrong else 0.0}"]
        lines += [f"node{client}_delay{server} = {delay}", f"node{server}_delay{client} = {delay}"]
        sources.append(f"server 192.168.123.{server} {options}\n")
    lines += [f"node{client}_offset = 0.05", f"node{client}_freq = {crystal()}"]
    nodes = [("chronyd", "local stratum 1\nallow\n")] * (client - 1) + [(program, "".join(sources) + "makestep 1.0 3\n")]
    _, offsets = run(arguments, "\n".join(lines) + "\n", nodes, seed, START_LENGTH, 1)
    return [max(map(abs, offsets[second:])) * 1e3 for second in START_SECONDS]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clknetsim", required=True)
    options.add_argument("--agent", required=True)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--first", type=int, default=101)
    options.add_argument("--cache")
    options.add_argument("--holdover", action="store_true")
    options.add_argument("--leap", action="store_true")
    options.add_argument("--start", action="store_true")
    options.add_argument("names", nargs="*")
    arguments = options.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    known = {}
    if arguments.cache and os.path.exists(arguments.cache):
        with open(arguments.cache) as file:
            known = json.load(file)

    def compare(key, simulate, digits, summary=statistics.median):
        """What the seeds of the agent and of chronyd come to, by `summary`, both as cells of a table, and all figures of both."""
        own, peers = [], []
        for seed in seeds:
            own.append(simulate("agent", seed))
            name = f"{key} {seed}"
            if name not in known:
                known[name] = simulate("chronyd", seed)
            peers.append(known[name])
        if arguments.cache:
            with open(arguments.cache, "w") as file:
                json.dump(known, file)
        pairs = list(zip(map(summary, zip(*own)), map(summary, zip(*peers))))
        cells = " | ".join(f"**{own:.{places}f}** / {peer:.{places}f}" for (own, peer), places in zip(pairs, digits))
        return pairs, cells, (own, peers)

    def is_wanted(*names):
        return not arguments.names or set(names) & set(arguments.names)

    if arguments.holdover:
        print("| frequency | RMS before, µs | at the end, ms | RMS of the hold-over, ms | RMS, of chronyd's | nearer at the end |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, frequency in HOLDOVERS.items():
            if is_wanted(name):
                # Most of it is the walk of the crystal, the same for both: a median of a few seeds would be that of luck.
                pairs, cells, runs = compare(f"holdover {name}", lambda *run: holdover(arguments, frequency, *run), (1, 2, 2), rms)
                nearer = sum(own[1] < peer[1] for own, peer in zip(*runs))
                print(f"| {name} | {cells} | {pairs[2][0] / pairs[2][1]:.2f} | {nearer} of {len(seeds)} |", flush=True)
        return
    if arguments.leap:
        print("| client | largest error beside it, µs | seconds beyond 1 ms | the last of them after midnight |")
        print("| --- | --- | --- | --- |")
        for name, (mode, is_smeared) in LEAPS.items():
            if is_wanted(name):
                _, cells, _ = compare(f"leap {name}", lambda *run: leap(arguments, mode, is_smeared, *run), (0, 0, 0))
                print(f"| {name} | {cells} |", flush=True)
        return
    if arguments.start:
        print("| an hour wrong | worst error after 10 s, ms | after 60 s | after 400 s |")
        print("| --- | --- | --- | --- |")
        for name, case in STARTS.items():
            if is_wanted(name):
                _, cells, _ = compare(f"start {name}", lambda *run: start(arguments, case, *run), (3, 3, 3), max)
                print(f"| {name} | {cells} |", flush=True)
        return
    print("| scenario | polls | RMS, µs | max, µs | frequency, ppb | requests | RMS, of chronyd's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, kind in SCENARIOS.items():
        for polls in kind["polls"]:
            if is_wanted(name, f"{name} {polls}"):
                pairs, cells, _ = compare(f"{name} {polls}", lambda *run: simulate(arguments, kind, polls, *run), (1, 0, 0, 0))
                print(f"| {name} | {polls} | {cells} | {pairs[0][0] / pairs[0][1]:.2f} |", flush=True)


main()
