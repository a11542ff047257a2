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
        """Nanoseconds on a core so far, of all threads, those that have ended too."""
        total = 0
        for pid in self.members():
            try:
                total += time.clock_gettime_ns(cpu_clock(pid))
            except OSError:
                continue
        return total

    def resident(self):
        """Octets of memory, those that its processes share counted once for each."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.members())
        return pages * os.sysconf("SC_PAGE_SIZE")

    def waits(self):
        """How often its threads have gone to sleep, and so are woken."""
        total = 0
        for pid in self.members():
            for status in Path(f"/proc/{pid}/task").glob("*/status"):
                _, _, rest = status.read_text().partition("\nvoluntary_ctxt_switches:")
                total += int(rest.split()[0])
        return total

    def ended(self):
        return self.process.poll() is not None

    def text(self):
        """The end of what it has said."""
        return self.path.read_text(errors="replace")[-3000:]

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in list(self.members()):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and list(self.members()):
                time.sleep(0.02)
        self.process.wait()
        self.log.close()


def cpu_clock(pid):
    """The clock that runs while a process does: clock_getcpuclockid(3), which Python has for threads only."""
    return ~pid << 3 | 2
