// The values of a rule's options and of the options common to all rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

struct OptionLayout;
struct PackedOption;

/// Option values, initially the manifest's defaults. A rule's own option hides the common option of the same name.
class JITSTEP_API OptionValues {
 public:
  /// All options have their defaults. The manifests must outlive this object.
  OptionValues(const Manifest& rule, const Manifest& gradient);
  /// Options of a rule of this catalog as it is now. An unknown rule throws an Error.
  explicit OptionValues(const std::string& rule, const Catalog& catalog = default_catalog());

  /// The rule's manifest.
  const Manifest& rule() const;
  /// The catalog that defines the rule and the names of codecs.
  const Catalog& catalog() const { return catalog_ ? *catalog_ : default_catalog(); }

  /// The options that can be set: the rule's numbers and flags in manifest order, then the common ones.
  std::vector<std::string> names() const;
  /// The declaration of an option. An unknown name throws an Error that lists the known names.
  const Option& declaration(std::string_view name) const;

  /// The value, or the default if it was not set. An unknown name throws an Error.
  Value get(std::string_view name) const;
  /// Sets a value. A value of the wrong type throws an Error. validate() checks ranges.
  void set(std::string_view name, const Value& value);
  /// The options that differ from their defaults, in the order of names().
  std::vector<std::string> changed() const;

  /// Replaces each null number that is declared with `at construction: OPTION` by that option's value. The front end
  /// does so when it adds a parameter group. Call it once, before the first step.
  void construct();

  /// Throws an OptionError if a number is out of range, and an Error if the rule refuses the combination of options.
  void validate() const;
  /// Throws an OptionError for an integer out of range, by which `prepare` may divide, and for an invalid null element.
  void validate_integers() const;
  /// Throws an Error if the rule does not support a parameter of these sizes under these options. A scalar has the size
  /// 1.
  void validate_for(const std::vector<std::int64_t>& sizes) const;
  /// The same, if only the number of dimensions is known. Each size counts as 4096.
  void validate_dims(int dims) const;
  /// Throws an Error if a `List` is not empty and has fewer numbers than a group has parameters.
  void validate_lists(std::size_t parameters) const;

  /// The rule's flags for a parameter of these sizes, including lifted ones, for KernelSpec::flags. A scalar has the
  /// size 1.
  NamedValues flags_for(const std::vector<std::int64_t>& sizes) const;
  /// The same, if only the number of dimensions is known. Each size counts as 4096.
  NamedValues flags(int dims = 2) const;
  /// True if a parameter of `dims` dimensions may have these flags. Flags that depend on its sizes are not compared.
  bool may_have_flags(const NamedValues& flags, int dims) const;
  /// Flags of the common options, for KernelSpec::gradient_flags.
  NamedValues gradient_flags() const;
  /// True if both have the same rule, and the same flags and matrices for all sizes, including common flags. False if a
  /// number has changed that a condition over sizes may read.
  bool same_flags(const OptionValues& other) const;
  /// HyperParams::hyper, with all kMaxHyper numbers.
  std::vector<double> hyper() const;
  /// Hyperparameters of step `t` (from 1) for kernels with these flags. Does not compare flags with a kernel's, as
  /// Plan::at_step does.
  HyperParams at_step(std::int64_t t, std::uint64_t seed = 0) const;
  /// The value of a slot or of auxiliary state before step 1. `parameter` is an index into lists. An empty list means 0
  /// everywhere. A list that is too short throws an Error.
  double initial(const Initial& initial, std::size_t parameter = 0) const;

  /// True for the same rule and values.
  bool operator==(const OptionValues& other) const;

  /// All values in one array, and its layout (jit/manifest/option_layout.h).
  const OptionLayout& layout() const { return *layout_; }
  const std::vector<double>& packed() const { return packed_; }
  void set_packed(const std::vector<double>& values) { packed_ = values; }

 private:
  OptionValues(const std::string& rule, std::shared_ptr<const Catalog> snapshot);
  const PackedOption& find(std::string_view name) const;
  using Sizes = std::vector<std::int64_t>;
  void check_ranges(bool only_integers) const;
  void refuse(const Sizes& sizes, bool by_sizes) const;
  Value value_in(const Manifest& manifest, std::string_view name, const Sizes& sizes) const;
  bool holds(const Expression& condition, const Manifest& manifest, const Sizes& sizes) const;
  NamedValues flags_of(const Manifest& manifest, const Sizes& sizes) const;
  bool depends_on_sizes(const Expression& condition, bool or_on_dims) const;
  bool depends_on_sizes(const Option& flag) const;
  bool has_sized_conditions() const;
  bool same_dependent_values(const OptionValues& other) const;

  std::shared_ptr<const Catalog> catalog_;  // a snapshot; empty: the default catalog
  std::shared_ptr<const OptionLayout> layout_;
  std::vector<double> packed_;
};

}  // namespace jitstep::jit
