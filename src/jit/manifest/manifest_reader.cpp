#include "jit/manifest/manifest_reader.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/manifest/manifest_checks.h"
#include "jit/manifest/manifest_code.h"
#include "jit/manifest/manifest_fields.h"
#include "jit/manifest/manifest_formats.h"
#include "jit/manifest/manifest_header.h"
#include "jit/manifest/manifest_lines.h"
#include "jit/manifest/manifest_names.h"
#include "jit/manifest/manifest_notes.h"
#include "jit/manifest/parameter_sizes.h"
#include "jit/manifest/reserved_names.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

constexpr int kMostLines = 64;  // in a struct without a more specific limit
// Per file. The limits per kernel are larger, because codecs add their own reductions and fields.
constexpr int kMostReductions = 16, kMostAuxFields = 8, kMostMatrices = 8;
static_assert(kMostReductions < kMaxReductions && kMostAuxFields + kMostMatrices < kMaxAuxFields);

struct Grammar {
  Kind kind;
  std::string_view space;                     // the parent of the file's namespace
  std::span<const std::string_view> structs;  // the structs of the manifest
};

constexpr std::string_view kRuleStructs[] = {"Hyper",  "Flags",      "Transforms", "Slots",
                                             "Inputs", "Reductions", "AuxState",   "Matrices"};
constexpr std::string_view kCodecStructs[] = {"Hyper", "Options", "Meta", "Reductions", "AuxState"};
constexpr std::string_view kGradientStructs[] = {"Hyper", "Flags", "Reductions"};

constexpr Grammar kGrammars[] = {{Kind::rule, "jitstep::rules", kRuleStructs},
                                 {Kind::codec, "jitstep::codecs", kCodecStructs},
                                 {Kind::weights, "jitstep::weights", {}},
                                 {Kind::gradient, "jitstep", kGradientStructs}};

const Grammar& grammar_of(Kind kind) {
  return *std::find_if(std::begin(kGrammars), std::end(kGrammars),
                       [kind](const Grammar& grammar) { return grammar.kind == kind; });
}

// Which function loads a file of this namespace, if it is of the other kind that users can load.
std::string_view advice(std::string_view space, Kind kind) {
  if (kind == Kind::codec && space.starts_with("jitstep::rules::"))
    return ". This file is a rule. Call load_rule().";
  if (kind == Kind::rule && space.starts_with("jitstep::codecs::"))
    return ". This file is a codec. Call load_codec().";
  return "";
}

// Fields of a struct that the kernel fills in.
std::vector<Field> read_plain_fields(const SourceLine& line) {
  return read_fields(line, {"real", "double", "float", "int", "bool", "uint32"});
}

class Reader {
 public:
  Reader(std::string_view content, const std::string& path, Kind kind)
      : top_{path, 1}, lines_(cut_source(content, path, grammar_of(kind).structs, keys_of(kind))) {
    made_.kind = kind;
    made_.reads_sizes = contains_word(lines_.code, "Sizes");
    made_.path = made_.source = path;
  }

  Manifest run() {
    read_name();
    read_options();
    if (made_.kind == Kind::weights) read_weights(lines_, made_);
    if (made_.kind == Kind::codec) read_codec(lines_, made_);
    if (made_.kind == Kind::rule) read_transforms();
    each("Slots", made_.has_slots, [&](const SourceLine& line) {
      add(made_.slots, read_slot(line, flags_, made_.transforms), line.location, kMaxSlots,
          "slots");
      check_slot(made_.slots.back(), line.location);
      check_archived(made_, made_.slots.back(), line.location);
    });
    if (made_.kind == Kind::rule) read_inputs();
    each("Reductions", made_.has_reductions, [&](const SourceLine& line) {
      add(made_.reductions, read_reduction(line, flags_, made_.reductions, made_.transforms),
          line.location, kMostLines, "reductions");
      finalize_reduction(line.location);
    });
    each("AuxState", made_.has_aux_state, [&](const SourceLine& line) {
      add(made_.aux_state, read_aux_state(line, flags_), line.location, kMostAuxFields,
          "fields of auxiliary state");
      made_.aux_state.back().assigned = assigns_next(lines_.code, made_.aux_state.back().name);
      check_aux_state(made_, line.location);
      check_domain_names(made_.aux_state, line.location);
      check_archived(made_, made_.aux_state.back(), line.location);
    });
    if (made_.kind == Kind::rule) {
      read_scalars();
      read_matrices();
    }
    read_refusals();
    read_header(lines_.header, flags_, made_);
    check_matrices();
    lines_.braces.end();
    return std::move(made_);
  }

 private:
  template <class Each>
  void each(std::string_view name, bool& declared, const Each& read) {
    const auto found = lines_.structs.find(name);
    if (found == lines_.structs.end()) return;
    declared = true;
    for (const SourceLine& line : found->second.fields) read(line);
  }

