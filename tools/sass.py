"""Reads nvdisasm's output for a cubin: the instructions, those that process one whole tile, and the cycles one warp
needs.

Supports NVIDIA's SASS from sm_80 on. It is independent of what the kernels compute.
"""

import collections
import dataclasses
import re

LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
UPPER = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
LABEL = re.compile(r"^(\.L_x_\d+):")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
ENTRY = re.compile(r"^\.text\.(\w+):")
REGISTER = re.compile(r"(?<!U)\bR(\d+)(\.64)?\b")

# Assumed latencies in cycles: loads from DRAM, loads from L1 or a uniform address, all other results with a barrier.
DRAM, NEAR, OTHER = 1100, 40, 24


@dataclasses.dataclass
class Instruction:
    predicate: str
    op: str
    operands: str
    control: int  # control bits of the encoding: stall, barriers and waits

    stall = property(lambda self: self.control & 15)
    write_barrier = property(lambda self: self.control >> 5 & 7)  # 7: none
    read_barrier = property(lambda self: self.control >> 8 & 7)
    waits = property(lambda self: [b for b in range(6) if self.control >> (11 + b) & 1])
    is_look_up = property(lambda self: self.op.startswith("LDS") or ("LDG" in self.op and "CONSTANT" in self.op))
    is_load = property(lambda self: self.op.startswith("LDG") and not self.is_look_up)
    is_store = property(lambda self: self.op.startswith("STG") and not self.operands.endswith("RZ"))

    def width(self):
        """Bytes per lane that a load or store moves."""
        for suffix in self.op.split("."):
            known = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}.get(suffix)
            if known:
                return known
        return 4

    def destinations(self):
        """Numbers of the registers that the instruction writes."""
        first = REGISTER.match(self.operands)
        if not first or self.op.startswith(("ST", "RED", "BAR")):
            return []
        wide = 2 if re.search(r"\.64|WIDE|^D[A-Z]|F64", self.op) else 1
        start = int(first[1])
        return range(start, start + (4 if ".128" in self.op else wide))

    def sources(self):
        """Numbers of the registers that the instruction reads."""
        operands = self.operands.split(",", 1)
        read = operands[-1] if self.destinations() and len(operands) > 1 else self.operands
        double = re.search(r"^D[A-Z]|F64", self.op)
        found = REGISTER.findall(read)
        numbers = set()
        for index, (number, pair) in enumerate(found):
            addend = "WIDE" in self.op and index + 1 == len(found) == 3  # the third of three has 64 bits, the others 32
            numbers.update(range(int(number), int(number) + (2 if pair or double or addend else 1)))
        return numbers


def parse(disassembly):
    """Returns {entry: [Instruction or label]} of the output of `nvdisasm -c -hex`."""
    entries, current, pending = collections.defaultdict(list), None, None
    for line in disassembly.splitlines():
        if entry := ENTRY.match(line):
            current = entries[entry[1]]
        elif current is None:
            continue
        elif label := LABEL.match(line):
            current.append(label[1])
        elif found := LINE.search(line):
            pending = Instruction((found[1] or "").strip(), found[2], found[3], 0)
            current.append(pending)
        elif (upper := UPPER.match(line)) and pending:
            pending.control, pending = int(upper[1], 16) >> 41 & (1 << 17) - 1, None
    return dict(entries)


