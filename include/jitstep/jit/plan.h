// A kernel resolved: the spec completed, the manifests it is made of, its reductions and memory numbered
// and ordered. Everything that makes or runs a kernel starts from here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/spec.h"

namespace jitstep::jit {

class OptionValues;

/// What a kernel is made of, by number: its reductions and memory are numbered part after part.
enum Component : int {
  kGradientComponent,    // the transforms common to all rules
  kRuleComponent,        // the rule
  kFirstCodecComponent,  // the codec of slot 0, of slot 1, ...
};
/// The part that is the codec of a slot.
constexpr int codec_component(int slot) { return kFirstCodecComponent + slot; }

/// A reduction as the kernel numbers it.
struct JITSTEP_API ResolvedReduction {
  int number = -1;  // of those that are taken: Args::reductions; -1: its condition does not hold
  int component = kGradientComponent;
  int local = 0;  // its number in its part
  int pass = -1;  // -1: its condition does not hold
  std::string name;
  Reduction::Op op = Reduction::Op::sum;
  Domain domain;
  int reduction_layout = 0;  // where its terms are walked: TensorRecord::spaces
  int terms = 1;
  bool is_global = false;   // domain `all`
  bool has_source = false;  // takes the entries of an earlier reduction
  Domain source_domain = {};
  int source_number = -1;     // of that reduction
  int coefficient_bytes = 0;  // of one entry

  /// Whether its condition holds.
  bool active() const { return pass >= 0; }
};

/// A field of memory as the kernel numbers it: TensorRecord::memory.
struct JITSTEP_API ResolvedAuxState {
  int number = 0;
  int component = kGradientComponent;
  std::string name;
  std::string torch_name;
  std::string key;  // unique in the kernel: "row" of the rule, "v.scale" of a slot's codec
  Domain domain;
  int bytes = 4;  // of one entry
  bool is_double = false;
  Initial initial = {};
  int index = 0;  // among the rule's fields of domain `all`: SharedState::halves
};

/// A kernel, complete and checked. Refers to manifests, which must outlive it (those of a Catalog live
/// as long as the catalog).
struct JITSTEP_API Plan {
  KernelSpec spec;   // with every flag and codec option given: equal for equal kernels
  std::string name;  // readable, such as "lamb_int8_fp32_bfloat16"
  std::vector<const Manifest*> components;  // by number; null: a slot that is left out
  const Manifest* weights = nullptr;
  std::vector<ResolvedReduction> reductions;   // part after part, those that are not taken included
  std::vector<ResolvedAuxState> aux_state;     // kept for each tensor, by number
  std::vector<ResolvedAuxState> shared_state;  // of domain `all`; numbered on
  int passes = 0;  // of the reductions: launches of sums before the last one
  int slots_known =
      0;  // first pass in which new state can be computed: after all reductions that `update_state` reads

  /// The parts that every kernel has.
  const Manifest& gradient() const { return *components[kGradientComponent]; }
  const Manifest& rule() const { return *components[kRuleComponent]; }
  /// The codec of a slot; null: the slot is left out.
  const Manifest* codec(int slot) const {
    return components[static_cast<std::size_t>(codec_component(slot))];
  }
  /// The constants of a part that is there: a rule's flags, a codec's options.
  const NamedValues& flags(int component) const;
  /// Elements of a slot that share a scale; 1 without blocks, or without the slot.
  int block(int slot) const;

  /// The numbers of step `t`, counted from 1, of tensors under these options. `seed`: of the random bits of
  /// formats that round at random. An Error for options out of range, and for those of another kernel: a
  /// flag, or a number that switches something on, was changed since the plan was made.
  HyperParams at_step(const OptionValues& options, std::int64_t t, std::uint64_t seed = 0) const;
};

/// Completes a spec, checks everything (names, types, dtypes, slots, limits) and plans it. Throws an
/// Error, one sentence.
JITSTEP_API Plan resolve(const KernelSpec& spec, const Catalog& catalog = default_catalog());

/// The kernel of float32 arrays under these options, every slot in one codec but those that the rule keeps
/// in a codec of their own. Throws an Error, one
/// sentence, if the options or the codec will not do.
JITSTEP_API Plan resolve(const OptionValues& options, const CodecChoice& state = {.name = "fp32"},
                         const Catalog& catalog = default_catalog());

}  // namespace jitstep::jit
