#include "jit/manifest/manifest_notes.h"

#include <algorithm>
#include <optional>

#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

void set_bound(std::optional<double>& bound, double x, Cursor& cursor) {
  if (bound) cursor.fail("one bound on each side");
  bound = x;
}

void read_interval(Cursor& cursor, Constraint& constraint) {
  constraint.above = cursor.take("(");
  if (!constraint.above) cursor.expect("[");
  set_bound(constraint.low, cursor.number(), cursor);
  cursor.expect(",");
  set_bound(constraint.high, cursor.number(), cursor);
  constraint.below = cursor.take(")");
  if (!constraint.below) cursor.expect("]");
}

bool read_bound(Cursor& cursor, Constraint& constraint) {
  const bool at_least = cursor.take(">=");
  if (at_least || cursor.take(">")) {
    set_bound(constraint.low, cursor.number(), cursor);
    constraint.above = !at_least;
    return true;
  }
  const bool at_most = cursor.take("<=");
  if (!at_most && !cursor.take("<")) return false;
  set_bound(constraint.high, cursor.number(), cursor);
  constraint.below = !at_most;
  return true;
}

}  // namespace

std::vector<std::string_view> segments_of(std::string_view notes) {
  std::vector<std::string_view> segments;
  while (!notes.empty()) {
    const std::size_t end = std::min(notes.find(';'), notes.size());
    if (const auto segment = trimmed(notes.substr(0, end)); !segment.empty())
      segments.push_back(segment);
    notes.remove_prefix(std::min(end + 1, notes.size()));
  }
  return segments;
}

std::string_view key_of(std::string_view segment) {
  const std::size_t end = segment.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (end == segment.npos || end == 0 || segment[end] != ':') return {};
  return end + 1 == segment.size() || segment[end + 1] == ' ' ? segment.substr(0, end) : "";
}

std::string_view value_of(std::string_view segment) {
  return trimmed(segment.substr(segment.find(':') + 1));
}

void keep_prose(std::string_view segment, const Place& place, std::string* note) {
  const auto key = key_of(segment);
  if (!key.empty())
    place.fail(text("the note `", key, ":` has no meaning here; prose has no word before a colon"));
  if (std::string_view("<>=!&|").find(segment[0]) != std::string_view::npos)
    place.fail(text("cannot read the note `", segment,
                    "`; a range is `>= 0`, `in [0, 1)` or the like, and prose begins with a word"));
  if (note == nullptr) return;
  *note += (note->empty() ? "" : "; ") + std::string(segment);
}

bool read_constraint(std::string_view segment, const Place& place, Constraint& constraint) {
  Cursor cursor(segment, place);
  if (segment == "finite") return true;
  if (segment == "integer") return constraint.integer = true;
  if (read_bound(cursor, constraint)) {
    cursor.expect_end();
    return true;
  }
  const bool power = segment.starts_with("power of two");
  if (power) {
    constraint.power_of_two = cursor.take("power of two");
    if (cursor.at_end()) return true;
  }
  if (!cursor.take_word("in")) return false;
  const auto next = cursor.rest();
  if (!power && !next.starts_with("[") && !next.starts_with("(")) return false;
  read_interval(cursor, constraint);
  cursor.expect_end();
  return true;
}

}  // namespace jitstep::jit
