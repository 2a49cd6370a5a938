"""Streams and events of device npu: torch.Stream and torch.Event with torch_npu's names."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from inductor_npu.device.npu.devices import DeviceLike, _exchange_device, current_device, device_index
from inductor_npu.device.npu.runtime import extension


class Stream(torch.Stream):
    """An in-order queue of work of `device` (None or negative: the current one); `priority` below 0 is high.

    As a context manager it becomes the current stream, and its device the current one.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        extension()
        if kwargs:  # stream_id, device_index, device_type: an existing one
            return super().__new__(cls, **kwargs)
        index = device_index(device)
        return super().__new__(cls, torch.device("npu", index if index >= 0 else current_device()), priority=priority)

    @property
    def npu_stream(self) -> int:
        """The handle that kernel launchers take."""
        with StreamContext(self):
            return extension().get_raw_stream(self.device_index)

    def __repr__(self) -> str:
        return f"torch.npu.Stream(device={self.device}, stream_id={self.stream_id})"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "npu"


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream's work: the torch.Event of an npu, whoever made it.

    Calling it gives a plain torch.Event, because torch's own functions (elapsed_time, record_event) refuse subclasses.
    `blocking` changes nothing here; `interprocess` raises NotImplementedError.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        if interprocess:
            raise NotImplementedError("events of device npu cannot be shared between processes: use interprocess=False")
        return torch.Event(torch.device("npu", device_index(None)), enable_timing=enable_timing, blocking=blocking)


def _npu_stream(stream: torch.Stream) -> Stream:
    if isinstance(stream, Stream):
        return stream
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


class StreamContext:
    """Context manager that makes a stream, and its device, current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous_device = -1
        self._previous: torch.Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._previous_device = _exchange_device(self.stream.device_index)
            self._previous = extension().set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._previous is not None:
            extension().set_stream(self._previous)
            _exchange_device(self._previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """`with torch.npu.stream(s):` queues the work inside on `s`."""
    return StreamContext(stream)


def current_stream(device: DeviceLike = None) -> Stream:
    """This thread's current stream of `device`."""
    if torch.compiler.is_dynamo_compiling():
        return torch.accelerator.current_stream(device_index(device))  # which Dynamo knows
    return _npu_stream(extension().current_stream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream of `device` that is current where none was chosen."""
    return _npu_stream(extension().default_stream(device_index(device)))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream`, and its device, current from here on. `torch.npu.stream` does it for a block."""
    if stream is not None:
        _exchange_device(stream.device_index)
        extension().set_stream(stream)
