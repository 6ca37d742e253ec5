from collections.abc import Callable, Collection, Iterable
from re import Pattern

def header_fields(
    raw: bytes, at: int, most: int, decoded: Callable[[bytes], str]
) -> tuple[list[tuple[str, str]], int]: ...

def content_fields(fields: Iterable[tuple[str, str]], most: int) -> dict[str, str]: ...
def kept_fields(
    fields: tuple[tuple[str, str], ...], wanted: Collection[str] | None, is_own: Callable[[str], bool]
) -> tuple[tuple[str, str], ...]: ...
def field_lines(fields: Iterable[tuple[str, str]], plain_name: Callable[[str], str]) -> str: ...

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
