"""The prediction API: what planners ask of a workflow's history.

The provider chooses the records that count, hands them to an estimator once for each function and quantity, and
remembers models and answers: a planner asks thousands of times, mostly for the same.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from augury.config import LARGEST_FLOAT, Resources, but_not
from augury.dag.graph import FunctionInfo
from augury.dag.task import TaskNode
from augury.dag.version import code_version
from augury.errors import DefinitionError
from augury.metrics.records import Kind, Records, Series
from augury.predict.estimate import Estimate
from augury.predict.estimator import NO_SCALING, Estimator, Model, Scaling
from augury.predict.excess import OUT_OF_MEMORY, Excesses
from augury.predict.fits import Fits
from augury.predict.fitted import FittedLaws, FittedModel
from augury.predict.priors import (
    NO_BYTE,
    ROUNDED,
    prior_execution,
    prior_output,
    prior_peak,
    prior_startup,
    prior_transfer,
    whole_bytes,
)
from augury.predict.samples import Floats, Quantity, column_of, samples_of
from augury.predict.sla import SLA, Percentile, fraction_of
from augury.wording import count

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
_MOST_SHOWN = 5
_FEWEST_DIGITS = 8

FunctionName: TypeAlias = str | FunctionInfo | TaskNode[Any] | Callable[..., Any]
"""A function's name, the version of its code, or the function itself: as a graph knows it, a task, a task function."""


