// The options of an optimizer: a rule's own, those common to all rules, and the formats. The typed
// classes of the shipped rules are generated into rules.h from the rules' manifests.
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
#include "jitstep/jit/formats.h"
#include "jitstep/jit/option_values.h"

namespace jitstep {

/// Base of all options. Each option has a place in names(); one counts as set if its setter was
/// called or its value is not the default. What a parameter group does not set, it takes from the
/// optimizer's defaults.
///
/// It has no members: those of a derived class begin where those of torch's own classes do. A class of a name that torch
/// has as well (Adam, AdamW, SGD, RMSprop, Adagrad) has torch's numbers there in torch's order, so that what is written
/// through `static_cast<torch::optim::AdamOptions&>` is written to the option; any other begins with a CastGuard.
class JITSTEP_API Options : public torch::optim::OptimizerOptions {
 public:
  /// The rule these are options of; empty for GenericOptions that no optimizer has taken yet.
  const std::string& rule() const { return common().rule; }
  /// The revision of the catalog that rule and codecs are taken from; 0, until an optimizer has taken the
  /// options: the newest.
  int catalog_revision() const { return common().catalog_revision; }
  void set_catalog_revision(int catalog_revision) { common().catalog_revision = catalog_revision; }
  /// What the rule's file declares in that revision.
  const jit::Manifest& manifest() const;

  // ---- options by place and by name; an unknown name is a c10::Error that lists the known ones

  /// The rule's options in manifest order, then the common ones.
  virtual const std::vector<std::string>& names() const = 0;
  virtual jit::Value get(std::size_t option) const = 0;
  /// Sets a value of the right type and marks it as set.
  virtual void put(std::size_t option, const jit::Value& value) = 0;

  /// The same by name.
  jit::Value get(const std::string& name) const { return get(index(name)); }
  void put(const std::string& name, const jit::Value& value);
  bool is_set(std::size_t option) const;
  bool is_set(const std::string& name) const { return is_set(index(name)); }

  /// All values in the words of src/jit, not validated.
  jit::OptionValues values() const;
  /// Brings values of this rule up to date; those that are the same are not touched.
  void update(jit::OptionValues& values) const;
  void assign(const jit::OptionValues& values);

  /// Gives what is null and declared with `at construction:` its value, unless it has one.
  void construct();

  /// Takes over what is not set here, formats included.
  void inherit(const Options& defaults);

  // ---- formats

  /// How state and weights are kept; what is not set comes from elsewhere.
  const jit::Formats& formats() const { return common().formats; }
  /// Whether an optimizer with these defaults tries in its steps how its kernels run best: Optimizer::step.
  bool tunes() const { return common().tunes; }
  /// Formats to be changed.
  jit::Formats& edit_formats();
  std::uint64_t seed() const { return formats().seed.value_or(0); }

  // ---- for the optimizer

  /// Everything as numbers, for a cheap comparison in every step: equal numbers, equal options.
  virtual void snapshot(std::vector<double>& numbers) const = 0;
  /// A c10::Error if somebody has written to these through a cast to a class of torch's that they do not agree with.
  void check_unharmed() const;

  // ---- torch's

  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override = 0;
  /// The same, as what it is.
  std::unique_ptr<Options> copy() const;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;

  /// Same rule, values and formats.
  friend bool operator==(const Options& a, const Options& b) { return a.equals(b); }

 protected:
  /// What options of every rule have.
  struct Common {
    std::string rule;
    int catalog_revision = 0;
    jit::Formats formats = {};
    std::uint64_t formats_version = 0;
    std::vector<bool> set = {};  // [option]; those behind the end are not
    bool tunes = false;
  };
  /// A derived class holds it behind its own numbers.
  virtual const Common& common() const = 0;
  Common& common() { return const_cast<Common&>(std::as_const(*this).common()); }
  /// Its first member, if that is one.
  virtual const CastGuard* guard() const { return nullptr; }

  /// Counts an option as set.
  void mark(std::size_t option) { set_mark(option, true); }
  /// Equal for equal formats only; for snapshot().
  double formats_version() const { return static_cast<double>(common().formats_version); }
  void rename(std::string rule) { common().rule = std::move(rule); }
  void set_tunes(bool on) { common().tunes = on; }
  /// Never the same twice.
  static std::uint64_t next_version();
  /// A name or JSON; a c10::Error if it is neither.
  static jit::CodecChoice read_codec(const std::string& text);

