// The options of a rule together with those common to all rules, and their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Option values, by default the manifest's. A rule's own option hides the common one of the same
/// name. Holds references to manifests, which must outlive it (those of a Catalog do).
class JITSTEP_API OptionValues {
 public:
  /// All at their defaults.
  OptionValues(const Manifest& rule, const Manifest& gradient);
  /// Those of the rule as it is in a revision of the catalog, by default as it is now.
  explicit OptionValues(const std::string& rule, const Catalog& catalog = default_catalog(),
                        int catalog_revision = 0);

  /// The rule these are options of.
  const Manifest& rule() const { return *rule_; }
  /// The revision of the catalog that codecs are taken from as well; 0: always the newest.
  int catalog_revision() const { return catalog_revision_; }

  /// What can be set: the rule's numbers and flags in manifest order, then the common ones.
  std::vector<std::string> names() const;
  /// How an option is declared. An unknown name is an Error that lists the known ones.
  const Option& declaration(std::string_view name) const;

  /// The value, the default if it was never set. An unknown name is an Error.
  const Value& get(std::string_view name) const;
  /// Sets a value of the right type, else throws an Error. Ranges are checked by validate().
  void set(std::string_view name, Value value);
  /// Everything set to other than its default, in the order of names().
  std::vector<std::string> changed() const;

  /// Gives each number that is null and declared with `at construction: OPTION` that option's value, for
  /// good: what torch's front end does when a parameter group is made. Do it once, before the first step.
  void construct();

  /// Throws an Error, one sentence, if a number is out of range or the rule refuses the whole.
  void validate() const;
  /// The same if the rule refuses parameters of this number of dimensions under these options.
  void validate_dims(int dims) const;

  /// The rule's flags, lifted ones included: KernelSpec::flags. `dims` is the parameter's number of
  /// dimensions, for rules with a flag lifted from it.
  NamedValues flags(int dims = 2) const;
  /// The same of the options common to all rules: KernelSpec::gradient_flags.
  NamedValues gradient_flags() const;
  /// Whether both, of one rule, have the same flags for every number of dimensions, common ones included.
  bool same_flags(const OptionValues& other) const;
  /// HyperParams::hyper, all kMaxHyper of them.
  std::vector<double> hyper() const;
  /// The numbers of step `t` for kernels that have these options' flags; Plan::at_step checks that.
  HyperParams at_step(std::int64_t t, std::uint64_t seed = 0) const;
  /// What a slot or memory field of the rule holds before step 1; `parameter` indexes lists, of which an
  /// empty one is 0 everywhere and one that is too short an Error.
  double initial(const Initial& initial, std::size_t parameter = 0) const;

  bool operator==(const OptionValues& other) const = default;

 private:
  void refuse(int dims, bool by_dims) const;
  const Manifest* owner(std::string_view name) const;
  std::size_t location(const Manifest& manifest, std::string_view name) const;
  const Value* values_of(const Manifest& manifest) const;
  Value value_in(const Manifest& manifest, std::string_view name, int dims) const;
  bool holds(const Expression& condition, const Manifest& manifest, int dims) const;
  NamedValues flags_of(const Manifest& manifest, int dims) const;

  const Manifest* rule_;
  const Manifest* gradient_;
  int catalog_revision_ = 0;
  std::vector<Value> values_;  // the rule's, then the common ones; numbers before flags
  std::size_t own_ = 0;        // how many are the rule's
};

}  // namespace jitstep::jit
