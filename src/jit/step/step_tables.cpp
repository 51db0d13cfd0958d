#include "jit/step/step_tables.h"

#include <bit>

namespace jitstep::jit {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A tensor's shape for the kernels: never without dimensions, and flat where it has more than kMaxDims.
Shape kernel_shape(const Shape& shape) {
  if (shape.sizes.empty()) return {{1}, {1}};
  if (shape.sizes.size() <= kMaxDims) return shape;
  return {{shape.elements()}, {1}};
}

void set_dims(TensorRecord& record, const StepTensor& tensor, const Shape& shape) {
  const auto compact = compact_strides(shape);
  record.dims = static_cast<int>(shape.sizes.size());
  for (int d = 0; d < record.dims; ++d) {
    const bool flat = tensor.shape.sizes.size() != shape.sizes.size();
    record.dim[d] = {shape.sizes[d], compact[d], shape.strides[d], flat ? 1 : tensor.g_strides[d]};
  }
}

// Space of a reduction over the entries of another domain: positions run over the dimensions that
// the coarser domain reduces and the finer one does not.
Extent extent_over(const Shape& shape, const PlannedReduction& r) {
  const int dims = static_cast<int>(shape.sizes.size());
  const unsigned coarse = r.domain.reduced(dims), fine = r.over_domain.reduced(dims);
  Extent result;
  for (int d = 0; d < dims; ++d) {
    if (fine >> d & 1u) continue;
    (coarse >> d & 1u ? result.members : result.entries) *= shape.sizes[d];
  }
  return result;
}

class Builder {
 public:
  Builder(const std::vector<PlannedReduction>& reductions, int passes, const Variant& variant)
      : reductions_(reductions), variant_(variant) {
    tables_.partials.resize(passes);
    tables_.finish.resize(passes);
  }

  void add(const StepTensor& tensor) {
    const Shape shape = kernel_shape(tensor.shape);
    TensorRecord record{};
    record.p = tensor.p;
    record.extra = tensor.extra;
    record.extra_is_held = tensor.extra_is_held ? 1 : 0;
    for (std::size_t i = 0; i < tensor.slots.size(); ++i) record.slots[i] = tensor.slots[i];
    for (std::size_t i = 0; i < tensor.memory.size(); ++i)
      for (int k : {0, 1}) record.memory[i][k] = tensor.memory[i][k];
    record.n = shape.elements();
    record.offset = tensor.offset;
    record.id = tensor.id;
    set_dims(record, tensor, shape);
    const int index = static_cast<int>(tables_.tensors.size());
    if (record.n > 0) add_work(record, shape, index);
    tables_.tensors.push_back(record);
    tables_.layout.push_back(layout_of(record));
  }

  StepTables take() {
    for (std::size_t pass = 0; pass < tables_.finish.size(); ++pass)
      for (const auto& r : reductions_)
        if (r.pass == static_cast<int>(pass) && r.everywhere) {
          tables_.finish[pass].push_back({0, kAllSpace, 0});
          break;
        }
    return std::move(tables_);
  }

 private:
  static int layout_of(const TensorRecord& record) {
    int layout = kDenseP | kDenseG;
    for (int d = 0; d < record.dims; ++d) {
      const Dim& dim = record.dim[d];
      if (dim.size > 1 && dim.p_stride != dim.stride) layout &= ~kDenseP;
      if (dim.size > 1 && dim.g_stride != dim.stride) layout &= ~kDenseG;
    }
    return layout;
  }

  void add_work(TensorRecord& record, const Shape& shape, int index) {
    for (std::int64_t leaf = 0; leaf * kLeaf < record.n; leaf += variant_.chunk)
      tables_.apply.push_back({index, 0, leaf});
    std::uint32_t seen = 0;
    for (const auto& r : reductions_) {
      if (r.pass < 0) continue;
      Space& space = record.spaces[r.space];
      if (!(seen >> r.space & 1u)) space = make_space(shape, r);
      seen |= 1u << r.space;
    }
    for (std::size_t pass = 0; pass < tables_.partials.size(); ++pass)
      add_pass(record, index, pass);
  }

  Space make_space(const Shape& shape, const PlannedReduction& r) {
    const int dims = static_cast<int>(shape.sizes.size());
    const Extent size = r.over ? extent_over(shape, r) : extent(shape, r.domain.reduced(dims));
    Space space{};
    space.entries = size.entries;
    space.members = size.members;
    const std::int64_t leaves = ceil_div(size.members, kLeaf);
    const int enough = std::bit_width(static_cast<std::uint64_t>(leaves - 1));
    const int most =
        leaf_by_leaf(r.space) ? 0 : std::countr_zero(static_cast<unsigned>(variant_.chunk));
    space.fold = std::min(enough, most);
    const std::int64_t run = std::int64_t{1} << space.fold;
    space.leaves = ceil_div(leaves, run) * run;
    space.first_partial = tables_.partial_count[r.space];
    space.first_entry = tables_.entries[r.space];
    tables_.partial_count[r.space] += space.entries * (space.leaves >> space.fold);
    tables_.entries[r.space] += space.entries;
    return space;
  }

  void add_pass(const TensorRecord& record, int index, std::size_t pass) {
    std::uint32_t walked = 0, finished = 0;
    for (const auto& r : reductions_) {
      if (r.pass != static_cast<int>(pass)) continue;
      const Space& space = record.spaces[r.space];
      const std::uint32_t bit = 1u << r.space;
      if (!(walked & bit))
        push(tables_.partials[pass], index, r.space, space.entries * space.leaves,
             leaf_by_leaf(r.space) ? kLeaf : variant_.chunk);
      if (!(finished & bit) && !r.everywhere)
        push(tables_.finish[pass], index, r.space, space.entries, variant_.chunk);
      walked |= bit;
      if (!r.everywhere) finished |= bit;
    }
  }

  // Whether a thread that is alone makes a partial sum of each leaf: of all spaces but the elements' own order
  // (schedules/entry_sums.cuh).
  bool leaf_by_leaf(int space) const { return variant_.threads == 1 && space != 0; }

  void push(StepTables::Items& items, int index, int space, std::int64_t units, int step) {
    for (std::int64_t first = 0; first < units; first += step)
      items.push_back({index, space, first});
  }

  const std::vector<PlannedReduction>& reductions_;
  Variant variant_;
  StepTables tables_;
};

}  // namespace

StepTables step_tables(const std::vector<StepTensor>& tensors,
                       const std::vector<PlannedReduction>& reductions, int passes,
                       const Variant& variant) {
  Builder builder(reductions, passes, variant);
  for (const auto& tensor : tensors) builder.add(tensor);
  return builder.take();
}

}  // namespace jitstep::jit
