// What a template file declares about itself: options, slots, reductions, memory, formats.
// Plain data, filled by manifest_reader.h; templates/README.md explains the grammar.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/domain.h"
#include "jitstep/jit/dtype.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/expression.h"
#include "jitstep/jit/value.h"

namespace jitstep::jit {

/// The numbers an option accepts. Not finite ones are always refused.
struct JITSTEP_API Constraint {
  std::optional<double> low, high;
  bool above = false;    // low itself is refused
  bool below = false;    // high itself is refused
  bool integer = false;  // one that an int holds
  bool power_of_two = false;

  /// Whether a number is in the range; never if it is not finite.
  bool accepts(double x) const;
  /// Whether every number in the other range is in this one, too.
  bool covers(const Constraint& other) const;
};

/// ">= 0 and an integer"; "finite" if there is nothing more to say.
JITSTEP_API std::string to_string(const Constraint& constraint);

/// One option: a number (or several) that is an argument of kernels, or a flag, a constant in them.
struct JITSTEP_API Option {
  /// What values it takes; a nullable number may be left out, a list has one number per parameter.
  enum class Type { number, nullable, numbers, list, boolean, choice };

  std::string name;
  Type type = Type::number;
  Value initial;            // the default
  Constraint constraint;    // of every number
  int count = 1;            // of numbers
  std::string enumeration;  // C++ name of a choice's type
  std::vector<std::string> choices;
  std::optional<Expression> lifted;  // computed from the options, not set by users
  std::string at_construction;       // a nullable one's: the number it takes if it is null then
  std::string note;                  // the rest of its notes, for people
  int line = 0;

  /// Whether it is a constant in kernels, so that another value is another kernel.
  bool is_flag() const { return type == Type::boolean || type == Type::choice; }
  /// Doubles it takes among the hyperparameters; a list is per parameter and takes one, unused.
  int doubles() const { return is_flag() ? 0 : type == Type::numbers ? count : 1; }
  Symbol symbol() const;
  /// Why a value is of the wrong type ("expects a number"), or nothing.
  std::optional<std::string> type_problem(const Value& value) const;
  /// What breaks the constraint ("betas[1] is 1 and must be in [0, 1)"), or nothing.
  std::optional<std::string> range_problem(const Value& value) const;
};

/// What a slot or a memory field holds before the first step.
struct JITSTEP_API Initial {
  double number = 0;
  std::string option;  // if not empty, the option that says it
};

/// One value per element, kept by a codec.
struct JITSTEP_API Slot {
  std::string name;
  bool is_signed = true;
  std::string torch_name;  // its own name if torch has none for it
  std::optional<Expression> condition;
  Initial initial;
  std::string codec;  // its codec unless the user names one for this slot; empty: that of all slots
  int line = 0;

  /// Whether a user's name means this slot: its own, or torch's.
  bool is_named(std::string_view wanted) const { return name == wanted || torch_name == wanted; }
};

/// A field of a small structure that kernels store, such as a codec's Meta.
struct JITSTEP_API Field {
  std::string type;  // float, double, uint8, uint16, uint32 or real
  std::string name;
};

/// Size of a structure of these fields as C++ lays it out; `real` has the width of the arithmetic.
JITSTEP_API int bytes_of(const std::vector<Field>& fields, Dtype parameter);

/// A sum or maximum over the entries of a domain, and what becomes of it.
struct JITSTEP_API Reduction {
  /// How terms are combined.
  enum class Op { sum, max };

  std::string name;
  Op op = Op::sum;
  Domain domain;
  int terms = 1;
  std::string coefficients;   // C++ name of what `finalize` returns
  std::vector<Field> fields;  // of the coefficients
  std::optional<int> source;  // number of the earlier reduction whose entries it takes
  std::vector<int> after;     // numbers of the reductions it must come after, `over` included
  bool moments = false;       // the rule's `update_state` reads it
  std::optional<Expression> condition;
  int line = 0;
};

/// One value per entry of a domain, kept in `real` or in double.
struct JITSTEP_API AuxField {
  std::string name;
  Domain domain;
  bool is_double = false;
  std::string torch_name;
  std::optional<Expression> condition;
  Initial initial;
  int line = 0;

