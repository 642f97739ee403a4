"""Programs that load libtorch, started as forks of one that has loaded it (docs/decisions/0034-warm-programs.md).

WarmPrograms makes a folder with a stand-in for each program. A stand-in asks for a fork with its own arguments,
environment, folder and streams, passes signals on to it, and ends as it ended; when the stand-in is killed, so is the
fork. Whatever starts programs by their path (a shell, `muster launch`, `muster jobs`) starts forks this way, which
spares it the second of processor time that loading libtorch takes. Stopping a stand-in (SIGSTOP) does not stop its fork:
the file forks/PID of the folder has the fork of the stand-in PID, for who wants to.
"""
import collections
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading

# As in muster/base/warm_program.cpp: bytes of text, seconds, arguments, the signal at its parent's end.
_HEADER = struct.Struct("<QIIi4x")
_REPORT = struct.Struct("<ii")
_BEGAN = -1
_STREAMS = 3
# The first message of a stand-in: the length of its program's name, and of everything after it.
_ASK = struct.Struct("<II")

# Imports what the interpreter has anyway: it starts in 10 ms.
_STAND_IN = """#!/usr/bin/python3 -IS
import os, sys
import _signal as signal
import _socket as socket
if "MUSTER_WARM_SOCKET" in os.environ:  # It is to be a warm program itself.
    os.execv(@PROGRAM@, sys.argv)
fork, waiting = [], []
def pass_on(number, _):
    os.kill(fork[0], number) if fork else waiting.append(number)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, pass_on)
name = os.path.basename(sys.argv[0]).encode()
words = [os.getcwdb()] + [os.fsencode(word) for word in sys.argv[1:]]
words += [key + b"=" + value for key, value in os.environb.items()]
text = b"".join(word + b"\\0" for word in words)
header = len(text).to_bytes(8, "little") + bytes(4) + (len(sys.argv) - 1).to_bytes(4, "little") + bytes(8)
rest = name + header + text
warm = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
warm.connect(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))), "socket"))
streams = b"".join(number.to_bytes(4, "little") for number in range(3))
warm.sendmsg([len(name).to_bytes(4, "little") + len(rest).to_bytes(4, "little")],
             [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
while rest:
    rest = rest[warm.send(rest):]
def receive():
    data = b""
    while len(data) < 4:
        more = warm.recv(4 - len(data))
        if not more:
            os.write(2, name + b": its warm program has ended\\n")
            os._exit(127)
        data += more
    return int.from_bytes(data, "little", signed=True)
fork.append(receive())
for number in waiting:
    os.kill(fork[0], number)
status = receive()
if os.WIFEXITED(status):
    os._exit(os.WEXITSTATUS(status))
if os.WTERMSIG(status) != signal.SIGKILL:
    signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
os.kill(os.getpid(), os.WTERMSIG(status))
"""


class _Program:
    """One that has been loaded, and what is asked of it."""

    def __init__(self, path):
        self.socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen([path], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL,
                                             env=dict(os.environ, MUSTER_WARM_SOCKET=str(other.fileno())))
        self.asked = collections.deque()  # Stand-ins, in order, whose fork has not begun.
        self.forks = {}  # Stand-in, by fork.

    def start(self, stand_in, rest, streams):
        socket.send_fds(self.socket, [rest[:_HEADER.size]], streams)
        self.socket.sendall(rest[_HEADER.size:])
        self.asked.append(stand_in)

    def end(self):
        for fork in self.forks:
            os.kill(fork, signal.SIGKILL)
        self.socket.close()
        self._process.wait(60)


