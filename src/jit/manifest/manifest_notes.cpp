#include "jit/manifest/manifest_notes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <regex>
#include <set>

#include "jit/base/closest.h"
#include "jit/base/lock_free_static.h"
#include "jit/base/text.h"
#include "jit/manifest/reserved_names.h"

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

// The form of a note, by its first word, and the declarations that can have it.
struct NoteForm {
  std::string_view word, form, owners;
};
constexpr std::array kNoteForms = {
    NoteForm{"codec", "codec: CODEC", "slots"},
    NoteForm{"at construction", "at construction: OPTION", "a rule's Nullable numbers"},
    NoteForm{"same in all groups", "same in all groups",
             "a rule's numbers of the types double, Numbers and Nullable"},
    NoteForm{"torch", "torch: NAME", "slots, auxiliary state and matrices"},
    NoteForm{"initial", "initial: NUMBER or OPTION", "slots, auxiliary state and matrices"},
    NoteForm{"largest side", "largest side: NUMBER or OPTION", "matrices"},
    NoteForm{"if", "if CONDITION", "slots, reductions, auxiliary state and matrices"},
    NoteForm{"lifted", "lifted: CONDITION", "flags of type bool"},
    NoteForm{"after", "after: REDUCTION, ...",
             "a rule's reductions; with names of transforms also for slots"},
    NoteForm{"update_state", "update_state", "a rule's reductions"},
    NoteForm{"elements", "elements", "a rule's auxiliary state"},
    NoteForm{"host", "host: NAME", "transforms"},
    NoteForm{"refuse", "// refuse: CONDITION, SENTENCE", "a line of its own"},
};

// Whether a note that begins with its word continues as its form does, so that only its place is wrong.
bool is_well_formed(std::string_view segment, const NoteForm& note) {
  if (!segment.starts_with(note.word)) return false;  // capital letters
  const std::string_view rest = segment.substr(note.word.size());
  if (note.form == note.word) return rest.empty();
  return note.form.find(':') == note.form.npos ? rest.starts_with(" ")
                                               : rest == ":" || rest.starts_with(": ");
}

// The word that begins a note with a value: "torch" of "torch: exp_avg", "if" of "if nesterov".
std::string_view keyword_of(std::string_view segment) {
  return segment.starts_with("if ") ? segment.substr(0, 2) : key_of(segment);
}

void refuse_repeated_keys(const std::vector<std::string_view>& segments, const Location& location) {
  std::set<std::string_view> keys;
  for (const std::string_view segment : segments)
    if (const auto key = keyword_of(segment); !key.empty() && !keys.insert(key).second)
      location.fail(str_cat("the note `", key, "` appears twice. Keep one."));
}

}  // namespace

void refuse_encoding(std::string_view text, const Location& location) {
  if (!is_utf8(text)) location.fail("this comment is not UTF-8. Save the file as UTF-8.");
}

std::vector<std::string_view> segments_of(const SourceLine& line) {
  refuse_encoding(line.notes, line.location);
  std::vector<std::string_view> segments;
  for (std::string_view notes = line.notes; !notes.empty();) {
    const std::size_t end = std::min(notes.find(';'), notes.size());
    if (const auto segment = trimmed(notes.substr(0, end)); !segment.empty())
      segments.push_back(segment);
    notes.remove_prefix(std::min(end + 1, notes.size()));
  }
  refuse_repeated_keys(segments, line.location);
  return segments;
}

std::vector<std::string_view> pieces_between_spaces(std::string_view comment) {
  std::vector<std::string_view> pieces;
  while (!comment.empty()) {
    const std::size_t gap = std::min(comment.find("  "), comment.size());
    pieces.push_back(trimmed(comment.substr(0, gap)));
    comment = trimmed(comment.substr(gap));
  }
  return pieces;
}

std::string_view key_of(std::string_view segment) {
  const std::size_t end = segment.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (end == segment.npos || end == 0 || segment[end] != ':') return {};
  return end + 1 == segment.size() || segment[end + 1] == ' ' ? segment.substr(0, end) : "";
}

std::string_view value_of(std::string_view segment) {
  return trimmed(segment.substr(segment.find(':') + 1));
}

