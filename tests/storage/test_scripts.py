"""Scripts that tell a reply once remember every reply: one that is not remembered looks like one that Redis lost."""

import inspect
import re
from collections.abc import Iterator
from importlib import resources

import pytest

from augury.storage import redis as redis_storage

TOLD_ONCE = sorted(set(re.findall(r'_once\("(\w+)"', inspect.getsource(redis_storage))))
REMEMBERED = re.compile(r"return (earlier$|(answered\(\) or )?(answer|decline)\()")
REMEMBERS = re.compile(r"(answer|decline|remove_all)\(")


def outside_functions(text: str) -> Iterator[str]:
    """The lines that are no function's."""
    inside = False
    for line in text.splitlines():
        inside = inside or line.startswith("local function")
        if not inside and line.strip():
            yield line
        inside = inside and line != "end"


def forgetful(text: str) -> list[str]:
    """The lines that return what is not remembered, although there is a run."""
    lines = list(outside_functions(text))
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if line.strip().startswith("return")
        and not REMEMBERED.match(line.strip())
        and not REMEMBERS.match(before.strip())
        and before not in ("if not status then", "if is_late() then")
    ]


@pytest.mark.parametrize("name", TOLD_ONCE)
def test_every_reply_is_remembered(name: str) -> None:
    text = (resources.files("augury.storage") / "lua" / f"{name}.lua").read_text()
    assert "return" in text
    # What follows `answer(1)` in `join` is the same whenever it is asked.
    allowed = {"return { status, call('GET', DONE) or '', live(), starting, restarted }"}
    assert set(forgetful(text)) <= allowed


def test_a_reply_that_is_not_remembered_is_found() -> None:
    text = "if not status then\n  return 0\nend\nif status ~= 'running' then\n  return 0\nend\nreturn answer(1)\n"
    assert forgetful(text) == ["  return 0"]
