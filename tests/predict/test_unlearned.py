"""Before anything was measured: the same priors as a provider without records has, and no NumPy for them."""

import subprocess
import sys
from typing import Literal

import pytest

from augury.config import Resources
from augury.metrics.records import Records
from augury.predict.provider import PredictionsProvider
from augury.predict.sla import SLA, Percentile
from augury.predict.unlearned import Priors

SIZES = [0.0, 1.0, 12_345.6, 5e6, 1e9]
WEAK = Resources(0.25, 256)
WAYS: tuple[Literal["upload"], Literal["download"]] = ("upload", "download")
STATES: tuple[Literal["cold"], Literal["warm"]] = ("cold", "warm")
SLAS: list[SLA] = ["median", "average", Percentile(10), Percentile(99)]


@pytest.mark.parametrize("sla", SLAS, ids=str)
def test_priors_are_those_of_a_provider_without_records(sla: SLA) -> None:
    priors, provider = Priors(), PredictionsProvider(Records(workflow="w"))
    for size in SIZES:
        assert priors.predict_execution_time("f", size, WEAK, sla) == provider.predict_execution_time(
            "f", size, WEAK, sla
        )
        assert priors.output_law("f", sla)(size) == provider.predict_output_size("f", size, sla)
        assert priors.predict_peak_memory("f", size) == provider.predict_peak_memory("f", size)
        for way in WAYS:
            own = priors.predict_data_transfer_time(way, size, WEAK, sla)
            assert own == provider.predict_data_transfer_time(way, size, WEAK, sla)
    assert (
        priors.predict_execution_times("f", SIZES, WEAK, sla)
        == provider.predict_execution_times("f", SIZES, WEAK, sla).tolist()
    )
    assert priors.predict_output_sizes("f", SIZES, sla) == provider.predict_output_sizes("f", SIZES, sla).tolist()
    assert priors.predict_peak_memories("f", SIZES) == provider.predict_peak_memories("f", SIZES).tolist()
    for state in STATES:
        own = priors.predict_worker_startup_time(WEAK, state, sla)
        assert own == provider.predict_worker_startup_time(WEAK, state, sla)


def test_neither_priors_nor_recent_measurements_need_numpy() -> None:
    code = (
        "import sys; import augury.predict.arguments, augury.predict.levels, augury.predict.fits; "
        "import augury.predict.recent, augury.predict.unlearned, augury.predict.workflow; "
        "print('numpy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "False\n"
