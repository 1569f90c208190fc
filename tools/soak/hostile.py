"""One attacker: it sends the bytes of an `Attack` until it is stopped."""

import contextlib
import socket
import struct
import threading
from typing import NamedTuple

HOST = "127.0.0.1"
# Good clients have another address than attackers: bounds count by address.
_ATTACKER = "127.0.0.2"
TIMEOUT = 60
WAIT = 0.02  # between two tries
Stop = threading.Event

# What an attacker does after it has sent its bytes.
READ, HOLD, LEAVE, RESET = "read", "hold", "leave", "reset"


class Attack(NamedTuple):
    """What one attacker sends over each connection, and what it does then.

    Attributes:
      data: bytes.
      then: `READ` until the server closes, `HOLD` the connection open for
        `seconds` without reading, `LEAVE` it, or `RESET` it.
      status: of the first answer; 0 = it depends on the model.
      times: how often `data` is sent.
      step: bytes of one send; 0 = all.
      pause: seconds after each send.
      seconds: that an answer, or the connection that is held, may take.
      together: connections that are open at once.
    """

    data: bytes
    then: str = READ
    status: int = 0
    times: int = 1
    step: int = 0
    pause: float = 0.0
    seconds: float = TIMEOUT
    together: int = 1


def perform(attack: Attack, port: int, stop: Stop) -> bytes:
    """Does it once; what was answered on the last connection."""
    answer = b""
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        for _ in range(attack.together):
            s = stack.enter_context(_connected(attack, port))
            for _ in range(attack.times):
                if not _send(s, attack, stop):
                    return answer
        if attack.then == READ:
            s.settimeout(attack.seconds)
            while (block := s.recv(1 << 16)) and not stop.is_set():
                answer += block
        elif attack.then == HOLD:
            stop.wait(attack.seconds)
        elif attack.then == RESET:
            linger = struct.pack("ii", 1, 0)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return answer


def repeat(attack: Attack, port: int, stop: Stop) -> None:
    """Does it again and again."""
    while not stop.is_set():
        perform(attack, port, stop)
        stop.wait(WAIT)


def _connected(attack: Attack, port: int) -> socket.socket:
    s = socket.socket()
    if attack.then == HOLD:  # what is not read shall not fit here
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    s.settimeout(TIMEOUT)
    try:
        s.bind((_ATTACKER, 0))
        s.connect((HOST, port))
    except OSError:
        s.close()
        raise
    return s


def _send(s: socket.socket, attack: Attack, stop: Stop) -> bool:
    """Sends the bytes once; False: it was stopped."""
    step = attack.step or max(len(attack.data), 1)
    for begin in range(0, len(attack.data), step):
        s.sendall(attack.data[begin : begin + step])
        if attack.pause and stop.wait(attack.pause):
            return False
    return not stop.is_set()
