// A few steps of some tensors on any machine, and everything they leave behind, byte for byte.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "jitstep/jit/machine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/spec.h"
#include "jitstep/jit/unit.h"

namespace jitstep::emulation {

/// One tensor: its sizes, and how far from dense and aligned it lies.
struct TensorCase {
  std::vector<std::int64_t> sizes;
  int misalignment = 0;     // elements by which p and g are shifted in their buffers
  bool transposed = false;  // p's last two dimensions swapped in memory
  bool grad_transposed = false;
  bool gaps = false;   // p takes every other place in memory
  int first_step = 1;  // gets its first gradient here
};

struct StepCase {
  jit::KernelSpec spec;      // without flags of the rule and gradient, which come from `options`
  jit::NamedValues options;  // of the rule and the common ones
  std::vector<TensorCase> tensors;
  int steps = 3;
  bool special_values = false;  // NaN, infinities and subnormal numbers among the gradients
  std::uint64_t seed = 7;
};

/// How tensors are cut into batches.
enum class Grouping { kTogether, kEachAlone, kHalves };

/// What every tensor holds afterwards, by name ("p0", "codes1.0", "meta1.0", "memory0.0", ...).
/// NaNs of 32 and more bits are all the same one.
using StepOutcome = std::map<std::string, std::vector<std::byte>>;

/// Copies from the device once all launches are done.
using Download = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// A machine and the way back from its memory, which is the host's own unless said otherwise.
struct Device {
  jit::Machine& machine;
  Download download = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };

  Device(jit::Machine& m) : machine(m) {}  // NOLINT(google-explicit-constructor)
  Device(jit::Machine& m, Download d) : machine(m), download(std::move(d)) {}
};

/// The case's kernel.
jit::Plan kernel_of(const StepCase& c, const jit::Catalog& catalog = jit::default_catalog());

StepOutcome run_case(const StepCase& c, const Device& device, const jit::Variant& variant,
                     Grouping grouping = Grouping::kTogether,
                     const jit::Catalog& catalog = jit::default_catalog());

/// The names of what differs, with the first differing byte; empty if nothing does.
std::vector<std::string> differences(const StepOutcome& a, const StepOutcome& b);

/// Sizes that catch off-by-one errors: 0, 1, vector, leaf and chunk, each less and more one.
std::vector<TensorCase> odd_tensors();

}  // namespace jitstep::emulation
