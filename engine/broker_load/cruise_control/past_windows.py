"""Past windows: which rounds are built, and what is kept of each window when its rounds are dropped.

Every window leaves a ``Trace``. Sums are kept of the windows in use, and of others while they take little memory; whole
rounds only of the newest sampling intervals. See "Memory" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from engine.broker_load.cruise_control import windows
from engine.broker_load.cruise_control.windows import Cores, Trace, WindowSums
from engine.broker_load.model.history import MOST_ROWS, History
from engine.broker_load.model.rounds import Round
from engine.core.incremental import Partials
from engine.core.view import Context

SUMS_BYTES = 64 << 20
"""Memory for the sums of windows not in use; sums beyond it are computed again when needed."""

Key = tuple[int, int | None]
"""Index of a window, and the moment looked at if it lies inside that window."""


class PastWindows:
    """The windows of a ``history``, up to the moment looked at.

    ``wanted``: how many windows are averaged over; ``rows``: samples of the newest rounds that are shown.
    """

    def __init__(
        self, context: Context, past: History, cores: Cores, until_ms: int | None, interval_ms: int, window_ms: int,
        wanted: int, rows: int,
    ) -> None:  # fmt: skip
        self._history, self._cores, self._window_ms, self._rows = past, cores, window_ms, rows
        self._rounds: Partials[int, Round] = context.memo.state("broker load rounds", Partials)
        self._traces: Partials[Key, Trace] = context.memo.state("broker load window traces", Partials)
        self._sums: Partials[Key, WindowSums] = context.memo.state("broker load window sums", Partials)
        self._interval_ms, self._key = interval_ms, (interval_ms, window_ms)
        whole, cut = self._members(until_ms)
        self._moments = {
            (index, None) if moments == whole.get(index) else (index, until_ms): moments
            for index, moments in sorted(cut.items())
        }
        self._newest = self._shown(until_ms) | self._shown(None)
        self._likely = set(list(self._moments)[-wanted - 2 :])
        self._fresh: dict[Key, WindowSums] = {}
        keys = list(self._moments)
        for index, moments in whole.items():
            if (index, None) in self._traces:
                self._moments.setdefault((index, None), moments)  # looking at the past drops nothing
        self._stamps = {
            key: tuple((past.stamps[moment], cores(past.at(moment)).tobytes()) for moment in moments)
            for key, moments in self._moments.items()
        }
        self._traces.update(self._stamps, self._trace, key=self._key)
        self._keys = {key[0]: key for key in keys}
        traces = (self._traces[key] for key in keys)
        self.traces = {one.index: one for one in traces if one.moments}
        """Traces of the windows with rounds, by index, in order of time."""

    def _members(self, until_ms: int | None) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Return the moments whose rounds may lie in each window: all of them, and those up to the moment looked at."""
        whole: dict[int, list[int]] = {}
        cut: dict[int, list[int]] = {}
        for moment in self._history.stamps:
            begin = moment // self._interval_ms * self._interval_ms
            for index in range(begin // self._window_ms + 1, moment // self._window_ms + 2):
                if moment == begin + self._interval_ms - 1:
                    whole.setdefault(index, []).append(moment)
                if until_ms is None or moment <= until_ms:
                    cut.setdefault(index, []).append(moment)
        return whole, cut

    def _shown(self, until_ms: int | None) -> set[int]:
        """Return the moments of the newest window until ``until_ms``, and earlier ones as long as their samples are shown."""
        newest: set[int] = set()
        left, window = self._rows, None
        for moment in sorted(self._history.stamps, reverse=True):
            if until_ms is not None and moment > until_ms:
                continue
            window = moment // self._window_ms if window is None else window
            left -= self._history.at(moment).size
            if left < 0 and moment // self._window_ms != window:
                break
            newest.add(moment)
        return newest

    def _have(self, moments: Collection[int]) -> None:
        """Build the rounds of ``moments``; of those built before, only the newest stay."""
        names = {*moments, *(moment for moment in self._rounds if moment in self._newest)}
        stamps = {moment: stamp for moment, stamp in self._history.stamps.items() if moment in names}
        self._rounds.update(stamps, self._history.build, key=self._interval_ms)

    def _built(self, keys: Collection[Key]) -> Iterator[tuple[Key, list[int], list[Round]]]:
        """Yield the moments and rounds of each of the windows ``keys``; a bounded number of raw metrics is read at once."""
        batches: list[list[Key]] = []
        left = 0
        for key in keys:
            rows = sum(self._history.rows[moment] for moment in self._moments[key])
            if not batches or rows > left:
                batches.append([])
                left = MOST_ROWS
            batches[-1].append(key)
            left -= rows
        for batch in batches:
            self._have({moment for key in batch for moment in self._moments[key]})
            for key in batch:
                rounds = {moment: self._rounds[moment] for moment in self._moments[key]}
                # An interval in which no broker has a CPU reading or a rate is the first scrape of running totals: no round.
                moments = [m for m, one in rounds.items() if one.live and one.time_ms // self._window_ms + 1 == key[0]]
                yield key, moments, [rounds[moment] for moment in moments]

    def _trace(self, keys: Collection[Key]) -> dict[Key, Trace]:
        made = {}
        for key, moments, members in self._built(keys):
            made[key] = windows.trace(key[0], moments, members, self._cores)
            if key in self._likely:
                self._fresh[key] = windows.add_up(members, self._cores)
        return made

    def sums(self, indices: Collection[int]) -> dict[int, WindowSums]:
        """Return the sums of the windows ``indices`` that have rounds; sums of others are kept while they take little memory."""
        wanted = [self._keys[index] for index in indices if index in self.traces]
        names, left = set(wanted), SUMS_BYTES
        for key in sorted(self._sums, key=lambda key: key[0], reverse=True):
            if key not in names and key in self._stamps:
                left -= self._sums[key].nbytes
                if left < 0:
                    break
                names.add(key)

        def compute(keys: Collection[Key]) -> dict[Key, WindowSums]:
            made = {key: self._fresh[key] for key in keys if key in self._fresh}
            for key, _, members in self._built([key for key in keys if key not in made]):
                made[key] = windows.add_up(members, self._cores)
            return made

        self._sums.update({key: stamp for key, stamp in self._stamps.items() if key in names}, compute, key=self._key)
        return {key[0]: self._sums[key] for key in wanted}

    def rounds(self) -> tuple[Round, ...]:
        """Return the newest rounds in order of time: the last one, and earlier ones whose samples are shown."""
        names: set[int] = set()
        left = self._rows
        for one in reversed(list(self.traces.values())):
            for moment, taken in zip(reversed(one.moments), reversed(one.taken), strict=True):
                left -= taken
                if (taken and left >= 0) or not names:
                    names.add(moment)
        self._have(names)
        return tuple(self._rounds[moment] for moment in sorted(names))
