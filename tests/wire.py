"""A node in a process of its own, and all bytes that pass between it and the server.

Where the system allows it (Linux, as root), the process is in a network namespace, whose only way
out is a link on which every packet is read. Elsewhere a proxy between the two keeps all bytes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cobandits.federated import Answer, Ask, Node
from cobandits.federated.messages import decoded_answer, decoded_ask, encoded
from cobandits.tasks import TaskRows

NAME, HERE, THERE = f"cb{os.getpid() % 10**6}", "10.198.7.1", "10.198.7.2"
PORT = 7071
_ALL, _IP = 0x0003, 0x0800  # protocols of packets


def send(link: socket.socket, content: bytes) -> None:
    link.sendall(struct.pack("<I", len(content)) + content)


def receive(link: socket.socket) -> bytes:
    (size,) = struct.unpack("<I", _exactly(link, 4))
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = link.recv(size - len(content))
        if not part:
            raise EOFError
        content += part
    return content


def serve(host: str, port: int, rows: str, rank: int) -> None:
    """Answer the one server that connects, from rows in a file."""
    with np.load(rows) as held:
        node = Node(TaskRows.from_arrays(held["rows"], held["rewards"], held["tasks"]), rank=rank)
    with socket.create_server((host, port)) as listener:
        print(listener.getsockname()[1], flush=True)
        link, _ = listener.accept()
        with link, contextlib.suppress(EOFError):
            while True:
                send(link, encoded(node.answer(decoded_ask(receive(link)))))


class Remote(NamedTuple):
    """A node elsewhere, and what has passed so far: to it, and from it."""

    link: socket.socket
    to: bytearray
    back: bytearray

    def answer(self, ask: Ask) -> Answer:
        send(self.link, encoded(ask))
        return decoded_answer(receive(self.link))


def messages(passed: bytes | bytearray) -> list[bytes]:
    """Return the framed messages that these bytes are, all of them."""
    found, place = [], 0
    while place < len(passed):
        (size,) = struct.unpack_from("<I", passed, place)
        found.append(bytes(passed[place + 4 : place + 4 + size]))
        place += 4 + size
    assert place == len(passed)
    return found


@contextlib.contextmanager
def remote(rows: Path, rank: int, *, namespace: bool) -> Iterator[Remote]:
    """Start a node, in a ``namespace`` if the system allows it; yield it."""
    with contextlib.ExitStack() as stack:
        to, back = bytearray(), bytearray()
        apart = namespace and stack.enter_context(_namespace())
        words = [sys.executable, "-m", "tests.wire", THERE if apart else "127.0.0.1"]
        words += [str(PORT if apart else 0), str(rows), str(rank)]
        if apart:
            words = ["ip", "netns", "exec", NAME, *words]
        process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        address = (THERE, port) if apart else stack.enter_context(_proxy(port, to, back))
        if apart:
            stack.enter_context(_sniffer(port, to, back))
        link = stack.enter_context(socket.create_connection(address))
        yield Remote(link, to, back)


@contextlib.contextmanager
def _namespace() -> Iterator[bool]:
    """Make a network namespace with one link, and yield whether the system let us."""
    lines = (
        f"netns add {NAME}",
        f"link add {NAME}a type veth peer name {NAME}b",
        f"link set {NAME}b netns {NAME}",
        f"addr add {HERE}/24 dev {NAME}a",
        f"link set {NAME}a up",
        f"-n {NAME} addr add {THERE}/24 dev {NAME}b",
        f"-n {NAME} link set {NAME}b up",
    )
    try:
        try:
            for line in lines:
                subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            yield False
        else:
            yield True
    finally:
        with contextlib.suppress(OSError):
            for line in (f"link del {NAME}a", f"netns del {NAME}"):
                subprocess.run(["ip", *line.split()], check=False, capture_output=True)


@contextlib.contextmanager
def _sniffer(port: int, to: bytearray, back: bytearray) -> Iterator[None]:
    """Read the payload of every packet on the link, to a port of the node and from it."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(_ALL)) as raw:
        raw.bind((f"{NAME}a", _ALL))  # what goes out is seen by those that ask for all
        raw.settimeout(0.1)
        done = threading.Event()

        def read() -> None:
            next_byte: dict[bool, int] = {}  # TCP sequence numbers: a packet may come twice
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    packet, (_, protocol, *_) = raw.recvfrom(1 << 16)
                    if protocol == _IP:
                        _note(packet, port, to, back, next_byte)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _note(
    packet: bytes, port: int, to: bytearray, back: bytearray, next_byte: dict[bool, int]
) -> None:
    head = 4 * (packet[0] & 15)
    tcp = packet[head : int.from_bytes(packet[2:4], "big")]
    source, target, sequence = struct.unpack(">HHI", tcp[:8])
    payload = tcp[4 * (tcp[12] >> 4) :]
    if port not in (source, target) or not payload:
        return
    outward = target == port
    if sequence >= next_byte.get(outward, 0):
        next_byte[outward] = sequence + len(payload)
        (to if outward else back).extend(payload)


@contextlib.contextmanager
def _proxy(port: int, to: bytearray, back: bytearray) -> Iterator[tuple[str, int]]:
    """Pass on all bytes to a port of this machine and from it, and keep them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            near, _ = listener.accept()
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                other = threading.Thread(target=_copied, args=(far, near, back))
                other.start()
                _copied(near, far, to)
                other.join()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]


def _copied(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            kept.extend(part)
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
