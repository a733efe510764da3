"""A drawing, as SVG: notebooks show it, browsers open it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from augury.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that needs nothing but a browser to be seen.

    Attributes:
        svg: The picture as SVG text.
        width: How wide it is, in pixels; `height`: how high.
    """

    svg: str = field(repr=False)
    width: float
    height: float

    def _repr_svg_(self) -> str:
        """What notebooks show."""
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a file.

        Args:
            path: The file, such as `plan.svg`.

        Raises:
            DefinitionError: It cannot be written there.
        """
        try:
            file = Path(path)
            file.write_text(self.svg, encoding="utf-8")
        except (OSError, TypeError, ValueError) as error:
            raise DefinitionError(f"the picture cannot be saved to path={path!r}: {error}") from error
        return file
