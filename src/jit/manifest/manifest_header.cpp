#include "jit/manifest/manifest_header.h"

#include <algorithm>
#include <iterator>

#include "jit/base/text.h"
#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/manifest_notes.h"
#include "jit/manifest/reserved_names.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

// "CODEC" or "CODEC if CONDITION".
RuleDefault rule_default(std::string_view value, const Symbols& flags, const Location& location) {
  const std::size_t end = std::min(value.find(" if "), value.size());
  RuleDefault result{.value = std::string(trimmed(value.substr(0, end))), .line = location.line};
  if (end < value.size()) result.condition = read_condition(value.substr(end + 4), flags, location);
  return result;
}

// The first default whose condition holds is used.
void check_is_used(const std::vector<RuleDefault>& earlier, const Location& location) {
  if (!earlier.empty() && !earlier.back().condition)
    location.fail(
        "the default above has no condition, so this one is never used. Put the line without a "
        "condition last.");
}

Value read_option_value(Cursor& cursor) {
  if (cursor.take_word("true")) return true;
  if (cursor.take_word("false")) return false;
  const std::string_view rest = cursor.rest();
  if (!rest.empty() && std::string_view("0123456789.-").find(rest[0]) == rest.npos)
    return cursor.identifier("a value, or the name of one of the rule's numbers");
  return cursor.number();
}

// "CODEC(option = value, ...)", optionally with a condition.
RuleDefault state_default(std::string_view value, const Symbols& flags, const Location& location) {
  RuleDefault result = rule_default(value, flags, location);
  const std::string codec = result.value;
  Cursor cursor(codec, location);
  result.value = cursor.identifier("a codec");
  if (cursor.take("(")) {
    do {
      const std::string name = cursor.identifier("an option of the codec");
      cursor.expect("=");
      if (!result.options.emplace(name, read_option_value(cursor)).second)
        location.fail(str_cat("the option `", name, "` is given twice. Keep one."));
    } while (cursor.take(","));
    cursor.expect(")");
  }
  cursor.expect_end();
  return result;
}

// A rule's options for a codec do not depend on the condition, so that they may be given only once.
void add_state_default(RuleDefault state, const Location& location, Manifest& manifest) {
  if (!state.options.empty() && !manifest.codec_options(state.value).empty())
    location.fail(str_cat("the options of ", state.value, " are given twice. Keep one."));
  check_is_used(manifest.default_states, location);
  manifest.default_states.push_back(std::move(state));
}

// Reads a key whose value is a name and that may occur only once.
void read_name(std::string_view value, const char* key, const char* of, const Location& location,
               Manifest& manifest, std::string Manifest::*name) {
  const char* const kind = manifest.kind == Kind::rule ? "rule" : "codec";
  if (!(manifest.*name).empty())
    location.fail(str_cat("a ", kind, " has more than one `", key, ":`. Keep one."));
  manifest.*name = read_name(value, location, of);
  manifest.key_lines[key] = location.line;
}

// Reads a key that has only one valid value.
bool read_only(std::string_view value, const char* key, std::string_view only,
               const Location& location) {
  if (value != only)
    location.fail(
        str_cat("cannot read the ", key, " `", value, "`. Write `", key, ": ", only, "`."));
  return true;
}

void read_dtypes(std::string_view value, const Location& location, Manifest& manifest) {
  Cursor cursor(value, location);
  do {
    const std::string name = cursor.identifier("a dtype");
    try {
      manifest.dtypes.push_back(parse_dtype(name));
    } catch (const Error& error) {
      location.fail(error.what());
    }
  } while (cursor.take(","));
  cursor.expect_end();
}

