// A workload to tune: a kernel and the tensors of one launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::tuning {

/// The sizes of the tensors that one launch steps.
using Shapes = std::vector<std::vector<std::int64_t>>;

/// One kernel at one size.
struct Workload {
  jit::Plan plan;
  HyperParams numbers = {};  // of its first step
  Shapes shapes = {};

  jit::WorkSize size() const;
  /// "adamw_int8_float32, 700 tensors of 1433600 elements".
  std::string name() const;
};

/// `both`: bytes that a step reads and writes. `read`: bytes that it only reads.
struct MemoryTraffic {
  std::int64_t both = 0, read = 0;
};

/// Parameters and state are read and written, gradients are read.
MemoryTraffic moved_by(const Workload& workload);
/// The bytes of moved_by(). Those that are read and written count twice.
double moved_bytes(const Workload& workload);

/// The optimizer to tune.
struct TuningRequest {
  jit::OptionValues options;
  jit::Formats formats = {};
  jit::Dtype parameter = jit::Dtype::float32;
  std::optional<jit::Dtype> gradient = {};  // default: the parameters' dtype
};

/// Parses "4k", "1M", "1.5M" as a tensor of so many elements, "700x2k" as several tensors. k, M and G are powers of
/// 1024. Throws an Error for any other text.
Shapes parse_size(const std::string& word);

/// Reads the tensors of a file such as {"shapes": [[768, 768], [768]]} or {"gpt2": {"shapes": ...}}. Uses the first
/// model with shapes. Throws an Error that names the file.
Shapes read_model(const std::string& path);

/// One workload per kernel, with its tensors. Small tensors and vectors may have other formats than large matrices, and
/// so other kernels.
std::vector<Workload> workloads(const TuningRequest& requested, const Shapes& shapes);

}  // namespace jitstep::tuning
