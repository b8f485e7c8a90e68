"""Waiting for what another process does. The limit only ends a hanging run; nothing is asserted about it."""
import select
import time

HANG_S = 120


class Hang(AssertionError):
    """What was waited for did not happen."""


class Deadline:
    def __init__(self, what, seconds=HANG_S):
        self.what = what
        self.end = time.monotonic() + seconds

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise Hang(f"waited in vain for {self.what() if callable(self.what) else self.what}")
        return left


def is_readable(descriptor, seconds):
    """Whether there is something to read within the time. Not select(): a test may hold more than 1,024 descriptors."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def until(condition, what):
    """Asks again and again, for state that nobody announces. Returns the first true answer."""
    deadline = Deadline(what)
    while True:
        answer = condition()
        if answer:
            return answer
        time.sleep(min(0.02, deadline.left()))
