"""Locks of a process: in a forked child those are free that threads had which the child does not have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nacre import process_lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

HELD = """
import os, signal, sys, threading, warnings
import numpy as np
import nacre
from nacre import InputLayer, Net, open_backend, process_lock
from nacre_layers import InnerProductLayer
warnings.simplefilter("ignore")  # Python warns of a fork beside threads

def held(lock):
    # Hold a lock in another thread until the process ends.
    taken = threading.Event()
    def hold():
        with lock:
            taken.set()
            threading.Event().wait()
    threading.Thread(target=hold, daemon=True).start()
    taken.wait()

def make():
    layers = [InputLayer(name="in", tops="x", shape=3), InnerProductLayer(bottoms="x", tops="y", output_dim=2)]
    return Net("net", layers, backend="numpy", phase="predict")

def in_child(call):
    # Return whether a call ends well in a forked child.
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    signal.alarm(60)  # of a child that waits for ever
    call()
    os._exit(0)

"""
"""Beginning of a script of a process in which threads hold locks when it is forked."""


def run(script: str) -> None:
    code = HELD + script + "\nos._exit(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lock_that_another_thread_has_is_free_in_a_child() -> None:
    run("""
lock = process_lock()
held(lock)
assert not lock.acquire(blocking=False)
assert in_child(lambda: lock.__enter__())
""")


def test_a_lock_of_the_thread_that_forks_is_still_its_own_in_the_child() -> None:
    run("""
lock = process_lock()
def leave():
    lock.release()
    threading.Thread(target=lambda: lock.acquire(blocking=False) and os._exit(0)).start()
    threading.Event().wait()
with lock:
    assert in_child(lambda: lock.release())
    assert in_child(leave)
""")


def test_a_process_lock_may_be_taken_again_by_its_thread() -> None:
    lock = process_lock()
    with lock, lock:
        pass
    assert lock.acquire(blocking=False)
    lock.release()


@pytest.mark.parametrize(
    ("lock", "call"),
    [
        ("open_backend('numpy').turn", "make().forward()"),
        ("nacre.protocols.backend._opening", "make().forward()"),
        ("nacre.discovery.registry._making", "make().forward()"),
        ("nacre.graph.containers._lock", "nacre.graph.containers.inner_layers(container)"),
        ("nacre.discovery.guard._aside.lock", "prints_aside().__enter__()"),
        ("open_backend('numpy').pool._reserving", "open_backend('numpy').pool.reserve('windows', 64)"),
        ("nacre_data.quiet.LOCK", "nacre_data.quiet.quiet().__enter__()"),
    ],
)
def test_a_child_goes_on_whatever_a_thread_was_doing(lock: str, call: str) -> None:
    run(f"""
import nacre.graph.containers, nacre_data.quiet
from nacre.discovery.guard import prints_aside
from nacre_layers import SequentialLayer
container = SequentialLayer(name="s", bottoms="x", tops="y", layer=[{{"type": "InnerProduct", "output_dim": 2}}])
make()
held({lock})
assert in_child(lambda: {call})
""")


def test_a_child_uses_a_net_that_another_thread_was_using() -> None:
    run("""
net = make()
held(net.turns.alone)
x = np.ones((1, 3), "float32")
def use():
    net.write("x", x)
    net.forward()
    net.predict(x)
    assert not net.turns.room.locked()
assert in_child(use)
""")


def test_a_child_is_still_inside_a_net_that_its_own_thread_was_using() -> None:
    run("""
net = make()
with net.turns.alone:
    def leave():
        assert net.turns.room.locked()
        net.turns.alone.__exit__()
        assert not net.turns.room.locked()
    assert in_child(leave)
    assert net.turns.room.locked()
""")
