"""Reads nvdisasm's text of a cubin: instructions, the way of a whole tile through an entry, and how long one warp takes for it.

Knows NVIDIA's SASS from sm_80 on; knows nothing of what the kernels compute.
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

# Cycles until a result is there, assumed: of DRAM, of L1 or a uniform address, of all else that is waited for.
DRAM, NEAR, OTHER = 1100, 40, 24


@dataclasses.dataclass
class Instruction:
    predicate: str
    op: str
    operands: str
    control: int  # stall, barriers and waits, as the hardware reads them

    stall = property(lambda self: self.control & 15)
    write_barrier = property(lambda self: self.control >> 5 & 7)  # 7: none
    read_barrier = property(lambda self: self.control >> 8 & 7)
    waits = property(lambda self: [b for b in range(6) if self.control >> (11 + b) & 1])
    is_look_up = property(lambda self: self.op.startswith("LDS") or "LDG" in self.op and "CONSTANT" in self.op)
    is_load = property(lambda self: self.op.startswith("LDG") and not self.is_look_up)
    is_store = property(lambda self: self.op.startswith("STG") and not self.operands.endswith("RZ"))

    def width(self):
        """Bytes that a lane moves."""
        for word in self.op.split("."):
            known = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}.get(word)
            if known:
                return known
        return 4

    def destinations(self):
        """Numbers of the registers that are written."""
        first = REGISTER.match(self.operands)
        if not first or self.op.startswith(("ST", "RED", "BAR")):
            return []
        wide = 2 if re.search(r"\.64|WIDE|^D[A-Z]|F64", self.op) else 1
        start = int(first[1])
        return range(start, start + (4 if ".128" in self.op else wide))

    def sources(self):
        """Numbers of the registers that are read."""
        operands = self.operands.split(",", 1)
        read = operands[-1] if self.destinations() and len(operands) > 1 else self.operands
        double = re.search(r"^D[A-Z]|F64", self.op)
        found = REGISTER.findall(read)
        numbers = set()
        for place, (number, pair) in enumerate(found):
            addend = "WIDE" in self.op and place + 1 == len(found) == 3  # of R, R, R: the others are of 32 bits
            numbers.update(range(int(number), int(number) + (2 if pair or double or addend else 1)))
        return numbers


def parse(disassembly):
    """{entry: [Instruction or label]} of `nvdisasm -c -hex`."""
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
    """The basic blocks of an entry and their successors. Calls are taken to return."""

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
        """What can be reached from start without a turn of any loop, each before what follows it."""
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
        """The blocks of the shortest way that moves so many bytes for each lane; None if there is none."""
        back, need = set(self.back_edges()), (loaded, stored)
        ways = {start: {(0, 0): (0, None)}}  # {node: {moved: (cost before it, where from)}}
        order = self.order(start, end, inside)
        place = {node: number for number, node in enumerate(order)}
        for node in order:
            own, length = moved(self.blocks[node]), cost(self.blocks[node])
            for have, (before, _) in list(ways.get(node, {}).items()):
                after = tuple(min(h + o, n) for h, o, n in zip(have, own, need))
                for successor in self.next[node] if node != end else [None]:
                    if successor is not None and (place.get(successor, -1) <= place[node] or (node, successor) in back):
                        continue
                    found = ways.setdefault(successor, {})
                    if before + length < found.get(after, (float("inf"),))[0]:
                        found[after] = (before + length, (node, have))
        if need not in ways.get(None, {}):
            return None
        blocks, at = [], ways[None][need][1]
        while at is not None:
            node, have = at
            blocks.append(node)
            at = ways[node][have][1]
        return blocks[::-1]


def cost(block):
    """Instructions; a narrow access counts as many, as a way with one for each element is not the way of a whole tile."""
    return len(block) + sum(512 // i.width() for i in block if i.is_load or i.is_store)


def moved(block):
    """Bytes that a lane surely loads from and stores to global memory."""
    sure = [i for i in block if not i.predicate]
    return sum(i.width() for i in sure if i.is_load), sum(i.width() for i in sure if i.is_store)


def whole_tile(body, loaded, stored):
    """What leads to the loop over tiles, and one turn of it for a whole tile: two lists of instructions.

    The turn is the shortest that moves so many bytes for a lane, in the smallest loop that has such a turn: one without
    barriers of the block, which are between items.
    """
    flow = Flow(body)
    loops = []
    for latch, header in flow.back_edges():
        inside = flow.body(latch, header)
        blocks = flow.shortest(header, latch, inside, loaded, stored)
        if blocks and not any(i.op.startswith("BAR") for n in blocks for i in flow.blocks[n]):
            loops.append((len(inside), header, blocks))
    if not loops:
        raise ValueError(f"no loop loads {loaded} and stores {stored} bytes for each lane")
    _, header, blocks = min(loops)
    lead = flow.shortest(0, header, range(len(flow.blocks)))
    flat = lambda numbers: [i for n in numbers for i in flow.blocks[n]]
    return flat(lead[:-1]), flat(blocks)


def lane_dependent(lead, turn):
    """For each instruction of the turn, whether what it reads differs from lane to lane."""
    tainted, result = set(), []
    for number, one in enumerate([*lead, *turn, *turn]):
        reads = bool(tainted.intersection(one.sources())) or "SR_TID" in one.operands or "SR_LANEID" in one.operands
        for register in one.destinations():
            (tainted.add if reads else tainted.discard)(register)
        if number >= len(lead) + len(turn):
            result.append(reads)
    return result


@dataclasses.dataclass
class Replay:
    cycles: int = 0
    in_flight: int = 0  # bytes that the loads of a lane which have been issued and not arrived bring, at most


def replay(turn, from_memory):
    """One warp alone, turn after turn. `from_memory`: for each instruction, whether it is a load that DRAM serves."""
    ready, loads, time, found = [0] * 8, [], 0, Replay()
    for round_ in range(2):
        begin = time
        for one, far in zip(turn, from_memory):
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
