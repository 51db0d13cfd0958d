// The declarations of a template file: options, slots, reductions, auxiliary state, formats. Plain data that
// manifest_reader.h fills. docs/extending/reference.md explains the grammar.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/value.h"

namespace jitstep::jit {

/// What one entry of a reduction or of auxiliary state covers. Only `axis` uses the dimension.
struct JITSTEP_API Domain {
  /// The domains of contract.cuh.
  enum class Kind { all, tensor, first, rows, columns, matrices, axis };

  Kind kind = Kind::tensor;
  int axis = 0;

  /// Index into TensorRecord::reduction_layouts.
  int reduction_layout() const;
  /// One bit per dimension that an entry reduces, as reduced(dims) in contract.cuh.
  unsigned reduced(int dims) const;
  bool operator==(const Domain&) const = default;
};

/// Names of the kinds in manifests, in enum order. An axis has its number in angle brackets: "axis<1>".
inline constexpr std::array<std::string_view, 7> kDomainNames = {
    "all", "tensor", "first", "rows", "columns", "matrices", "axis"};

/// "rows", "axis<1>".
JITSTEP_API std::string to_string(const Domain& domain);

/// A condition over options and sizes of the parameter, such as `nesterov && size(0) > 1`. Names and types are checked.
/// Cheap to copy, immutable.
class JITSTEP_API Expression {
 public:
  /// The value of a name. It must have the type of the declaration.
  using Values = std::function<Value(std::string_view name)>;

  /// True if the condition is true. Every name in it must have a value.
  bool holds(const Values& values) const;
  bool holds(const NamedValues& values) const;

  /// True if the condition contains the name.
  bool reads(std::string_view name) const;
  /// True if the condition reads a size of the parameter. Its number of dimensions does not count.
  bool reads_sizes() const;

  /// The source text of the condition.
  const std::string& written() const { return text_; }

 private:
  friend class ExpressionParser;
  struct Node;

  Value evaluate(int node, const Values& values) const;

  std::string text_;
  std::shared_ptr<const std::vector<Node>> nodes_;
};

/// The range of an option's numbers. Values that are not finite are always out of range.
struct JITSTEP_API Constraint {
  std::optional<double> low, high;
  bool above = false;    // excludes `low`
  bool below = false;    // excludes `high`
  bool integer = false;  // integers that fit into an int
  bool power_of_two = false;

  /// True if all values are whole numbers.
  bool is_whole() const { return integer || power_of_two; }
  /// True if x is finite and in the range.
  bool accepts(double x) const;
  /// True if this range contains the other one.
  bool covers(const Constraint& other) const;
};

/// ">= 0 and an integer". "finite" without further conditions.
JITSTEP_API std::string to_string(const Constraint& constraint);

/// One option. Numbers are arguments of kernels. Flags are compile-time constants.
struct JITSTEP_API Option {
  /// Type of the values. A nullable number may be null. A list has one number per parameter.
  enum class Type { number, nullable, numbers, list, boolean, choice };

  std::string name;
  Type type = Type::number;
  Value initial;            // the default
  Constraint constraint;    // of each number
  int count = 1;            // length of a Type::numbers value; else 1
  std::string enumeration;  // C++ name of a choice's type
  std::vector<std::string> choices;
  std::optional<Expression> lifted;  // computed from other options; users cannot set it
  std::string at_construction;       // nullable: the number that replaces null at construction
  bool same_in_groups = false;       // a step refuses different values
  std::string note;                  // the rest of its notes, for people
  int line = 0;

