#include "support/step_case.h"

#include <cmath>
#include <cstring>
#include <random>

#include "jitstep/jit/state_memory.h"
#include "jitstep/jit/step_group.h"
#include "jitstep/jit/text.h"

namespace jitstep::support {
namespace {

using jit::Dtype;
using jit::text;

int width(Dtype dtype) { return dtype == Dtype::float64 ? 8 : dtype == Dtype::float32 ? 4 : 2; }

// Values as a test needs them: exact in bfloat16 where they must be, any others elsewhere.
void put(std::byte* to, Dtype dtype, double value) {
  const float narrow = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  if (dtype == Dtype::float64) std::memcpy(to, &value, 8);
  if (dtype == Dtype::float32) std::memcpy(to, &narrow, 4);
  const auto high = static_cast<std::uint16_t>(bits >> 16);
  if (dtype == Dtype::bfloat16) std::memcpy(to, &high, 2);
  const std::uint16_t half = static_cast<std::uint16_t>(
      (bits >> 16 & 0x8000u) | ((bits >> 13) - 0x1c000u) % 0x7c00u);  // any finite half will do
  if (dtype == Dtype::float16) std::memcpy(to, &half, 2);
}

std::vector<std::int64_t> strides_of(const TensorCase& c, bool transposed, bool gaps) {
  const int dims = static_cast<int>(c.sizes.size());
  std::vector<int> order(dims);
  for (int d = 0; d < dims; ++d) order[d] = dims - 1 - d;
  if (transposed && dims > 1) std::swap(order[0], order[1]);
  std::vector<std::int64_t> strides(dims);
  std::int64_t next = gaps ? 2 : 1;
  for (int d : order) {
    strides[d] = next;
    next *= std::max<std::int64_t>(c.sizes[d], 1);
  }
  return strides;
}

// Memory with a place for every element, and a guard around it that must stay as it is.
struct Buffer {
  static constexpr int kGuard = 64;
  std::vector<std::byte> bytes;
  std::size_t start = 0;

  std::size_t size = 0;

  Buffer(std::size_t bytes_used, std::size_t shift)
      : bytes(bytes_used + shift + 2 * kGuard + 64), size(bytes_used) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    start = (address + kGuard + 63) / 64 * 64 - address + shift;
  }
  std::byte* data() { return bytes.data() + start; }
  // Without the padding that depends on where malloc put the buffer.
  std::vector<std::byte> with_guards() const {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(start) - kGuard;
    return {first, first + static_cast<std::ptrdiff_t>(size) + 2 * kGuard};
  }
};

struct TensorData {
  Buffer p, g, extra;
  std::vector<Buffer> codes, meta;
  std::vector<std::array<Buffer, 2>> memory;
  jit::StepTensor tensor;
  std::int64_t n = 0;
  std::int64_t t = 0;
};

class Runner {
 public:
  Runner(const StepCase& c, jit::Machine& machine, const jit::Variant& variant, Grouping grouping,
         const jit::Catalog& catalog)
      : case_(c),
        machine_(machine),
        variant_(variant),
        grouping_(grouping),
        catalog_(catalog),
        options_(c.spec.rule, catalog),
        random_(c.seed) {
    for (const auto& [name, value] : c.options) options_.set(name, value);
    options_.validate();
    spec_ = c.spec;
    spec_.flags = options_.flags();
    spec_.gradient_flags = options_.gradient_flags();
    for (std::size_t i = 0; i < spec_.slots.size(); ++i)
      if (!jit::is_stored(catalog.rule(spec_.rule).slots[i], spec_.flags)) spec_.slots[i].reset();
    for (std::size_t i = 0; i < c.tensors.size(); ++i) add(c.tensors[i], static_cast<int>(i));
    spec_ = jit::complete(spec_, catalog);
  }

  StepOutcome run() {
    for (int step = 1; step <= case_.steps; ++step) one_step(step);
    return outcome();
  }

