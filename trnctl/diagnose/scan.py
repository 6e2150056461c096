"""A stream of bytes against all patterns at once, in bounded memory.

Most lines of a log are alike but for numbers, and all are made of few words. So each chunk is reduced to its shape
(`literals.worded`); only words that were not seen before are searched for the plain pieces of the patterns; and only
lines with such a word, whose shape also holds the pattern's other plain pieces in their order, are shown to a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trnctl.diagnose import documents
from trnctl.diagnose.evidence import Evidence, Hit, Origin, Seen
from trnctl.diagnose.kinds import SNIFFED, SOURCES, kind_of
from trnctl.diagnose.literals import Either, pieces, shape, skeleton, stands_in, worded
from trnctl.diagnose.signatures import Signatures
from trnctl.diagnose.text import around, bare, clean, goes_on, node_of, stamp_of, without_colour

MOST_HITS = 100  # of one pattern in one file: enough to tell nodes apart; a flood tells nothing more
MOST_SHAPES = 50_000  # of lines, and as many words, remembered; then forgotten, which costs time and never a hit
LONGEST_LINE = 1 << 20  # bytes; what is longer is cut
WRAPPED = 2 << 20  # bytes of a file in which broken lines are put together again
_WINDOW = 4  # lines that one broken line may have become


@dataclass(frozen=True)
class Probe:
    """One pattern. `owner` is the code or the fact that asks; `role` is pattern, also, without, fact or loud.

    One that is `anchored` to the start of a line is tried behind what a log puts there, too; but not one of a table's
    rows, which begin with a number: no log has them, and they would be asked for each line with a node's name.
    """

    owner: str
    role: str
    index: int
    regex: re.Pattern[str]
    sources: frozenset[str]
    skeleton: Either
    anchored: bool = False


class Probes:
    """All patterns, compiled once, and which of them each plain piece may lead to."""

    def __init__(self, known: Signatures) -> None:
        self.all = tuple(_probes(known))
        self.pieces: dict[bytes, list[int]] = {}
        for number, probe in enumerate(self.all):
            for piece in pieces(probe.regex.pattern):
                self.pieces.setdefault(piece, []).append(number)


@dataclass
class Scan:
    """All that was hit so far: by probe, over every file."""

    probes: tuple[Probe, ...]
    hits: dict[int, list[Hit]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)


class Scanner:
    """Feed it files; `scan` holds what they had."""

    def __init__(self, probes: Probes) -> None:
        self.scan = Scan(probes.all)
        self._pieces = probes.pieces
        self._words: set[bytes] = set()
        self._telling: dict[bytes, tuple[int, ...]] = {}  # words that hold a piece, and the probes that it leads to
        self._forms: dict[bytes, tuple[int, ...]] = {}  # shapes of lines, and the probes that may match one

    def read(self, chunks: Iterable[bytes], origin: Origin) -> None:
        """Read one file. An origin whose source is `unknown` gets one by its content."""
        head, rest = _head(iter(chunks))
        source = origin.source
        if source == "unknown":
            source = kind_of(head[:SNIFFED].decode("utf-8", "replace"), origin.file)
        origin = replace(origin, source=source)
        if documents.may_be_document(head):
            whole, rest = _whole(head, rest)
            document = documents.parse(whole.decode("utf-8", "replace")) if len(whole) <= documents.LARGEST else None
            if document is not None:
                lines = documents.lines_of(document)
                self._read([("\n".join(lines)).encode()], origin, size=len(whole), numbered=False)
                return
            head = whole
        self._read(_chain(head, rest), origin)

    def _read(self, chunks: Iterable[bytes], origin: Origin, *, size: int = 0, numbered: bool = True) -> None:
        at, total, carry, kept = 1, 0, b"", bytearray()
        counts: dict[int, int] = {}
        for chunk in chunks:
            total += len(chunk)
            if len(kept) <= WRAPPED:
                kept += chunk
            block, carry = _whole_lines(carry + chunk)
            if block:
                at += self._block(block, at if numbered else None, origin, counts)
        if carry:
            at += self._block(carry, at if numbered else None, origin, counts)
        if len(kept) <= WRAPPED:
            self._wrapped(bytes(kept), numbered, origin, counts)
        self.scan.seen.append(Seen(origin.source, origin.file, at - 1, size or total))

    def _block(self, block: bytes, at: int | None, origin: Origin, counts: dict[int, int]) -> int:
        """Whole lines; how many they were."""
        block = _plain(block)
        forms = worded(block).split(b"\n")
        different = set(forms)
        if fresh := different - self._forms.keys():
            self._learn(fresh)
        telling = {form: probes for form in different if (probes := self._forms[form])}
        if telling:
            lines = block.split(b"\n")
            for offset, form in enumerate(forms):
                if form in telling:
                    number = None if at is None else at + offset
                    self._try(lines[offset].decode("utf-8", "replace"), number, telling[form], origin, counts)
        if len(self._forms) > MOST_SHAPES:
            self._forms.clear()
        return len(forms) - (block.endswith(b"\n"))

    def _learn(self, fresh: set[bytes]) -> None:
        """Which patterns may match a line of each of the new shapes."""
        self._learn_words(set(b"\n".join(fresh).split()) - self._words)
        for form in fresh:
            words = form.split()
            self._forms[form] = () if self._telling.keys().isdisjoint(words) else self._asked_by(words)

    def _learn_words(self, fresh: set[bytes]) -> None:
        """Which of the new words hold a piece, and of which patterns."""
        if len(self._words) > MOST_SHAPES:
            self._words.clear()
            self._telling.clear()
            self._forms.clear()
        self._words |= fresh
        together = b"\n".join(fresh)
        for piece in (piece for piece in self._pieces if piece in together):
            for word in fresh:
                if piece in word:
                    self._telling[word] = (*self._telling.get(word, ()), *self._pieces[piece])

    def _asked_by(self, words: Sequence[bytes]) -> tuple[int, ...]:
        """The probes that these words lead to and whose plain pieces all stand there."""
        form = b"".join(words)
        asked = {probe for word in words for probe in self._telling.get(word, ())}
        return tuple(sorted(probe for probe in asked if stands_in(form, self.scan.probes[probe].skeleton)))

    def _try(
        self, line: str, number: int | None, probes: Iterable[int], origin: Origin, counts: dict[int, int]
    ) -> bool:
        text = behind = ""
        found = False
        for index in probes:
            probe = self.scan.probes[index]
            if counts.get(index, 0) >= MOST_HITS or origin.source not in probe.sources:
                continue
            text = text or clean(line)
            match = probe.regex.search(text)
            if match is None and probe.anchored:
                behind = behind or bare(text)
                match = probe.regex.search(behind) if behind is not text else None
            if match is None:
                continue
            found = True
            counts[index] = counts.get(index, 0) + 1
            evidence = Evidence(
                origin.source, around(match.string, *match.span()), origin.file, number, node_of(text) or origin.node,
                stamp_of(text),
            )  # fmt: skip
            groups = {name: value for name, value in match.groupdict().items() if value}
            self.scan.hits.setdefault(index, []).append(Hit(evidence, groups))
        return found

    def _wrapped(self, content: bytes, numbered: bool, origin: Origin, counts: dict[int, int]) -> None:
        """Lines that were broken on their way here: each with those after it that may be its rest, for patterns that
        the single lines did not match."""
        lines = _plain(content).decode("utf-8", "replace").split("\n")
        fresh = {number for number in range(len(self.scan.probes)) if number not in counts}
        width = max(map(len, lines), default=0)
        for at in range(len(lines) - 1):
            if not lines[at].strip() or not goes_on(lines[at + 1], lines[at], width):
                continue
            parts = [lines[at]]
            for rest in lines[at + 1 : at + _WINDOW]:
                if not goes_on(rest, parts[-1], width):
                    break
                parts.append(rest)
            for joint in (" ", ""):
                text = joint.join([parts[0].rstrip(), *(part.strip() for part in parts[1:])])
                form = shape(text.encode())
                probes = {one for piece, owners in self._pieces.items() if piece in form for one in owners} & fresh
                likely = [one for one in probes if stands_in(form, self.scan.probes[one].skeleton)]
                self._try(text, at + 1 if numbered else None, likely, origin, counts)
            fresh -= counts.keys()


def _probes(known: Signatures) -> Iterator[Probe]:
    for signature in known.signatures:
        # A script names messages that it looks for; only what judges scripts may judge it.
        usual = frozenset(SOURCES) if signature.family == "script" else frozenset(SOURCES) - {"sbatch-script"}
        sources = frozenset(signature.sources) or usual
        roles = {"pattern": signature.patterns, "also": signature.also, "without": signature.without}
        for role, patterns in roles.items():
            for index, pattern in enumerate(patterns):
                places = sources if role == "pattern" else frozenset(SOURCES)
                yield _probe(signature.code, role, index, pattern, places)
    for fact in known.facts:
        for index, pattern in enumerate(fact.patterns):
            yield _probe(fact.fact, "fact", index, pattern, frozenset(SOURCES))
    for index, pattern in enumerate(known.loud):
        yield _probe("", "loud", index, pattern, frozenset(SOURCES) - {"sbatch-script", "config"})


_ROW = re.compile(r"\^(?: \?|\\W\?)?(?:\(\?P<\w+>)?(?:\\d|\d)")  # a pattern of a row that begins with a number


def _probe(owner: str, role: str, index: int, pattern: str, sources: frozenset[str]) -> Probe:
    anchored = "^" in pattern.replace("[^", "") and not _ROW.match(pattern)
    return Probe(owner, role, index, re.compile(pattern, re.IGNORECASE), sources, skeleton(pattern), anchored)


def _plain(block: bytes) -> bytes:
    """Without colour and with plain line ends; a carriage return of a progress bar ends a line too."""
    if b"\x1b" in block:
        block = without_colour(block.decode("utf-8", "replace")).encode()
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    """(up to the last line end, the rest); a line that never ends is cut."""
    cut = data.rfind(b"\n") + 1
    if not cut and len(data) > LONGEST_LINE:
        return data, b""
    return data[:cut], data[cut:]


def _head(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= SNIFFED:
            break
    return head, chunks


def _whole(head: bytes, rest: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """As much of the file as a JSON document may have, and the rest."""
    parts, size = [head], len(head)
    for chunk in rest:
        parts.append(chunk)
        size += len(chunk)
        if size > documents.LARGEST:
            break
    return b"".join(parts), rest


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest
