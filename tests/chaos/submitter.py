"""A client of its own, to be killed: `python -m tests.chaos.submitter WORKLOAD PLANNER REDIS`.

Submits a run that goes on without it, says its id, waits for the result, and says that too.
"""

import sys

from augury import Client, Embedded
from tests.chaos.workloads import PLANNERS, WORKLOADS

LEASE_S = 1.0


def main() -> None:
    """Submit, say so, wait."""
    workload, planner, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    tasks, _ = WORKLOADS[workload]()
    platform = Embedded(slots=4, linger_s=0.5, detached_s=60)  # if Redis ends first, it does not wait for that
    client = Client(
        platform=platform,
        redis=address,
        planner=PLANNERS[planner].make(),
        observers=[],
        history=False,
        lease_s=LEASE_S,
    )
    run = client.submit(tasks)
    sys.stdout.write(f"{run.run_id}\n")
    sys.stdout.flush()
    run.result()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.read()  # it is to be killed, not to end


if __name__ == "__main__":
    main()
