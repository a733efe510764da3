"""Drift: when recent samples differ from older ones, the older ones are moved to where the recent ones are.

A platform gets slower, a library is upgraded: what was measured before still tells how time depends on size and
memory, but no longer how long things take. So residuals, oldest first, are searched for the point that parts them
best into two levels; if the levels differ by more than chance explains, the older samples are shifted by the
difference. The search goes on within the newer part and the older one, so that a slow slope becomes a staircase.

    ········                         ────────▶ shift of the older ones
            ·········
"""

import numpy as np

from augury.predict.samples import Floats

LEAST = 8
"""With fewer samples, what looks like drift is noise."""
_EDGE = 3
_SIGNIFICANT = 4.0
"""How many standard errors two levels must differ by; of all splits of noise, one exceeds it in 1 of 100 histories."""
_CLIP = 10.0
_MOST_STEPS = 6


def shifts(residuals: Floats) -> Floats:
    """What to add to each residual, oldest first, so that all are at the level of the most recent ones."""
    levels = np.zeros(len(residuals))
    scale = _local_scale(residuals)
    if len(residuals) < LEAST or scale <= 0:
        return levels
    middle = float(np.median(residuals))
    clipped = np.clip((residuals - middle) / scale, -_CLIP, _CLIP)
    for start, end in _segments(clipped, _SIGNIFICANT * _persistence(residuals)):
        levels[start:end] = np.median(residuals[start:end])
    return np.asarray(levels[-1] - levels, dtype=np.float64)


def _local_scale(residuals: Floats) -> float:
    """The standard deviation, judged by neighbours in time, so that a step does not enlarge it."""
    if len(residuals) < LEAST:
        return 0.0
    differences = np.abs(np.diff(residuals))
    scale = 1.4826 * float(np.median(differences)) / np.sqrt(2)
    return float(scale if scale > 0 else np.mean(differences))


def _segments(values: Floats, significant: float) -> list[tuple[int, int]]:
    """The parts of a series that are at one level each."""
    done: list[tuple[int, int]] = []
    pending = [(0, len(values))]
    steps = 0
    while pending:
        start, end = pending.pop()
        cut = _best_cut(values[start:end], significant) if steps < _MOST_STEPS else 0
        if cut:
            steps += 1
            pending += [(start, start + cut), (start + cut, end)]
        else:
            done.append((start, end))
    return sorted(done)


def _best_cut(values: Floats, significant: float) -> int:
    """Where two levels meet; 0 if there is one."""
    count = len(values)
    if count < 2 * _EDGE:
        return 0
    before = np.arange(_EDGE, count - _EDGE + 1)
    sums = np.cumsum(values)
    after = count - before
    difference = (sums[-1] - sums[before - 1]) / after - sums[before - 1] / before
    contrast = np.abs(difference) * np.sqrt(before * after / count)
    index = int(np.argmax(contrast))
    cut = int(before[index])
    spread = max(_deviation(values[:cut], values[cut:]), 1.0)
    return cut if contrast[index] > significant * spread else 0


def _persistence(residuals: Floats) -> float:
    """How much more the levels of noise differ that stays high or low for a while, than of noise that does not.

    Judged by how much further apart samples are that have another one between them: a step moves few of them.
    """
    near, far = (float(np.median(np.abs(residuals[lag:] - residuals[:-lag]))) for lag in (1, 2))
    kept = min(max((far / near) ** 2 - 1, 0.0), 0.9) if near > 0 else 0.0
    return float(np.sqrt((1 + kept) / (1 - kept)))


def _deviation(first: Floats, second: Floats) -> float:
    """The standard deviation within two parts."""
    squares = float(np.sum((first - first.mean()) ** 2) + np.sum((second - second.mean()) ** 2))
    return float(np.sqrt(squares / max(len(first) + len(second) - 2, 1)))
