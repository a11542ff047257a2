"""A program that leads a session of its own, and what all of its processes use."""

import os
import signal
import subprocess
import time
from pathlib import Path


class Session:
    """A running program and its children."""

    def __init__(self, name, command, directory):
        self.name = name
        self.path = directory / f"{name}.log"
        self.log = open(self.path, "ab")
        self.process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=directory, start_new_session=True,
        )

    def members(self):
        """The process ids of the session: the program and its children."""
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid and fields[0] != "Z":
                yield int(entry.name)

    def cpu(self):
        """Nanoseconds on a core so far, of all threads."""
        total = 0
        for pid in self.members():
            try:
                for thread in os.scandir(f"/proc/{pid}/task"):
                    total += int(Path(thread.path, "schedstat").read_text().split()[0])
            except OSError:
                continue
        return total

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in list(self.members()):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and list(self.members()):
                time.sleep(0.02)
        self.process.wait()
        self.log.close()
