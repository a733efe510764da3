"""From settings to an open place for results."""

import importlib

from augury.config import ResultsConfig
from augury.storage.results.folder import FolderResults
from augury.storage.results.protocol import Results


def open_results(config: ResultsConfig, redis: str) -> Results:
    """What keeps outputs for later runs.

    Args:
        config: Where, and how much.
        redis: The Redis that is used if the configuration names no folder.
    """
    if config.folder:
        return FolderResults(config.folder, config.most_bytes)
    shared = importlib.import_module("augury.storage.results.shared")  # with its client, which takes long to load
    results: Results = shared.RedisResults(redis, config.most_bytes)
    return results
