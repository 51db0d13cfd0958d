#include "jit/search/scratch_tensors.h"

#include <algorithm>
#include <cstring>

#include "jit/base/splitmix.h"
#include "jit/step/dense_shape.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

std::uint64_t mixed(std::uint64_t z) { return splitmix64(z); }

// A number of either sign with magnitude in [2^-7, 2) and three fraction bits, which is exact in every dtype.
template <class Bits>
Bits ordinary(std::uint64_t random, int exponent_bits, int fraction_bits) {
  const std::uint64_t sign = random & 1, fraction = (random >> 1) & 7;
  const std::uint64_t exponent = (std::uint64_t{1} << (exponent_bits - 1)) - 1 - (random >> 4) % 8;
  return static_cast<Bits>((sign << (exponent_bits + fraction_bits)) | (exponent << fraction_bits) |
                           (fraction << (fraction_bits - 3)));
}

template <class Bits>
void fill(std::vector<std::byte>& image, std::uint64_t seed, int exponent_bits, int fraction_bits) {
  for (std::size_t i = 0; i * sizeof(Bits) < image.size(); ++i) {
    const auto bits = ordinary<Bits>(mixed(seed + i), exponent_bits, fraction_bits);
    std::memcpy(&image[i * sizeof(Bits)], &bits, sizeof bits);
  }
}

void fill(std::vector<std::byte>& image, std::uint64_t seed, Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return fill<std::uint64_t>(image, seed, 11, 52);
    case Dtype::float32:
      return fill<std::uint32_t>(image, seed, 8, 23);
    case Dtype::bfloat16:
      return fill<std::uint16_t>(image, seed, 8, 7);
    case Dtype::float16:
      return fill<std::uint16_t>(image, seed, 5, 10);
  }
  throw Error("unknown Dtype value");
}

std::vector<double> ones(std::size_t count) { return std::vector<double>(count, 1.0); }

std::int64_t elements_of(const std::vector<std::int64_t>& sizes) {
  return Shape{sizes, {}}.elements();
}

// Shared state of a rule, with all fields set to 1.
SharedState shared_state_of(Backend& backend, const Plan& plan) {
  SharedState shared_state;
  if (plan.shared_state.empty()) return shared_state;
  std::size_t fields = 0;
  for (const ResolvedAuxState& field : plan.shared_state)
    fields = std::max(fields, static_cast<std::size_t>(field.index) + 1);
  const std::vector<double> content = ones(2 * fields);
  shared_state.storage = backend.allocate(content.size() * sizeof(double));
  backend.upload(shared_state.storage.get(), content.data(), content.size() * sizeof(double));
  auto* const first = static_cast<double*>(shared_state.storage.get());
  shared_state.buffers = {first, first + fields};
  return shared_state;
}

}  // namespace

ScratchTensors::ScratchTensors(Backend& backend, const Plan& plan, const HyperParams& numbers,
                               const std::vector<std::vector<std::int64_t>>& shapes)
    : backend_(backend),
      plan_(plan),
      numbers_(numbers),
      shared_state_(shared_state_of(backend, plan)) {
  numbers_.found_inf = nullptr;
  numbers_.step_offset = numbers_.shared_step_offset = nullptr;
  if (numbers_.grad_scale != nullptr) {
    const float one = 1;
    held_.push_back(backend.allocate(sizeof one));
    backend.upload(held_.back().get(), &one, sizeof one);
    numbers_.grad_scale = static_cast<const float*>(held_.back().get());
  }
  for (const auto& sizes : shapes) add(sizes, static_cast<int>(tensors_.size()));
  const std::ptrdiff_t fields = shared_state_.buffers[1] - shared_state_.buffers[0];
  if (fields > 0)
    regions_.push_back(
        {shared_state_.buffers[0], 2 * sizeof(double) * static_cast<std::size_t>(fields)});
}

void* ScratchTensors::filled(std::int64_t elements, Dtype dtype, std::uint64_t seed) {
  std::vector<std::byte> image(static_cast<std::size_t>(elements) *
                               static_cast<std::size_t>(bytes_of(dtype)));
  fill(image, mixed(seed), dtype);
  held_.push_back(backend_.allocate(image.size()));
  backend_.upload(held_.back().get(), image.data(), image.size());
  return held_.back().get();
}

void ScratchTensors::add(const std::vector<std::int64_t>& sizes, int id) {
  const std::int64_t n = elements_of(sizes);
  const auto seed = static_cast<std::uint64_t>(id);
  void* const p = filled(n, plan_.spec.state.dtype, 2 * seed);
  const void* const g = filled(n, plan_.spec.gradient, 2 * seed + 1);
  states_.emplace_back(backend_, plan_, ones(plan_.aux_state.size()), sizes);
  tensors_.push_back(states_.back().tensor(p, id));
  inputs_.push_back({.g = g, .aligned = true});
  const StepTensor& tensor = tensors_.back();
  const StateLayout& layout = *tensor.layout;
  const auto add_region = [&](const void* at, std::int64_t bytes) {
    if (bytes > 0) regions_.push_back({at, static_cast<std::size_t>(bytes)});
  };
  add_region(p, n * bytes_of(plan_.spec.state.dtype));
  add_region(tensor.residual, layout.residual);
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    add_region(tensor.slots[i].codes, layout.slots[i].codes);
    add_region(tensor.slots[i].meta, layout.slots[i].meta);
  }
  for (std::size_t i = 0; i < layout.aux_state.size(); ++i)
    if (!layout.aux_state[i].is_matrix)
      for (void* const buffer : tensor.aux_state[i])
        add_region(buffer, layout.aux_state[i].entries * layout.aux_state[i].bytes);
}

std::int64_t ScratchTensors::bytes(const Plan& plan,
                                   const std::vector<std::vector<std::int64_t>>& shapes) {
  std::int64_t all = 0;
  const std::vector<double> initial = ones(plan.aux_state.size());
  for (const auto& sizes : shapes) {
    const Shape shape = dense_shape(sizes);
    all += shape.elements() * (bytes_of(plan.spec.state.dtype) + bytes_of(plan.spec.gradient)) +
           state_layout(plan, shape, initial).bytes();
  }
  return all;
}

Step ScratchTensors::step_by(const KernelConfig& config) {
  return Step(backend_, {{plan_, tensors_, config}},
              plan_.shared_state.empty() ? nullptr : &shared_state_);
}

void ScratchTensors::run(Step& step) {
  numbers_.t = ++t_;
  // The host transform changes nothing, because only the kernels are measured.
  const HostTransform transform = plan_.rule().transforms.empty()
                                      ? HostTransform()
                                      : [](const std::vector<TransformedTensor>&) {};
  step.run(inputs_, {numbers_}, transform);
}

std::vector<std::byte> ScratchTensors::content(const DownloadFrom& download) const {
  std::vector<std::byte> all;
  for (const Region& region : regions_) {
    const std::size_t at = all.size();
    all.resize(at + region.bytes);
    download(&all[at], region.at, region.bytes);
  }
  return all;
}

}  // namespace jitstep::jit
