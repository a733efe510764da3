"""The prediction API: what planners ask of a workflow's history.

The provider chooses the records that count, hands them to an estimator once for each function and quantity, and
remembers models and answers: a planner asks thousands of times, mostly for the same.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from augury.config import Resources
from augury.dag.graph import FunctionInfo
from augury.errors import DefinitionError
from augury.metrics.records import Kind, Records
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Estimator, Model, Scaling
from augury.predict.fitted import FittedLaws, FittedModel
from augury.predict.priors import prior_execution, prior_output, prior_peak, prior_startup, prior_transfer
from augury.predict.samples import Floats, Quantity, samples_of
from augury.predict.sla import SLA, Percentile

PEAK_SLA = Percentile(95)
"""Peak memory is predicted at this percentile whatever the SLA: too little memory kills a task."""
PEAK_MARGIN = 0.5
"""And by this part more, divided by the number of runs."""
_MOST_ANSWERS = 65_536
_WORDS = {
    Quantity.UPLOAD: ("uploads", "upload"),
    Quantity.DOWNLOAD: ("downloads", "download"),
    Quantity.COLD: ("cold starts", "start"),
    Quantity.WARM: ("warm starts", "start"),
}
_SLOWEST = Resources()


class PredictionsProvider:
    """Predicts tasks, transfers and start-ups of one workflow from its history.

    A function is named by its name or by the version of its code. Records of the asked platform count; those of
    others only if there are none of it, and the basis of the estimate says so. Where nothing was measured there are
    priors.

    Args:
        records: The history.
        platform: Where the workflow is to run; if empty, records of all platforms count alike.
        functions: The functions of the graph that is planned: they say which version a name means. Without them it
            is the version that was recorded last.
        estimator: What learns from samples; `FittedLaws` unless another one is given.

    Example:
        >>> provider = PredictionsProvider(Records(workflow="thumbnails"))
        >>> provider.predict_worker_startup_time(Resources(), "cold", "median").basis
        'prior: no cold start known'
    """

    def __init__(
        self,
        records: Records,
        *,
        platform: str = "",
        functions: Sequence[FunctionInfo] = (),
        estimator: Estimator | None = None,
    ) -> None:
        self._records = records
        self._platform = platform
        self._estimator: Estimator = FittedLaws() if estimator is None else estimator
        self._versions = {version: version for version in records.functions}
        self._versions |= {series.name: series.of.function for series in records.series if series.of.kind is Kind.TASK}
        for function in reversed(functions):
            self._versions[function.version] = function.version
            self._versions[function.name] = function.version
        self._models: dict[tuple[Quantity, str], Model | None] = {}
        self._answers: dict[tuple[object, ...], Estimate] = {}

    def predict_output_size(self, function_name: str, input_size: float, sla: SLA) -> Estimate:
        """How many bytes a task returns."""
        key = (Quantity.OUTPUT, function_name, input_size, sla)
        known = self._known(key)
        return known if known is not None else self._remember(key, self._output(function_name, input_size, sla))

    def predict_worker_startup_time(
        self, resource_config: Resources, state: Literal["cold", "warm"], sla: SLA, *, starting: int = 1
    ) -> Estimate:
        """How many seconds a worker takes to start.

        Args:
            resource_config: What it has.
            state: `cold` if the platform has to make an environment, `warm` if one is there.
            sla: How careful to be.
            starting: How many workers start at that moment, this one included.
        """
        key = (state, resource_config, sla, starting)
        known = self._known(key)
        return known if known is not None else self._remember(key, self._startup(resource_config, state, sla, starting))

    def predict_data_transfer_time(
        self,
        type: Literal["upload", "download"],  # noqa: A002 - the paper's name
        data_size_bytes: float,
        resource_config: Resources,
        sla: SLA,
        scaling_exponent: float | None = None,
    ) -> Estimate:
        """How many seconds it takes to move bytes to storage or from it.

        Args:
            type: `upload` or `download`.
            data_size_bytes: How many bytes.
            resource_config: What the worker has.
            sla: How careful to be.
            scaling_exponent: Time falls with memory to this power, where history does not tell.
        """
        key = (type, data_size_bytes, resource_config, sla, scaling_exponent)
        known = self._known(key)
        if known is not None:
            return known
        return self._remember(key, self._transfer(type, data_size_bytes, resource_config, sla, scaling_exponent))

    def predict_execution_time(
        self,
        task_name: str,
        input_size: float,
        resource_config: Resources,
        sla: SLA,
        size_scaling_factor: float | None = None,
    ) -> Estimate:
        """How many seconds a task runs.

        Args:
            task_name: The function's name, or the version of its code.
            input_size: The size of its arguments in bytes.
            resource_config: What the worker has.
            sla: How careful to be.
            size_scaling_factor: Time grows with input size to this power, where history does not tell.
        """
        key = (Quantity.EXECUTION, task_name, input_size, resource_config, sla, size_scaling_factor)
        known = self._known(key)
        if known is not None:
            return known
        return self._remember(key, self._execution(task_name, input_size, resource_config, sla, size_scaling_factor))

    def predict_execution_times(
        self, task_name: str, input_sizes: Sequence[float] | Floats, resource_config: Resources, sla: SLA
    ) -> Floats:
        """What `predict_execution_time` predicts for many input sizes, as an array."""
        model = self._model(Quantity.EXECUTION, task_name)
        sizes = np.asarray(input_sizes, dtype=np.float64)
        if not np.all(np.isfinite(sizes) & (sizes >= 0)):
            raise DefinitionError("input_sizes must be finite numbers that are not negative")
        if isinstance(model, FittedModel):
            return model.values(sizes, resource_config, sla)
        return np.array([self.predict_execution_time(task_name, size, resource_config, sla) for size in sizes.tolist()])

    def predict_peak_memory(self, function_name: str, input_size: float) -> Estimate:
        """How many MiB a task needs: at a high percentile, and more if little is known."""
        key = (Quantity.PEAK, function_name, input_size)
        known = self._known(key)
        return known if known is not None else self._remember(key, self._peak(function_name, input_size))

    def _output(self, function_name: str, input_size: float, sla: SLA) -> Estimate:
        size = _checked(input_size, "input_size")
        model = self._model(Quantity.OUTPUT, function_name)
        found = prior_output(size, sla) if model is None else model.predict(size, _SLOWEST, sla)
        return Estimate(math.ceil(found), spread=found.spread, n=found.n, basis=found.basis)

    def _startup(self, resources: Resources, state: str, sla: SLA, starting: int) -> Estimate:
        if state not in ("cold", "warm"):
            raise DefinitionError(f'unknown state {state!r}: choose "cold" or "warm"')
        if not 1 <= starting < math.inf:
            raise DefinitionError(f"starting must be at least 1, not {starting!r}")
        model = self._model(Quantity(state))
        return prior_startup(state, sla) if model is None else model.predict(float(starting), resources, sla)

    def _transfer(self, way: str, size: float, resources: Resources, sla: SLA, exponent: float | None) -> Estimate:
        if way not in ("upload", "download"):
            raise DefinitionError(f'unknown type {way!r}: choose "upload" or "download"')
        size = _checked(size, "data_size_bytes")
        scaling = _scaling(memory_exponent=_checked_exponent(exponent, "scaling_exponent"))
        model = self._model(Quantity(way))
        return prior_transfer(size, resources, sla) if model is None else model.predict(size, resources, sla, scaling)

    def _execution(self, name: str, size: float, resources: Resources, sla: SLA, exponent: float | None) -> Estimate:
        size = _checked(size, "input_size")
        scaling = _scaling(size_exponent=_checked_exponent(exponent, "size_scaling_factor"))
        model = self._model(Quantity.EXECUTION, name)
        return prior_execution(size, resources, sla) if model is None else model.predict(size, resources, sla, scaling)

    def _peak(self, function_name: str, input_size: float) -> Estimate:
        size = _checked(input_size, "input_size")
        model = self._model(Quantity.PEAK, function_name)
        if model is None:
            return prior_peak(size)
        found = model.predict(size, _SLOWEST, PEAK_SLA)
        margin = 1 + PEAK_MARGIN / max(found.n, 1)
        return Estimate(found * margin, spread=found.spread, n=found.n, basis=f"{found.basis}, {PEAK_SLA.p:g} %")

    def _known(self, key: tuple[object, ...]) -> Estimate | None:
        try:
            return self._answers.get(key)
        except TypeError:  # something that cannot be a key cannot be asked for either; what, is found out next
            return None

    def _remember(self, key: tuple[object, ...], answer: Estimate) -> Estimate:
        if not 0 <= answer < math.inf:
            raise DefinitionError(f"the estimator {self._estimator.name!r} predicted {float(answer)} for {key!r}")
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer
        return answer

    def _model(self, quantity: Quantity, function: str = "") -> Model | None:
        """What the estimator learned of a quantity; None if nothing was measured."""
        key = (quantity, self._versions.get(function, "") if function else "")
        if key not in self._models:
            self._models[key] = self._fitted(*key) if key[1] or not function else None
        return self._models[key]

    def _fitted(self, quantity: Quantity, version: str) -> Model | None:
        subject, unit = _WORDS.get(quantity, ("same function", "run"))
        series = [one for one in self._records.series if one.of.function == version]
        here = [one for one in series if not self._platform or one.of.platform == self._platform]
        for chosen, place in ((here, ""), (series, " on another platform")):
            samples = samples_of(chosen, quantity, subject=subject + place, unit=unit)
            if len(samples):
                return self._estimator.fit(samples, quantity)
        return None


def _scaling(*, memory_exponent: float | None = None, size_exponent: float | None = None) -> Scaling:
    if memory_exponent is None and size_exponent is None:
        return NO_SCALING
    return Scaling(memory_exponent=memory_exponent, size_exponent=size_exponent)


def _checked(size: float, name: str) -> float:
    if not 0 <= size < math.inf:
        raise DefinitionError(f"{name} must be a finite number that is not negative, not {size!r}")
    return float(size)


def _checked_exponent(exponent: float | None, name: str) -> float | None:
    if exponent is not None and not 0 <= exponent < math.inf:
        raise DefinitionError(f"{name} must be a finite number that is not negative, or None, not {exponent!r}")
    return exponent