  /// Whether one value serves all tensors that step together (SharedState).
  bool is_shared() const { return domain.kind == Domain::Kind::all; }
};

/// Refused when `condition` holds, with a sentence.
struct JITSTEP_API Refusal {
  Expression condition;
  std::string sentence;
  int line = 0;
};

/// A rule's own default of something beside its options; the first one whose condition holds.
struct JITSTEP_API RuleDefault {
  std::string value;
  NamedValues options = {};  // of a codec, under this rule however it was chosen
  std::optional<Expression> condition = {};
};

/// What one file declares. Immutable once read.
struct JITSTEP_API Manifest {
  /// The four kinds of files; `gradient` holds the options common to all rules.
  enum class Kind { rule, codec, weights, gradient };

  Kind kind = Kind::rule;
  std::string name;    // the namespace and the file's stem
  std::string path;    // for messages: "rules/adamw.cuh"
  std::string source;  // what units include: the path, or "rules/mine.cuh@2" of a later version
  std::string description;  // the leading comment
  std::string class_name;   // of the C++ class, may be empty

  // rules, gradient, codecs: numbers that kernels take as arguments
  std::vector<Option> hyper;

  // rules, gradient
  std::vector<Refusal> refusals;
  std::vector<Slot> slots;
  std::vector<RuleDefault> default_states;
  std::string
      default_weights;  // where the user names none and they are for the dtype; may be empty
  std::vector<RuleDefault> min_quantized_sizes;
  std::string
      host_transform;  // the function of the host between its sums and `update_param`; empty: none
  bool modes = false;  // keeps another point in the parameter while training than in evaluation
  bool early_state = false;     // state is there before the first step
  bool no_step_number = false;  // a slot that is set before the first step is gone on from

  // rules, gradient: Flags; codecs: Options
  std::vector<Option> flags;

  // all but weights
  std::vector<Reduction> reductions;
  std::vector<AuxField> aux_state;

  // rules: the fields of the structure `Scalars`, as far as they are plain
  std::vector<std::string> scalars;

  // codecs
  std::string code;         // uint8, uint16, real, Nibble or NoCode
  std::vector<Field> meta;  // per block
  std::string vectors;  // the codec that parameters of one dimension have instead; empty: this one
  std::string signed_slots;  // that slots of values with signs have instead; empty: this one

  // weights
  std::vector<Dtype> dtypes;
  std::string residual;  // kept beside the parameter: empty, uint8, uint16, uint32, float

  // codecs, weights: needs random bits
  bool random = false;

  // Which structures the file declares, empty or not.
  bool has_hyper = false, has_flags = false, has_slots = false, has_reductions = false,
       has_aux_state = false, has_meta = false;

  /// An option by name, lifted ones included, or null.
  const Option* find(std::string_view name) const;
  /// Whether one of its numbers, which kernels take as arguments, has this name.
  bool has_number(std::string_view name) const;
  /// The names of what users may set: numbers, then flags.
  std::vector<std::string> option_names() const;
  /// Doubles of all numbers together.
  int doubles() const;

  /// Codecs: whether small tensors should rather stay as they are (min_quantized_size).
  bool block_scaled() const;
  /// Codecs: bits of one code; 0 where nothing is kept but Memory.
  int code_bits(Dtype parameter) const;
  /// Codecs: bytes of one block's Meta; 0 without.
  int meta_bytes() const;
  /// Weights: bytes kept beside each element.
  int residual_bytes() const;

  /// What a rule says of a codec's options, where it is a default of its slots; it holds for every slot of the rule.
  const NamedValues& codec_options(std::string_view codec) const;
  /// The codec of a rule's slots unless the user names one; empty: the library's default.
  std::string default_state(const NamedValues& flags) const;
  /// Elements below which block-scaled codecs are not used; nothing: the library's default.
  std::optional<long long> min_quantized_size(const NamedValues& flags) const;
};

}  // namespace jitstep::jit
