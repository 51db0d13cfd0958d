// Names that are reserved by compilers, by torch's archives or by the kernel language. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// Whether the text is a C++ identifier.
bool is_word(std::string_view text);

/// Whether the text is valid UTF-8.
bool is_utf8(std::string_view text);

/// Whether the text starts with this lower-case word, compared without case. A space, a colon or the end must follow.
bool begins_with_word(std::string_view text, std::string_view word);

/// Whether the code contains the word, not only as a part of another one.
bool contains_word(std::string_view code, std::string_view word);

/// Why a file cannot declare this name ("is a reserved word of C++"). Empty if it can.
std::string name_problem(std::string_view name);

/// Why a checkpoint cannot have a field of this name ("is reserved in torch's archives"). Empty if it can. torch writes
/// archive fields as Python attributes.
std::string archive_problem(std::string_view name);

/// name_problem() for the name of a file. A file's name is the namespace around its declarations, so it must not hide
/// names of the kernel language either.
std::string file_name_problem(std::string_view name);

/// The line of code with the contents of literals replaced by spaces.
std::string without_quotes(std::string_view code);

/// Why a line of code, without its comment, is not portable between compilers. Empty if it is. Math functions are not
/// checked here: templates/lang/refused.cuh rejects them and lets a file define its own of the same name.
std::string foreign_problem(std::string_view code);

/// A key of a rule's leading comment, and its value.
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

/// The keys in the leading comment of a codec. Each takes the name of a codec.
inline constexpr std::string_view kCodecKeys[] = {"vectors", "signed"};

}  // namespace jitstep::jit