class Flow:
    """The basic blocks of an entry and their successors. Assumes that calls return."""

    def __init__(self, body):
        self.blocks, self.next = [[]], []
        starts = {}
        for item in body:
            if isinstance(item, str):
                if self.blocks[-1]:
                    self.blocks.append([])
                starts[item] = len(self.blocks) - 1
            else:
                self.blocks[-1].append(item)
                if item.op.startswith(("BRA", "EXIT", "RET")):
                    self.blocks.append([])
        for number, block in enumerate(self.blocks):
            last = block[-1] if block else None
            leaves = last is not None and last.op.startswith(("BRA", "EXIT", "RET"))
            found = [starts[label] for label in TARGET.findall(last.operands)] if leaves else []
            unconditional = leaves and not last.predicate and not re.match(r"!?U?P\d|U?R\d", last.operands)
            if not unconditional and number + 1 < len(self.blocks):
                found.append(number + 1)
            self.next.append(found)

    def back_edges(self):
        """(latch, header) of every loop."""
        state, edges, stack = {0: 1}, [], [(0, iter(self.next[0]))]
        while stack:
            node, rest = stack[-1]
            for successor in rest:
                if state.get(successor) == 1:
                    edges.append((node, successor))
                elif successor not in state:
                    state[successor] = 1
                    stack.append((successor, iter(self.next[successor])))
                    break
            else:
                state[node] = 2
                stack.pop()
        return edges

    def body(self, latch, header):
        """All blocks of the loop."""
        before = collections.defaultdict(list)
        for node, successors in enumerate(self.next):
            for successor in successors:
                before[successor].append(node)
        inside, todo = {header, latch}, [latch]
        while todo:
            node = todo.pop()
            for previous in before[node] if node != header else []:
                if previous not in inside:
                    inside.add(previous)
                    todo.append(previous)
        return inside

    def order(self, start, end, inside):
        """The blocks that are reachable from start without back edges, in topological order."""
        back, seen, order, stack = set(self.back_edges()), {start}, [], [(start, iter(self.next[start]))]
        while stack:
            node, rest = stack[-1]
            for successor in rest if node != end else ():
                if successor in inside and successor not in seen and (node, successor) not in back:
                    seen.add(successor)
                    stack.append((successor, iter(self.next[successor])))
                    break
            else:
                order.append(node)
                stack.pop()
        return order[::-1]

    def shortest(self, start, end, inside, loaded=0, stored=0):
        """The blocks of the shortest path on which each lane moves at least these bytes. None if there is none."""
        back, need = set(self.back_edges()), (loaded, stored)
        paths = {start: {(0, 0): (0, None)}}  # {node: {bytes moved before it: (cost before it, predecessor)}}
        order = self.order(start, end, inside)
        position = {node: number for number, node in enumerate(order)}
        for node in order:
            own, length = moved(self.blocks[node]), cost(self.blocks[node])
            for have, (before, _) in list(paths.get(node, {}).items()):
                after = tuple(min(h + o, n) for h, o, n in zip(have, own, need))
                for successor in self.next[node] if node != end else [None]:
                    backward = position.get(successor, -1) <= position[node] or (node, successor) in back
                    if successor is not None and backward:
                        continue
                    found = paths.setdefault(successor, {})
                    if before + length < found.get(after, (float("inf"),))[0]:
                        found[after] = (before + length, (node, have))
        if need not in paths.get(None, {}):
            return None
        blocks, at = [], paths[None][need][1]
        while at is not None:
            node, have = at
            blocks.append(node)
            at = paths[node][have][1]
        return blocks[::-1]


def cost(block):
    """The number of instructions. A narrow access counts as many, because a path with one access per element is not the
    path of a whole tile."""
    return len(block) + sum(512 // i.width() for i in block if i.is_load or i.is_store)


def moved(block):
    """Bytes per lane that the block loads from and stores to global memory without a predicate."""
    sure = [i for i in block if not i.predicate]
    return sum(i.width() for i in sure if i.is_load), sum(i.width() for i in sure if i.is_store)


def whole_tile(body, loaded, stored):
    """Returns two lists of instructions: those before the loop over tiles, and one iteration for a whole tile.

    The iteration is the shortest one in which each lane moves these bytes, in the smallest loop with such an iteration.
    It has no thread-block barriers, because these are only between items.
    """
    flow = Flow(body)
    loops = []
    for latch, header in flow.back_edges():
        inside = flow.body(latch, header)
        blocks = flow.shortest(header, latch, inside, loaded, stored)
        if blocks and not any(i.op.startswith("BAR") for n in blocks for i in flow.blocks[n]):
            loops.append((len(inside), header, blocks))
    if not loops:
        raise ValueError(f"no loop loads {loaded} and stores {stored} bytes per lane")
    _, header, blocks = min(loops)
    preamble = flow.shortest(0, header, range(len(flow.blocks)))
    flat = lambda numbers: [i for n in numbers for i in flow.blocks[n]]
    return flat(preamble[:-1]), flat(blocks)


def lane_dependent(preamble, iteration):
    """For each instruction of the iteration, whether its operands differ between lanes."""
    tainted, result = set(), []
    for number, one in enumerate([*preamble, *iteration, *iteration]):
        reads = bool(tainted.intersection(one.sources())) or "SR_TID" in one.operands or "SR_LANEID" in one.operands
        for register in one.destinations():
            (tainted.add if reads else tainted.discard)(register)
        if number >= len(preamble) + len(iteration):
            result.append(reads)
    return result


@dataclasses.dataclass
class Replay:
    cycles: int = 0
    in_flight: int = 0  # maximum of bytes per lane of loads that were issued and have not arrived


def replay(iteration, from_memory):
    """Simulates two iterations of one warp alone, and returns the figures of the second one.

    `from_memory`: for each instruction, whether it is a load from DRAM.
    """
    ready, loads, time, found = [0] * 8, [], 0, Replay()
    for round_ in range(2):
        begin = time
        for one, far in zip(iteration, from_memory):
            time = max([time] + [ready[b] for b in one.waits])
            near = one.op.startswith(("LDG", "LDS", "LDC"))
            latency = DRAM if far else NEAR if near else OTHER
            if one.write_barrier != 7:
                ready[one.write_barrier] = max(ready[one.write_barrier], time + latency)
            if one.read_barrier != 7:
                ready[one.read_barrier] = max(ready[one.read_barrier], time + OTHER)
            if far:
                loads = [(end, width) for end, width in loads if end > time] + [(time + latency, one.width())]
                found.in_flight = max(found.in_flight, sum(width for _, width in loads))
            time += max(one.stall, 1)
        found.cycles = time - begin
    return found
