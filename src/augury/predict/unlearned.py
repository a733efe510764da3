"""What is predicted before anything was measured: priors only. Needs no NumPy, so that a first run need not load it."""

from collections.abc import Callable, Sequence
from typing import Literal

from augury.config import Resources
from augury.predict.estimate import Estimate
from augury.predict.priors import (
    UNKNOWN_SPREAD,
    expected_execution_s,
    expected_output_bytes,
    margin_of,
    prior_execution,
    prior_peak,
    prior_startup,
    prior_transfer,
    whole_bytes,
)
from augury.predict.sla import SLA


class Priors:
    """Answers as a `PredictionsProvider` without records does, whichever function is asked for.

    Example:
        >>> from augury.config import Resources
        >>> Priors().predict_execution_times("resize", [0.0, 5e6], Resources(), "median")
        [0.1, 0.2]
    """

    def predict_execution_time(
        self, task_name: object, input_size: float, resource_config: Resources, sla: SLA
    ) -> Estimate:
        """How many seconds a task runs."""
        return prior_execution(input_size, resource_config, sla)

    def predict_execution_times(
        self, task_name: object, input_sizes: Sequence[float], resource_config: Resources, sla: SLA
    ) -> list[float]:
        """What `predict_execution_time` predicts for many input sizes."""
        margin = margin_of(UNKNOWN_SPREAD, sla)
        return [expected_execution_s(size, resource_config) * margin for size in input_sizes]

    def predict_output_sizes(self, function_name: object, input_sizes: Sequence[float], sla: SLA) -> list[float]:
        """How many bytes tasks return, for many input sizes."""
        return list(map(self.output_law(function_name, sla), input_sizes))

    def output_law(self, function_name: object, sla: SLA) -> Callable[[float], float]:
        """How many bytes a task returns, as a function of input size."""
        margin = margin_of(UNKNOWN_SPREAD, sla)
        return lambda size: float(whole_bytes(expected_output_bytes(size) * margin))

    def predict_peak_memory(self, function_name: object, input_size: float) -> Estimate:
        """How many MiB a task needs."""
        return prior_peak(input_size)

    def predict_peak_memories(self, function_name: object, input_sizes: Sequence[float]) -> list[float]:
        """What `predict_peak_memory` predicts for many input sizes."""
        return [float(prior_peak(size)) for size in input_sizes]

    def predict_worker_startup_time(
        self, resource_config: Resources, state: Literal["cold", "warm"], sla: SLA, *, starting: int = 1
    ) -> Estimate:
        """How many seconds a worker takes to start."""
        return prior_startup(state, sla)

    def most_starting(self, state: Literal["cold", "warm"]) -> float:
        """One: start-ups are predicted alike, however many there are."""
        return 1.0

    def predict_data_transfer_time(
        self,
        type: Literal["upload", "download"],  # noqa: A002 - the paper's name
        data_size_bytes: float,
        resource_config: Resources,
        sla: SLA,
    ) -> Estimate:
        """How many seconds it takes to move bytes to storage or from it."""
        return prior_transfer(data_size_bytes, resource_config, sla)