  /// True for flags: another value is another kernel.
  bool is_flag() const { return type == Type::boolean || type == Type::choice; }
  /// Doubles in HyperParams::hyper. A list is per parameter and has one unused double.
  int doubles() const { return is_flag() ? 0 : type == Type::numbers ? count : 1; }
  /// Why a value has the wrong type ("expects a number"), or nothing.
  std::optional<std::string> type_problem(const Value& value) const;
  /// The position of the first number that is out of range (0 for a single number), or nothing.
  std::optional<std::size_t> out_of_range(const Value& value) const;
  /// Why a value is out of range ("betas[1] is 1 and must be in [0, 1)"), or nothing.
  std::optional<std::string> range_problem(const Value& value) const;
};

/// The value of a slot or of auxiliary state before the first step.
struct JITSTEP_API Initial {
  double number = 0;
  std::string option;  // if not empty, the option with the value
};

/// A state buffer: one value per element, stored by a codec.
struct JITSTEP_API Slot {
  std::string name;
  bool is_signed = true;
  std::string torch_name;  // the slot's own name if torch has none
  std::optional<Expression> condition;
  Initial initial;
  std::string codec;  // codec unless the user names one for this slot; empty: that of all slots
  /// The number of host transforms that run before this slot is set. 0: `update_state` sets it. Otherwise
  /// `update_state_after` sets it.
  int section = 0;
  int line = 0;

  /// True if `wanted` is the slot's name or torch's name.
  bool is_named(std::string_view wanted) const { return name == wanted || torch_name == wanted; }
};

/// A field of a small struct in kernels, such as a codec's Meta.
struct JITSTEP_API Field {
  std::string type;  // float, double, uint8, uint16, uint32 or real
  std::string name;
};

/// Size of a struct with these fields, with C++ layout. `real` has the size of the arithmetic.
JITSTEP_API int bytes_of(const std::vector<Field>& fields, Dtype parameter);

/// A sum or maximum over the elements of each entry of a domain, and its result.
struct JITSTEP_API Reduction {
  /// The operator that combines terms.
  enum class Op { sum, max };

  std::string name;
  Op op = Op::sum;
  Domain domain;
  int terms = 1;
  std::string coefficients;   // C++ name of the result type of `finalize`
  std::vector<Field> fields;  // of the coefficients
  std::optional<int> source;  // index of the earlier reduction whose entries it reads
  std::vector<int> after;     // indices of reductions that come first, `source` included
  int section = 0;            // transforms of the file that run before it, because of `after`
  bool read_by_update_state = false;  // `update_state` or, later, `update_state_after` reads it
  std::optional<Expression> condition;
  int line = 0;
};

/// Auxiliary state: one value per entry of a domain, stored as `real` or double.
struct JITSTEP_API AuxField {
  std::string name;
  Domain domain;
  bool is_double = false;
  std::string torch_name;
  std::optional<Expression> condition;
  Initial initial;
  bool of_elements = false;  // a rule's elements read the value of their own entry
  bool assigned = false;     // the file's code assigns `next`, or passes it on
  int line = 0;

  /// True if all tensors that step together share one value (SharedState).
  bool is_shared() const { return domain.kind == Domain::Kind::all; }
};

/// An input of a step in addition to the gradient: one value per element.
struct JITSTEP_API RuleInput {
  std::string name;
  std::string note;  // for people
  int line = 0;
};

/// Values of a whole tensor that the rule computes, that a function of the host replaces, and that the rule then reads.
struct JITSTEP_API RuleTransform {
  std::string name;  // of the values, e.NAME, and of the rule's function that computes them
  std::string host;  // registered name of the host's function
  int line = 0;
};

/// A matrix of state per parameter. Only host transforms read and write it. Its numbers of rows and columns are two of
/// the parameter's sizes.
struct JITSTEP_API MatrixField {
  std::string name;
  int rows = 0,
      columns = 0;  // dimensions of the parameter. A parameter that lacks one has no such matrix
  std::string torch_name;
  std::optional<Expression> condition;
  Initial initial;  // on the diagonal. Other elements start at 0
  std::optional<Initial>
      largest;  // a parameter with a larger number of rows or columns has no such matrix
  int line = 0;
};

/// A combination of options that the rule does not support, and the error message.
struct JITSTEP_API Refusal {
  Expression condition;
  std::string sentence;
  int line = 0;
};

/// A rule's default for a format. The first one whose condition holds is used.
struct JITSTEP_API RuleDefault {
  std::string value;
  NamedValues options = {};  // of the codec, also if the user chose it for this rule
  std::optional<Expression> condition = {};
  int line = 0;
};

/// The declarations of one file. Immutable after reading.
struct JITSTEP_API Manifest {
  /// The four kinds of files. `gradient` has the options common to all rules.
  enum class Kind { rule, codec, weights, gradient };

