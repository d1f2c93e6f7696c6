"""A simulated quantum backend: it rotates one qubit by an angle and measures it many times.

Jobs are files in the directory `QUANTUM_JOBS` (default: `.noetl/quantum-jobs`). The first two status requests of a job return
QUEUED. The same job always returns the same measurements, so that an experiment can be repeated.
"""

import json
import math
import os
import random

JOBS = os.environ.get("QUANTUM_JOBS", ".noetl/quantum-jobs")


def path(job):
    return os.path.join(JOBS, job + ".json")


def submit(key, theta, shots):
    """Creates a job. The key makes it idempotent: a second request with the same key returns the same job."""
    os.makedirs(JOBS, exist_ok=True)
    job = "job-" + "".join(c if c.isalnum() else "-" for c in key)
    if not os.path.exists(path(job)):
        with open(path(job), "w") as file:
            json.dump({"theta": theta, "shots": shots, "requests": 0}, file)
    return {"job_id": job, "backend": "simulated-1q", "shots": shots}


def status(job):
    """Returns the status of a job: QUEUED twice, then DONE."""
    with open(path(job)) as file:
        state = json.load(file)
    state["requests"] += 1
    with open(path(job), "w") as file:
        json.dump(state, file)
    return "QUEUED" if state["requests"] <= 2 else "DONE"


def shots(job, batch, batch_size):
    """Returns one batch of the measurements of a finished job, each 0 or 1."""
    with open(path(job)) as file:
        state = json.load(file)
    first = batch * batch_size
    count = max(0, min(batch_size, state["shots"] - first))
    chance = math.sin(state["theta"] / 2) ** 2
    dice = random.Random(f"{state['theta']}/{batch}")
    bits = [int(dice.random() < chance) for _ in range(count)]
    return {
        "job_id": job,
        "page": batch + 1,
        "ones": sum(bits),
        "count": count,
        "has_more": first + count < state["shots"],
        "shots": bits,
    }


def main(action, job=None, theta=None, count=None, key=None, batch=0, batch_size=0):
    if action == "submit":
        return submit(key, theta, count)
    if action == "status":
        state = status(job)
        if state != "DONE":
            raise TimeoutError(f"{job} is {state}")
        return {"job_id": job, "state": state}
    return shots(job, batch, batch_size)
