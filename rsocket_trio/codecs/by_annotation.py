"""What the codecs that go by annotations share: `AnnotationCodec`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .compiling import Kept
from .reading import Readers
from .writing import Writers

__all__ = ["AnnotationCodec"]


class AnnotationCodec(ABC):
    """A codec that makes a function for each annotation, once.

    Args:
        readers: Those of its format.
        writers: Those of its format.
    """

    def __init__(self, readers: Readers, writers: Writers) -> None:
        self._readers = readers
        self._writers = writers
        self._encoders = Kept(self._encoder)
        self._decoders = Kept(self._decoder)

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._readers.reader(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._writers.writer(annotation)

    def encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        """Return what `encode` does for one annotation.

        Raises:
            TypeError: Values of that type cannot be written.
        """
        if type(self).encode is not AnnotationCodec.encode:  # it is extended
            return lambda value: self.encode(value, annotation)
        return self._encoders.of(annotation)

    def decoder(self, annotation: Any) -> Callable[[bytes], object]:
        """Return what `decode` does for one annotation.

        Raises:
            TypeError: No data can be read as that type.
        """
        if type(self).decode is not AnnotationCodec.decode:  # it is extended
            return lambda data: self.decode(data, annotation)
        return self._decoders.of(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        return self._encoders.of(annotation)(value)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        return self._decoders.of(annotation)(data)

    @abstractmethod
    def _encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        """Return what `encode` does for one annotation."""

    @abstractmethod
    def _decoder(self, annotation: Any) -> Callable[[bytes], object]:
        """Return what `decode` does for one annotation."""
