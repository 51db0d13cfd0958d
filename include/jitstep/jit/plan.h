// A plan: the completed spec of a kernel, its manifests, and its numbered and ordered reductions and auxiliary state.
// Everything that makes or runs a kernel starts from a plan.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/spec.h"

namespace jitstep::jit {

class OptionValues;

/// Components of a kernel, by index. Reductions and auxiliary state are numbered component by component.
enum Component : int {
  kGradientComponent,    // gradient options, common to all rules
  kRuleComponent,        // the rule
  kFirstCodecComponent,  // the codec of slot 0, of slot 1, ...
};
/// The component of a slot's codec.
constexpr int codec_component(int slot) { return kFirstCodecComponent + slot; }

/// A reduction, as a kernel numbers it.
struct JITSTEP_API ResolvedReduction {
  int number = -1;  // among active ones, in Args::reductions; -1: its condition does not hold
  int component = kGradientComponent;
  int local = 0;  // index within its component
  int pass = -1;  // -1: its condition does not hold
  std::string name;
  Reduction::Op op = Reduction::Op::sum;
  Domain domain;
  int reduction_layout = 0;  // layout of its terms: TensorRecord::reduction_layouts
  int terms = 1;
  bool is_global = false;   // domain `all`
  bool has_source = false;  // reduces the entries of an earlier reduction
  Domain source_domain = {};
  int source_number = -1;     // of that reduction
  int coefficient_bytes = 0;  // of one entry

  /// True if its condition holds.
  bool active() const { return pass >= 0; }
};

/// A field of auxiliary state, as a kernel numbers it in TensorRecord::aux.
struct JITSTEP_API ResolvedAuxState {
  int number = 0;
  int component = kGradientComponent;
  std::string name;
  std::string torch_name;
  std::string key;  // unique in the kernel: "row" of the rule, "v.scale" of a slot's codec
  Domain domain;
  int bytes = 4;  // of one entry
  bool is_double = false;
  bool of_elements = false;  // elements read the value of their own entry
  /// A matrix of state: entries [rows][columns], one buffer, which kernels do not use. Its dimensions in the parameter.
  struct Sides {
    int rows = 0, columns = 0;
    Initial largest = {};  // side
    bool has_largest = false;
  };
  std::optional<Sides> matrix = {};
  Initial initial = {};
  int index = 0;  // among the rule's fields of domain `all`, in SharedState::buffers
};

/// A complete and checked kernel.
struct JITSTEP_API Plan {
  KernelSpec spec;                          // complete
  std::shared_ptr<const Catalog> catalog;   // a snapshot: what the names in the spec mean
  std::string name;                         // readable, such as "lamb_int8_fp32_bfloat16"
  std::vector<const Manifest*> components;  // by index; null: a slot that is not stored
  const Manifest* weights = nullptr;
  /// The sizes of the parameter for which it was resolved, one per dimension. Empty: unknown. Parameters of other sizes
  /// may have the same kernel.
  std::vector<std::int64_t> sizes;
  std::vector<ResolvedReduction> reductions;   // component by component, including inactive ones
  std::vector<ResolvedAuxState> aux_state;     // per tensor, by number
  std::vector<ResolvedAuxState> shared_state;  // of domain `all`; numbered after aux_state
  int passes = 0;  // passes of reductions, before the launch that updates

  /// The first pass after all reductions that `update_state` reads. New state exists from it on.
  int slots_known = 0;
  /// Each host transform runs directly before this pass, or after the last pass. Ascending.
  std::vector<int> transform_passes;
  /// The number of host transforms that run before `update_state_after`. 0: the rule has no such function.
  int state_section = 0;
  /// The first pass after all reductions that `update_state_after` reads. -1: the rule has no host transform.
  int slots_known_after = -1;

  /// The number of transforms that run before a pass. At most transform_passes.size().
  int section_of(int pass) const;

  /// True for the same spec and the same revisions of all files.
  bool is_same_kernel(const Plan& other) const {
    return spec == other.spec && components == other.components;
  }

  /// The components that every kernel has.
  const Manifest& gradient() const { return *components[kGradientComponent]; }
  const Manifest& rule() const { return *components[kRuleComponent]; }
  /// The codec of a slot. Null if the slot is not stored.
  const Manifest* codec(int slot) const {
    return components[static_cast<std::size_t>(codec_component(slot))];
  }
  /// The compile-time constants of an existing component: a rule's flags, or a codec's options.
  const NamedValues& flags(int component) const;
  /// Elements of a slot that share a scale. 1 without blocks or without the slot.
  int block(int slot) const;

  /// Hyperparameters of step `t`, counted from 1, for tensors with these options. `seed` selects the random bits of
  /// stochastic rounding. Throws an Error for options out of range, and for options that need another kernel because a
  /// flag, or a number that enables a feature, has changed since the plan was made.
  HyperParams at_step(const OptionValues& options, std::int64_t t, std::uint64_t seed = 0) const;
};

/// Completes a spec, checks names, types, dtypes, slots and limits, and plans the kernel. Throws an Error that
/// says what is wrong and what to choose instead.
JITSTEP_API Plan resolve(const KernelSpec& spec, const Catalog& catalog = default_catalog());

/// The kernel of float32 arrays with these options. Every slot uses the codec `state`, unless the rule's file declares
/// a codec for the slot. Throws an Error for unsuitable options or codecs.
JITSTEP_API Plan resolve(const OptionValues& options, const CodecChoice& state = {.name = "fp32"});

/// The properties of a parameter that formats and flags depend on. Of a parameter of which this process has a part,
/// they are those of the whole parameter.
struct ParameterKind {
  Dtype dtype = Dtype::float32;
  int dims = 1;
  std::int64_t elements = 0;
  /// One size per dimension. Empty if the sizes are unknown, which counts as large. A vector has `elements`.
  std::vector<std::int64_t> sizes = {};

  auto operator<=>(const ParameterKind&) const = default;
};

/// The kernel of a parameter whose gradient has the same dtype. Throws an Error for formats that cannot be combined. A
/// format that does not support the parameter is replaced:
/// - State of float64 parameters is fp32, which is float64 then.
/// - State of small parameters is fp32 instead of a codec with scales of blocks, rows or columns.
/// - A codec with values per row and column names another codec. Vectors use that one. So do tensors whose fp32 state
///   would be smaller, unless min_quantized_size is 0.
/// - Weights are native if the weight format does not list the dtype.
JITSTEP_API Plan resolve(const OptionValues& values, const Formats& formats,
                         const ParameterKind& parameter);

}  // namespace jitstep::jit
