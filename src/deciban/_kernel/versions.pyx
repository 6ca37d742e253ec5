# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Versions of sums by item and class that share their memory, so that to learn a document takes as long as the document.

The sums are compressed by item: an item's cells are the classes that have any of it, ascending, and how much. A row of
cells is never changed: a new version has new rows for a few items, and all others in common with the version before
it. The memory knows the rows of the newest version; an older one knows which rows the next one replaced, and puts them
back for as long as it reads. That is done with the interpreter's lock held, or LOCK where the interpreter has none, and no
object is made before it is done, so that threads may share versions.
"""
import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

cdef enum:
    MOST_BEHIND = 64  # versions that an older one puts back before it reads; with more it gets memory of its own

cdef object LOCK = object()  # one for all versions: it is held as long as a document's rows are looked up or written


cdef class Memory:
    """The rows of all versions. Row 0 of an item is that of the sums that were there first."""
    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] cls
    cdef const double[::1] val
    cdef int64_t first_items
    cdef int32_t* row        # by item: its row now, 0 for the first
    cdef int64_t row_room
    cdef int64_t* start      # by row: where its cells begin; one more than there are rows, as each ends where the next begins
    cdef int64_t start_room
    cdef int64_t rows        # how many there are, with row 0
    cdef int32_t* own_cls
    cdef double* own_val
    cdef int64_t cell_room

    def __cinit__(self, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val):
        self.ptr, self.cls, self.val = ptr, cls, val
        self.first_items = ptr.shape[0] - 1
        self.rows = 1
        self.start = <int64_t*> calloc(64, sizeof(int64_t))
        self.start_room = 64
        if self.start == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.row)
        free(self.start)
        free(self.own_cls)
        free(self.own_val)

    cdef int item_room(self, int64_t items) except -1:
        """Room for the rows of so many items, which are the first ones of new items."""
        cdef int64_t room
        cdef int32_t* grown
        if items <= self.row_room:
            return 0
        room = max(items + items // 4 + 64, self.first_items)
        # Zeros that nobody writes take no memory, and no time.
        grown = <int32_t*> calloc(room, sizeof(int32_t))
        if grown == NULL:
            raise MemoryError()
        if self.row_room:
            memcpy(grown, self.row, self.row_room * sizeof(int32_t))
        free(self.row)
        self.row, self.row_room = grown, room
        return 0

    cdef int cells_room(self, int64_t cells) except -1:
        """Room for one more row, of so many cells."""
        cdef int64_t needed = self.start[self.rows] + cells, room
        cdef void* grown
        if self.rows + 2 > self.start_room:
            room = self.start_room * 2
            grown = realloc(self.start, room * sizeof(int64_t))
            if grown == NULL:
                raise MemoryError()
            self.start, self.start_room = <int64_t*> grown, room
        if needed > self.cell_room:
            room = needed + needed // 2 + 64
            grown = realloc(self.own_cls, room * sizeof(int32_t))
            if grown == NULL:
                raise MemoryError()
            self.own_cls = <int32_t*> grown
            grown = realloc(self.own_val, room * sizeof(double))
            if grown == NULL:
                raise MemoryError()
            self.own_val, self.cell_room = <double*> grown, room
        return 0

    cdef int32_t row_of(self, int64_t item) noexcept:
        return self.row[item] if 0 <= item < self.row_room else 0

    cdef int64_t find(self, int64_t item, const int32_t** cls, const double** val) noexcept:
        """How many cells an item has, and where; an item that is not known has none."""
        cdef int32_t row = self.row_of(item)
        cdef int64_t begin
        if row:
            begin = self.start[row]
            cls[0], val[0] = self.own_cls + begin, self.own_val + begin
            return self.start[row + 1] - begin
        if item < 0 or item >= self.first_items:
            return 0
        begin = self.ptr[item]
        if self.ptr[item + 1] > begin:
            cls[0], val[0] = &self.cls[begin], &self.val[begin]
        return self.ptr[item + 1] - begin


@cython.trashcan(True)  # there may be many behind each other
cdef class Succession:
    """From one version to the next. Steps know each other, so that a version in between may get memory of its own."""
    cdef Succession after           # the next step; None if there is no next version yet
    cdef int32_t[::1] items   # those that have other rows there,
    cdef int32_t[::1] mine    # their rows here,
    cdef int32_t[::1] theirs  # and there


cdef class Version:
    """Sums by item and class, as they were at one time. `size` items have numbers."""
    cdef Memory memory
    cdef Succession step
    cdef readonly int64_t size

    def __init__(self, const int64_t[::1] ptr not None, const int32_t[::1] cls not None, const double[::1] val not None):
        self.memory, self.step = Memory(ptr, cls, val), Succession()
        self.size = ptr.shape[0] - 1

    def __reduce__(self):
        raise TypeError("versions share their memory: keep what `all` gives")

    @property
    def newest(self):
        """Whether it can be changed without a copy."""
        with cython.critical_section(LOCK):
            return self.step.after is None

    @property
    def cells(self):
        """How many cells rows of versions take."""
        with cython.critical_section(LOCK):
            return self.memory.start[self.memory.rows]

    @property
    def versions_since(self):
        """How many came after it."""
        with cython.critical_section(LOCK):
            return len(self.since())

    cdef list since(self):
        """The steps from this version to the newest."""
        cdef list passed = []
        cdef Succession step = self.step
        while step.after is not None:
            passed.append(step)
            step = step.after
        return passed

    cdef void put_back(self, list passed) noexcept:
        """Puts this version's rows in place; `put_forward` puts the newest ones there."""
        cdef Succession one
        cdef Py_ssize_t i, j
        for j in range(len(passed) - 1, -1, -1):
            one = <Succession> passed[j]
            for i in range(one.items.shape[0]):
                self.memory.row[one.items[i]] = one.mine[i]

    cdef void put_forward(self, list passed) noexcept:
        cdef Succession one
        cdef Py_ssize_t i, j
        for j in range(len(passed)):
            one = <Succession> passed[j]
            for i in range(one.items.shape[0]):
                self.memory.row[one.items[i]] = one.theirs[i]

    cdef tuple rows_of(self, const int32_t[::1] which):
        cdef Py_ssize_t n = which.shape[0], i
        cdef int64_t total = 0, count
        cdef const int32_t* cls
        cdef const double* val
        cdef int64_t[::1] ptr = np.empty(n + 1, dtype=np.int64)
        cdef int32_t[::1] out_cls
        cdef double[::1] out_val
        cdef list passed
        ptr[0] = 0
        with cython.critical_section(LOCK):
            passed = self.since()
            self.put_back(passed)
            for i in range(n):
                total += self.memory.find(which[i], &cls, &val)
                ptr[i + 1] = total
            self.put_forward(passed)
        out_cls, out_val = np.empty(total, dtype=np.int32), np.empty(total)
        with cython.critical_section(LOCK):
            passed = self.since()  # there may be more of them by now, or this version may have memory of its own
            self.put_back(passed)
            for i in range(n):
                count = self.memory.find(which[i], &cls, &val)
                if count:
                    memcpy(&out_cls[ptr[i]], cls, count * sizeof(int32_t))
                    memcpy(&out_val[ptr[i]], val, count * sizeof(double))
            self.put_forward(passed)
        return np.asarray(ptr), np.asarray(out_cls), np.asarray(out_val)

    def take(self, const int32_t[::1] which not None):
        """ptr, cls and val of these items, in this order; numbers that are no item's have no cells."""
        cdef Version alone
        if self.versions_since > MOST_BEHIND:
            alone = Version(*self.all())
            with cython.critical_section(LOCK):
                self.memory, self.step = alone.memory, alone.step
        return self.rows_of(which)

    def all(self):
        """ptr, cls and val of all items."""
        return self.rows_of(np.arange(self.size, dtype=np.int32))

    def plus(self, const int32_t[::1] items not None, const int64_t[::1] ptr not None, const int32_t[::1] cls not None,
             const double[::1] val not None, double sign, double residue, double slack, int64_t size):
        """A version with sign·val more in the cells of these items, which are distinct; and the items without cells then.

        The cells of items[i] are at ptr[i]..ptr[i + 1], of ascending classes. There are `size` items in all. A cell of
        which no more than `residue` times what it was is left is removed. If a cell lacks more than `slack` of what is taken
        from it, the version is None, and the only item is the first that is short; with less, the cell is removed.
        """
        cdef Version out = Version.__new__(Version)
        cdef Succession step = Succession()
        cdef Py_ssize_t n = items.shape[0]
        cdef int32_t[::1] changed = np.array(items), mine = np.empty(n, dtype=np.int32), theirs = np.empty(n, dtype=np.int32)
        check_delta(items, ptr, cls, val, size)
        with cython.critical_section(LOCK):
            out.step = step
            return self.write(out, changed, mine, theirs, ptr, cls, val, sign, residue, slack, size)

    cdef tuple write(self, Version out, int32_t[::1] items, int32_t[::1] mine, int32_t[::1] theirs, const int64_t[::1] ptr,
                     const int32_t[::1] cls, const double[::1] val, double sign, double residue, double slack, int64_t size):
        """`plus`; the caller holds LOCK."""
        cdef Py_ssize_t n = items.shape[0], i, j
        cdef int64_t count, f, g, end, at
        cdef const int32_t* had
        cdef const double* amount
        cdef double x, was
        cdef Memory memory = self.memory
        cdef list gone = []
        if self.step.after is not None:
            raise RuntimeError("an older version is not changed: copy it")
        if sign < 0.0:
            for i in range(n):
                count = memory.find(items[i], &had, &amount)
                f = 0
                for g in range(ptr[i], ptr[i + 1]):
                    while f < count and had[f] < cls[g]:
                        f += 1
                    was = amount[f] if f < count and had[f] == cls[g] else 0.0
                    x = was + sign * val[g]
                    if (x < -residue * was or was == 0.0) and -x > slack:
                        return None, [int(items[i])]
        memory.item_room(size)
        out.memory, out.size = memory, size
        self.step.items, self.step.mine, self.step.theirs = items, mine, theirs
        for i in range(n):
            count = memory.find(items[i], &had, &amount)
            try:
                memory.cells_room(count + ptr[i + 1] - ptr[i])
            except MemoryError:
                for j in range(i):
                    memory.row[items[j]] = mine[j]
                raise
            count = memory.find(items[i], &had, &amount)  # the memory may have moved
            at = end = memory.start[memory.rows]
            f, g = 0, ptr[i]
            while f < count or g < ptr[i + 1]:
                was = 0.0
                if g >= ptr[i + 1] or (f < count and had[f] < cls[g]):
                    memory.own_cls[end] = had[f]
                    was = x = amount[f]
                    f += 1
                elif f >= count or cls[g] < had[f]:
                    memory.own_cls[end], x = cls[g], sign * val[g]
                    g += 1
                else:
                    memory.own_cls[end] = had[f]
                    was = amount[f]
                    x = was + sign * val[g]
                    f += 1
                    g += 1
                if x > residue * was:
                    memory.own_val[end] = x
                    end += 1
            if end == at:
                gone.append(int(items[i]))
            mine[i], theirs[i] = memory.row[items[i]], <int32_t> memory.rows
            memory.row[items[i]] = <int32_t> memory.rows
            memory.rows += 1
            memory.start[memory.rows] = end
        self.step.after = out.step
        return out, gone

    def take_back(self, Version newer not None):
        """Undoes what made `newer`, which is the newest and is not used again: this is the newest again."""
        cdef Py_ssize_t i
        with cython.critical_section(LOCK):
            if newer.step.after is not None or self.step.after is not newer.step:
                raise RuntimeError("only the newest version can be taken back")
            for i in range(self.step.items.shape[0]):
                self.memory.row[self.step.items[i]] = self.step.mine[i]
            self.step.after = None


cdef int check_delta(const int32_t[::1] items, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val,
                     int64_t size) except -1:
    cdef Py_ssize_t n = items.shape[0], i
    cdef int64_t f
    cdef bint wrong = ptr.shape[0] != n + 1 or ptr[0] != 0 or ptr[n] != cls.shape[0] or cls.shape[0] != val.shape[0]
    for i in range(n if not wrong else 0):
        wrong |= ptr[i] > ptr[i + 1] or items[i] < 0 or items[i] >= size
        for f in range(ptr[i] + 1, ptr[i + 1]):
            wrong |= cls[f - 1] >= cls[f]
    if wrong:
        raise ValueError(f"these are not the cells of items below {size}, of ascending classes")
    return 0
