"""How long somebody who is asked again and again has answered nothing: at which point is it too long?

Only a question that was asked, and that nobody answered in its time, is a sign of silence. Any other outcome ends the
silence: an answer, of course, but also a question that could not even be asked, because this process has no free
descriptors, say. That tells nothing of the other side.
"""


class Silence:
    """The questions that one process has left unanswered in a row.

    Args:
        longest_s: How long it may be silent.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._count = 0
        self._since_s = 0.0  # when the first of them was asked

    def lasts(self, asked_s: float, now_s: float) -> bool:
        """Whether a question that was asked then, and is unanswered now, is one too many."""
        if not self._count:
            self._since_s = asked_s
        self._count += 1
        # If this process itself was stopped, one question may seem to have waited for an answer all the time.
        return self._count > 1 and now_s - self._since_s >= self._longest_s

    def ends(self) -> None:
        """It may be silent for as long as ever again."""
        self._count = 0
