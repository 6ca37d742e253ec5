from collections.abc import Callable, Iterable
from re import Pattern

def header_fields(
    raw: bytes, at: int, most: int, decoded: Callable[[bytes], str]
) -> tuple[list[tuple[str, str]], int]: ...

class Tags:
    def __init__(
        self,
        lines: Iterable[str],
        cells: Iterable[str],
        hiding: dict[str, Pattern[str]],
        hosts: Callable[[str], list[str]],
    ) -> None: ...
    def shown(self, markup: str) -> str: ...

def squeezed(text: str) -> str: ...
