// What a model and its optimizer will take in memory, before there is either.
#pragma once

#include <jitstep/jit/dtype.h>
#include <jitstep/jit/formats.h>
#include <jitstep/jit/plan.h>
#include <jitstep/jit/value.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace jitstep::tool::memory {

/// What `jitstep memory` is asked for.
struct Request {
  std::int64_t parameters = 0;  // how many numbers are trained
  std::string rule = "adamw";
  jit::NamedValues options = {};
  jit::Formats formats = {};
  std::optional<jit::Dtype> parameter = {};  // what the weight format asks for, else float32
  std::optional<jit::Dtype> gradient = {};   // the parameters'
};

/// One kind of tensors.
struct Part {
  std::string what;          // "parameters", "state m", "scales of m"
  std::string format;        // a dtype, codec or weight format
  double per_parameter = 0;  // bytes
  std::int64_t bytes = 0;    // of all, rounded up
};

/// What is kept from step to step. Gradients are there from one backward pass to the next.
struct MemoryPlan {
  std::int64_t parameters = 0;
  jit::Plan kernel;
  std::vector<Part> parts;         // none of nothing
  Part all;                        // their sum
  std::vector<std::string> notes;  // sentences
};

/// Of a model of matrices of 1024 x 1024, as docs/reference/bytes.md counts; one of fewer parameters has no larger
/// tensor than that, so that block-scaled state may fall back to floats. An Error for what does not go together.
MemoryPlan memory_plan(const Request& request);

/// As a table, beside what torch's AdamW takes in float32; as JSON, the same numbers.
std::string to_text(const MemoryPlan& plan);
std::string to_json(const MemoryPlan& plan);

}  // namespace jitstep::tool::memory
