#include "jit/manifest/manifest_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "jit/base/text.h"
#include "jit/manifest/manifest_notes.h"
#include "jit/manifest/reserved_names.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kMaxTerms = 16;

// ---- types

Domain read_domain(Cursor& cursor) {
  const auto found = std::find_if(kDomainNames.begin(), kDomainNames.end(),
                                  [&](std::string_view name) { return cursor.take_word(name); });
  if (found == kDomainNames.end())
    cursor.fail("a domain: all, tensor, first, rows, columns, matrices or axis<0> to axis<3>");
  const auto kind = static_cast<Domain::Kind>(found - kDomainNames.begin());
  if (kind != Domain::Kind::axis) return {kind, 0};
  cursor.expect("<");
  const Domain domain{kind, cursor.integer(0, 3)};
  cursor.expect(">");
  return domain;
}

Initial read_initial(std::string_view value, const Location& location) {
  Cursor cursor(value, location);
  const bool named = !value.empty() && value.find_first_of("0123456789.-") != 0;
  Initial initial;
  if (named)
    initial.option = cursor.identifier("an option");
  else
    initial.number = cursor.number();
  cursor.expect_end();
  return initial;
}

// Buffers of float32 hold the value, except for auxiliary state of type double.
void check_float32(const Initial& initial, const Location& location) {
  if (std::abs(initial.number) > std::numeric_limits<float>::max())
    location.fail("the initial value is too large for float32. Choose a smaller one.");
}

// Reads `Entries<rows, Rows>`. Returns the index of the earlier reduction that it refers to.
int read_entries(Cursor& cursor, const Domain& domain, const std::vector<Reduction>& earlier) {
  cursor.expect("Entries");
  cursor.expect("<");
  const Domain over = read_domain(cursor);
  cursor.expect(",");
  const std::string coefficients = cursor.identifier("the coefficients of an earlier reduction");
  const auto found = std::find_if(earlier.begin(), earlier.end(), [&](const Reduction& r) {
    return r.coefficients == coefficients && r.domain == over;
  });
  if (found == earlier.end()) cursor.fail("the domain and coefficients of an earlier reduction");
  if (over.kind == Domain::Kind::all) cursor.fail("a domain finer than `all`");
  for (int dims = 1; dims <= kMaxDims; ++dims) {
    if (over.reduced(dims) & ~domain.reduced(dims))
      cursor.fail(str_cat("a domain whose entries lie inside those of ", to_string(domain)));
  }
  cursor.expect(">");
  return static_cast<int>(found - earlier.begin());
}

// The number of transforms up to the one of this name, which a note `after:` names. 0: there is none.
int section_after(std::string_view name, const std::vector<RuleTransform>& transforms) {
  if (transforms.empty()) return name == kTransformed ? 1 : 0;
  for (std::size_t i = 0; i < transforms.size(); ++i)
    if (transforms[i].name == name) return static_cast<int>(i) + 1;
  return 0;
}

void read_after(std::string_view list, const Location& location,
                const std::vector<Reduction>& earlier, const std::vector<RuleTransform>& transforms,
                Reduction& reduction) {
  Cursor cursor(list, location);
  do {
    const std::string name = cursor.identifier("the name of an earlier reduction");
    const auto found = std::find_if(earlier.begin(), earlier.end(),
                                    [&](const Reduction& r) { return r.name == name; });
    const int section = section_after(name, transforms);
    reduction.section = std::max(reduction.section, section);
    if (found == earlier.end() && section > 0) continue;
    if (found == earlier.end())
      location.fail(
          str_cat("no earlier reduction is named `", name, "`. Declare it before this one."));
    reduction.after.push_back(static_cast<int>(found - earlier.begin()));
  } while (cursor.take(","));
  cursor.expect_end();
}

}  // namespace

Expression read_condition(std::string_view condition, const Symbols& symbols,
                          const Location& location) {
  try {
    return parse_expression(condition, symbols);
  } catch (const Error& error) {
    location.fail(error.what());
  }
}

