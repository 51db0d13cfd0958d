// The options of an optimizer: those of its rule, those common to all rules, and the formats. jitstep generates the
// typed classes of the built-in rules into rules.h from the rules' manifests.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jitstep/cast_guard.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep {

/// Base class of all options. An option is set if the program called its setter or if its value differs from the
/// default. A parameter group inherits options that are not set from the optimizer's defaults.
///
/// This class has no data members, so members of derived classes start at the same offset as in torch's own classes. A
/// class whose name torch has too (Adam, AdamW, SGD, RMSprop, Adagrad) stores torch's numbers there, in torch's order.
/// Writing through `static_cast<torch::optim::AdamOptions&>` therefore sets the option. Every other class starts with a
/// CastGuard.
class JITSTEP_API Options : public torch::optim::OptimizerOptions {
 public:
  /// The name of the rule. Empty for GenericOptions that are not bound to a rule yet.
  const std::string& rule() const { return common().rule; }
  /// The catalog that defines the rule and the names of codecs: the default catalog, or its snapshot once an optimizer
  /// uses the options.
  const jit::Catalog& catalog() const {
    return common().catalog ? *common().catalog : jit::default_catalog();
  }
  void set_catalog(const jit::Catalog& catalog) { common().catalog = catalog.snapshot(); }
  /// The manifest of the rule.
  const jit::Manifest& manifest() const { return catalog().rule(rule()); }

  // ---- options by name. An unknown name throws a c10::Error that lists the known names.

  /// Names of the rule's options in manifest order, then of the common options. Empty without a rule.
  std::vector<std::string> names() const;
  jit::Value get(const std::string& name) const;
  /// Sets a value and marks the option as set. A value of the wrong type throws a c10::Error.
  void put(const std::string& name, const jit::Value& value);
  bool is_set(const std::string& name) const;

  /// All values, as src/jit uses them. Does not validate them. Throws a jit::Error if this is a generated class and the
  /// rule's file declares other options than it was generated for.
  jit::OptionValues values() const;
  /// Sets all options. `values` must belong to the same rule.
  void assign(const jit::OptionValues& values);

  /// Resolves options that are null and declared with `at construction:` to their value. Options that are not null
  /// stay.
  void construct();

  /// Copies every option that is not set here from `defaults`, including formats. `defaults` must have the same rule.
  void inherit(const Options& defaults);

  // ---- formats

  /// The formats of state and weights. Unset formats are inherited.
  const jit::Formats& formats() const { return common().formats; }
  /// True if an optimizer with these defaults tunes its kernels while it steps. See Optimizer::step.
  bool tunes() const { return common().tunes; }
  /// Formats for modification. An optimizer sees changes in its next step.
  jit::Formats& edit_formats();
  std::uint64_t seed() const { return formats().seed.value_or(0); }

  // ---- for the optimizer

  /// Throws a c10::Error if the program wrote to these options through a cast to an options class of torch that does
  /// not match.
  void check_intact() const;

  // ---- torch's

  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override = 0;
  /// The same, as Options.
  std::unique_ptr<Options> copy() const;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;

  /// True for the same rule, values and formats.
  friend bool operator==(const Options& a, const Options& b) { return a.equals(b); }

 protected:
  /// Data that the options of every rule have.
  struct Common {
    std::string rule;
    std::shared_ptr<const jit::Catalog> catalog = {};
    jit::Formats formats = {};
    std::vector<bool> set = {};  // per option; options beyond the end are not set
    bool tunes = false;
  };
  /// Derived classes store it after their own numbers.
  virtual const Common& common() const = 0;
  Common& common() { return const_cast<Common&>(std::as_const(*this).common()); }
  /// The CastGuard at the start of the object, or null if the class has none.
  virtual const CastGuard* guard() const { return nullptr; }

  /// Writes all values into an array that has the rule's default values. jit/manifest/option_layout.h has its layout.
  virtual void pack(std::vector<double>& to) const = 0;
  /// Sets all values from such an array. Does not mark options as set.
  virtual void unpack(const std::vector<double>& from) = 0;
  /// The layout that a generated class was generated for, as a text. Null: the layout of the rule's file.
  virtual const char* layout() const { return nullptr; }