 private:
  void add(const TensorCase& c, int id) {
    std::int64_t n = 1;
    for (auto size : c.sizes) n *= size;
    const int wp = width(spec_.parameter), wg = width(spec_.gradient);
    TensorData data{Buffer(n * wp * (c.gaps ? 2 : 1), c.misalignment * wp),
                    Buffer(n * wg, c.misalignment * wg),
                    Buffer(n * catalog_.weights(spec_.weights).extra_bytes(), 0),
                    {},
                    {},
                    {},
                    {},
                    n,
                    0};
    memory_ = jit::planned_memory(jit::complete(spec_, catalog_), catalog_);
    data.tensor.shape = {c.sizes, strides_of(c, c.transposed, c.gaps)};
    data.tensor.g_strides = strides_of(c, c.grad_transposed, false);
    if (c.sizes.empty()) data.tensor.shape = {{1}, {1}}, data.tensor.g_strides = {1};
    data.tensor.id = id;
    const auto compact = jit::compact_strides(data.tensor.shape);
    if (!jit::is_dense(data.tensor.shape, compact) ||
        !jit::is_dense({data.tensor.shape.sizes, data.tensor.g_strides}, compact))
      spec_.strided = true;
    for (const auto& slot : spec_.slots) add_slot(data, slot);
    for (const auto& field : memory_) add_memory(data, field);
    data_.push_back(std::move(data));
    fill_parameter(data_.back());
    bind(data_.back());
  }

  void add_slot(TensorData& data, const std::optional<jit::CodecChoice>& slot) {
    const auto [codes, meta] =
        slot ? jit::slot_bytes(*slot, spec_.parameter, data.n, catalog_) : jit::SlotBytes{};
    data.codes.emplace_back(codes, 0);
    data.meta.emplace_back(meta, 0);
  }

  void add_memory(TensorData& data, const jit::PlannedMemory& field) {
    const auto dims = static_cast<int>(data.tensor.shape.sizes.size());
    const auto entries = jit::extent(data.tensor.shape, field.domain.reduced(dims)).entries;
    std::array<Buffer, 2> pair{Buffer(entries * field.bytes, 0), Buffer(entries * field.bytes, 0)};
    const double initial = options_.initial(field.initial);
    for (auto& buffer : pair)
      for (std::int64_t i = 0; i < entries; ++i)
        put(buffer.data() + i * field.bytes, field.bytes == 8 ? Dtype::float64 : Dtype::float32,
            initial);
    data.memory.push_back(std::move(pair));
  }

  // Pointers into the buffers, once they no longer move.
  void bind(TensorData& data) {
    data.tensor.p = data.p.data();
    data.tensor.extra = data.extra.data();
    for (std::size_t i = 0; i < data.codes.size(); ++i)
      data.tensor.slots.push_back({data.codes[i].data(), data.meta[i].data()});
    for (auto& pair : data.memory) data.tensor.memory.push_back({pair[0].data(), pair[1].data()});
  }

  void fill_parameter(TensorData& data) {
    std::normal_distribution<double> normal(0, 0.5);
    const int w = width(spec_.parameter);
    for (std::int64_t i = 0; i < data.n; ++i) {
      const std::int64_t at = case_.tensors[data.tensor.id].gaps ? 2 * i : i;
      put(data.p.data() + at * w, spec_.parameter, normal(random_));
    }
  }

  // Magnitudes over many decades, exact zeros, and on request what no gradient should be.
  double gradient_value() {
    std::uniform_real_distribution<double> uniform(0, 1);
    const double kind = uniform(random_);
    if (case_.special_values && kind < 0.01)
      return kind < 0.004 ? std::nan("") : kind < 0.007 ? INFINITY : -INFINITY;
    if (kind < 0.05) return 0;
    const double size = std::pow(10.0, -7 * uniform(random_));
    return kind < 0.5 ? -size : size;
  }

  void one_step(int step) {
    std::vector<HyperSet> sets;
    std::vector<std::vector<jit::StepTensor>> tensors(group_count());
    std::vector<std::vector<jit::StepInput>> inputs(group_count());
    for (auto& data : data_) {
      const int w = width(spec_.gradient);
      for (std::int64_t i = 0; i < data.n; ++i)
        put(data.g.data() + i * w, spec_.gradient, gradient_value());
      if (step < case_.tensors[data.tensor.id].first_step) continue;
      ++data.t;
      const int group = group_of(data.tensor.id);
      tensors[group].push_back(data.tensor);
      const bool aligned = case_.tensors[data.tensor.id].misalignment == 0;
      inputs[group].push_back({data.g.data(), set_for(sets, data.t), aligned});
    }
    std::vector<std::unique_ptr<jit::StepGroup>> groups;
    std::vector<jit::StepGroup*> order;
    std::vector<std::vector<jit::StepInput>> used;
    for (int i = 0; i < group_count(); ++i) {
      if (tensors[i].empty()) continue;
      groups.push_back(
          std::make_unique<jit::StepGroup>(machine_, spec_, variant_, tensors[i], catalog_));
      order.push_back(groups.back().get());
      used.push_back(inputs[i]);
    }
    jit::run_step(order, used, sets);
  }

