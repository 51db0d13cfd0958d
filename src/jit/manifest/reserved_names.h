// Words that mean something to a compiler or to the templates already. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// Whether it is an identifier.
bool is_word(std::string_view text);

/// Whether the text begins with this word in small or capital letters and the word ends there: before a
/// space, a colon or the end.
bool begins_with_word(std::string_view text, std::string_view word);

/// Why C++ or the contract of the templates refuses this name for something of a file's own ("is a word
/// of C++"); empty if they do not.
std::string name_problem(std::string_view name);

/// Why what is kept under this name could not be read back from an archive, whose fields torch writes as Python's
/// ("is a word of torch's archives"); empty if it could.
std::string archive_problem(std::string_view name);

/// What name_problem says, of the name of a file, which is a namespace around all that it declares: no word of the
/// contract either.
std::string file_name_problem(std::string_view name);

/// A line of code in which quoted texts, which may say anything, are spaces.
std::string without_quotes(std::string_view code);

/// Why a line of code, without its comment, cannot be the same for every compiler; empty if it can. (Functions
/// of the compilers' own mathematics are refused by templates/core/refused.cuh, where a file may have its own.)
std::string foreign_problem(std::string_view code);

/// What a rule's leading comment may say, and of what.
struct RuleKey {
  std::string_view key, of;
};
inline constexpr RuleKey kRuleKeys[] = {{"class", "NAME"},
                                        {"default state", "CODEC"},
                                        {"default weights", "FORMAT"},
                                        {"min_quantized_size", "NUMBER"},
                                        {"host transform", "NAME"},
                                        {"modes", "train, eval"},
                                        {"initial state", "at construction"},
                                        {"step number", "none"}};

}  // namespace jitstep::jit