  /// Marks an option as set. `option`: its index in names().
  void mark(std::size_t option);
  void rename(std::string rule) { common().rule = std::move(rule); }
  void set_tunes(bool on) { common().tunes = on; }
  /// Parses a codec name or JSON. Throws a c10::Error for any other text. The optimizer checks the codec's options.
  static jit::CodecChoice read_codec(const std::string& text);

 private:
  friend class GroupRecord;

  jit::OptionValues defaults() const { return jit::OptionValues(rule(), catalog()); }
  bool equals(const Options& other) const;
  bool is_marked(std::size_t option) const;
};

/// Adds chainable setters for the formats. Derived is the options class itself.
template <class Derived>
class FormatSetters : public Options {
 public:
  /// Codec of all slots: a name, or JSON such as {"codec": "int8", "block": 128}. Slots with a codec of their own in
  /// the rule's file keep it.
  Derived& state(const std::string& codec) {
    edit_formats().state = Options::read_codec(codec);
    return self();
  }
  /// Codec of one slot, by the slot's name ("v") or by torch's name ("exp_avg_sq").
  Derived& state(const std::string& slot, const std::string& codec) {
    edit_formats().slots[slot] = Options::read_codec(codec);
    return self();
  }
  /// Weight format: "native", "stochastic", ...
  Derived& weights(const std::string& format) {
    edit_formats().weights = format;
    return self();
  }
  /// Seed of all random bits. Default: 0.
  Derived& seed(std::uint64_t seed) {
    edit_formats().seed = seed;
    return self();
  }
  /// Parameters with fewer elements get fp32 state instead of a codec with scales of blocks, rows or columns. Default:
  /// the rule's, else 4096.
  Derived& min_quantized_size(std::int64_t elements) {
    edit_formats().min_quantized_size = elements;
    return self();
  }
  /// Makes an optimizer with these defaults tune its kernels while it steps. See Optimizer::step. Checkpoints do not
  /// include this setting.
  Derived& tune(bool on = true) {
    Options::set_tunes(on);
    return self();
  }
  using Options::seed;

  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

/// Options of a built-in rule. Derived has a typed member for each option and lists them in fields(). The generated
/// rules.cpp instantiates this template.
template <class Derived>
class JITSTEP_API TypedOptions : public FormatSetters<Derived> {
 protected:
  void pack(std::vector<double>& to) const override;
  void unpack(const std::vector<double>& from) override;
};

/// Options of any rule, by name. Use them for rules from load_rule().
class JITSTEP_API GenericOptions : public FormatSetters<GenericOptions> {
 public:
  GenericOptions() = default;
  /// Sets the learning rate, which nearly every rule has.
  explicit GenericOptions(double lr) : GenericOptions() { set("lr", lr); }

  /// Sets an option by name. The optimizer's constructor checks name and type.
  GenericOptions& set(const std::string& name, const jit::Value& value);
  GenericOptions& maximize(bool on) { return set("maximize", on); }
  GenericOptions& max_grad_norm(double norm) { return set("max_grad_norm", norm); }
  GenericOptions& grad_scale(double scale) { return set("grad_scale", scale); }
  GenericOptions& centralization(double share) { return set("centralization", share); }

  /// Sets the rule and checks all options that were set before. Throws a jit::Error for an unknown name or a wrong
  /// type. Call it only once.
  void bind(const std::string& rule, const jit::Catalog& catalog = jit::default_catalog());
  /// The options that were set, by name.
  const jit::NamedValues& given() const { return given_; }

 protected:
  void pack(std::vector<double>& to) const override { to = values_->packed(); }
  void unpack(const std::vector<double>& from) override { values_->set_packed(from); }
  const Common& common() const override { return common_; }
  const CastGuard* guard() const override { return &guard_; }

 private:
  CastGuard guard_{CastGuard::Finds::nan};
  Common common_ = {};
  jit::NamedValues given_;
  std::optional<jit::OptionValues> values_;  // empty until bind()
};

/// Default options of a rule: of the generated class for a built-in rule, else GenericOptions. An unknown rule throws a
/// jit::Error that lists the rules.
JITSTEP_API std::unique_ptr<Options> make_options(
    const std::string& rule, const jit::Catalog& catalog = jit::default_catalog());

/// The same with the values and formats of `given`. Throws a jit::Error for an option that the rule does not have.
JITSTEP_API std::unique_ptr<Options> make_options(
    const std::string& rule, const GenericOptions& given,
    const jit::Catalog& catalog = jit::default_catalog());

}  // namespace jitstep
