#include "optim/tensor/memory_overlap.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "jitstep/jit/layout.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

using Address = std::uintptr_t;

// A tensor and its address range [begin, end), from its first element to the end of its last.
struct Range {
  StepMemory memory;
  Address begin, end;

  const torch::Tensor& tensor() const { return *memory.tensor; }
  std::tuple<std::size_t, std::size_t> order() const {
    return {memory.parameter.name.group, memory.parameter.name.index};
  }
};

// data_ptr() separates a copy-on-write tensor, because the step will write to it.
Range range_of(const StepMemory& memory) {
  const torch::Tensor& t = *memory.tensor;
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const auto begin = reinterpret_cast<Address>(t.data_ptr());
  return {memory, begin, begin + static_cast<Address>(last + 1) * t.itemsize()};
}

// Calls visit(address) for every element, until one call returns true.
template <class Visit>
bool any_element(const torch::Tensor& t, std::int64_t dim, Address at, const Visit& visit) {
  if (dim == t.dim()) return visit(at);
  const auto step = static_cast<Address>(t.stride(dim)) * t.itemsize();
  for (std::int64_t i = 0; i < t.size(dim); ++i, at += step)
    if (any_element(t, dim + 1, at, visit)) return true;
  return false;
}

// A bitmap over several ranges. Its unit divides every element's size and offset, so that an element is a whole
// number of units.
class Marks {
 public:
  explicit Marks(std::span<const Range> ranges) : base_(ranges.front().begin) {
    Address end = 0;
    for (const Range& r : ranges) {
      unit_ = std::gcd(unit_, std::gcd(r.begin - base_, Address{r.tensor().itemsize()}));
      end = std::max(end, r.end);
    }
    marked_.resize((end - base_) / unit_);
  }

  /// True if an element of `r` overlaps a marked element. Otherwise marks all elements of `r`.
  bool overlaps(const Range& r) {
    const Address units = r.tensor().itemsize() / unit_;
    const auto first = [&](Address at) { return (at - base_) / unit_; };
    if (any_element(r.tensor(), 0, r.begin, [&](Address at) {
          for (Address u = first(at); u < first(at) + units; ++u)
            if (marked_[u]) return true;
          return false;
        }))
      return true;
    any_element(r.tensor(), 0, r.begin, [&](Address at) {
      for (Address u = first(at); u < first(at) + units; ++u) marked_[u] = true;
      return false;
    });
    return false;
  }

 private:
  Address base_, unit_ = 0;
  std::vector<bool> marked_;
};

bool share(const Range& a, const Range& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  const bool in_order = a.begin <= b.begin;
  const Range both[] = {in_order ? a : b, in_order ? b : a};
  Marks marks(both);
  marks.overlaps(both[0]);
  return marks.overlaps(both[1]);
}

std::string text_of(const StepMemory& memory) {
  const NamedParameter& parameter = memory.parameter;
  if (memory.use == StepMemory::Use::number) return "an lr, grad_scale or found_inf";
  const std::string name = describe(*parameter.tensor, parameter.name);
  if (memory.use == StepMemory::Use::parameter) return name;
  return (memory.use == StepMemory::Use::state ? "the state of " : "the gradient of ") + name;
}

using OnOverlap = void(const Range& a, const Range& b);

[[noreturn]] void refuse_parameters(const Range& a, const Range& b) {
  const bool in_order = a.order() < b.order();
  const Range &first = in_order ? a : b, &second = in_order ? b : a;
  TORCH_CHECK(false, "jitstep: ", text_of(first.memory), " and ", text_of(second.memory),
              " share memory, and both would write to it at once. Give the optimizer the tensor "
              "that both are views of, or clone() one of them.");
}

// Throws if one of the two is a gradient that the step clears.
void refuse_clearing(const Range& a, const Range& b) {
  const bool first = a.memory.use == StepMemory::Use::cleared;
  if (!first && b.memory.use != StepMemory::Use::cleared) return;
  const Range &gradient = first ? a : b, &other = first ? b : a;
  TORCH_CHECK(false, "jitstep: ", text_of(gradient.memory),
              ", which the step clears (zero_grad_in_step()), shares memory with ",
              text_of(other.memory), ". clone() it, or call zero_grad() after the step instead.");
}

