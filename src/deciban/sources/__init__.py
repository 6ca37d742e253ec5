"""Sources: files of many formats as Arrow tables in batches. Memory use does not grow with the size of files.

>>> import pyarrow as pa, tempfile, os
>>> from deciban.sources import open_source, write_rows
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "people.csv")
...     _ = write_rows(path, [pa.table({"age": [31, None], "name": ["Ann", "Bob"]})])
...     source = open_source([path])
...     [(batch.first, batch.table.to_pylist()) for batch in source.batches()]
[(0, [{'age': 31.0, 'name': 'Ann'}, {'age': None, 'name': 'Bob'}])]
"""

from deciban.sources.base import Batch, Source
from deciban.sources.open import open_source
from deciban.sources.write import write_rows

__all__ = ["Batch", "Source", "open_source", "write_rows"]
