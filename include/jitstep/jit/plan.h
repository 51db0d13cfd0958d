// The reductions and memory of a kernel, numbered and ordered as schedules/plan.cuh does it.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/spec.h"

namespace jitstep::jit {

/// A reduction as the kernel numbers it: through the gradient (part 0), the rule (part 1) and the
/// codec of each slot (part 2 + slot).
struct JITSTEP_API PlannedReduction {
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
struct JITSTEP_API PlannedMemory {
  int number = 0;
  int part = 0;
  std::string name;
  std::string torch_name;
  Domain domain;
  int bytes = 4;  // of one entry
  bool is_double = false;
  Initial initial = {};
};

/// All of a completed spec, in the order of their numbers.
JITSTEP_API std::vector<PlannedReduction> planned_reductions(
    const KernelSpec& spec, const Catalog& catalog = default_catalog());
JITSTEP_API std::vector<PlannedMemory> planned_memory(const KernelSpec& spec,
                                                      const Catalog& catalog = default_catalog());

/// Makes kernels that step together agree on the sums they share: where one takes a sum over all
/// tensors, all take the gradient's transforms that any of them takes, and so run it in one pass.
/// (A transform with a neutral number changes nothing.)
JITSTEP_API void share_sums(const std::vector<KernelSpec*>& specs,
                            const Catalog& catalog = default_catalog());

/// Launches of sums before the last one: the passes of the reductions that are taken.
JITSTEP_API int pass_count(const std::vector<PlannedReduction>& reductions);

}  // namespace jitstep::jit