// `cluster`: overlapping address ranges, in order of address. Their elements may still interleave without sharing.
// Calls `on_overlap` for each pair whose elements share memory.
void check_cluster(std::span<const Range> cluster, OnOverlap* on_overlap) {
  if (cluster.size() < 2) return;
  Marks marks(cluster);
  for (const Range& r : cluster) {
    if (!marks.overlaps(r)) continue;
    for (const Range& other : cluster)
      if (other.memory.tensor != r.memory.tensor && share(other, r)) on_overlap(other, r);
  }
}

void check_ranges(const std::vector<StepMemory>& memory, OnOverlap* on_overlap) {
  std::vector<Range> ranges;
  for (const StepMemory& one : memory)
    if (has_data(*one.tensor)) ranges.push_back(range_of(one));
  const auto key = [](const Range& r) {
    const torch::Device device = r.tensor().device();
    return std::tuple(device.type(), device.index(), r.begin);
  };
  std::sort(ranges.begin(), ranges.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
  for (std::size_t first = 0; first < ranges.size();) {
    Address end = ranges[first].end;
    std::size_t next = first + 1;
    for (; next < ranges.size(); ++next) {
      const bool overlaps = ranges[next].tensor().device() == ranges[first].tensor().device() &&
                            ranges[next].begin < end;
      if (!overlaps) break;
      end = std::max(end, ranges[next].end);
    }
    check_cluster(std::span(ranges).subspan(first, next - first), on_overlap);
    first = next;
  }
}

const void* storage_of(const torch::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().data();
}

}  // namespace

void ParameterMemory::add(const NamedParameter& parameter) {
  if (has_data(*parameter.tensor))
    storages_[storage_of(*parameter.tensor)].push_back({*parameter.tensor, parameter.name});
}

void ParameterMemory::check(const torch::Tensor& gradient, const NamedParameter& own) const {
  if (!has_data(gradient)) return;
  const auto found = storages_.find(storage_of(gradient));
  if (found == storages_.end()) return;
  for (const Held& other : found->second)
    TORCH_CHECK(
        other.tensor.is_same(*own.tensor) || !share_memory(other.tensor, gradient),
        "jitstep: the gradient of ", describe(*own.tensor, own.name), " shares memory with ",
        describe(other.tensor, other.name),
        ", and the step would write to it while it reads the gradient. clone() the gradient.");
}

void ParameterMemory::check_number(const torch::Tensor& number, const std::string& name) const {
  if (!number.defined() || !has_data(number)) return;
  const auto found = storages_.find(storage_of(number));
  if (found == storages_.end()) return;
  for (const Held& one : found->second)
    TORCH_CHECK(!share_memory(one.tensor, number), "jitstep: ", name, " shares memory with ",
                describe(one.tensor, one.name),
                ", and the step would write to it while it reads the number. clone() the number.");
}

bool share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  return share(range_of({&a, {}}), range_of({&b, {}}));
}

void check_disjoint(const std::vector<NamedParameter>& parameters) {
  std::vector<StepMemory> memory;
  for (const NamedParameter& parameter : parameters)
    memory.push_back({parameter.tensor, parameter});
  check_ranges(memory, refuse_parameters);
}

void check_cleared(const std::vector<StepMemory>& memory) {
  for (const StepMemory& one : memory)
    TORCH_CHECK(
        one.use != StepMemory::Use::cleared || jit::is_non_overlapping(shape_of(*one.tensor)),
        "jitstep: ", text_of(one),
        ", which the step clears (zero_grad_in_step()), has elements that share memory, as after ",
        "expand(). clone() it, or call zero_grad() after the step instead.");
  check_ranges(memory, refuse_clearing);
}

}  // namespace jitstep