// The transforms before a slot.
static int section_of_slot(std::string_view names, const Location& location,
                           const std::vector<RuleTransform>& transforms) {
  int last = 0;
  Cursor cursor(names, location);
  do {
    const std::string name = cursor.identifier("the name of a host transform");
    const int section = section_after(name, transforms);
    if (section == 0)
      location.fail(str_cat("no host transform is named `", name, "`. A slot comes after `",
                            transforms.empty() ? std::string(kTransformed) : transforms[0].name,
                            "`, or another transform of the file."));
    last = std::max(last, section);
  } while (cursor.take(","));
  cursor.expect_end();
  return last;
}

Slot read_slot(const SourceLine& line, const Symbols& flags,
               const std::vector<RuleTransform>& transforms) {
  Cursor cursor(line.code, line.location);
  Slot slot;
  slot.line = line.location.line;
  slot.is_signed = cursor.take_word("Signed");
  if (!slot.is_signed && !cursor.take_word("NonNegative")) cursor.fail("Signed or NonNegative");
  slot.name = slot.torch_name = cursor.identifier("the slot's name");
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (key_of(segment) == "torch")
      slot.torch_name = read_name(value_of(segment), line.location, "torch's name");
    else if (key_of(segment) == "codec")
      slot.codec = read_name(value_of(segment), line.location, "a codec");
    else if (key_of(segment) == "initial")
      slot.initial = read_initial(value_of(segment), line.location);
    else if (key_of(segment) == "after")
      slot.section = section_of_slot(value_of(segment), line.location, transforms);
    else if (segment.starts_with("if "))
      slot.condition = read_condition(segment.substr(3), flags, line.location);
    else
      add_free_text(segment, line.location, nullptr);
  }
  check_float32(slot.initial, line.location);
  if (!slot.is_signed && slot.initial.number < 0)
    line.location.fail(
        "a NonNegative slot has a negative initial value. Make it Signed, or start at 0.");
  return slot;
}

Reduction read_reduction(const SourceLine& line, const Symbols& flags,
                         const std::vector<Reduction>& earlier,
                         const std::vector<RuleTransform>& transforms) {
  Cursor cursor(line.code, line.location);
  Reduction reduction;
  reduction.line = line.location.line;
  if (cursor.take_word("Max"))
    reduction.op = Reduction::Op::max;
  else if (!cursor.take_word("Sum"))
    cursor.fail("Sum<...> or Max<...>");
  cursor.expect("<");
  reduction.domain = read_domain(cursor);
  cursor.expect(",");
  reduction.terms = cursor.integer(1, kMaxTerms);
  cursor.expect(",");
  reduction.coefficients = cursor.identifier("the name of its coefficients");
  if (cursor.take(",")) reduction.source = read_entries(cursor, reduction.domain, earlier);
  cursor.expect(">");
  reduction.name = cursor.identifier("the reduction's name");
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (key_of(segment) == "after")
      read_after(value_of(segment), line.location, earlier, transforms, reduction);
    else if (segment == "update_state")
      reduction.read_by_update_state = true;
    else if (segment.starts_with("if "))
      reduction.condition = read_condition(segment.substr(3), flags, line.location);
    else
      add_free_text(segment, line.location, nullptr);
  }
  if (reduction.source) reduction.after.push_back(*reduction.source);
  for (const int one : reduction.after)
    reduction.section = std::max(reduction.section, earlier[static_cast<std::size_t>(one)].section);
  return reduction;
}

namespace {

// A note that auxiliary state and matrices share, or free text.
template <class Field>
void read_note_of_state(std::string_view note, const Location& location, const Symbols& flags,
                        Field& field) {
  if (key_of(note) == "torch")
    field.torch_name = read_name(value_of(note), location, "torch's name");
  else if (key_of(note) == "initial")
    field.initial = read_initial(value_of(note), location);
  else if (note.starts_with("if "))
    field.condition = read_condition(note.substr(3), flags, location);
  else
    add_free_text(note, location, nullptr);
}

// All groups of an optimizer use the same shared state, but may differ in dtype and flags.
void check_shared_state(const AuxField& field, const Location& location) {
  if (!field.is_shared()) return;
  if (!field.is_double)
    location.fail("shared state must have type double. Write `Entry<all, double>`.");
  if (field.condition)
    location.fail(
        "shared state cannot depend on flags, which may differ between groups. Remove `if`.");
}

}  // namespace

