// Finds options that a rule declares and does not use.
#pragma once

#include <jitstep/jit/manifest.h>
#include <jitstep/jit/template_store.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// Options whose names occur only once in the rule's file and its includes, in their declarations. None for a rule with
/// host transforms, which read options in C++. `store` has the file.
std::vector<std::string> unused_options(const jit::Manifest& rule, const jit::TemplateStore& store);

}  // namespace jitstep::tool::check
