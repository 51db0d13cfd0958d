#include "jit/tuning/trial.h"

#include "jit/base/enum_names.h"

namespace jitstep::jit {

std::string to_string(TrialStatus status) { return name_in(kTrialStatusNames, status); }

std::string to_string(Outcome outcome) { return name_in(kOutcomeNames, outcome); }

}  // namespace jitstep::jit
