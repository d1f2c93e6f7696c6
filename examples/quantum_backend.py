"""A simulated quantum backend: one qubit is turned by an angle and measured, again and again.

Jobs are files in the directory `QUANTUM_JOBS` (beside the store unless said). A job is queued for its first two looks, as
jobs on real machines are. The same job always measures the same, so an experiment can be repeated.
"""

import json
import math
import os
import random

JOBS = os.environ.get("QUANTUM_JOBS", ".noetl/quantum-jobs")


def path(job):
    return os.path.join(JOBS, job + ".json")


def submit(key, theta, shots):
    """Accepts a job. The same key is the same job, so asking twice measures once."""
    os.makedirs(JOBS, exist_ok=True)
    job = "job-" + "".join(c if c.isalnum() else "-" for c in key)
    if not os.path.exists(path(job)):
        with open(path(job), "w") as file:
            json.dump({"theta": theta, "shots": shots, "looks": 0}, file)
    return {"job_id": job, "backend": "simulated-1q", "shots": shots}


def status(job):
    """How a job stands: queued twice, then done."""
    with open(path(job)) as file:
        state = json.load(file)
    state["looks"] += 1
    with open(path(job), "w") as file:
        json.dump(state, file)
    return "QUEUED" if state["looks"] <= 2 else "DONE"


def shots(job, batch, batch_size):
    """One batch of a finished job's measurements, each 0 or 1."""
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
