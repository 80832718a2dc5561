"""A plugin for trainings of several ranks: a callback by which one of them fails, once."""

import os
import random
import signal
import threading
from pathlib import Path

import nacre
from nacre import Callback, CallbackState


@nacre.register
class Doom(Callback):
    """Lets a rank fail in some way, unless the file `once` is there."""

    every_n_iter: int = 1
    rank: int = 1
    at: int = 0
    how: str = "kill"
    once: str = "doomed"

    def start(self, training):
        return DoomState(self, training)


class DoomState(CallbackState):
    def begin(self):
        callback = self.callback
        self.doomed = self.training.net.rank == callback.rank and not Path(callback.once).exists()
        if self.doomed and callback.how == "whenever":
            Path(callback.once).touch()
            moment = random.Random(callback.at).uniform(0, 0.6)
            timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()

    def run(self):
        callback = self.callback
        if not self.doomed or self.training.iteration != callback.at:
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
        if callback.how == "signal":
            os.kill(os.getppid(), signal.SIGTERM)
