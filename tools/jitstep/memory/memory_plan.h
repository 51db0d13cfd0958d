// Estimates the memory of a model and its optimizer.
#pragma once

#include <jitstep/jit/plan.h>
#include <jitstep/jit/value.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rank_plan.h"

namespace jitstep::tool::memory {

/// The arguments of `jitstep memory`.
struct Request {
  std::int64_t parameters = 0;  // number of trained scalars
  std::string rule = "adamw";
  jit::NamedValues options = {};
  jit::Formats formats = {};
  std::optional<jit::Dtype> parameter = {};  // default: default_dtype()
  std::optional<jit::Dtype> gradient = {};   // default: the parameters' dtype
  std::optional<int> ranks = {};             // that share the state; default: one process
};

/// One kind of tensor.
struct Entry {
  std::string what;          // "parameters", "state m", "scales of m"
  std::string format;        // a dtype, codec or weight format
  double per_parameter = 0;  // bytes per parameter
  std::int64_t bytes = 0;    // total bytes, rounded up
};

/// The memory of parameters, gradients and optimizer state.
struct MemoryPlan {
  std::int64_t parameters = 0;
  jit::Plan kernel;
  std::vector<Entry> entries;      // without entries of 0 bytes
  Entry all;                       // their sum
  std::optional<RankPlan> ranks = {};  // if ranks share the state
  std::vector<std::string> notes;      // sentences
};

/// Estimates a model of 1024 x 1024 matrices, as docs/reference/bytes.md does. A model with fewer parameters is counted
/// as one smaller tensor, for which state with blocks may become fp32. Throws an Error for incompatible formats.
MemoryPlan memory_plan(const Request& request);

/// The estimate as a table or as JSON. Both compare it with torch's AdamW in float32.
std::string to_text(const MemoryPlan& plan);
std::string to_json(const MemoryPlan& plan);

}  // namespace jitstep::tool::memory
