// What is to be tuned: a kernel and the tensors of one launch of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/formats.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/option_values.h"

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

/// Bytes that a step reads and writes, and bytes that it only reads.
struct MemoryTraffic {
  std::int64_t both = 0, read = 0;
};

/// Parameters and state both ways, gradients one way.
MemoryTraffic moved_by(const Workload& workload);
/// All of them, those both ways twice.
double moved_bytes(const Workload& workload);

/// The optimizer that is tuned for.
struct TuningRequest {
  jit::OptionValues options;
  jit::Formats formats = {};
  jit::Dtype parameter = jit::Dtype::float32;
  std::optional<jit::Dtype> gradient = {};  // the parameters' unless set
};

/// A tensor of so many elements as "4k", "1M", "1.5M", several as "700x2k"; k, M and G are powers of 1024. An Error
/// for anything else.
Shapes parse_size(const std::string& word);

/// The tensors of a file such as {"shapes": [[768, 768], [768]]}, or {"gpt2": {"shapes": ...}}, whose first model with
/// shapes counts. An Error names the file and says what is wrong.
Shapes read_model(const std::string& path);

/// The kernels of these tensors, each with its own: small ones and vectors may have other formats than large matrices.
std::vector<Workload> workloads(const TuningRequest& requested, const Shapes& shapes);

}  // namespace jitstep::tuning