 private:
  std::size_t index(const std::string& name) const;
  jit::OptionValues defaults() const;
  bool equals(const Options& other) const;
  bool is_marked(std::size_t option) const;
  void set_mark(std::size_t option, bool on);
};

/// Adds the chainable setters of the formats; Derived is the options' own class.
template <class Derived>
class FormatSetters : public Options {
 public:
  /// The codec of all slots: a name, or JSON such as {"codec": "int8", "block": 128}.
  Derived& state(const std::string& codec) {
    edit_formats().state = Options::read_codec(codec);
    return self();
  }
  /// The codec of one slot, by its name ("v") or torch's ("exp_avg_sq").
  Derived& state(const std::string& slot, const std::string& codec) {
    edit_formats().slots[slot] = Options::read_codec(codec);
    return self();
  }
  /// How the parameters are kept: "native", "stochastic", ...
  Derived& weights(const std::string& format) {
    edit_formats().weights = format;
    return self();
  }
  /// Seed of all random bits.
  Derived& seed(std::uint64_t seed) {
    edit_formats().seed = seed;
    return self();
  }
  /// Parameters with fewer elements keep fp32 state where a block-scaled codec was chosen.
  Derived& min_quantized_size(std::int64_t elements) {
    edit_formats().min_quantized_size = elements;
    return self();
  }
  /// An optimizer that is made with these as its defaults finds out in its steps how its kernels run best on this
  /// machine: Optimizer::step. No part of an archive.
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

/// One option of a typed class: its name, and the member that holds its value.
template <class Owner, class T>
struct OptionField {
  const char* name;
  T Owner::*value;
};
/// Takes both types from the member.
template <class Owner, class T>
OptionField(const char*, T Owner::*) -> OptionField<Owner, T>;

/// The options of a shipped rule: Derived has a typed member for each, and lists them in fields().
/// Instantiated in the generated rules.cpp.
template <class Derived>
class JITSTEP_API TypedOptions : public FormatSetters<Derived> {
 public:
  /// By name, as all options.
  using Options::get;
  using Options::put;
  const std::vector<std::string>& names() const override;
  jit::Value get(std::size_t option) const override;
  void put(std::size_t option, const jit::Value& value) override;
  void snapshot(std::vector<double>& numbers) const override;
};

/// Options of any rule by name, a user's own included.
class JITSTEP_API GenericOptions : public FormatSetters<GenericOptions> {
 public:
  GenericOptions() = default;
  /// With a learning rate, which nearly every rule has.
  explicit GenericOptions(double lr) : GenericOptions() { set("lr", lr); }

  /// Sets an option by name; name and type are checked when the optimizer is made.
  GenericOptions& set(const std::string& name, jit::Value value);
  GenericOptions& maximize(bool on) { return set("maximize", on); }
  GenericOptions& max_grad_norm(double norm) { return set("max_grad_norm", norm); }
  GenericOptions& grad_scale(double scale) { return set("grad_scale", scale); }
  GenericOptions& centralization(double share) { return set("centralization", share); }

  /// Names the rule and checks everything set so far against it: a jit::Error for an unknown name
  /// or a wrong type. Once only.
  void bind(const std::string& rule, int catalog_revision = 0);
  /// What was set before the rule was named, by name.
  const jit::NamedValues& given() const { return given_; }

  /// By name, as all options.
  using Options::get;
  using Options::put;
  const std::vector<std::string>& names() const override { return names_; }
  jit::Value get(std::size_t option) const override { return values_->get(names_.at(option)); }
  void put(std::size_t option, const jit::Value& value) override;
  void snapshot(std::vector<double>& numbers) const override;

 protected:
  const Common& common() const override { return common_; }
  const CastGuard* guard() const override { return &guard_; }

 private:
  CastGuard guard_{CastGuard::Finds::nan};
  Common common_ = {};
  jit::NamedValues given_;
  std::optional<jit::OptionValues> values_;  // once the rule is named
  std::vector<std::string> names_;           // of these
  std::uint64_t version_ = 0;                // another one for other values
};

/// Options of a rule with everything unset: of the generated class for a shipped rule, else
/// generic, and of the newest revision unless one is given. A jit::Error lists the rules if there is no
/// such one.
JITSTEP_API std::unique_ptr<Options> make_options(const std::string& rule,
                                                  int catalog_revision = 0);

/// make_options with what `given` says: a jit::Error for what the rule does not have.
JITSTEP_API std::unique_ptr<Options> make_options(const std::string& rule,
                                                  const GenericOptions& given,
                                                  int catalog_revision = 0);

/// Whether the rule of this name is the shipped one, whose classes are generated: a folder of
/// JITSTEP_TEMPLATES may hide it behind another of its name.
JITSTEP_API bool is_shipped(const std::string& rule);

/// The generated options class of a shipped rule, or null. Defined in the generated rules.cpp.
JITSTEP_API std::unique_ptr<Options> make_shipped_options(const std::string& rule);

}  // namespace jitstep
