// Stores the gradient in its only slot, which is not negative. The library encodes values by a step of this rule.
#pragma once

#include "../lang/contract.cuh"

namespace jitstep::rules::jitstep_non_negative_slot {

struct Slots {
  NonNegative x;
};

struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.x.next = e.g; }
  KHD static void update_param(auto&, const auto&) {}
};

}  // namespace jitstep::rules::jitstep_non_negative_slot