  int set_for(std::vector<HyperSet>& sets, std::int64_t t) {
    for (std::size_t i = 0; i < sets.size(); ++i)
      if (sets[i].t == t) return static_cast<int>(i);
    sets.push_back(options_.at_step(t, 0x0123456789abcdefull));
    return static_cast<int>(sets.size()) - 1;
  }

  int group_count() const {
    return grouping_ == Grouping::kEachAlone ? static_cast<int>(data_.size()) : 2;
  }
  int group_of(int id) const {
    if (grouping_ == Grouping::kEachAlone) return id;
    return grouping_ == Grouping::kHalves ? id % 2 : 0;
  }

  StepOutcome outcome() const {
    StepOutcome result;
    for (const auto& data : data_) {
      const int id = data.tensor.id;
      result[text("p", id)] = one_nan(data.p, width(spec_.parameter));
      result[text("g", id)] = data.g.with_guards();
      result[text("extra", id)] = data.extra.with_guards();
      for (std::size_t i = 0; i < data.codes.size(); ++i) {
        const bool wide = spec_.slots[i] && catalog_.codec(spec_.slots[i]->name).code == "real";
        const auto& codes = data.codes[i];
        result[text("codes", id, ".", i)] =
            wide ? one_nan(codes, std::max(4, width(spec_.parameter))) : codes.with_guards();
        result[text("meta", id, ".", i)] = data.meta[i].with_guards();
      }
      for (std::size_t i = 0; i < data.memory.size(); ++i)
        result[text("memory", id, ".", i)] = one_nan(data.memory[i][data.t & 1], memory_[i].bytes);
    }
    return result;
  }

  static std::vector<std::byte> one_nan(const Buffer& buffer, int w) {
    std::vector<std::byte> bytes = buffer.with_guards();
    for (std::size_t i = Buffer::kGuard; w >= 4 && i + w <= bytes.size(); i += w) {
      float f = 0;
      double d = 0;
      if (w == 4) std::memcpy(&f, &bytes[i], 4);
      if (w == 8) std::memcpy(&d, &bytes[i], 8);
      if (std::isnan(f) || std::isnan(d)) std::memset(&bytes[i], 0xff, w);
    }
    return bytes;
  }

  const StepCase& case_;
  jit::Machine& machine_;
  jit::Variant variant_;
  Grouping grouping_;
  const jit::Catalog& catalog_;
  jit::OptionValues options_;
  jit::KernelSpec spec_;
  std::mt19937_64 random_;
  std::vector<TensorData> data_;
  std::vector<jit::PlannedMemory> memory_;
};

}  // namespace

StepOutcome run_case(const StepCase& c, jit::Machine& machine, const jit::Variant& variant,
                     Grouping grouping, const jit::Catalog& catalog) {
  return Runner(c, machine, variant, grouping, catalog).run();
}

std::vector<std::string> differences(const StepOutcome& a, const StepOutcome& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a) {
    const auto& other = b.at(name);
    const auto [x, y] = std::mismatch(bytes.begin(), bytes.end(), other.begin(), other.end());
    if (x != bytes.end() || y != other.end())
      names.push_back(text(name, " from byte ", x - bytes.begin(), " of ", bytes.size()));
  }
  return names;
}

std::vector<TensorCase> odd_tensors() {
  std::vector<TensorCase> tensors;
  for (std::int64_t n : {0, 1, 3, 4, 31, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097})
    tensors.push_back({.sizes = {n}});
  tensors.push_back({.sizes = {}});
  tensors.push_back({.sizes = {1000}, .misalignment = 1});
  tensors.push_back({.sizes = {7, 131}});
  tensors.push_back({.sizes = {3, 5, 41}, .first_step = 2});
  return tensors;
}

}  // namespace jitstep::support
