// Conversion of a parameter group's options to the options class of its rule.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <string>

#include "jitstep/options.h"

namespace jitstep {

/// Like make_options, but throws c10::Error.
std::unique_ptr<Options> checked_options(const std::string& rule, const GenericOptions& given,
                                         const jit::Catalog& catalog = jit::default_catalog());

/// Copies a group's options for an optimizer with these defaults. Throws a c10::Error if the options are torch's,
/// another rule's, or of another version of the rule.
std::unique_ptr<Options> options_like(const Options& defaults,
                                      const torch::optim::OptimizerOptions& given);

/// The options of a group of an optimizer. Throws a c10::Error if a program has removed them, or has replaced them by
/// those of another library's optimizer.
const Options& checked_options_of(const torch::optim::OptimizerParamGroup& group);

/// The options of a group of an optimizer with several rules. Throws a c10::Error if the options name no rule.
const Options& options_with_rule(const torch::optim::OptimizerParamGroup& group);

}  // namespace jitstep
