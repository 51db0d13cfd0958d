# Writes OUTPUT, a C++ source that defines FUNCTION, declared in HEADER. FUNCTION returns a table with the text of every
# file that NAMES_FILE lists in FOLDER. Texts are split at line ends into raw literals of at most kPiece bytes, because
# compilers need to accept only 64 KiB. They are joined once at run time.

set(kPiece 16000)
set(kDelimiter "jitstep.text")

# Sets `literals` of the caller to the raw literals of `text`.
function(append_literals text)
  set(out "")
  string(LENGTH "${text}" length)
  while(length GREATER kPiece)
    string(SUBSTRING "${text}" 0 ${kPiece} piece)
    string(FIND "${piece}" "\n" cut REVERSE)
    if(cut EQUAL -1)
      message(FATAL_ERROR "A file has a line longer than ${kPiece} bytes.")
    endif()
    math(EXPR cut "${cut} + 1")
    string(SUBSTRING "${text}" 0 ${cut} piece)
    string(SUBSTRING "${text}" ${cut} -1 text)
    string(LENGTH "${text}" length)
    string(APPEND out "    R\"${kDelimiter}(${piece})${kDelimiter}\"sv,\n")
  endwhile()
  string(APPEND out "    R\"${kDelimiter}(${text})${kDelimiter}\"sv,\n")
  set(literals "${out}" PARENT_SCOPE)
endfunction()

file(STRINGS "${NAMES_FILE}" names)
set(tables "")
set(rows "")
set(index 0)
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}" text)
  append_literals("${text}")
  string(APPEND tables "constexpr std::string_view kText${index}[] = {\n${literals}};\n\n")
  string(APPEND rows "      row(\"${name}\", kText${index}),\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE "${OUTPUT}" "// Generated at build time.
#include \"${HEADER}\"

#include <deque>
#include <string>
#include <vector>

namespace jitstep::jit {
namespace {

using namespace std::string_view_literals;
using Row = std::pair<std::string_view, std::string_view>;

${tables}
// A text in one piece is used without a copy. Longer texts are joined in a container that is never cleared.
[[maybe_unused]] Row row(std::string_view name, std::span<const std::string_view> pieces) {
  if (pieces.size() == 1) return {name, pieces[0]};
  static std::deque<std::string> joined;
  std::string& text = joined.emplace_back();
  for (std::string_view piece : pieces) text += piece;
  return {name, text};
}

}  // namespace

std::span<const Row> ${FUNCTION}() {
  // Never destroyed, because views of it may be used during static destruction.
  static const auto& rows = *new std::vector<Row>{
${rows}  };
  return rows;
}

}  // namespace jitstep::jit
")
