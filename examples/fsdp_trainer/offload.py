"""Activations wait in host memory between forward and backward, and come back before they are needed.

One wrapper around the whole model: autograd hands it every tensor that it saves in forward. Those saved inside a layer
belong to that layer's group. When backward first asks for one of group g, groups g to g - H + 1 are on the device, and
those above g are given up: never more than H groups, the horizon, are resident at once.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks


@dataclass
class Parked:
    """One saved tensor: its copy on the host, and, while its group is resident, the one on the device."""

    group: int
    host: Tensor
    device: Tensor | None = None


class Offload:
    """Attach to a model whose layers are already sharded and checkpointed; `peak` counts groups."""

    def __init__(self, model: nn.Module, layers: nn.ModuleList, horizon: int, device: torch.device) -> None:
        self.horizon, self.device, self.peak = horizon, device, 0
        self.inside: int | None = None  # the layer whose forward runs
        self.parked: dict[int, list[Parked]] = {}
        self.resident: dict[int, Any] = {}  # group -> the event after which its copies are whole
        # Copies run beside the computation only where there are streams; elsewhere they block, as on a CPU.
        self.cuda = torch.cuda if device.type == "cuda" else None
        self.side = torch.cuda.Stream(device) if self.cuda else None
        self.hooks = saved_tensors_hooks(self.pack, self.unpack)
        for number, layer in enumerate(layers):
            layer.register_forward_pre_hook(lambda *_, number=number: self._enter(number), prepend=True)
            layer.register_forward_hook(lambda *_: self._enter(None), always_call=True)
        model.register_forward_pre_hook(lambda *_: self._begin(), prepend=True)
        model.register_forward_hook(lambda *_: self.hooks.__exit__(), always_call=True)

    def _begin(self) -> None:
        self.parked.clear()
        self.resident.clear()
        self.hooks.__enter__()

    def _enter(self, number: int | None) -> None:
        self.inside = number

    def pack(self, tensor: Tensor) -> Tensor | Parked:
        """Called by autograd in forward. Parameters, and what is saved between layers, stay where they are."""
        weight = isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)
        if self.inside is None or weight or type(tensor) is not Tensor:
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self.cuda is not None)
        with self._beside():
            host.copy_(tensor, non_blocking=True)
        if self.side is not None:
            tensor.record_stream(self.side)  # its memory is not used again before the copy is made
        self.parked.setdefault(self.inside, []).append(parked := Parked(self.inside, host))
        return parked

    def unpack(self, saved: Tensor | Parked) -> Tensor:
        """Called by autograd in backward, from the last group down to the first."""
        if isinstance(saved, Tensor):
            return saved
        for group in [one for one in self.resident if one > saved.group]:
            del self.resident[group]
            for parked in self.parked.pop(group):
                parked.device = None
        for group in range(saved.group, max(-1, saved.group - self.horizon), -1):
            self._load(group)
        if self.cuda and (ready := self.resident[saved.group]):
            self.cuda.current_stream().wait_event(ready)
            self.resident[saved.group] = None
        if saved.device is None:
            raise RuntimeError(f"group {saved.group} was given up before backward was through with it")
        return saved.device

    def _load(self, group: int) -> None:
        if group in self.resident or group not in self.parked:
            return
        main = self.cuda.current_stream() if self.cuda else None
        with self._beside():
            for parked in self.parked[group]:
                parked.device = torch.empty_like(parked.host, device=self.device)
                parked.device.copy_(parked.host, non_blocking=True)
                if main is not None:
                    parked.device.record_stream(main)
        self.resident[group] = self.side.record_event() if self.side else None
        self.peak = max(self.peak, len(self.resident))

    def _beside(self) -> Any:
        """On the side stream, after what the computation has queued so far."""
        if self.cuda is None or self.side is None:
            return nullcontext()
        self.side.wait_stream(self.cuda.current_stream())
        return self.cuda.stream(self.side)
