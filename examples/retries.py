"""A task that fails now and then is tried again; one that keeps failing raises its own exception here.

The cause of that exception, a `TaskFailed`, tells which task it was, where it failed and who needed it.
"""

import tempfile
from pathlib import Path

from augury import task


@task(retries=3)
def fetch(page: str, visits: str) -> str:
    with Path(visits).open("a") as log:
        log.write(page + "\n")
    seen = Path(visits).read_text().split().count(page)
    if seen < 3:
        raise ConnectionError(f"{page} is busy")
    return f"{page}, got on visit {seen}"


@task
def parse(page: str) -> int:
    return int(page)


@task
def double(number: int) -> int:
    return 2 * number


with tempfile.TemporaryDirectory() as folder:
    print(fetch("index", f"{folder}/visits").compute())

try:
    double(parse("not a number")).compute()
except ValueError as error:
    print("ValueError:", error)
    print(type(error.__cause__).__name__, *error.__notes__)
