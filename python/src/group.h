// The options and formats of one parameter group, read from its dict.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exchange.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::python {

namespace nb = nanobind;

/// The group of one rule. A dict is read again only where its values are other objects than before, or may have
/// changed in place (tensors, lists).
class Group {
 public:
  /// Options have their defaults until refresh() is called. An unknown rule throws an Error.
  explicit Group(const std::string& rule);

  /// Reads the dict of a parameter group. `check`: also checks ranges and combinations, as torch does when a group is
  /// made; a scheduler may then leave the ranges. Throws an Error for invalid values, and changes nothing then.
  void refresh(const nb::dict& group, bool check = false);

  /// The values that replace options that are None when a group is made: {"initial_lr": 0.001}. The group's key
  /// `constructed` stores them.
  nb::dict constructed() const;

  /// The number of the group's first parameter among those of all groups.
  int first = 0;

  const std::string& rule() const { return values_.rule().name; }
  const jit::OptionValues& values() const { return values_; }
  const jit::Formats& formats() const { return formats_; }
  /// Hyperparameters of a step, without its number.
  const HyperParams& hyper_params() const { return hyper_params_; }
  /// The same for kernels on this device. They read the lr if it was left on a GPU. Throws an Error if that is another
  /// device.
  HyperParams hyper_params_on(const Device& device) const;
  /// From the next refresh() on, an lr that is a tensor on a GPU is not read by the host, or is.
  void leave_lr(bool on) { leaves_lr_ = on; }
  /// Increases with each change that needs other plans.
  int revision() const { return revision_; }

  /// The plan for parameters of this dtype and these sizes, from a cache. The sizes of a shard's parameter are those of
  /// the whole parameter. Throws an Error for a parameter that the rule does not support.
  std::shared_ptr<const jit::Plan> plan(jit::Dtype dtype, const std::vector<std::int64_t>& sizes);

  /// For Python's garbage collector.
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Key {
    std::string name;
    nb::object interned;
    nb::object seen;            // the last value in the dict, may be null
    const jit::Option* option;  // null for a format
    nb::object copy = {};       // of a format that is a dict
  };
  void add_key(const std::string& name, const jit::Option* option);
  // What may differ from the last dict.
  struct Changes {
    bool values, formats;
  };
  Changes changes(const nb::dict& group) const;
  jit::OptionValues read_options(const nb::dict& group, bool keeps_lr) const;
  std::optional<TensorView> lr_on_gpu(const nb::dict& group) const;
  void remember(const nb::dict& group);

  jit::OptionValues values_, defaults_;
  jit::Formats formats_;
  HyperParams hyper_params_{};
  bool leaves_lr_ = false;
  std::optional<TensorView> lr_;  // left on a GPU
  std::vector<Key> keys_;
  bool known_ = false;
  bool decoupled_ = false;  // the group's decoupled_weight_decay, for rules without this option
  bool capturable_ = false;
  int revision_ = 0;
  std::map<std::pair<jit::Dtype, std::vector<std::int64_t>>, std::shared_ptr<const jit::Plan>>
      plans_;
};

}  // namespace jitstep::python
