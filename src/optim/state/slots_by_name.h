// The slots of two versions of one rule, whose file was loaded again: they may be in another order, more or fewer.
#pragma once

#include <cstddef>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "jitstep/state_buffers.h"

namespace jitstep {

/// The slot's number among those of another version of its rule, by its name; -1 if that has none.
std::ptrdiff_t number_among(const std::vector<jit::Slot>& slots, const jit::Slot& slot);

/// Whether something is kept for the slot of this number; not for -1.
bool has_codes(const StateBuffers& buffers, std::ptrdiff_t slot);

/// Whether something is kept for any slot.
bool has_slots(const StateBuffers& buffers);

/// What `slots` begin with, in the order of the `held` ones; 0 for those that are not among them.
std::vector<double> in_order_of(const std::vector<jit::Slot>& held,
                                const std::vector<jit::Slot>& slots,
                                const std::vector<double>& initial);

}  // namespace jitstep
