"""What every benchmark does the same way: its options, its directory, the tools it calls, the order of a run."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]


def parser(doc, before=False):
    """Options that all benchmarks have; each adds its own. Some can measure another build as a peer."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = Path(os.environ.get("CARGO_TARGET_DIR", HOME / "target")) / "release"
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--binaries", type=lambda text: Path(text).resolve(), default=built.resolve(), help="where cargo has put them")
    if before:
        made.add_argument("--before", type=lambda text: Path(text).resolve(), metavar="DIR",
                          help="binaries of another build, measured in the same rounds as the peer `before`")
    made.add_argument("--json", type=Path, help="write every measurement to a file")
    made.add_argument("--keep", action="store_true", help="keep the directory with configurations and logs")
    return made


class Directory:
    """Where a run has its configurations, logs and data."""

    def __init__(self, options, parent=None):
        self.directory = Path(tempfile.mkdtemp(prefix="outpost-bench-", dir=parent))
        # Servers that give up root read their files here.
        self.directory.chmod(0o755)
        self.is_kept = options.keep

    def path(self, name, text=None):
        """A file in it, with that content."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
        return path

    def remove(self):
        if self.is_kept:
            print(f"kept: {self.directory}", file=sys.stderr)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


class Wire:
    """Two namespaces, client and server, and a link between them."""

    def __init__(self, clients, servers):
        tag = f"outpost-bench-{os.getpid()}"
        self.client, self.server = f"{tag}-client", f"{tag}-server"
        for name in (self.client, self.server):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.client, "link", "add", "wire0", "type", "veth", "peer", "name", "wire1", "netns", self.server)
        for name, link, addresses in [(self.client, "wire0", clients), (self.server, "wire1", servers)]:
            for address in addresses:
                run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            run("ip", "-n", name, "link", "set", link, "up")

    def close(self):
        for name in (self.client, self.server):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def run(*command):
    """What a tool says, which has to succeed within five minutes."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def carry_out(bench, show, options):
    """One benchmark from its start to the table of its results; whatever happens, nothing of it goes on running."""
    try:
        bench.start()
        results = bench.run()
    finally:
        bench.close()
    show(results)
    write(results, options)


def write(results, options):
    """Every measurement, for whoever asked for a file of them."""
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