class PredictionsProvider:
    """Predicts tasks, transfers and start-ups of one workflow from its history.

    A function is named by its name, by the version of its code (its first eight digits are enough), or is given as it
    is: the task function itself. Records of the asked platform count; those of
    others only if there are none of it, and the basis of the estimate says so. Where nothing was measured there are
    priors.

    Args:
        records: The history.
        platform: Where the workflow is to run; if empty, records of all platforms count alike.
        functions: The functions of the graph that is planned: they say which version a name means. Without them it
            is the version that was recorded last.
        estimator: What learns from samples; `FittedLaws` unless another one is given.
        fits: Models that were fitted before with the same estimator; they are used again while their samples have not
            moved.

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
        fits: Fits | None = None,
    ) -> None:
        _check_made_of(records, estimator)
        self._records = records
        self._platform = platform
        self._fits = Fits() if fits is None else fits
        self._estimator: Estimator = FittedLaws() if estimator is None else estimator
        self._versions = {version: version for version in records.functions}
        self._versions |= {series.name: series.of.function for series in records.series if series.of.kind is Kind.TASK}
        for function in reversed(functions):
            self._versions[function.version] = function.version
            self._versions[function.name] = function.version
        self._excesses = Excesses(records.series)
        self._models: dict[tuple[Quantity, str], Model | None] = {}
        self._answers: dict[tuple[object, ...], Estimate] = {}

    def __repr__(self) -> str:
        runs = dict.fromkeys(self._records.functions, 0)
        for series in self._records.series:
            if series.of.kind is Kind.TASK:
                runs[series.of.function] += len(series)
        known = [f"{name}: {count(runs[version], 'run')}" for version, name in self._records.functions.items()]
        more = [f"{len(known) - _MOST_SHOWN} more functions"] if len(known) > _MOST_SHOWN else []
        return f"PredictionsProvider({', '.join([*known[:_MOST_SHOWN], *more]) or 'nothing known'})"

    def predict_output_size(self, function_name: FunctionName, input_size: float, sla: SLA) -> Estimate:
        """How many bytes a task returns.

        Args:
            function_name: The function.
            input_size: The size of its arguments in bytes.
            sla: How careful to be.
        """
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

    def most_starting(self, state: Literal["cold", "warm"]) -> float:
        """How many workers were starting at once when start-ups were measured, at most; 1 if none is known."""
        model = self._model(Quantity(state))
        return model.size_range[1] if isinstance(model, FittedModel) else 1.0

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
        task_name: FunctionName,
        input_size: float,
        resource_config: Resources,
        sla: SLA,
        size_scaling_factor: float | None = None,
    ) -> Estimate:
        """How many seconds a task runs.

        Args:
            task_name: The function.
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
        self, task_name: FunctionName, input_sizes: Sequence[float] | Floats, resource_config: Resources, sla: SLA
    ) -> Floats:
        """What `predict_execution_time` predicts for many input sizes, as an array."""
        fraction_of(sla)  # refuses what is none
        _check_resources(resource_config)
        model = self._model(Quantity.EXECUTION, task_name)
        sizes = _checked_sizes(input_sizes)
        if isinstance(model, FittedModel):
            return model.values(sizes, resource_config, sla)
        return np.array([self.predict_execution_time(task_name, size, resource_config, sla) for size in sizes.tolist()])

    def predict_output_sizes(
        self, function_name: FunctionName, input_sizes: Sequence[float] | Floats, sla: SLA
    ) -> Floats:
        """What `predict_output_size` predicts for many input sizes, as an array."""
        fraction_of(sla)
        model = self._model(Quantity.OUTPUT, function_name)
        sizes = _checked_sizes(input_sizes)
        if isinstance(model, FittedModel):
            return np.ceil(model.values(sizes, _SLOWEST, sla) * (1 - ROUNDED) - NO_BYTE)
        return np.array([self.predict_output_size(function_name, size, sla) for size in sizes.tolist()])

    def predict_peak_memories(self, function_name: FunctionName, input_sizes: Sequence[float] | Floats) -> Floats:
        """What `predict_peak_memory` predicts for many input sizes, as an array."""
        model = self._model(Quantity.PEAK, function_name)
        sizes = _checked_sizes(input_sizes)
        if isinstance(model, FittedModel):
            found = model.values(sizes, _SLOWEST, PEAK_SLA)
            extra_mb = np.maximum(0.0, sizes - model.size_range[1]) / 2**20
            usual_mb = np.maximum(found * (1 + PEAK_MARGIN / max(model.n, 1)), found + extra_mb)
            return np.maximum(usual_mb, self._excesses.least_mbs(self._version(function_name), sizes.tolist()))
        return np.array([self.predict_peak_memory(function_name, size) for size in sizes.tolist()])

    def output_law(self, function_name: FunctionName, sla: SLA) -> Callable[[float], float]:
        """`predict_output_size` of one function as a function of input size alone, for those who ask very often."""
        model = self._model(Quantity.OUTPUT, function_name)
        if not isinstance(model, FittedModel):
            return lambda size: float(self.predict_output_size(function_name, size, sla))
        law, ceil = model.law(_SLOWEST, sla), math.ceil
        return lambda size: float(ceil(law(size) * (1 - ROUNDED) - NO_BYTE))  # as `whole_bytes`

    def predict_peak_memory(self, function_name: FunctionName, input_size: float) -> Estimate:
        """How many MiB a task needs: at a high percentile, more if little is known or if that was too little before.

        Args:
            function_name: The function.
            input_size: The size of its arguments in bytes.
        """
        key = (Quantity.PEAK, function_name, input_size)
        known = self._known(key)
        return known if known is not None else self._remember(key, self._peak(function_name, input_size))

    def _output(self, function_name: FunctionName, input_size: float, sla: SLA) -> Estimate:
        size = _checked(input_size, "input_size")
        model = self._model(Quantity.OUTPUT, function_name)
        if model is None:
            found = self._prior(prior_output(size, sla), function_name)
        else:
            found = self._asked(model, size, _SLOWEST, sla)
        return Estimate(whole_bytes(found), spread=found.spread, n=found.n, basis=found.basis)

    def _startup(self, resources: Resources, state: str, sla: SLA, starting: int) -> Estimate:
        if state not in ("cold", "warm"):
            raise DefinitionError(f'unknown state {state!r}: choose "cold" or "warm"')
        if not is_number(starting) or not 1 <= starting <= LARGEST_FLOAT:
            raise DefinitionError(f"starting must be a number of at least 1, {but_not(starting, LARGEST_FLOAT)}")
        _check_resources(resources)
        model = self._model(Quantity(state))
        return prior_startup(state, sla) if model is None else self._asked(model, float(starting), resources, sla)

    def _transfer(self, way: str, size: float, resources: Resources, sla: SLA, exponent: float | None) -> Estimate:
        if way not in ("upload", "download"):
            raise DefinitionError(f'unknown type {way!r}: choose "upload" or "download"')
        size = _checked(size, "data_size_bytes")
        _check_resources(resources)
        scaling = _scaling(memory_exponent=_checked_exponent(exponent, "scaling_exponent"))
        model = self._model(Quantity(way))
        if model is None:
            return prior_transfer(size, resources, sla, scaling.memory_exponent)
        return self._asked(model, size, resources, sla, scaling)

    def _execution(
        self, name: FunctionName, size: float, resources: Resources, sla: SLA, exponent: float | None
    ) -> Estimate:
        size = _checked(size, "input_size")
        _check_resources(resources)
        scaling = _scaling(size_exponent=_checked_exponent(exponent, "size_scaling_factor"))
        model = self._model(Quantity.EXECUTION, name)
        if model is None:
            return self._prior(prior_execution(size, resources, sla, scaling.size_exponent), name)
        return self._asked(model, size, resources, sla, scaling)

    def _peak(self, function_name: FunctionName, input_size: float) -> Estimate:
        size = _checked(input_size, "input_size")
        usual = self._usual_peak(function_name, size)
        least_mb = self._excesses.least_mb(self._version(function_name), size)
        return usual if usual >= least_mb else Estimate(least_mb, n=usual.n + 1, basis=OUT_OF_MEMORY)

    def _usual_peak(self, function_name: FunctionName, size: float) -> Estimate:
        model = self._model(Quantity.PEAK, function_name)
        if model is None:
            return self._prior(prior_peak(size), function_name)
        found = self._asked(model, size, _SLOWEST, PEAK_SLA)
        margin = 1 + PEAK_MARGIN / max(found.n, 1)
        # An input larger than any that was seen must at least fit itself.
        extra_mb = max(0.0, size - model.size_range[1]) / 2**20 if isinstance(model, FittedModel) else 0.0
        return Estimate(
            max(found * margin, found + extra_mb),
            spread=found.spread,
            n=found.n,
            basis=f"{found.basis}, {PEAK_SLA.p:g} %",
        )

    def _known(self, key: tuple[object, ...]) -> Estimate | None:
        try:
            return self._answers.get(key)
        except TypeError:  # something that cannot be a key cannot be asked for either; what, is found out next
            return None

    def _asked(
        self, model: Model, size: float, resources: Resources, sla: SLA, scaling: Scaling = NO_SCALING
    ) -> Estimate:
        """The model's answer; an estimator of the user's may give a plain number."""
        answer: object = model.predict(size, resources, sla, scaling)
        if isinstance(answer, Estimate):
            return answer
        if not is_number(answer):
            raise DefinitionError(f"the estimator {self._estimator.name!r} predicted {answer!r}, which is no number")
        return Estimate(float(answer), n=1, basis=self._estimator.name)

    def _prior(self, prior: Estimate, function: FunctionName) -> Estimate:
        """A prior that says what was asked for, in case that is a slip of the pen."""
        version = self._version(function)
        left_out = sum(len(one) for one in self._records.series if one.of.function == version) if version else 0
        if left_out:
            return Estimate(prior, spread=prior.spread, basis=f"prior: none of {left_out} records tells it")
        if version or not isinstance(function, str) or not self._records.functions:
            return prior
        names = sorted(set(self._records.functions.values()))
        known = ", ".join(names[:_MOST_SHOWN]) + (", …" if len(names) > _MOST_SHOWN else "")
        return Estimate(prior, spread=prior.spread, basis=f"prior: nothing known of {function!r}, only of {known}")

    def _version(self, function: FunctionName) -> str:
        """The version of a function; empty if it is not known here."""
        if isinstance(function, str):
            return self._versions.get(function) or self._version_by_prefix(function)
        if isinstance(function, FunctionInfo):
            return function.version
        if isinstance(function, TaskNode):
            return function.function.version()
        if not callable(function):
            raise DefinitionError(
                f"a function is named by its name, by the version of its code or by itself, not by {function!r}"
            )
        return code_version(getattr(function, "fn", function))

    def _version_by_prefix(self, text: str) -> str:
        """A version by its first digits, as tables show it: `3f9c2a51`, or `resize 3f9c2a51`."""
        digits = text.rpartition(" ")[2]
        found = [version for version in self._records.functions if version.startswith(digits)]
        return found[0] if len(digits) >= _FEWEST_DIGITS and len(found) == 1 else ""

    def _remember(self, key: tuple[object, ...], answer: Estimate) -> Estimate:
        if not 0 <= answer < math.inf:
            raise DefinitionError(f"the estimator {self._estimator.name!r} predicted {float(answer)} for {key!r}")
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer
        return answer

    def _model(self, quantity: Quantity, function: FunctionName | None = None) -> Model | None:
        """What the estimator learned of a quantity; None if nothing was measured."""
        key = (quantity, "" if function is None else self._version(function))
        if key not in self._models:
            self._models[key] = self._fitted(*key) if key[1] or function is None else None
        return self._models[key]

    def _fitted(self, quantity: Quantity, version: str) -> Model | None:
        kind, column = column_of(quantity)
        series = [one for one in self._records.series if one.of.function == version and one.of.kind is kind]
        here = [one for one in series if not self._platform or one.of.platform == self._platform]
        for chosen, place in ((here, ""), (series, " on another platform")):
            fit = functools.partial(self._fit, chosen, quantity, place)
            model = self._fits.model((quantity.value, version, self._platform, place), chosen, column, fit)
            if model is not None:
                return model
        return None

    def _fit(self, series: Sequence[Series], quantity: Quantity, place: str) -> Model | None:
        subject, unit = _WORDS.get(quantity, ("same function", "run"))
        samples = samples_of(series, quantity, subject=subject + place, unit=unit)
        return self._estimator.fit(samples, quantity) if len(samples) else None


