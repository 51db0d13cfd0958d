#include "jit/step/step_tables.h"

#include <algorithm>
#include <bit>

#include "jit/base/integers.h"

namespace jitstep::jit {
namespace {

// A tensor's dimensions for the kernels. A scalar gets one dimension. Those of a tensor with more than kMaxDims are
// merged.
std::vector<Dim> kernel_dims(const StepTensor& tensor) {
  const Shape& shape = tensor.shape;
  if (shape.sizes.empty()) return {{1, 1, 1, 1}};
  if (shape.sizes.size() > kMaxDims) return merged_dims(tensor);
  const auto compact = compact_strides(shape);
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < shape.sizes.size(); ++d)
    dims.push_back({shape.sizes[d], compact[d], shape.strides[d], tensor.g_strides[d]});
  return dims;
}

Shape shape_of(const std::vector<Dim>& dims) {
  Shape shape;
  for (const Dim& dim : dims) {
    shape.sizes.push_back(dim.size);
    shape.strides.push_back(dim.p_stride);
  }
  return shape;
}

void set_dims(TensorRecord& record, const std::vector<Dim>& dims) {
  record.dims = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), record.dim);
}

// Rules that read sizes have at most kMaxDims.
void set_whole_sizes(TensorRecord& record, const StepTensor& tensor, const Shape& shape) {
  const bool is_part = !tensor.whole_sizes.empty() && tensor.whole_sizes.size() <= kMaxDims;
  const std::vector<std::int64_t>& sizes = is_part ? tensor.whole_sizes : shape.sizes;
  record.whole_dims = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), record.whole);
}

// The extent of a nested reduction. Its members run over the dimensions that the coarser domain reduces and the finer
// one does not.
Extent extent_over(const Shape& shape, const ResolvedReduction& r) {
  const int dims = static_cast<int>(shape.sizes.size());
  const unsigned coarse = r.domain.reduced(dims), fine = r.source_domain.reduced(dims);
  Extent result;
  for (int d = 0; d < dims; ++d) {
    if (fine >> d & 1u) continue;
    (coarse >> d & 1u ? result.members : result.entries) *= shape.sizes[d];
  }
  return result;
}

class Builder {
 public:
  Builder(std::size_t tensors, const std::vector<ResolvedReduction>& reductions, int passes,
          const KernelConfig& config)
      : reductions_(reductions), config_(config) {
    tables_.tensors.reserve(tensors);
    tables_.partials.resize(passes);
    tables_.finalize.resize(passes);
  }

  void add(const StepTensor& tensor) {
    const std::vector<Dim> dims = kernel_dims(tensor);
    const Shape shape = shape_of(dims);
    TensorRecord record{};
    record.p = tensor.p;
    record.residual = tensor.residual;
    record.residual_is_set = tensor.residual_is_set ? 1 : 0;
    for (std::size_t i = 0; i < tensor.slots.size(); ++i) record.slots[i] = tensor.slots[i];
    for (std::size_t i = 0; i < tensor.aux_state.size(); ++i)
      for (int k : {0, 1}) record.aux[i][k] = tensor.aux_state[i][k];
    record.n = shape.elements();
    record.offset = tensor.offset;
    record.id = tensor.id;
    set_dims(record, dims);
    set_whole_sizes(record, tensor, shape);
    whole_ = tensor.whole;
    const int index = static_cast<int>(tables_.tensors.size());
    if (record.n > 0 || whole_ > 0 || is_empty_shard(tensor)) add_work(record, shape, index);
    tables_.whole.push_back(whole_);
    tables_.layout.push_back(layout_of(record));
    tables_.tensors.push_back(record);
  }

  StepTables take() {
    for (std::size_t pass = 0; pass < tables_.finalize.size(); ++pass)
      for (const auto& r : reductions_)
        if (r.pass == static_cast<int>(pass) && r.is_global) {
          tables_.finalize[pass].push_back({0, kGlobalLayout, 0});
          break;
        }
    if (std::any_of(tables_.whole.begin(), tables_.whole.end(), [](auto n) { return n > 0; }))
      add_parts();
    return std::move(tables_);
  }

 private:
  // Other shards have elements, so its auxiliary state advances with theirs.
  static bool is_empty_shard(const StepTensor& tensor) {
    return !tensor.whole_sizes.empty() && tensor.shape.elements() == 0 &&
           Shape{tensor.whole_sizes, {}}.elements() > 0;
  }

  static int layout_of(const TensorRecord& record) {
    int layout = kDenseP | kDenseG;
    for (int d = 0; d < record.dims; ++d) {
      const Dim& dim = record.dim[d];
      if (dim.size > 1 && dim.p_stride != dim.stride) layout &= ~kDenseP;
      if (dim.size > 1 && dim.g_stride != dim.stride) layout &= ~kDenseG;
    }
    return layout;
  }

  // Records are large, so only those of parts are stored twice.
  void add_parts() {
    for (std::size_t i = 0; i < tables_.tensors.size(); ++i) {
      const TensorRecord& record = tables_.tensors[i];
      TensorRecord& part = tables_.parts.emplace_back(record);
      part.reduction_layouts[0] = elements_of_part(record, tables_.whole[i]);
    }
  }

  // The layout over elements in launches of partial sums: leaf 0 is the first of the part.
  static ReductionLayout elements_of_part(const TensorRecord& record, std::int64_t whole) {
    ReductionLayout elements = record.reduction_layouts[0];
    if (whole == 0) return elements;
    const std::int64_t run = std::int64_t{1} << elements.log2_leaves;
    elements.members = record.n;
    elements.leaves = ceil_div(ceil_div(record.n, kLeaf), run) * run;
    elements.first_partial += record.offset / (kLeaf * run);
    return elements;
  }

