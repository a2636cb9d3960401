"""Trainers that send weights over shared memory in no order, sound ones and others."""

import os
import threading

from harness.weights import Segment, dense, sparse

# 200; or what was asked is wrong, out of order, at the wrong moment, or refused until whole weights have come.
ALLOWED = {200, 400, 409, 500, 503}


class Trainer:
    """One of several. Every update that can succeed carries the whole of one policy, so that whatever comes of their calls
    between each other's, what is served is one of the policies, or nothing.

    command(path, body, allowed): posts it. policies: {version: tensors}.
    """

    def __init__(self, command, policies):
        self.command, self.policies = command, policies
        self.segment = None

    def act(self, rng):
        choice = rng.randrange(14)
        if choice == 0:
            self.post("/init_weight_transfer_engine", {"init_info": {}})
        elif choice == 1:
            self.post("/shutdown_weight_transfer_engine")
        elif choice == 2:
            self.post("/start_weight_update", {"partial": rng.random() < 0.3})
        elif choice == 3:
            self.post("/finish_weight_update")
        elif choice < 6:
            self.update(rng)
        else:
            self.session(rng)

    def session(self, rng):
        """From its start to its end, as far as others let it."""
        self.post("/start_weight_update")
        version = self.update(rng)
        for _ in range(rng.choice([0, 0, 0, 2])):
            version = self.update(rng)
        if rng.random() < 0.9:
            self.post("/finish_weight_update", {"weight_version": version})

    def update(self, rng):
        version, other = rng.sample(sorted(self.policies), 2)
        new, old = self.policies[version], self.policies[other]
        if self.segment is None or rng.random() < 0.3:
            self.close()
            self.segment = Segment()
        choice = rng.randrange(12)
        if choice < 3:
            info = sparse(self.segment, old, new, partial=rng.random() < 0.8)
        else:
            info = dense(self.segment, new, gap=rng.choice([0, 1]))
        if choice == 3:
            info["is_checkpoint_format"] = True  # of trainers that know no start and finish
        elif choice == 4:
            info["shapes"][-1] = [1]
        elif choice == 5:
            info["names"][-1] = "nothing.weight"
        elif choice == 6:
            info["offsets"][-1] = rng.choice([2**63 - 1, 2**63, 1 << 40])
        cut = threading.Timer(rng.random() * 0.003, os.ftruncate, (self.segment.fd, rng.choice([0, 5000])))
        if choice == 7:
            cut.start()
        try:
            self.post("/update_weights", {"update_info": info})
        finally:
            if choice == 7:
                cut.join()
        return version

    def post(self, path, body=None):
        self.command(path, body, ALLOWED)

    def close(self):
        if self.segment is not None:
            self.segment.close()
        self.segment = None
