"""A plugin for trainings of several ranks: a callback by which one of them fails, or ends all, once."""

import os
import random
import signal
import threading
from pathlib import Path

import nacre
from nacre import Callback, CallbackState, Framework, FrameworkState


@nacre.register
class Silent(Framework):
    """Says nothing of its ranks."""

    def start(self, training):
        return FrameworkState(self, training)


@nacre.register
class Doom(Callback):
    """Lets a rank do something, unless the file `once` is there: in `run` at an iteration, or `when` else it says."""

    every_n_iter: int = 1
    rank: int = 1
    at: int = 0
    how: str = "kill"
    when: str = "run"
    once: str = "doomed"

    def start(self, training):
        state = DoomState(self, training)
        state.now("start")
        return state


class DoomState(CallbackState):
    def begin(self):
        callback = self.callback
        self.now("begin")
        if callback.how == "whenever" and not self.spared():
            Path(callback.once).touch()
            moment = random.Random(callback.at).uniform(0, 0.6)
            timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()

    def run(self):
        if self.training.iteration == self.callback.at:
            self.now("run")

    def finish(self):
        self.now("finish")

    def spared(self):
        callback = self.callback
        return self.training.net.rank != callback.rank or Path(callback.once).exists()

    def now(self, when):
        callback = self.callback
        if callback.when != when or self.spared():
            return
        Path(callback.once).touch()
        if callback.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if callback.how == "raise":
            raise nacre.DataError("the well has run dry", "dig deeper")
        if callback.how == "bug":
            raise ValueError("a mistake")
        if callback.how == "stop":
            self.training.stop("Doom")
        if callback.how == "exit":
            os._exit(0)
        if callback.how == "signal":
            stop_launcher(signal.SIGTERM)
        if callback.how == "all":  # as a system does that stops a service
            stop_launcher(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        if callback.how in ("SIGTERM", "SIGINT", "SIGHUP"):
            stop_launcher(getattr(signal, callback.how))
            while True:
                signal.pause()


def stop_launcher(number, *before):
    """Send a signal to the process that has started the ranks, as soon as it waits for one, and others before it."""
    caught = 1 << (signal.SIGTERM - 1)  # Python itself catches SIGINT
    status = Path(f"/proc/{os.getppid()}/status")
    while status.exists():
        masks = dict(line.split(":", 1) for line in status.read_text().splitlines())
        if int(masks["SigCgt"], 16) & caught:
            break
        threading.Event().wait(0.01)
    for one in (*before, number):
        os.kill(os.getppid(), one)
