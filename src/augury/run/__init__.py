"""One run, as the user's machine sees it: started, watched, fetched, tidied up.

upload ─▶ start the first workers ─▶ listen to the client's inbox ─▶ fetch the sinks ─▶ remove what is left

`platform`: where runs go; `upload`: what is sent along; `watch`: what the client does for a run; `harvest`: what
becomes of measurements; `reckoning`: the report, with what was predicted beside it; `handle`: what the user holds.
"""

from augury.run.handle import Run
from augury.run.platform import Platform
from augury.run.watch import RunWatch

__all__ = ["Platform", "Run", "RunWatch"]