// Reads the piece if it is a key of this kind of file. Returns whether it is.
bool read_key(std::string_view piece, const Symbols& flags, const Location& location,
              Manifest& manifest) {
  const bool rule = manifest.kind == Kind::rule;
  const auto starts = [&](std::string_view key) { return piece.starts_with(key); };
  const std::string_view value = trimmed(piece.substr(std::min(piece.find(':') + 1, piece.size())));
  if (rule && starts("class: ")) {
    read_name(value, "class", "the name of a C++ class", location, manifest, &Manifest::class_name);
    if (const auto problem = name_problem(manifest.class_name); !problem.empty())
      location.fail(str_cat("`", manifest.class_name, "` ", problem,
                            ". Choose another name after `class:`."));
  } else if (rule && starts("default state: ")) {
    add_state_default(state_default(value, flags, location), location, manifest);
  } else if (rule && starts("default weights: ")) {
    read_name(value, "default weights", "a weight format", location, manifest,
              &Manifest::default_weights);
  } else if (rule && starts("min_quantized_size: ")) {
    check_is_used(manifest.min_quantized_sizes, location);
    manifest.min_quantized_sizes.push_back(rule_default(value, flags, location));
    Cursor number(manifest.min_quantized_sizes.back().value, location);
    number.integer(0, 1 << 30);
    number.expect_end();
  } else if (rule && starts("host transform: ")) {
    if (!manifest.transforms.empty())
      location.fail(
          "a rule has more than one `host transform:`. Keep one, or declare several in a struct "
          "`Transforms`.");
    manifest.transforms = {{std::string(kTransformed),
                            read_name(value, location, "the name of a host transform"),
                            location.line}};
  } else if (rule && starts("host stage: ")) {
    location.fail("`host stage:` is now called `host transform:`");
  } else if (rule && starts("modes: ")) {
    manifest.modes = read_only(value, "modes", "train, eval", location);
  } else if (rule && starts("initial state: ")) {
    manifest.early_state = read_only(value, "initial state", "at construction", location);
  } else if (rule && starts("step number: ")) {
    manifest.no_step_number = read_only(value, "step number", "none", location);
  } else if (manifest.kind == Kind::weights && starts("for: ")) {
    read_dtypes(value, location, manifest);
  } else if (manifest.kind == Kind::codec && starts("vectors: ")) {
    read_name(value, "vectors", "a codec", location, manifest, &Manifest::vectors);
  } else if (manifest.kind == Kind::codec && starts("signed: ")) {
    read_name(value, "signed", "a codec", location, manifest, &Manifest::signed_slots);
  } else {
    return false;
  }
  return true;
}

// Rejects a malformed key of a rule: without a colon, without a space after it, or with capital letters.
void refuse_key(std::string_view piece, const Location& location) {
  for (const auto& [key, of] : kRuleKeys) {
    if (!begins_with_word(piece, key)) continue;
    std::string_view value = trimmed(piece.substr(key.size()));
    if (value.starts_with(':')) value = trimmed(value.substr(1));
    const bool assigned = value.starts_with('=') || piece.ends_with(':');
    if (key == "class" && !is_word(value) && !assigned) continue;  // a sentence about classes
    location.fail(str_cat("cannot read `", piece, "`. Write `", key, ": ", of,
                          "`, or start free text with another word."));
  }
}

// Declarations with `after: transformed` need a host transform.
void check_after_transform(const Manifest& manifest) {
  if (!manifest.transforms.empty()) return;
  const auto check = [&](const auto& all) {
    for (const auto& one : all)
      if (one.section > 0)
        Location{manifest.path, one.line}.fail(
            str_cat("`", one.name, "` is declared `after: transformed`, but the rule has no host ",
                    "transform. Add `host transform: NAME` to the leading comment."));
  };
  check(manifest.slots);
  check(manifest.reductions);
}

}  // namespace

std::vector<std::string> keys_of(Kind kind) {
  if (kind == Kind::codec) return {std::begin(kCodecKeys), std::end(kCodecKeys)};
  std::vector<std::string> keys;
  if (kind == Kind::rule)
    for (const auto& [key, of] : kRuleKeys) keys.emplace_back(key);
  return keys;
}

void read_header(const std::vector<SourceLine>& header, const Symbols& flags, Manifest& manifest) {
  for (const SourceLine& line : header) {
    refuse_encoding(line.notes, line.location);
    bool after_key = false;
    for (const std::string_view piece : pieces_between_spaces(line.notes)) {
      if (after_key && begins_with_word(piece, "if"))
        line.location.fail(
            str_cat("`", piece, "` has no effect after two spaces. Write one space before `if`."));
      after_key = read_key(piece, flags, line.location, manifest);
      if (after_key) continue;
      if (manifest.kind == Kind::rule) refuse_key(piece, line.location);
      refuse_misspelled_key(piece, keys_of(manifest.kind), line.location);
      manifest.description += (manifest.description.empty() ? "" : " ") + std::string(piece);
    }
  }
  if (manifest.kind == Kind::weights && manifest.dtypes.empty())
    Location{manifest.path, 1}.fail(
        "expected `for: float32, ...` in the leading comment, with the supported dtypes");
  check_after_transform(manifest);
}

}  // namespace jitstep::jit
