// The options of a parameter group as options of its rule, whichever way the user wrote them.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <string>

#include "jitstep/options.h"

namespace jitstep {

/// make_options whose errors are c10::Errors.
std::unique_ptr<Options> checked_options(const std::string& rule, const GenericOptions& given,
                                         int catalog_revision = 0);

/// A copy of a group's options for an optimizer with these defaults. A c10::Error that says what to give instead if
/// they are torch's, another rule's, or of another version of the rule.
std::unique_ptr<Options> options_like(const Options& defaults,
                                      const torch::optim::OptimizerOptions& given);

/// Those of a group of an optimizer of several rules. A c10::Error if they name no rule.
const Options& options_with_rule(const torch::optim::OptimizerParamGroup& group);

}  // namespace jitstep
