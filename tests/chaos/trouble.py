"""What is done to the parts while they are used: killed, stopped, cut off, made to lie. By chance, from a seed."""
import collections
import os
import random
import signal
import threading
import time

# Faults of the way to each part that make sense without telling requests apart.
ON_THE_WAY = ("refuse", "connect_reset", "connect_hang", "request_reset", "answer_reset", "answer_hang", "cut_hang",
              "slow", "half_closed")
IN_THE_ANSWER = ("garbage", "oversized", "wrong_type", "status_400", "status_503")


class Part:
    """One process that is killed and revived, and the links to it that are troubled."""

    def __init__(self, name, links, pid, kill, revive):
        self.name, self.links, self.pid, self.kill, self.revive = name, links, pid, kill, revive


class Trouble(threading.Thread):
    """Troubles one or two parts at a time, for a moment each, until told to end; then all is well again."""

    def __init__(self, parts, victims, seed, pause_s=1.5, longest_s=3.0, more=()):
        super().__init__(daemon=True)
        self.parts, self.victims, self.more = parts, victims, more
        self.chance = random.Random(seed)
        self.pause_s, self.longest_s = pause_s, longest_s
        self.over = threading.Event()
        self.done = collections.Counter()
        self.failure = None
        self.start()

    def run(self):
        try:
            while not self.over.wait(self.chance.uniform(0.3, 2 * self.pause_s)):
                for end in [self.trouble(victim) for victim in
                            self.chance.sample(self.victims, self.chance.choice((1, 1, 2)))]:
                    self.over.wait(self.chance.uniform(0.2, self.longest_s))
                    end()
                for name, act in self.more:
                    if self.chance.random() < 0.15:
                        act()
                        self.done[name] += 1
        except Exception as error:  # told by end(), to the test
            self.failure = error

    def trouble(self, victim):
        """Begins it; gives what ends it."""
        what = self.chance.choice(("kill", "kill", "stop", "way", "way", "answer"))
        if what == "kill":
            victim.kill()
            self.done[f"{victim.name}: killed"] += 1
            return victim.revive
        if what == "stop":
            pid = victim.pid()
            os.kill(pid, signal.SIGSTOP)
            self.done[f"{victim.name}: stopped"] += 1
            return lambda: os.kill(pid, signal.SIGCONT)
        link = self.chance.choice(victim.links)
        lying = what == "answer" and not link.startswith("upstream")
        fault = self.chance.choice(IN_THE_ANSWER if lying else ON_THE_WAY)
        self.parts.faults.set(link, fault)
        self.done[f"{victim.name}: {'lied' if lying else 'cut off'}"] += 1
        return lambda: self.parts.faults.heal(link)

    def end(self):
        self.over.set()
        self.join(60)
        assert not self.failure, repr(self.failure)
        assert not self.is_alive()
        return dict(sorted(self.done.items()))


def real_parts(parts):
    """Redis, the engine, and both members of the API with the profiles of one."""
    def redis_kill():
        parts.redis.process.end(signal.SIGKILL)

    def opa_kill():
        parts.opa.process.end(signal.SIGKILL)
    members = [Part(f"API member {service.name}", links, lambda service=service: service.child.pid, service.kill,
                    service.start)
               for service, links in ((parts.service, ["upstream", "context"]), (parts.second, ["upstream2"]))]
    return [Part("Redis", ["redis"], lambda: parts.redis.process.pid, redis_kill, parts.redis.start),
            Part("OPA", ["policy"], lambda: parts.opa.process.pid, opa_kill, parts.opa.start), *members]


def sleep_until(moment):
    time.sleep(max(0, moment - time.monotonic()))