def _scaling(*, memory_exponent: float | None = None, size_exponent: float | None = None) -> Scaling:
    if memory_exponent is None and size_exponent is None:
        return NO_SCALING
    return Scaling(memory_exponent=memory_exponent, size_exponent=size_exponent)


def _check_made_of(records: object, estimator: object) -> None:
    if not isinstance(records, Records):
        raise DefinitionError(
            f"predictions are made from Records, as History.load gives them, not from {type(records).__name__}: "
            "Records(workflow=…).with_series(series_of([TaskRun(…), …])) makes some"
        )
    if estimator is not None and (isinstance(estimator, type) or not callable(getattr(estimator, "fit", None))):
        raise DefinitionError(
            f"estimator=… must be an object with a name and fit(samples, quantity), not {estimator!r}"
        )


def _check_resources(resources: object) -> None:
    if not isinstance(resources, Resources):
        raise DefinitionError(f"resource_config must be Resources(cpus=…, memory_mb=…), not {resources!r}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included; True is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _checked_sizes(input_sizes: Sequence[float] | Floats) -> Floats:
    sizes = np.atleast_1d(np.asarray(input_sizes, dtype=np.float64))
    if not np.all(np.isfinite(sizes) & (sizes >= 0)):
        raise DefinitionError("input_sizes must be finite numbers that are not negative")
    return sizes


def _checked(size: float, name: str) -> float:
    try:
        number = float(size) if is_number(size) else math.nan
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise DefinitionError(f"{name} must be a finite number that is not negative, {but_not(size, LARGEST_FLOAT)}")
    return number


def _checked_exponent(exponent: float | None, name: str) -> float | None:
    if exponent is not None and not (is_number(exponent) and 0 <= exponent <= LARGEST_FLOAT):
        raise DefinitionError(
            f"{name} must be a finite number that is not negative, or None, {but_not(exponent, LARGEST_FLOAT)}"
        )
    return exponent