void refuse_note(std::string_view segment, const Location& location) {
  for (const NoteForm& note : kNoteForms) {
    if (!begins_with_word(segment, note.word)) continue;
    if (is_well_formed(segment, note))
      location.fail(str_cat("cannot read `", segment, "` here: `", note.form, "` is for ",
                            note.owners, ". Start free text with another word."));
    location.fail(str_cat("cannot read `", segment, "`. Write `", note.form, "`, for ", note.owners,
                          ", or start free text with another word."));
  }
}

void refuse_misspelled_key(std::string_view text, const std::vector<std::string>& keys,
                           const Location& location) {
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_ ");
  if (end == text.npos || end == 0 || text[end] != ':') return;
  if (end + 1 < text.size() && text[end + 1] != ' ') return;
  const std::string found = closest(text.substr(0, end), keys);
  if (found.empty() || found[0] != text[0]) return;
  location.fail(str_cat("unknown key `", text.substr(0, end), ":`. Did you mean `", found,
                        ":`? Otherwise start free text with another word."));
}

namespace {

using Forms = std::array<std::regex, 10>;

std::unique_ptr<const Forms> forms_of_ranges() {
  const std::string
      number = R"([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)",
      lead = R"(^((must|should|has to|to|be|is|are|an?|any|in|from|strictly|not|never) +)*)";
  const auto form = [](const std::string& words) { return std::regex(words, std::regex::icase); };
  return std::make_unique<const Forms>(Forms{
      form("(^|[^-])[<>]"), form(number + R"( *\.\.+ *)" + number),
      form(R"([\[(] *)" + number + " *, *(" + number + R"( *[\])]|inf))"),
      form(lead + number + " *(to|and|-) *" + number + "$"),
      form(lead + number + " or (more|less|larger|greater|smaller|above|below)$"),
      form(lead + "(between|at least|at most|(greater|larger|more|less|smaller) than|power of)"),
      form(lead + "(above|below|up to|within) " + number), form(lead + "zero$"),
      form(lead + "(((not|non)[- ]?)?(negative|positive|zero)|nonzero)( numbers?| integers?)?$"),
      form(lead +
           R"(((positive|negative|whole) +)*(integers?|ints?|whole numbers?)(,.*| from .*)?$)")});
}

// Whether free text describes a range in a form that is not parsed: `must be > 0`, `0..1`, `Positive`.
bool looks_like_range(std::string_view segment) {
  constexpr std::size_t kLongest = 200;  // std::regex needs stack space per character
  const Forms& forms = lock_free_static<forms_of_ranges>();
  const std::string begin(segment.substr(0, kLongest));
  const auto shows = [&](const std::regex& one) { return std::regex_search(begin, one); };
  return begin.find("\xe2\x89\xa4") != begin.npos || begin.find("\xe2\x89\xa5") != begin.npos ||
         std::any_of(forms.begin(), forms.end(), shows);  // the bytes are U+2264 and U+2265
}

// Rejects such text, because it would look like a range that jitstep checks.
void refuse_range(std::string_view segment, const Location& location) {
  if (looks_like_range(segment))
    location.fail(str_cat("the note `", segment,
                          "` is not a valid range. Write for example `>= 0` or `in [0, 1)`, ",
                          "or start free text with another word."));
}

}  // namespace

void add_free_text(std::string_view segment, const Location& location, std::string* note) {
  refuse_note(segment, location);
  const auto key = key_of(segment);
  if (key == "keeps") location.fail("the note `keeps:` is now called `codec:`");
  std::vector<std::string> words;
  for (const NoteForm& one : kNoteForms)
    if (one.form.find(':') != one.form.npos) words.emplace_back(one.word);
  refuse_misspelled_key(segment, words, location);
  if (!key.empty())
    location.fail(
        str_cat("unknown note `", key, ":`. Free text cannot start with a word and a colon."));
  if (std::string_view("<>=!&|").find(segment[0]) != std::string_view::npos)
    location.fail(
        str_cat("cannot read the note `", segment,
                "`. Write a range like `>= 0` or `in [0, 1)`. Start free text with a word."));
  if (note == nullptr) return;
  refuse_range(segment, location);
  *note += (note->empty() ? "" : "; ") + std::string(segment);
}

bool read_constraint(std::string_view segment, const Location& location, Constraint& constraint) {
  Cursor cursor(segment, location);
  if (segment == "finite") return true;
  if (segment == "integer") return constraint.integer = true;
  if (read_bound(cursor, constraint)) {  // `> 0`, `>= 0 < 1`
    read_bound(cursor, constraint);
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
