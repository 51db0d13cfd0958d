#include "jit/manifest/manifest_header.h"

#include <algorithm>
#include <array>

#include "jit/base/text.h"
#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/manifest_words.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

// "CODEC" or "CODEC if CONDITION".
RuleDefault rule_default(std::string_view value, const Symbols& flags, const Place& place) {
  const std::size_t end = std::min(value.find(" if "), value.size());
  RuleDefault made{std::string(trimmed(value.substr(0, end))), {}};
  if (end < value.size()) made.condition = read_condition(value.substr(end + 4), flags, place);
  return made;
}

void read_class(std::string_view value, const Place& place, Manifest& made) {
  if (!made.class_name.empty()) place.fail("a rule has one `class:`; keep one");
  Cursor cursor(value, place);
  made.class_name = cursor.identifier("the name of a C++ class");
  cursor.expect_end();
}

void read_stage(std::string_view value, const Place& place, Manifest& made) {
  if (!made.host_stage.empty()) place.fail("a rule has one `host stage:`; keep one");
  Cursor cursor(value, place);
  made.host_stage = cursor.identifier("the name of a host stage");
  cursor.expect_end();
}

void read_modes(std::string_view value, const Place& place, Manifest& made) {
  if (value != "train, eval")
    place.fail(text("cannot read the modes `", value, "`: there is `modes: train, eval`"));
  made.modes = true;
}

void read_dtypes(std::string_view value, const Place& place, Manifest& made) {
  Cursor cursor(value, place);
  do {
    const std::string name = cursor.identifier("a dtype");
    try {
      made.dtypes.push_back(parse_dtype(name));
    } catch (const Error& error) {
      place.fail(error.what());
    }
  } while (cursor.take(","));
  cursor.expect_end();
}

// Whether a piece is a key of this kind of file; it is read then.
bool read_key(std::string_view piece, const Symbols& flags, const Place& place, Manifest& made) {
  const bool rule = made.kind == Kind::rule;
  const auto starts = [&](std::string_view key) { return piece.starts_with(key); };
  const std::string_view value = trimmed(piece.substr(std::min(piece.find(':') + 1, piece.size())));
  if (rule && starts("class: ")) {
    read_class(value, place, made);
  } else if (rule && starts("default state: ")) {
    made.default_states.push_back(rule_default(value, flags, place));
  } else if (rule && starts("min_quantized_size: ")) {
    made.min_quantized_sizes.push_back(rule_default(value, flags, place));
    Cursor(made.min_quantized_sizes.back().value, place).integer(0, 1 << 30);
  } else if (rule && starts("host stage: ")) {
    read_stage(value, place, made);
  } else if (rule && starts("modes: ")) {
    read_modes(value, place, made);
  } else if (made.kind == Kind::weights && starts("for: ")) {
    read_dtypes(value, place, made);
  } else {
    return false;
  }
  return true;
}

// A rule's key that is not written as it is read: no colon, no space behind it, capital letters.
void refuse_key(std::string_view piece, const Place& place) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kKeys = {
      {{"class", "class: NAME"},
       {"default state", "default state: CODEC"},
       {"min_quantized_size", "min_quantized_size: NUMBER"},
       {"host stage", "host stage: NAME"},
       {"modes", "modes: train, eval"}}};
  for (const auto& [key, form] : kKeys) {
    if (!begins_with_word(piece, key)) continue;
    std::string_view value = trimmed(piece.substr(key.size()));
    if (value.starts_with(':')) value = trimmed(value.substr(1));
    if (key == "class" && !is_word(value)) continue;  // a sentence about classes
    place.fail(
        text("cannot read `", piece, "`: write `", form, "`, or begin prose with another word"));
  }
}

}  // namespace

void read_header(const std::vector<SourceLine>& header, const Symbols& flags, Manifest& made) {
  for (const SourceLine& line : header) {
    std::string_view left = line.notes;
    while (!left.empty()) {  // two spaces or more set a key apart
      const std::size_t gap = std::min(left.find("  "), left.size());
      const std::string_view piece = trimmed(left.substr(0, gap));
      left = trimmed(left.substr(gap));
      if (read_key(piece, flags, line.place, made)) continue;
      if (made.kind == Kind::rule) refuse_key(piece, line.place);
      made.description += (made.description.empty() ? "" : " ") + std::string(piece);
    }
  }
  if (made.kind == Kind::weights && made.dtypes.empty())
    Place{made.path, 1}.fail(
        "expected `for: float32, ...` in the leading comment: the dtypes it is for");
}

}  // namespace jitstep::jit
