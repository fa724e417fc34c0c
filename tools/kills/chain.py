"""A fit that is struck again and again, always started anew, and then let through.

A loss is a fit whose model file differs in any byte from that of a fit that nothing happened to, a start
that goes on from an earlier epoch than the last checkpoint that was written in full, a process that does
not end in time, one that ends with an error, or a temporary file that stays.
"""

import os
import random
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

from tools.kills.disk import Full, Kill, PowerLoss
from tools.kills.fits import NO_SPACE, log, started

STRIKES = 12  # of one fit; a third as many fits more, whose disk becomes full
CALLS = 16  # among the first so many calls of a process, about two checkpoints, one is struck
PATIENCE = 120  # seconds, after which a process does not end
ALL = 0.75  # how often a kill takes all processes of a fit; else the others must notice, within PATIENCE
MOMENT = 1.0  # a kill from outside comes within so many seconds after training begins


@dataclass
class Record:
    """What was done to one fit, and what was lost."""

    kind: str
    number: int
    kills: int = 0
    power_losses: int = 0
    full_disks: int = 0
    resumed: int = 0
    steps: Counter = field(default_factory=Counter)
    losses: list = field(default_factory=list)


class Chain:
    """One fit in a folder of its own, and its witness."""

    def __init__(self, kind, number, seed, place, end, strikes=STRIKES):
        self.kind, self.number, self.end = kind, number, end
        self.strikes = strikes if kind != "two processes" else strikes // 3 + 1  # they take longer
        self.rng = random.Random(f"{seed} {number}")
        self.place = place / f"{kind} {number}"
        self.record = Record(kind, number)

    def run(self):
        """Strike until it is enough or time is up."""
        self.place.mkdir()
        (self.place / "programs").symlink_to(self.place.parent / "programs")
        whole = self.folder("whole")
        if self.ended(self.start(whole)) != {0}:
            self.lost("the fit that nothing happened to did not end", whole)
            return self.record
        self.witness = model_of(whole)
        self.struck()
        for k in range(self.strikes // 3):
            if time.monotonic() < self.end and not self.record.losses:
                self.full(self.folder(f"full {k}"))
        return self.record

    def struck(self):
        """Kills and power losses, one start after the other in one folder."""
        folder, record = self.folder("killed"), self.record
        for _ in range(self.strikes):
            if time.monotonic() > self.end or record.losses:
                break
            fault = self.rng.choice(("moment", "kill", "power"))
            codes = self.attempt(folder, fault)
            if -signal.SIGKILL not in codes:
                break  # it came to its end before
            record.kills += 1
            record.power_losses += fault == "power"
            record.steps["a moment"] += fault == "moment"
            self.check_order(folder)
        if not record.losses:
            self.let_through(folder)

    def attempt(self, folder, fault):
        """One start that is meant to be struck: how its processes ended."""
        if fault == "moment":
            children = self.start(folder)
            self.kill_at_a_moment(folder, children)
        else:
            kind, more = (PowerLoss, {"folder": folder / "disk"}) if fault == "power" else (Kill, {})
            children = self.start(folder, kind(*self.call(folder), **more))
        codes = self.ended(children, follow=self.rng.random() < ALL)
        wrong = codes - {0, -signal.SIGKILL} if len(children) == 1 else codes & {None}
        if wrong:
            self.lost(f"a process ended with {wrong}", folder)
        return codes

    def call(self, folder):
        """Which call is struck, who is told, and what chooses."""
        return self.rng.randint(1, CALLS), lambda step: log(folder, "struck", step), self.rng

    def kill_at_a_moment(self, folder, children):
        """From outside: at any time of the start, or of the training."""
        said = size(folder / "log")
        if self.rng.random() < 0.7:
            limit = time.monotonic() + PATIENCE
            while size(folder / "log") == said and time.monotonic() < limit:
                time.sleep(0.005)
        time.sleep(self.rng.uniform(0.0, MOMENT))
        for child in self.rng.choice([children, children[:1], children[-1:]]):
            os.kill(child, signal.SIGKILL)

    def full(self, folder):
        """A fit on a disk that becomes full goes on; its model is what it would have been."""
        codes = self.ended(self.start(folder, Full(*self.call(folder))))
        self.record.full_disks += 1
        left = list((folder / "disk").glob(".*.tmp"))
        if not codes <= {0, NO_SPACE} or left:
            self.lost(f"a full disk: the process ended with {codes}, and left {left}", folder)
        else:
            self.let_through(folder)

    def let_through(self, folder):
        """Start a last time; compare."""
        codes = self.ended(self.start(folder))
        self.check_order(folder)
        events = told(folder)
        self.record.resumed += sum(word == "resumed" and epochs != "0" for word, epochs in events)
        self.record.steps.update(step for word, step in events if word == "struck")
        if codes != {0}:
            self.lost(f"the last start ended with {codes}", folder)
        elif model_of(folder) != self.witness:
            self.lost("the model differs from that of a fit that nothing happened to", folder)

    def check_order(self, folder):
        """Every start must go on from the last checkpoint that was written in full, or a later one."""
        written = 0
        for word, epochs in told(folder):
            if word != "struck":
                if int(epochs) < written:
                    self.lost(f"went on from epoch {epochs} after {written} were written", folder)
                    return
                written = int(epochs)

    def start(self, folder, disk=None):
        """Its processes; what strikes is the disk of the first."""
        if self.kind != "two processes":
            return [started(self.kind, self.number, folder, disk)]
        coordinator = f"127.0.0.1:{free_port()}"
        return [
            started(self.kind, self.number, folder, disk if k == 0 else None, (coordinator, 2, k))
            for k in range(2)
        ]

    def ended(self, children, follow=False):
        """The exit statuses of all; None of one that had to be ended. All `follow` one that is killed."""
        limit, codes, left = time.monotonic() + PATIENCE, set(), list(children)
        while left:
            for child in list(left):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    codes.add(os.waitstatus_to_exitcode(status))
                    left.remove(child)
            late = time.monotonic() > limit
            if late or (follow and -signal.SIGKILL in codes):
                codes |= {None} if left and late else set()
                for child in left:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                break
            time.sleep(0.005)
        return codes

    def folder(self, name):
        """A new folder for a fit; its files go to the disk in it."""
        (self.place / name / "disk").mkdir(parents=True)
        return self.place / name

    def lost(self, text, folder):
        """Note a loss, with the end of what was said."""
        said = folder / "said"
        words = said.read_text(errors="replace")[-1500:] if said.exists() else ""
        self.record.losses.append(f"{self.kind}, fit {self.number}: {text}\n{words}")


def told(folder):
    """Events in the order in which they happened: a word, and epochs or a step."""
    log = folder / "log"
    return [line.split(" ", 1) for line in log.read_text().splitlines()] if log.exists() else []


def model_of(folder):
    """The bytes of the model's file."""
    return (folder / "disk" / "model.tggm").read_bytes()


def size(path):
    """Bytes of a file that may not be there."""
    return path.stat().st_size if path.exists() else 0


def free_port():
    """A port that nobody uses now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
