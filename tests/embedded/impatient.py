"""Workers that send what they measured all the time, for a platform's `handler`."""

from augury.invoke.gateway import Invocation, InvocationContext
from augury.worker import entrypoint, runner

runner.RECORD_S = 0.01


def handle(invocation: Invocation, context: InvocationContext) -> None:
    entrypoint.handle(invocation, context)
