// Where the values of a rule's options are stored: an array of doubles. It begins with HyperParams::hyper, flags
// follow, then lists. So kernels, snapshots and the generated option classes share one representation.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Values of all options. Null is null_number(), a flag is 0 or 1, a choice is its index. A list is its length and its
/// numbers, after all other values.
using PackedValues = std::vector<double>;

/// True if both have the same bits.
JITSTEP_API bool same_bits(const PackedValues& a, const PackedValues& b);

/// Null, as a number: a NaN that no arithmetic results in.
inline double null_number() { return std::bit_cast<double>(std::uint64_t{0x7ff800006e756c6c}); }
inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
inline bool is_null(double x) { return same_bits(x, null_number()); }

/// An option that a program can set.
struct JITSTEP_API PackedOption {
  const Option* option;
  std::size_t index;  // of its first double; of the first list, if it is a list
  int list = 0;       // its number among the lists

  /// Its value among those of all options.
  Value value(const PackedValues& all) const;
  /// Sets it. The value must have the option's type.
  void set(PackedValues& all, const Value& value) const;
};

/// The options of a rule and the common ones. Refers to their manifests. A common option whose name the rule uses is
/// none of them, and keeps its default.
struct JITSTEP_API OptionLayout {
  OptionLayout(const Manifest& rule, const Manifest& gradient);

  /// The rule's options, or the common ones.
  std::span<const PackedOption> options_of(const Manifest& manifest) const;
  /// The option of this name, or null.
  const PackedOption* find(std::string_view name) const;
  /// By index: the option, if other options, flags and initial values do not depend on its numbers. Else null.
  const std::vector<const Option*>& independent_numbers() const { return independent_; }
  /// Names, types and indices. Equal texts mean equal layouts.
  const std::string& text() const { return text_; }

  const Manifest& rule;
  const Manifest& gradient;
  std::vector<PackedOption> options = {};  // numbers before flags, the rule's first
  PackedValues defaults;

 private:
  void add(const Manifest& manifest, std::size_t first_number);
  std::vector<const Option*> find_independent() const;
  std::string make_text() const;

  std::size_t own_ = 0;  // number of the rule's options
  std::vector<const Option*> independent_;
  std::string text_;
};

}  // namespace jitstep::jit
