// The data of a rule that its generated classes need: names, options, and their C++ types and values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jit/manifest/option_layout.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::generated {

/// The input for one rule's classes.
struct Rule {
  const jit::Manifest& manifest;
  std::string name;  // of the class
  jit::OptionLayout layout;
  std::vector<const jit::Option*> options;  // of the layout
  bool has_lr = false;
  bool of_matrices = false;  // it accepts matrices only

  /// True if torch has an options class of this name.
  bool is_torchs() const;
  /// The options in the order of the class's members: torch's options in torch's order, then the others. Throws an
  /// Error if one of torch's is missing or has another type.
  std::vector<const jit::Option*> members() const;
};

Rule rule_of(const jit::Manifest& manifest, const jit::Catalog& catalog);

std::string type_of(const jit::Option& option);

/// The default as a C++ initializer.
std::string initializer(const jit::Option& option);

/// The documentation of an option: range, default, note.
std::string remark(const jit::Option& option);

/// Breaks text into `/// ` lines of at most 100 columns.
std::string comment(const std::string& text, const std::string& indent);

}  // namespace jitstep::generated