  template <class T>
  void add(std::vector<T>& all, T one, const Location& location, int most, std::string_view what) {
    for (const T& other : all) {
      if (other.name == one.name)
        location.fail(str_cat("`", one.name, "` is declared twice. Rename one."));
    }
    if (const auto problem = name_problem(one.name); !problem.empty())
      location.fail(str_cat("`", one.name, "` ", problem, ". Rename it."));
    if (static_cast<int>(all.size()) >= most)
      location.fail(str_cat("a file can declare at most ", most, " ", what));
    all.push_back(std::move(one));
  }

  void read_name() {
    const std::string space(grammar_of(made_.kind).space);
    const std::string stem = std::filesystem::path(made_.path).stem().string();
    const bool own = made_.kind != Kind::gradient;
    if (const auto problem = file_name_problem(stem); own && !problem.empty())
      top_.fail(str_cat("the file's name is also its namespace, and `", stem, "` ", problem,
                        ". Rename both."));
    if (!lines_.enclosing) top_.fail(str_cat("expected `namespace ", space, "::", stem, " {`"));
    if (lines_.enclosing->code != space + "::" + stem)
      lines_.enclosing->location.fail(str_cat("expected `namespace ", space, "::", stem,
                                              " {`, to match the file's name",
                                              advice(lines_.enclosing->code, made_.kind)));
    made_.name = stem;
  }

  // ---- options

  void read_options() {
    each("Hyper", made_.has_hyper, [&](const SourceLine& line) {
      add(made_.hyper, read_number(line), line.location, kMaxRuleHyper, "numbers");
      name_option(made_.hyper.back(), line.location);
      check_number(made_.hyper.back(), line.location);
    });
    const int most = made_.kind == Kind::gradient ? kCommonHyper : kMaxRuleHyper;
    if (made_.doubles() > most)
      lines_.structs.find("Hyper")->second.location.fail(
          str_cat("Hyper has ", made_.doubles(), " numbers. At most ", most, " are allowed."));
    if (made_.kind == Kind::rule) symbols_.insert(size_symbols().begin(), size_symbols().end());
    const bool codec = made_.kind == Kind::codec;
    if (!codec) announce_flags();
    each(codec ? "Options" : "Flags", made_.has_flags, [&](const SourceLine& line) {
      add(made_.flags, read_flag(line, lines_.enums, symbols_, codec), line.location, kMostLines,
          "flags");
      name_option(made_.flags.back(), line.location);
      flags_[made_.flags.back().name] = symbol_of(made_.flags.back());
    });
    for (const Option& option : made_.hyper) check_construction(option);
    if (made_.kind != Kind::rule) return;
    for (const Option& option : made_.hyper)
      flags_.try_emplace(option.name, Symbol{Symbol::Type::no_flag, 1, {}});
  }

  // Conditions of flags above know the names of those below, for their errors.
  void announce_flags() {
    const auto found = lines_.structs.find("Flags");
    if (found == lines_.structs.end()) return;
    for (const SourceLine& line : found->second.fields) {
      const std::string_view left =
          trimmed(std::string_view(line.code).substr(0, line.code.find('=')));
      symbols_[std::string(left.substr(left.find_last_of(' ') + 1))] =
          Symbol{Symbol::Type::later, 1, {}};
    }
  }

  // A rule may set a codec's number from one of its own numbers, whose value is unknown at compile time. Conditions
  // therefore cannot use it.
  void check_number(const Option& option, const Location& location) {
    if (made_.kind != Kind::codec) return;
    symbols_.erase(option.name);
    if (option.type != Option::Type::number || option.name == "dims" || option.name == "block")
      location.fail(str_cat("a number of a codec must be a plain `double`. `dims` and `block` are ",
                            "constants: declare them in Options."));
  }

  void check_construction(const Option& option) {
    const Location location{made_.path, option.line};
    if (option.same_in_groups && made_.kind != Kind::rule)
      refuse_note("same in all groups", location);
    if (option.at_construction.empty()) return;
    if (made_.kind != Kind::rule) refuse_note("at construction:", location);
    const Option* const from = made_.find(option.at_construction);
    if (from == nullptr || from->type != Option::Type::number)
      location.fail(str_cat("there is no number `", option.at_construction,
                            "` among the options. `at construction:` needs the name of one."));
    check_copied(option, *from, location);
  }

  void name_option(const Option& option, const Location& location) {
    const bool of_codec = made_.kind == Kind::codec && option.type == Option::Type::number;
    if (option.name == "null" || (option.name == "dims" && !of_codec))
      location.fail(str_cat("`", option.name, "` is reserved in conditions. Rename the option."));
    if (made_.kind == Kind::rule) check_learning_rate(option, location);
    refuse_in_archives(option.name, location);
    if (!names_.insert(option.name).second)
      location.fail(str_cat("`", option.name, "` is declared twice. Rename one."));
    if (option.type != Option::Type::list) symbols_[option.name] = symbol_of(option);
  }