RuleInput read_input(const SourceLine& line) {
  Cursor cursor(line.code, line.location);
  RuleInput input;
  input.line = line.location.line;
  if (!cursor.take_word("Input")) cursor.fail("Input");
  input.name = cursor.identifier("the input's name");
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) add_free_text(segment, line.location, &input.note);
  return input;
}

RuleTransform read_transform(const SourceLine& line) {
  Cursor cursor(line.code, line.location);
  RuleTransform transform;
  transform.line = line.location.line;
  if (!cursor.take_word("real")) cursor.fail("real");
  transform.name = cursor.identifier("the name of the transformed values");
  cursor.end_declaration();
  for (const auto segment : segments_of(line))
    if (key_of(segment) == "host")
      transform.host = read_name(value_of(segment), line.location, "a host transform");
    else
      add_free_text(segment, line.location, nullptr);
  if (transform.host.empty())
    line.location.fail(str_cat("the transform `", transform.name,
                               "` names no function of the host. Add the note `host: NAME`."));
  return transform;
}

MatrixField read_matrix(const SourceLine& line, const Symbols& flags) {
  Cursor cursor(line.code, line.location);
  MatrixField matrix;
  matrix.line = line.location.line;
  if (!cursor.take_word("Matrix")) cursor.fail("Matrix<rows, columns>");
  cursor.expect("<");
  matrix.rows = cursor.integer(0, kMaxDims - 1);
  cursor.expect(",");
  matrix.columns = cursor.integer(0, kMaxDims - 1);
  cursor.expect(">");
  matrix.name = matrix.torch_name = cursor.identifier("the matrix's name");
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (segment.starts_with("largest side: "))
      matrix.largest = read_initial(value_of(segment), line.location);
    else
      read_note_of_state(segment, line.location, flags, matrix);
  }
  check_float32(matrix.initial, line.location);
  return matrix;
}

AuxField read_aux_state(const SourceLine& line, const Symbols& flags) {
  Cursor cursor(line.code, line.location);
  AuxField field;
  field.line = line.location.line;
  if (!cursor.take_word("Entry")) cursor.fail("Entry<domain> or Entry<domain, double>");
  cursor.expect("<");
  field.domain = read_domain(cursor);
  if (cursor.take(",")) {
    field.is_double = cursor.take_word("double");
    if (!field.is_double && !cursor.take_word("real")) cursor.fail("real or double");
  }
  cursor.expect(">");
  field.name = field.torch_name = cursor.identifier("the field's name");
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (segment == "elements")
      field.of_elements = true;
    else
      read_note_of_state(segment, line.location, flags, field);
  }
  check_shared_state(field, line.location);
  if (!field.is_double) check_float32(field.initial, line.location);
  return field;
}

std::vector<Field> read_fields(const SourceLine& line, const std::vector<std::string_view>& types) {
  Cursor cursor(line.code, line.location);
  std::vector<Field> fields;
  while (!cursor.at_end()) {
    const auto type = std::find_if(types.begin(), types.end(),
                                   [&](std::string_view word) { return cursor.take_word(word); });
    if (type == types.end()) cursor.fail("a field of type " + joined(types));
    do {
      fields.push_back({std::string(*type), cursor.identifier("a field's name")});
      if (const auto problem = name_problem(fields.back().name); !problem.empty())
        line.location.fail(str_cat("`", fields.back().name, "` ", problem, ". Rename it."));
    } while (cursor.take(","));
    cursor.expect(";");
  }
  return fields;
}

}  // namespace jitstep::jit
