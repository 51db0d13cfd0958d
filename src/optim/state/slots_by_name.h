// Matching of slots between two versions of a rule whose file was reloaded. Their number and order may differ.
#pragma once

#include <cstddef>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "optim/state/state_buffers.h"

namespace jitstep {

/// The number of the slot with the same name in `slots`, or -1.
std::ptrdiff_t number_among(const std::vector<jit::Slot>& slots, const jit::Slot& slot);

/// True if the slot of this number has stored codes. False for -1.
bool has_codes(const StateBuffers& buffers, std::ptrdiff_t slot);

/// True if any slot has stored codes.
bool has_slots(const StateBuffers& buffers);

/// Reorders `initial` from the order of `slots` to that of `order`. A slot that is not in `slots` gets 0.
std::vector<double> in_order_of(const std::vector<jit::Slot>& order,
                                const std::vector<jit::Slot>& slots,
                                const std::vector<double>& initial);

}  // namespace jitstep
