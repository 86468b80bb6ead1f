"""An index to look for words in many texts at once: all letters lie one after the other in one array, and the
beginnings and ends of words, and their first letters, are columns of numbers.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memproxy.recall.lazy import lazy

Numbers = NDArray[np.intp]
Spelled = NDArray[np.uint64]

_CODED = 8
"""Letters of a word that are compared as one number."""

_MASKS: Spelled = np.array([(1 << 8 * letters) - 1 for letters in range(_CODED + 1)], np.uint64)
_BLANK = ord(" ")

_ALIKE = bytes(
    ord(character.lower()) if (character := chr(code)).isascii() and character.isalnum() else ord(" ")
    for code in range(256)
)
"""Capitals to small letters and what is no letter or digit to spaces: many times faster than a regular expression."""


def spelled(text: str) -> bytes:
    """The words of a text in small ASCII letters, and spaces, also at both ends."""
    return b" %b " % text.encode("ascii", "replace").translate(_ALIKE)


class WordIndex:
    """The words of several texts, each as `spelled`. Texts go by their places."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._all = b"\n".join(parts) + b" " * _CODED
        lengths = np.fromiter(map(len, parts), np.intp, len(parts)) + 1  # with the line break
        self._borders = np.concatenate(([0], np.add.accumulate(lengths)))
        self._begun: dict[int, Spelled] = {}

    def having(self, part: bytes) -> list[int]:
        """The texts that have this part: one word, or two that one space is between, and a space at both ends."""
        first, *other = part.split()
        matches = self._spelled(first, (self._codes == _code(first)).nonzero()[0])
        for word in other:
            if not len(matches):
                break
            after = matches[self._is_close[matches]] + 1
            matches = self._spelled(word, after[self._codes[after] == _code(word)])
        return list(dict.fromkeys(self._texts(matches).tolist())) if len(matches) else []

    def beginning(self, start: bytes) -> Iterator[tuple[bytes, Numbers]]:
        """The words that begin with these letters, `_CODED` at most, each with the texts that have it, some of them
        more than once.
        """
        return self._named((self._beginnings(len(start)) == _code(start)).nonzero()[0])

    def words(self) -> Iterator[tuple[bytes, Numbers]]:
        """All words, as `beginning` has them."""
        return self._named(np.arange(len(self._codes)))

    def _beginnings(self, letters: int) -> Spelled:
        """The first ``letters`` letters of each word."""
        if letters not in self._begun:
            self._begun[letters] = self._codes & _MASKS[letters]
        return self._begun[letters]

    @lazy
    def _edges(self) -> tuple[Numbers, Numbers]:
        """Where each word begins, and where it ends."""
        blank = np.frombuffer(self._all, np.uint8) <= _BLANK
        edges = (blank[1:] != blank[:-1]).nonzero()[0] + 1
        return edges[::2], edges[1::2]

    @lazy
    def _codes(self) -> Spelled:
        """The first letters of each word."""
        starts, ends = self._edges
        letters = np.ndarray(len(self._all) - _CODED + 1, f"V{_CODED}", self._all, strides=(1,))
        codes: Spelled = letters.take(starts).view("<u8")
        codes &= _MASKS[np.minimum(ends - starts, _CODED)]
        return codes

    @lazy
    def _is_close(self) -> NDArray[np.bool_]:
        """Whether one space is between each word and the one after it."""
        starts, ends = self._edges
        return np.append(starts[1:] - ends[:-1] == 1, False)

    def _spelled(self, word: bytes, alike: Numbers) -> Numbers:
        """Of the words that begin ``alike`` those that are this one."""
        if len(word) < _CODED:
            return alike
        starts, ends = self._edges
        same = [index for index in alike.tolist() if self._all[starts[index] : ends[index]] == word]
        return np.array(same, np.intp)

    def _named(self, places: Numbers) -> Iterator[tuple[bytes, Numbers]]:
        """The words at these places, each with the texts that have it."""
        if not len(places):
            return
        codes = self._codes[places]
        order = codes.argsort(kind="stable")
        codes, places = codes[order], places[order]
        starts, ends = self._edges
        texts = self._texts(places)
        bounds = [0, *((codes[1:] != codes[:-1]).nonzero()[0] + 1).tolist(), len(codes)]
        for begin, end in pairwise(bounds):
            first, alike = places[begin], slice(begin, end)
            if ends[first] - starts[first] < _CODED:
                yield self._all[starts[first] : ends[first]], texts[alike]
            else:
                yield from self._longer(places[alike], texts[alike])

    def _longer(self, places: Numbers, texts: Numbers) -> Iterator[tuple[bytes, Numbers]]:
        """`_named` for words of which only the first letters are known to be the same."""
        starts, ends = self._edges
        spelled = [
            self._all[start:end] for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        ]
        for word in dict.fromkeys(spelled):
            yield word, texts[[other == word for other in spelled]]

    def _texts(self, places: Numbers) -> Numbers:
        """The texts that have the words at these places."""
        return self._borders.searchsorted(self._edges[0][places], side="right") - 1


def _code(letters: bytes) -> int:
    return int.from_bytes(letters[:_CODED], "little")