  Kind kind = Kind::rule;
  std::string name;         // the namespace and the file's stem
  std::string path;         // for messages: "rules/adamw.cuh"
  std::string source;       // include name: the path, or "rules/mine.cuh@2" for its second revision
  std::string description;  // the comment at the top of the file
  std::string class_name;   // of the C++ class; may be empty
  std::map<std::string, int> key_lines;  // lines of keys in the leading comment that name one thing

  // rules, gradient, codecs: numbers that are kernel arguments
  std::vector<Option> hyper;

  // rules, gradient
  std::vector<Refusal> refusals;
  std::vector<Slot> slots;
  std::vector<RuleDefault> default_states;
  std::string default_weights;  // unless the user sets one or the dtype does not fit; may be empty
  std::vector<RuleDefault> min_quantized_sizes;
  std::vector<RuleInput> inputs;
  std::vector<RuleTransform> transforms;  // in the order in which they run
  std::vector<MatrixField> matrices;
  bool modes = false;           // trains at one point and evaluates at another
  bool early_state = false;     // state exists before the first step
  bool no_step_number = false;  // a slot that a program sets before the first step counts as step 1
  bool reads_sizes = false;     // `prepare` takes the sizes of the tensor

  // rules, gradient: flags. codecs: options.
  std::vector<Option> flags;

  // all kinds except weights
  std::vector<Reduction> reductions;
  std::vector<AuxField> aux_state;

  // rules: the plain fields of the struct `Scalars`
  std::vector<std::string> scalars;

  // codecs
  std::string code;          // uint8, uint16, real, Nibble or NoCode
  std::vector<Field> meta;   // per block
  std::string vectors;       // codec for parameters with one dimension; empty: this one
  std::string signed_slots;  // codec for signed slots; empty: this one

  // weights
  std::vector<Dtype> dtypes;
  std::string residual;  // its type: empty, uint8, uint16, uint32, float

  // codecs, weights: uses random bits
  bool random = false;

  // Structs that the file declares, even if they are empty.
  bool has_hyper = false, has_flags = false, has_slots = false, has_reductions = false,
       has_aux_state = false, has_transforms = false, has_meta = false;

  /// An option by name, including lifted ones, or null.
  const Option* find(std::string_view name) const;
  /// The index of an input, or -1.
  int input(std::string_view name) const;
  /// True if one of its numbers has this name.
  bool has_number(std::string_view name) const;
  /// The names of options that users may set: numbers, then flags.
  std::vector<std::string> option_names() const;
  /// Doubles of all numbers.
  int doubles() const;

  /// Codecs: true with scales of blocks, rows or columns. Small tensors then get fp32 state (min_quantized_size).
  bool block_scaled() const;
  /// Codecs: bits of one code. 0 if all its state is auxiliary.
  int code_bits(Dtype parameter) const;
  /// Codecs: bytes of one block's metadata. 0 without blocks.
  int meta_bytes() const;
  /// Weights: bytes of the residual per element.
  int residual_bytes() const;

  /// The codec options that a rule's file sets for its default codec. They apply to every slot of the rule.
  const NamedValues& codec_options(std::string_view codec) const;
  /// The codec of a rule's slots unless the user names one. Empty: the library's default.
  std::string default_state(const NamedValues& flags) const;
  /// Codecs with block_scaled() are not used below this number of elements. Nothing: the library's default.
  std::optional<long long> min_quantized_size(const NamedValues& flags) const;
};

}  // namespace jitstep::jit
