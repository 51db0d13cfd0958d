// The state bytes and the launches of a kernel.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <string>
#include <vector>

namespace jitstep::tool {

/// Of one slot, bytes a parameter.
struct SlotBytes {
  std::string name;
  double codes = 0;
  double scales = 0;  // per block, of its codec

  double all() const { return codes + scales; }
};

/// Bytes a parameter, of a matrix of 1024 x 1024.
struct StateBytes {
  std::vector<SlotBytes> slots;
  double aux_state = 0;  // auxiliary state, both buffers
  double residual = 0;   // the residual of the weight format
  double all = 0;
};

/// Of a kernel under the options that it was made for.
StateBytes state_bytes(const jit::Plan& plan, const jit::OptionValues& options);

/// Launches of a step.
int launches_of(const jit::Plan& plan);

/// The codecs in the order of tables: fp32 first, then by name.
std::vector<std::string> codec_columns(const jit::Catalog& catalog);

/// The kernel of a float32 parameter of 1024 x 1024, or of as many elements in another number of dimensions, where the
/// user chose this codec for all slots.
jit::Plan chosen_kernel(const jit::OptionValues& options, int dims, const std::string& codec);

}  // namespace jitstep::tool