  void read_refusals() {
    for (const SourceLine& line : lines_.refusals) {
      if (made_.kind != Kind::rule)
        line.location.fail("only a rule can have `refuse:`. Remove this line.");
      const std::size_t comma = line.notes.find(',');
      if (comma == line.notes.npos || trimmed(line.notes.substr(comma + 1)).empty())
        line.location.fail("expected `// refuse: condition, sentence`");
      made_.refusals.push_back(
          {read_condition(trimmed(std::string_view(line.notes).substr(0, comma)), symbols_,
                          line.location),
           std::string(trimmed(std::string_view(line.notes).substr(comma + 1))),
           line.location.line});
    }
  }

  // ---- slots, reductions, auxiliary state

  void check_slot(const Slot& slot, const Location& location) {
    check_member(slot.name, "slot", location);
    check_no_transform(made_, slot.name, location);
    refuse_in_archives(slot.name, location);
    check_initial(made_, slot.initial, false, location);
    check_start(made_, slot, location);
  }

  void read_transforms() {
    each("Transforms", made_.has_transforms, [&](const SourceLine& line) {
      add(made_.transforms, read_transform(line), line.location, kMaxTransforms, "transforms");
      check_member(made_.transforms.back().name, "transform", line.location);
    });
  }

  // Kernels do not use matrices.
  void read_matrices() {
    bool declared = false;
    each("Matrices", declared, [&](const SourceLine& line) {
      add(made_.matrices, read_matrix(line, flags_), line.location, kMostMatrices, "matrices");
      const MatrixField& matrix = made_.matrices.back();
      check_initial(made_, matrix.initial, false, line.location);
      if (matrix.largest) check_initial(made_, *matrix.largest, false, line.location);
      check_archived(made_, matrix, line.location);
      matrices_at_ = line.location;
    });
  }

  void check_matrices() const {
    if (!made_.matrices.empty() && made_.transforms.empty())
      matrices_at_.fail(
          "only host transforms use matrices, but the rule has none. Declare one in a struct "
          "`Transforms`.");
  }

  void read_inputs() {
    bool declared = false;
    each("Inputs", declared, [&](const SourceLine& line) {
      add(made_.inputs, read_input(line), line.location, kMaxInputs, "inputs");
      const std::string& name = made_.inputs.back().name;
      check_member(name, "input", line.location);
      check_no_transform(made_, name, line.location);
      for (const Slot& slot : made_.slots)
        if (slot.name == name)
          line.location.fail(str_cat("`", name, "` is also a slot. Rename one."));
    });
  }

  void finalize_reduction(const Location& location) {
    Reduction& reduction = made_.reductions.back();
    check_reduction(made_, location);
    const auto always = std::count_if(made_.reductions.begin(), made_.reductions.end(),
                                      [](const Reduction& one) { return !one.condition; });
    if (always > kMostReductions)
      location.fail(
          str_cat("a file can have at most ", kMostReductions,
                  " reductions without `if`. Exclude some by `if`, or sum several terms in one."));
    const std::size_t taken = made_.kind == Kind::codec && reduction.source ? 1 : 0;
    if (made_.kind != Kind::rule &&
        (reduction.after.size() > taken || reduction.section > 0 || reduction.read_by_update_state))
      location.fail(
          "only a rule's reductions can have the notes `after:` and `update_state`. Remove the "
          "note.");
    for (const Reduction& other : made_.reductions) {
      if (&other != &reduction && other.coefficients == reduction.coefficients)
        location.fail(str_cat(
            "`", reduction.coefficients,
            "` is the coefficients' struct of two reductions. Give each reduction its own."));
    }
    const auto found = lines_.structs.find(reduction.coefficients);
    if (found == lines_.structs.end())
      location.fail(str_cat("expected `struct ", reduction.coefficients,
                            " { real x; };` with the coefficients, in this file"));
    for (const SourceLine& line : found->second.fields) {
      for (Field& field : read_plain_fields(line)) reduction.fields.push_back(std::move(field));
    }
  }

  // Reads lines such as `real a, b;`. Other lines of Scalars matter only to the compiler, so errors are ignored.
  void read_scalars() {
    const auto found = lines_.structs.find("Scalars");
    if (found == lines_.structs.end()) return;
    if (!contains_word(lines_.code, "prepare"))
      found->second.location.fail(
          "the rule has Scalars: it needs `static Scalars prepare(const Hyper& h, int64 t)`");
    for (const SourceLine& line : found->second.fields) {
      try {
        for (Field& field : read_plain_fields(line)) made_.scalars.push_back(std::move(field.name));
      } catch (const Error&) {
        continue;
      }
      check_scalars(made_, line.location);
    }
  }

  Location top_;
  Location matrices_at_ = top_;  // the last one
  SourceLines lines_;
  std::set<std::string> names_;
  Symbols symbols_;  // numbers and flags
  Symbols flags_;
  Manifest made_;
};

}  // namespace

Manifest read_manifest(std::string_view content, const std::string& path, Manifest::Kind kind) {
  return Reader(content, path, kind).run();
}

}  // namespace jitstep::jit
