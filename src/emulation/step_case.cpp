#include "emulation/step_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "jit/base/text.h"
#include "jitstep/jit/common_memory.h"
#include "jitstep/jit/state_memory.h"
#include "jitstep/jit/step.h"

namespace jitstep::emulation {
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

jit::Shape shape_of(const TensorCase& c) {
  if (c.sizes.empty()) return {{1}, {1}};
  return {c.sizes, strides_of(c, c.transposed, c.gaps)};
}

jit::Shape gradient_of(const TensorCase& c) {
  if (c.sizes.empty()) return {{1}, {1}};
  return {c.sizes, strides_of(c, c.grad_transposed, false)};
}

bool is_strided(const TensorCase& c) {
  const auto compact = jit::compact_strides(shape_of(c));
  return !jit::is_dense(shape_of(c), compact) || !jit::is_dense(gradient_of(c), compact);
}

// Memory of the device with a guard around it that must stay as it is, and its image on the host.
struct Buffer {
  static constexpr std::size_t kGuard = 64;
  std::vector<std::byte> image;
  std::size_t start, size;
  std::shared_ptr<void> memory;

  Buffer(jit::Machine& machine, std::size_t bytes_used, std::size_t shift)
      : image(bytes_used + shift + 2 * kGuard),
        start(kGuard + shift),
        size(bytes_used),
        memory(machine.allocate(image.size())) {}
  std::byte* host() { return image.data() + start; }
  void* device() const { return static_cast<std::byte*>(memory.get()) + start; }
  void send(jit::Machine& machine) const {
    machine.upload(memory.get(), image.data(), image.size());
  }
  // What the device holds now.
  std::vector<std::byte> with_guards(const Download& download) const {
    std::vector<std::byte> bytes(size + 2 * kGuard);
    download(bytes.data(), static_cast<std::byte*>(memory.get()) + start - kGuard, bytes.size());
    return bytes;
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
  Runner(const StepCase& c, const Device& device, const jit::Variant& variant, Grouping grouping,
         const jit::Catalog& catalog)
      : case_(c),
        machine_(device.machine),
        download_(device.download),
        variant_(variant),
        grouping_(grouping),
        options_(c.spec.rule, catalog),
        plan_(kernel_of(c, catalog)),
        random_(c.seed) {
    for (const auto& [name, value] : c.options) options_.set(name, value);
    options_.validate();
    for (std::size_t i = 0; i < c.tensors.size(); ++i) add(c.tensors[i], static_cast<int>(i));
    common_ = jit::make_common_memory(machine_, options_);
  }

  StepOutcome run() {
    for (int step = 1; step <= case_.steps; ++step) one_step(step);
    return outcome();
  }

 private:
  void add(const TensorCase& c, int id) {
    std::int64_t n = 1;
    for (auto size : c.sizes) n *= size;
    const int wp = width(plan_.spec.state.dtype), wg = width(plan_.spec.gradient);
    TensorData data{buffer(n * wp * (c.gaps ? 2 : 1), c.misalignment * wp),
                    buffer(n * wg, c.misalignment * wg),
                    buffer(0),
                    {},
                    {},
                    {},
                    {},
                    n,
                    0};
    data.tensor.shape = shape_of(c);
    data.tensor.g_strides = gradient_of(c).strides;
    data.tensor.id = id;
    const jit::StateLayout layout =
        jit::state_layout(plan_, data.tensor.shape, jit::initial_memory(plan_, options_));
    data.extra = buffer(layout.extra);
    for (const auto& slot : layout.slots) {
      data.codes.push_back(buffer(slot.codes));
      data.meta.push_back(buffer(slot.meta));
    }
    for (const auto& field : layout.memory) add_memory(data, field);
    fill_parameter(data);
    bind(data);
    data_.push_back(std::move(data));
  }

  Buffer buffer(std::size_t bytes, std::size_t shift = 0) { return {machine_, bytes, shift}; }

  void add_memory(TensorData& data, const jit::StateLayout::Memory& field) {
    const std::int64_t bytes = field.entries * field.bytes;
    std::array<Buffer, 2> pair{buffer(bytes), buffer(bytes)};
    for (auto& buffer : pair)
      for (std::int64_t at = 0; at < bytes; at += field.bytes)
        put(buffer.host() + at, field.bytes == 8 ? Dtype::float64 : Dtype::float32, field.initial);
    data.memory.push_back(std::move(pair));
  }

  // Sends everything but the gradient, which each step brings.
  void bind(TensorData& data) {
    const auto on_device = [&](Buffer& buffer) {
      buffer.send(machine_);
      return buffer.device();
    };
    data.tensor.p = on_device(data.p);
    data.tensor.extra = on_device(data.extra);
    for (std::size_t i = 0; i < data.codes.size(); ++i)
      data.tensor.slots.push_back({on_device(data.codes[i]), on_device(data.meta[i])});
    for (auto& pair : data.memory)
      data.tensor.memory.push_back({on_device(pair[0]), on_device(pair[1])});
  }

  void fill_parameter(TensorData& data) {
    std::normal_distribution<double> normal(0, 0.5);
    const int w = width(plan_.spec.state.dtype);
    for (std::int64_t i = 0; i < data.n; ++i) {
      const std::int64_t at = case_.tensors[data.tensor.id].gaps ? 2 * i : i;
      put(data.p.host() + at * w, plan_.spec.state.dtype, normal(random_));
    }
  }

  // Magnitudes over many decades, exact zeros, and on request what no gradient should be.
  double gradient_value() {
    std::uniform_real_distribution<double> uniform(0, 1);
    const double kind = uniform(random_);
    if (case_.special_values && kind < 0.01)
      return kind < 0.004 ? std::nan("") : kind < 0.007 ? INFINITY : -INFINITY;
    if (case_.special_values && kind < 0.03)
      return kind < 0.02 ? -1e-40 : 1e-36;  // subnormal, and soon
    if (kind < 0.05) return 0;
    const double size = std::pow(10.0, -7 * uniform(random_));
    return kind < 0.5 ? -size : size;
  }

  void one_step(int step) {
    std::vector<HyperSet> sets;
    std::vector<jit::Batch> batches(batch_count());
    std::vector<std::vector<jit::StepInput>> inputs(batch_count());
    for (auto& data : data_) {
      const int w = width(plan_.spec.gradient);
      for (std::int64_t i = 0; i < data.n; ++i)
        put(data.g.host() + i * w, plan_.spec.gradient, gradient_value());
      data.g.send(machine_);
      if (step < case_.tensors[data.tensor.id].first_step) continue;
      ++data.t;
      const int batch = batch_of(data.tensor.id);
      batches[batch].tensors.push_back(data.tensor);
      const bool aligned = case_.tensors[data.tensor.id].misalignment == 0;
      inputs[batch].push_back({data.g.device(), set_for(sets, data.t), aligned});
    }
    std::vector<jit::Batch> used;
    std::vector<jit::StepInput> given;
    for (int i = 0; i < batch_count(); ++i) {
      if (batches[i].tensors.empty()) continue;
      used.push_back({plan_, batches[i].tensors, variant_});
      given.insert(given.end(), inputs[i].begin(), inputs[i].end());
    }
    jit::Step(machine_, used, &common_).run(given, sets);
  }

  int set_for(std::vector<HyperSet>& sets, std::int64_t t) {
    for (std::size_t i = 0; i < sets.size(); ++i)
      if (sets[i].t == t) return static_cast<int>(i);
    sets.push_back(plan_.at_step(options_, t, 0x0123456789abcdefull));
    return static_cast<int>(sets.size()) - 1;
  }

  int batch_count() const {
    return grouping_ == Grouping::kEachAlone ? static_cast<int>(data_.size()) : 2;
  }
  int batch_of(int id) const {
    if (grouping_ == Grouping::kEachAlone) return id;
    return grouping_ == Grouping::kHalves ? id % 2 : 0;
  }

  StepOutcome outcome() const {
    StepOutcome result;
    for (const auto& data : data_) {
      const int id = data.tensor.id;
      result[text("p", id)] = one_nan(data.p, width(plan_.spec.state.dtype));
      result[text("g", id)] = data.g.with_guards(download_);
      result[text("extra", id)] = data.extra.with_guards(download_);
      for (std::size_t i = 0; i < data.codes.size(); ++i) {
        const jit::Manifest* const codec = plan_.codec(static_cast<int>(i));
        const bool wide = codec != nullptr && codec->code == "real";
        result[text("codes", id, ".", i)] =
            one_nan(data.codes[i], wide ? std::max(4, width(plan_.spec.state.dtype)) : 1);
        result[text("meta", id, ".", i)] = data.meta[i].with_guards(download_);
      }
      for (std::size_t i = 0; i < data.memory.size(); ++i)
        result[text("memory", id, ".", i)] =
            one_nan(data.memory[i][data.t & 1], plan_.memory[i].bytes);
    }
    result["common"].resize(plan_.common.size() * sizeof(double));
    if (!plan_.common.empty())
      download_(result["common"].data(), common_.now(), result["common"].size());
    return result;
  }

  // The buffer as elements of w bytes; NaNs of 4 and 8 bytes become the same one.
  std::vector<std::byte> one_nan(const Buffer& buffer, int w) const {
    std::vector<std::byte> bytes = buffer.with_guards(download_);
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
  Download download_;
  jit::Variant variant_;
  Grouping grouping_;
  jit::OptionValues options_;
  jit::Plan plan_;
  std::mt19937_64 random_;
  std::vector<TensorData> data_;
  jit::CommonMemory common_;
};

}  // namespace

jit::Plan kernel_of(const StepCase& c, const jit::Catalog& catalog) {
  jit::OptionValues options(c.spec.rule, catalog);
  for (const auto& [name, value] : c.options) options.set(name, value);
  jit::KernelSpec spec = c.spec;
  spec.flags = options.flags();
  spec.gradient_flags = options.gradient_flags();
  for (std::size_t i = 0; i < spec.state.slots.size(); ++i)
    if (!jit::is_stored(catalog.rule(spec.rule).slots[i], spec.flags)) spec.state.slots[i].reset();
  spec.strided = std::any_of(c.tensors.begin(), c.tensors.end(), is_strided);
  return jit::resolve(spec, catalog);
}

StepOutcome run_case(const StepCase& c, const Device& device, const jit::Variant& variant,
                     Grouping grouping, const jit::Catalog& catalog) {
  return Runner(c, device, variant, grouping, catalog).run();
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

}  // namespace jitstep::emulation