  // An empty part has entries over all elements only.
  bool has_entries(const TensorRecord& record, const ResolvedReduction& r) const {
    return r.active() && (record.n > 0 || r.reduction_layout == 0);
  }

  void add_work(TensorRecord& record, const Shape& shape, int index) {
    for (std::int64_t leaf = 0; leaf == 0 || leaf * kLeaf < record.n;
         leaf += config_.leaves_per_item)
      tables_.apply.push_back({index, 0, leaf});
    std::uint32_t seen = 0;
    for (const auto& r : reductions_) {
      if (!has_entries(record, r)) continue;
      ReductionLayout& reduction_layout = record.reduction_layouts[r.reduction_layout];
      if (!(seen >> r.reduction_layout & 1u)) reduction_layout = make_layout(shape, r);
      seen |= 1u << r.reduction_layout;
    }
    for (std::size_t pass = 0; pass < tables_.partials.size(); ++pass)
      add_pass(record, index, pass);
  }

  ReductionLayout make_layout(const Shape& shape, const ResolvedReduction& r) {
    const int dims = static_cast<int>(shape.sizes.size());
    const bool of_elements = r.reduction_layout == 0;
    const Extent size = whole_ > 0 && of_elements ? Extent{1, whole_}
                        : r.has_source            ? extent_over(shape, r)
                                                  : extent(shape, r.domain.reduced(dims));
    ReductionLayout reduction_layout{};
    reduction_layout.entries = size.entries;
    reduction_layout.members = size.members;
    const std::int64_t leaves = ceil_div(size.members, kLeaf);
    const int enough = std::bit_width(static_cast<std::uint64_t>(leaves - 1));
    const int leaves_of_item = whole_ > 0 && of_elements ? kPartLeaves : config_.leaves_per_item;
    const int most = leaf_by_leaf(r.reduction_layout)
                         ? 0
                         : std::countr_zero(static_cast<unsigned>(leaves_of_item));
    reduction_layout.log2_leaves = std::min(enough, most);
    const std::int64_t run = std::int64_t{1} << reduction_layout.log2_leaves;
    reduction_layout.leaves = ceil_div(leaves, run) * run;
    reduction_layout.first_partial = tables_.partial_count[r.reduction_layout];
    reduction_layout.first_entry = tables_.entries[r.reduction_layout];
    tables_.partial_count[r.reduction_layout] +=
        reduction_layout.entries * (reduction_layout.leaves >> reduction_layout.log2_leaves);
    tables_.entries[r.reduction_layout] += reduction_layout.entries;
    return reduction_layout;
  }

  void add_pass(const TensorRecord& record, int index, std::size_t pass) {
    std::uint32_t reduced = 0, finished = 0;
    for (const auto& r : reductions_) {
      if (r.pass != static_cast<int>(pass) || !has_entries(record, r)) continue;
      const ReductionLayout& reduction_layout = record.reduction_layouts[r.reduction_layout];
      const ReductionLayout own =
          r.reduction_layout == 0 ? elements_of_part(record, whole_) : reduction_layout;
      const std::uint32_t bit = 1u << r.reduction_layout;
      if (!(reduced & bit))
        push(tables_.partials[pass], index, r.reduction_layout, own.entries * own.leaves,
             leaf_by_leaf(r.reduction_layout) ? kLeaf : config_.leaves_per_item);
      if (!(finished & bit) && !r.is_global)
        push(tables_.finalize[pass], index, r.reduction_layout, reduction_layout.entries,
             config_.leaves_per_item);
      reduced |= bit;
      if (!r.is_global) finished |= bit;
    }
  }

  // Whether a single thread writes one partial sum per leaf. True for all layouts but the elements' own order
  // (kernel/loop/entry_sums.cuh).
  bool leaf_by_leaf(int reduction_layout) const {
    return config_.threads == 1 && reduction_layout != 0;
  }

  void push(StepTables::Items& items, int index, int reduction_layout, std::int64_t units,
            int step) {
    for (std::int64_t first = 0; first < units; first += step)
      items.push_back({index, reduction_layout, first});
  }

  const std::vector<ResolvedReduction>& reductions_;
  KernelConfig config_;
  StepTables tables_;
  std::int64_t whole_ = 0;  // StepTensor::whole of the current tensor
};

}  // namespace

std::vector<Dim> merged_dims(const StepTensor& tensor) {
  const Shape& shape = tensor.shape;
  if (shape.elements() == 0) return {{0, 1, 1, 1}};
  const auto compact = compact_strides(shape);
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < shape.sizes.size(); ++d)
    if (shape.sizes[d] > 1)
      dims.push_back({shape.sizes[d], compact[d], shape.strides[d], tensor.g_strides[d]});
  std::sort(dims.begin(), dims.end(),
            [](const Dim& one, const Dim& other) { return one.stride > other.stride; });
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    Dim* const outer = merged.empty() ? nullptr : &merged.back();
    if (outer != nullptr && outer->p_stride == dim.size * dim.p_stride &&
        outer->g_stride == dim.size * dim.g_stride)
      *outer = {outer->size * dim.size, dim.stride, dim.p_stride, dim.g_stride};
    else
      merged.push_back(dim);
  }
  if (merged.empty()) merged.push_back({1, 1, 1, 1});
  return merged;
}

StepTables step_tables(const std::vector<StepTensor>& tensors,
                       const std::vector<ResolvedReduction>& reductions, int passes,
                       const KernelConfig& config) {
  Builder builder(tensors.size(), reductions, passes, config);
  for (const auto& tensor : tensors) builder.add(tensor);
  return builder.take();
}

}  // namespace jitstep::jit
