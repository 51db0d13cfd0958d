// A rule as its classes are written from it: names, options, and their C++.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::generated {

/// Everything one rule's classes are written from.
struct Rule {
  const jit::Manifest& manifest;
  std::string name;  // of the class
  std::vector<const jit::Option*> options;
  bool has_lr = false;
  bool of_matrices = false;  // it refuses everything else

  /// Whether torch has a class of this name.
  bool is_torchs() const;
  /// The options in the order of the members: torch's first, in its order; the others in ours. An Error if one of
  /// torch's is not there.
  std::vector<const jit::Option*> members() const;
};

Rule rule_of(const jit::Manifest& manifest, const jit::Catalog& catalog);

std::string type_of(const jit::Option& option);

/// The default as a C++ initializer.
std::string initializer(const jit::Option& option);

/// "a; b: c" with the parts that are there.
std::string remark(const jit::Option& option);

/// Breaks words into `/// ` lines of at most 100 columns.
std::string comment(const std::string& words, const std::string& indent);

}  // namespace jitstep::generated