class WarmPrograms:
    """Stand-ins in `bin`, for as long as the `with` lasts; each program is loaded when it is first asked for."""

    def __init__(self, folder, paths, copies=()):
        """`copies` are programs that look for those of `paths` beside themselves."""
        self.bin = os.path.join(folder, "bin")
        self._forks = os.path.join(folder, "forks")
        os.makedirs(self.bin)
        os.makedirs(self._forks)
        self._paths = {os.path.basename(path): path for path in paths}
        self._programs = {}
        self._gone = set()  # Stand-ins that ended before their fork began.
        for name, path in self._paths.items():
            with open(os.path.join(self.bin, name), "w", encoding="utf-8") as file:
                file.write(_STAND_IN.replace("@PROGRAM@", repr(path)))
            os.chmod(file.name, 0o755)
        for path in copies:
            shutil.copy(path, self.bin)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "socket"))
        self._listener.listen(64)
        self._stop, self._stopped = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._stopped, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.close()
        self._thread.join()
        for program in self._programs.values():
            program.end()
        self._listener.close()

    def _serve(self):
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                # One of them may have closed another of these.
                if key.fileobj in self._selector.get_map():
                    key.data(key.fileobj)

    @staticmethod
    def _receive(connection, size):
        data = b""
        while len(data) < size:
            try:
                more = connection.recv(size - len(data))
            except ConnectionResetError:  # It ended before it had read everything.
                return None
            if not more:
                return None
            data += more
        return data

    def _accept(self, listener):
        stand_in, _ = listener.accept()
        first, streams, _, _ = socket.recv_fds(stand_in, _ASK.size, _STREAMS)
        if len(first) == _ASK.size and len(streams) == _STREAMS:
            name_size, size = _ASK.unpack(first)
            rest = self._receive(stand_in, size)
            if rest is not None:
                self._program(rest[:name_size].decode()).start(stand_in, rest[name_size:], streams)
                self._selector.register(stand_in, selectors.EVENT_READ, self._lose)
        for stream in streams:
            os.close(stream)

    def _program(self, name):
        if name not in self._programs:
            program = _Program(self._paths[name])
            self._programs[name] = program
            self._selector.register(program.socket, selectors.EVENT_READ, lambda _: self._hear(program))
        return self._programs[name]

    def _hear(self, program):
        report = self._receive(program.socket, _REPORT.size)
        if report is None:  # It was killed, or does not know how to be warm.
            self._selector.unregister(program.socket)
            for stand_in in [*program.asked, *program.forks.values()]:
                self._close(stand_in)
            program.asked.clear()
            program.forks.clear()
            return
        fork, status = _REPORT.unpack(report)
        if status == _BEGAN:
            stand_in = program.asked.popleft()
            program.forks[fork] = stand_in
            with open(self._file_of(stand_in) + ".new", "w", encoding="utf-8") as file:
                file.write(str(fork))
            os.rename(file.name, self._file_of(stand_in))
            if stand_in in self._gone:
                os.kill(fork, signal.SIGKILL)
            else:
                self._tell(stand_in, fork)
        else:
            stand_in = program.forks.pop(fork)
            os.remove(self._file_of(stand_in))
            self._tell(stand_in, status)
            self._close(stand_in)

    def _file_of(self, stand_in):
        peer = stand_in.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return os.path.join(self._forks, str(struct.unpack("3i", peer)[0]))

    def _tell(self, stand_in, number):
        if stand_in not in self._gone:
            try:
                stand_in.sendall(struct.pack("<i", number))
            except OSError:
                pass  # It was killed, which is read soon.

    def _close(self, stand_in):
        if stand_in in self._gone:
            self._gone.remove(stand_in)
        else:
            self._selector.unregister(stand_in)
        stand_in.close()

    def _lose(self, stand_in):
        """It says nothing after it has asked, so this is its end."""
        self._selector.unregister(stand_in)
        self._gone.add(stand_in)
        for program in self._programs.values():
            for fork, one in program.forks.items():
                if one is stand_in:
                    os.kill(fork, signal.SIGKILL)


def main():
    """warm_programs.py FOLDER PROGRAM...: until its input ends."""
    with WarmPrograms(sys.argv[1], sys.argv[2:]):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
