"""Runs on the box: says a word on a port of every address of the host, and keeps saying it on the host's own wires."""

from __future__ import annotations

import socket
import sys
import threading
import time


def serve(address: str, port: int, word: bytes) -> None:
    """Answer whoever connects."""
    listener = socket.create_server((address, port), family=socket.AF_INET6, dualstack_ipv6=address == "::")
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(word)


def main() -> None:
    """Serve, and every tenth of a second ask over loopback, at the box's own address, and the metadata service."""
    word, port, own_address = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3]
    for place in (("::", port), ("fd00:ec2::254", 80)):
        threading.Thread(target=serve, args=(*place, word), daemon=True).start()
    while True:
        for address, asked in (("127.0.0.1", port), (own_address, port), ("169.254.169.254", 80)):
            try:
                with socket.create_connection((address, asked), 2) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\nX-Word: " + word + b"\r\n\r\n")
                    connection.recv(4096)
            except OSError as error:
                # Not up yet; the test asks itself whether it is.
                print(error, file=sys.stderr, flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
