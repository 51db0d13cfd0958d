"""State of one parameter, brought into the form of its plan. state.py has the keys of the dict."""

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from . import _core
from .aux_pairs import fits, is_view, new_pair
from .conversion import Conversion
from .storage import (
    MOST_STEPS_OF_FLOAT32,
    buffer_fault,
    check_apart,
    dense_strides,
    dtype_name,
    empty,
    row_major,
    step_number,
    torch_strides,
    value_dtype,
)

_ADVICE = "Set its own state, or start again with none: del optimizer.state[p]."

State = dict[str, Any]
_MOST_STEPS = 2**53  # of a float64
Pairs = dict[str, Tensor]  # both buffers of each field of auxiliary state, or the one of a matrix, by its key


def steps_taken(state: State) -> int:
    """The steps that a parameter has taken. torch's SGD and Muon keep no number: their state counts as one step."""
    step = state.get("step")
    if step is None:
        return int(any(isinstance(value, Tensor) for value in state.values()))
    if isinstance(step, Tensor) and step.numel() != 1:
        raise ValueError(f"the state step has {step.numel()} elements. Set it to one number.")
    if not 0 <= float(step) < _MOST_STEPS:
        raise ValueError(f"the state step is {float(step):g}. Set it to the number of steps, 0 or more.")
    return int(step)


