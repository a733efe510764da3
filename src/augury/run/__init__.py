"""One run, as the user's machine sees it: started, watched, fetched, tidied up.

upload ─▶ start the first workers ─▶ listen to the client's inbox ─▶ fetch the sinks ─▶ remove what is left

`platform`: where runs go; `upload`: what is sent along; `watch`: what the client does for a run; `harvest`: what
becomes of measurements; `reckoning`: the report, with what was predicted beside it; `handle`: what the user holds;
`attaching`, `places`: following a run that another process has started.
"""

from augury.run.attaching import attach_run
from augury.run.handle import Run
from augury.run.places import Place, find_place, sweep_places
from augury.run.platform import Platform
from augury.run.watch import RunWatch

__all__ = ["Place", "Platform", "Run", "RunWatch", "attach_run", "find_place", "sweep_places"]
