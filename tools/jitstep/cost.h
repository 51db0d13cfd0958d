// State bytes and launches of a kernel.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <string>
#include <vector>

namespace jitstep::tool {

/// Bytes per parameter of one slot.
struct SlotBytes {
  std::string name;
  double codes = 0;
  double scales = 0;  // per block, of its codec

  double all() const { return codes + scales; }
};

/// Bytes per parameter of the state of a 1024 x 1024 matrix.
struct StateBytes {
  std::vector<SlotBytes> slots;
  double aux_state = 0;  // auxiliary state, both buffers
  double residual = 0;   // the residual of the weight format
  double all = 0;
};

/// The state bytes of a kernel. `options` are those that the plan was resolved with.
StateBytes state_bytes(const jit::Plan& plan, const jit::OptionValues& options);

/// Kernel launches per step.
int launches_of(const jit::Plan& plan);

/// The codecs in the column order of tables: fp32 first, then by name.
std::vector<std::string> codec_columns(const jit::Catalog& catalog);

/// The kernel of a float32 parameter of 2^20 elements in `dims` dimensions, with this codec for all slots.
jit::Plan chosen_kernel(const jit::OptionValues& options, int dims, const std::string& codec);

}  // namespace jitstep::tool
