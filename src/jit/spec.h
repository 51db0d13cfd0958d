// What a kernel computes: rule, formats, flags, dtypes. Never how it is run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// A codec with its options; those left out have their defaults.
struct CodecChoice {
  std::string name;
  NamedValues options = {};

  bool operator==(const CodecChoice&) const = default;
};

/// "int8(block=128, positive_floor=true)".
std::string to_string(const CodecChoice& choice);

/// The choice with every option given and checked. An Error names what is wrong.
CodecChoice complete(const CodecChoice& choice, const Catalog& catalog = default_catalog());

/// Elements that share a scale; 1 without blocks.
int block_of(const CodecChoice& choice, const Catalog& catalog = default_catalog());

/// Everything that decides a kernel's results, but its arguments.
struct KernelSpec {
  std::string rule;
  NamedValues flags = {};           // of the rule, lifted ones included
  NamedValues gradient_flags = {};  // of the options common to all rules
  std::vector<std::optional<CodecChoice>> slots = {};  // one for each of the rule, none if left out
  std::string weights = "native";
  Dtype parameter = Dtype::float32;
  Dtype gradient = Dtype::float32;
  bool strided = false;  // some parameter or gradient is not dense

  bool operator==(const KernelSpec&) const = default;
};

/// One line with everything that differs from the defaults' absence, for messages and logs.
std::string to_string(const KernelSpec& spec);

/// Whether a slot exists under these flags of its rule.
bool is_stored(const Slot& slot, const NamedValues& flags);

/// The spec with every flag and codec option given; two specs of the same kernel become equal.
/// Checks everything (names, types, dtypes, slots, limits) and throws an Error with one sentence.
KernelSpec complete(const KernelSpec& spec, const Catalog& catalog = default_catalog());

/// A reduction as the kernel numbers it: through the gradient (part 0), the rule (part 1) and the
/// codec of each slot (part 2 + slot).
struct PlannedReduction {
  int number = 0;
  int part = 0;
  int local = 0;  // its number in its part
  int pass = -1;  // -1: its condition does not hold
  std::string name;
  Reduction::Op op = Reduction::Op::sum;
  Domain domain;
  int space = 0;  // where its terms are walked: TensorRecord::spaces
  int terms = 1;
  bool everywhere = false;  // domain `all`
  bool over = false;        // takes the entries of an earlier reduction
  Domain over_domain = {};
  int over_number = -1;
  int coefficient_bytes = 0;  // of one entry
};

/// A field of memory as the kernel numbers it: TensorRecord::memory.
struct PlannedMemory {
  int number = 0;
  int part = 0;
  std::string name;
  std::string torch_name;
  Domain domain;
  int bytes = 4;  // of one entry
  bool is_double = false;
  Initial initial = {};
};

std::vector<PlannedReduction> planned_reductions(const KernelSpec& spec,
                                                 const Catalog& catalog = default_catalog());
std::vector<PlannedMemory> planned_memory(const KernelSpec& spec,
                                          const Catalog& catalog = default_catalog());

/// Launches of sums before the last one: the passes of the reductions that are taken.
int pass_count(const std::vector<PlannedReduction>& reductions);

}  // namespace jitstep::jit