class Binding:
    """The state of one parameter while it is brought into the form of a plan. Changes the dict only in the end."""

    def __init__(
        self,
        p: Tensor,
        plan: _core.ParamPlan,
        state: State,
        pairs: Pairs,
        *,
        counted: bool = False,
        restarts: bool = False,
        advice: str = _ADVICE,  # about state of another shape
    ):
        _core.set_threads(torch.get_num_threads())  # of conversions
        self.p, self.plan, self.pairs, self.counted, self.advice = p, plan, pairs, counted, advice
        self.state = dict(state)
        self.t = self.weights_t = steps_taken(self.state)  # of the buffers, and of the residual
        if restarts and not self.has_slots():
            self.state.pop("step", None)
            self.t = 0
        self.sizes = plan.sizes()
        self.strides = plan.compact_strides()
        self.check_entries(plan)
        stored = state.get("strides")
        self.stored_strides = row_major(self.sizes) if stored is None else [int(stride) for stride in stored]
        self.same_order = dense_strides(self.sizes, self.stored_strides) == dense_strides(self.sizes, self.strides)
        self.conversion = Conversion()
        self.new_pairs: Pairs = {}
        self.new_weights: Tensor | None = None  # of the parameter, in another weight format
        self.assigned = [slot.name for slot in plan.slots() if self.has_both(slot.name)]
        for name in self.assigned:
            self.drop(name)
        self.drop_unusable_residual()

    def keep(self, state: State, pairs: Pairs) -> None:
        """Replaces the content of both dicts."""
        state.clear()
        state.update(self.state)
        pairs.clear()
        pairs.update(self.new_pairs)

    # ---- state buffers

    def check_entries(self, plan: _core.ParamPlan) -> None:
        """Raises ValueError for an unusable buffer, and for codes of another shape, which they do not show."""
        for slot in plan.slots():
            value, stored = self.state.get(slot.name), self.state.get(f"{slot.name}.format")
            fault = None if value is None else buffer_fault(value, self.p)
            if fault is not None:
                raise ValueError(f"the state {slot.name} {fault}. Set it to a dense tensor with its values.")
            if stored is not None and not isinstance(stored, str):
                raise ValueError(f"the state {slot.name}.format is no text. Load a complete checkpoint.")
        sizes = self.state.get("sizes")
        if sizes is not None and list(sizes) != list(self.p.shape):
            raise ValueError(
                f"its state is of the shape {list(sizes)}, and the parameter {list(self.p.shape)}. {self.advice}"
            )

    def has_slots(self) -> bool:
        """True if the state has a buffer, or the plan has none."""
        names = [slot.name for slot in self.plan.slots() if slot.format]
        return not names or any(name in self.state or f"{name}.format" in self.state for name in names)

    def has_both(self, name: str) -> bool:
        """True if a program has assigned values to a buffer that has codes, or loaded them in addition."""
        return f"{name}.format" in self.state and isinstance(self.state.get(name), Tensor)

    def stored_values(self, number: int, slot: _core.SlotInfo) -> Tensor | None:
        """The values of a state buffer that must be converted, in the plan's order."""
        if f"{slot.name}.format" in self.state:
            if self.t == 0:  # kernels do not read the codes
                return empty(self.p, self.strides, value_dtype(self.p)).fill_(slot.initial)
            values = self.decoded(number, slot.name)
        elif isinstance(self.state.get(slot.name), Tensor):
            values = self.state[slot.name]
        else:
            return None
        if values.shape != self.p.shape:
            raise ValueError(
                f"the state {slot.name} has the shape {list(values.shape)}, and the parameter {list(self.p.shape)}. "
                f"{self.advice}"
            )
        return empty(self.p, self.strides, value_dtype(self.p)).copy_(values)

    def decoded(self, number: int, name: str) -> Tensor:
        """The values of codes in the format that the state names."""
        plan = self.plan.with_codec(number, self.state[f"{name}.format"]).with_strides(self.stored_strides)
        info = plan.slots()[number]
        slots: list[tuple[Any, Any]] = [(None, None)] * len(plan.slots())
        slots[number] = (self.bytes(f"{name}.codes", info.codes), self.bytes(f"{name}.scales", info.scales))
        aux = [self.old_pair(field) if field.slot == number else None for field in plan.aux()]
        values = empty(self.p, plan.compact_strides(), value_dtype(self.p)).zero_()
        plan.decode(_core.Buffers(None, slots, aux, None), self.t, number, values)
        return values

    def old_pair(self, field: _core.AuxInfo) -> Tensor:
        return new_pair(self.p, field, self.state.get(field.name))

    def note_unused(self, slot: _core.SlotInfo, values: Tensor | None) -> None:
        """Before step 1, kernels do not read state, so values that a program has set would be lost."""
        if self.t > 0 or values is None or isinstance(values, FakeTensor):
            return
        if bool((values.ne(slot.initial) & values.ne(0)).any()):
            self.conversion.add_unused(slot.name)

    def note_unused_bytes(self, name: str, stored: Tensor | None, t: int) -> None:
        """The same for bytes, which new state has as zeros."""
        if t == 0 and stored is not None and not isinstance(stored, FakeTensor) and bool(stored.any()):
            self.conversion.add_unused(name)

    def bytes(self, key: str, size: int) -> Tensor | None:
        """The bytes of a checkpoint. None if the format has none."""
        if size == 0:
            return None
        stored = self.state.get(key)
        if not isinstance(stored, Tensor) or stored.numel() != size:
            found = stored.numel() if isinstance(stored, Tensor) else "none"
            raise ValueError(f"the state {key} has {found} of {size} bytes. Load a complete checkpoint.")
        stored = stored.to(device=self.p.device, dtype=torch.uint8).contiguous()
        return stored if stored.data_ptr() % 16 == 0 else stored.clone()  # vector loads

    def drop(self, name: str) -> None:
        """Forgets codes, and the auxiliary state of their codec."""
        for key in [k for k in self.state if k.startswith(f"{name}.")]:
            del self.state[key]

    def keeps_values(self, slot: _core.SlotInfo) -> bool:
        stored = self.state.get(slot.name)
        return (
            isinstance(stored, Tensor)
            and stored.dtype == value_dtype(self.p)
            and stored.device == self.p.device
            and stored.shape == self.p.shape
            and stored.stride() == torch_strides(self.p, self.strides)
        )

    def bind_values(self, number: int, slot: _core.SlotInfo) -> tuple[Tensor, None]:
        keeps = self.keeps_values(slot)
        values = self.state[slot.name] if keeps else self.stored_values(number, slot)
        self.note_unused(slot, values)
        if not keeps:
            if f"{slot.name}.format" in self.state:
                self.conversion.add(slot.name, _codec_name(self.state[f"{slot.name}.format"]), "fp32")
                self.drop(slot.name)
            if values is None:
                values = empty(self.p, self.strides, value_dtype(self.p)).fill_(slot.initial)
            self.state[slot.name] = values
        return self.state[slot.name], None

    def keeps_codes(self, number: int, slot: _core.SlotInfo) -> bool:
        stored = self.state.get(f"{slot.name}.format")
        return stored is not None and self.same_order and self.plan.same_codes(number, stored)

    def bind_codes(self, number: int, slot: _core.SlotInfo) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Codes, scales, and the values that they must encode, or None."""
        values = None
        codes_key, scales_key = f"{slot.name}.codes", f"{slot.name}.scales"
        if not self.keeps_codes(number, slot):
            values = self.stored_values(number, slot)
            if values is not None and slot.name not in self.assigned:
                old = self.state.get(f"{slot.name}.format")
                self.conversion.add(slot.name, _codec_name(old) if old else "fp32", _codec_name(slot.format))
            elif slot.initial and self.t > 0:
                values = empty(self.p, self.strides, value_dtype(self.p)).fill_(slot.initial)
            self.note_unused(slot, values)
            self.drop(slot.name)
            self.state.pop(slot.name, None)
            for key, size in ((codes_key, slot.codes), (scales_key, slot.scales)):
                if size:
                    self.state[key] = torch.zeros(size, dtype=torch.uint8, device=self.p.device)
        for key, size in ((codes_key, slot.codes), (scales_key, slot.scales)):
            if size:
                self.state[key] = self.bytes(key, size)
                self.note_unused_bytes(slot.name, self.state[key], self.t)
        self.state[f"{slot.name}.format"] = slot.format
        return self.state.get(codes_key), self.state.get(scales_key), values if self.t > 0 else None

    # ---- auxiliary state

    def bind_aux(self, field: _core.AuxInfo) -> Tensor | None:
        """Both buffers of a field. The state shows the one that was written last. None: there is no such matrix."""
        if field.is_matrix and 0 in field.sizes:
            self.state.pop(field.name, None)
            return None
        stored, pair = self.state.get(field.name), self.pairs.get(field.name)
        if pair is None or not is_view(stored, pair) or not fits(pair, self.p, field):
            stored, pair = None, new_pair(self.p, field, stored)
        newest = pair[(self.t & 1) % len(pair)]
        if stored is not None and stored.data_ptr() != newest.data_ptr():
            newest.copy_(stored)  # the caller has changed `step` by an odd number
        self.new_pairs[field.name] = pair
        self.state[field.name] = newest
        return pair

    # ---- the weight format

    def drop_unusable_residual(self) -> None:
        """Forgets the residual of a parameter that has another dtype now, and any residual if the plan has none."""
        stored, own = self.state.get("residual.format"), dtype_name(self.p)
        dtype = self.state.get("residual.dtype", own)
        if stored is None or (self.plan.residual_bytes > 0 and dtype == own):
            return
        for key in ("residual", "residual.format", "residual.dtype"):
            self.state.pop(key, None)
        if self.weights_t > 0:
            old, new = stored, self.plan.weights
            if dtype != own:
                old, new = f"{old} in {dtype}", f"{new} in {own}"
            self.conversion.add("weights", old, f"{new}, without the residual")

    def bind_residual(self) -> Tensor | None:
        """The residual for the plan's weight format. Rewrites the parameter if another format had one."""
        stored, wanted = self.state.get("residual.format"), self.plan.weights
        if self.plan.residual_bytes == 0:
            return None
        if self.p.numel() == 0:  # such as the part of a process: only the format is known
            self.state |= {"residual.format": wanted, "residual.dtype": dtype_name(self.p)}
            return None
        if stored != wanted or not self.same_order:
            weights = self.stored_weights(stored)
            self.state["residual"] = torch.zeros(self.plan.residual, dtype=torch.uint8, device=self.p.device)
            self.state["residual.format"] = wanted
            if self.weights_t > 0:
                self.encode_weights(weights)
        residual = self.state["residual"] = self.bytes("residual", self.plan.residual)
        self.note_unused_bytes("residual", residual, self.weights_t)
        self.state["residual.dtype"] = dtype_name(self.p)
        return residual

    def stored_weights(self, stored: str | None) -> Tensor:
        """The parameter as its rule reads it, in float."""
        values = empty(self.p, self.strides, value_dtype(self.p))
        if stored is None or self.weights_t == 0:
            return values.copy_(self.p.detach())
        plan = self.plan.with_weights(stored).with_strides(self.stored_strides)
        p = empty(self.p, self.stored_strides, self.p.dtype).copy_(self.p.detach())
        decoded = empty(self.p, self.stored_strides, value_dtype(self.p))
        residual = self.bytes("residual", plan.residual)
        plan.decode(_core.Buffers(p, [], [], residual), self.weights_t, -1, decoded)
        if stored != self.plan.weights:
            self.conversion.add("weights", stored, self.plan.weights)
        return values.copy_(decoded)

    def encode_weights(self, values: Tensor) -> None:
        p = empty(self.p, self.strides, self.p.dtype)
        self.plan.encode(_core.Buffers(p, [], [], self.state["residual"]), self.weights_t, -1, values)
        self.new_weights = p

    def rewrite_parameter(self, before: Callable[[Tensor], None] | None) -> None:
        """Last, because nothing can fail after it."""
        if self.new_weights is not None:
            if before is not None:
                before(self.p)
            self.p.detach().copy_(self.new_weights)

    # ---- all of it

    def bind_step(self) -> None:
        step = self.state.get("step")
        device = self.p.device if self.counted else torch.device("cpu")
        dtypes = (torch.float64,) if self.t >= MOST_STEPS_OF_FLOAT32 else (torch.float32, torch.float64)
        if not (isinstance(step, Tensor) and step.numel() == 1 and step.device == device and step.dtype in dtypes):
            self.state["step"] = step_number(self.t, device)

    def bind_shape(self) -> None:
        """What codes and residual do not show: the parameter's sizes, and their order."""
        for key in ("sizes", "strides"):
            self.state.pop(key, None)
        if not any(key.endswith(".format") for key in self.state):
            return
        self.state["sizes"] = tuple(self.p.shape)
        if dense_strides(self.sizes, self.strides) != dense_strides(self.sizes, row_major(self.sizes)):
            self.state["strides"] = tuple(self.strides)

    def run(self, with_weights: bool) -> _core.Buffers:
        slots: list[tuple[Any, Any]] = []
        to_encode: list[tuple[int, Tensor]] = []
        self.bind_step()
        for number, slot in enumerate(self.plan.slots()):
            if not slot.format:
                slots.append((None, None))
                if not self.same_order:
                    self.drop(slot.name)  # of an option that is off: the codes have the old order
            elif slot.plain:
                slots.append(self.bind_values(number, slot))
            else:
                codes, scales, values = self.bind_codes(number, slot)
                slots.append((codes, scales))
                if values is not None:
                    to_encode.append((number, values))
        if not isinstance(self.p, FakeTensor):
            check_apart(self.p, [slot.name for slot in self.plan.slots() if slot.format], self.state)
        aux = [self.bind_aux(field) for field in self.plan.aux()]
        residual = self.bind_residual() if with_weights else None
        buffers = _core.Buffers(self.p, slots, aux, residual, self.t == 0 and self.weights_t > 0)
        for number, values in to_encode:
            self.plan.encode(buffers, self.t, number, values)
        self.bind_shape()
        return buffers


def _codec_name(text: str) -> str:
    return str(json.loads(text)["codec"]) if "{" in text else text
