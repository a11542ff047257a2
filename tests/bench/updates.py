"""DNS UPDATE (RFC 2136) with TSIG, as nsupdate and external-dns send it: over one TCP connection, each update behind the response to
the one before.

An update adds an address to a name and takes the one before away. Every server has to have it on disk when it responds.
"""

import base64
import hashlib
import hmac
import socket
import struct
import sys
import time

KEY_NAME = "bench.key"
SECRET = base64.b64encode(b"the key of the benchmark, no secret").decode()
ALGORITHM = "hmac-sha256"
# Names that the updates go through.
NAMES = 500


def wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def signed(message):
    """A message with its signature (RFC 8945 §4.2)."""
    now = int(time.time())
    clock = struct.pack(">HIH", now >> 32, now & 0xFFFFFFFF, 300)
    variables = wire(KEY_NAME) + struct.pack(">HI", 255, 0) + wire(ALGORITHM) + clock + struct.pack(">HH", 0, 0)
    digest = hmac.new(base64.b64decode(SECRET), message + variables, hashlib.sha256).digest()
    data = wire(ALGORITHM) + clock + struct.pack(">H", len(digest)) + digest + message[:2] + struct.pack(">HH", 0, 0)
    record = wire(KEY_NAME) + struct.pack(">HHIH", 250, 255, 0, len(data)) + data
    (count,) = struct.unpack(">H", message[10:12])
    return message[:10] + struct.pack(">H", count + 1) + message[12:] + record


def update(number, zone):
    """Takes the addresses of a name away, and adds one."""
    owner = wire(f"u{number % NAMES}.{zone}")
    gone = owner + struct.pack(">HHIH", 1, 255, 0, 0)
    address = struct.pack(">I", (10 << 24) + number % (1 << 24))
    new = owner + struct.pack(">HHIH", 1, 1, 60, 4) + address
    head = struct.pack(">6H", number & 0xFFFF, 5 << 11, 1, 0, 2, 0)
    return signed(head + wire(zone) + struct.pack(">2H", 6, 1) + gone + new)


class Stream:
    """A connection to a server, and the updates that go over it."""

    def __init__(self, port, zone):
        self.zone = zone
        self.number = 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self, length):
        octets = b""
        while len(octets) < length:
            more = self.socket.recv(length - len(octets))
            if not more:
                sys.exit("the server has closed the connection")
            octets += more
        return octets

    def send(self):
        """One update; returns its response code."""
        self.number += 1
        message = update(self.number, self.zone)
        self.socket.sendall(struct.pack(">H", len(message)) + message)
        (length,) = struct.unpack(">H", self.receive(2))
        return self.receive(length)[3] & 15

    def run(self, seconds):
        """Updates for a while: how many, and how long they took."""
        begun = time.monotonic()
        count = 0
        while time.monotonic() < begun + seconds:
            code = self.send()
            if code != 0:
                sys.exit(f"update {self.number} has response code {code}")
            count += 1
        return count, time.monotonic() - begun

    def close(self):
        self.socket.close()
