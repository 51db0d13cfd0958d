#include "jit/cache/explain.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "jit/base/first_words.h"
#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

using Phrases = std::vector<std::string>;

// The labeled parts of a compiler's identity. Lines without a label are the version.
struct IdentityParts {
  std::string version, isa, options, arrived, wrapper;
};

IdentityParts parts_of(const std::string& identity) {
  IdentityParts parts;
  std::istringstream lines(identity);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("isa:")) {
      parts.isa = line.substr(4);
    } else if (line.starts_with("options:")) {
      parts.options = line.substr(8);
    } else if (line.starts_with("arrived:")) {
      parts.arrived = line.substr(8);
    } else if (line.starts_with("wrapper:")) {
      parts.wrapper = line.substr(8);
    } else if (!line.empty()) {
      parts.version += (parts.version.empty() ? "" : ", ") + line;
    }
  }
  return parts;
}

// The words of `all` that are not in `others`, at most a few.
std::string words_beyond(const std::string& all, const std::string& others) {
  constexpr std::size_t kShown = 8;
  std::istringstream all_words(all), other_words(others);
  std::set<std::string> known;
  for (std::string word; other_words >> word;) known.insert(word);
  Phrases shown;
  for (std::string word; all_words >> word;) {
    if (!known.contains(word)) shown.push_back(word);
  }
  return first_words(std::move(shown), kShown, " ");
}

void compare_words(const char* what, const std::string& had, const std::string& now, Phrases& out) {
  if (had == now) return;
  const std::string only_had = words_beyond(had, now), only_now = words_beyond(now, had);
  std::string phrase = str_cat("its ", what, " differ:");
  if (!only_had.empty()) phrase += " with " + only_had;
  if (!only_now.empty()) phrase += str_cat(only_had.empty() ? "" : ",", " without ", only_now);
  if (only_had.empty() && only_now.empty()) phrase += " their order";
  out.push_back(phrase);
}

void compare_compilers(const std::string& had, const std::string& now, Phrases& out) {
  if (had == now) return;
  const IdentityParts before = parts_of(had), after = parts_of(now);
  if (before.version != after.version) {
    out.push_back(str_cat("its compiler is ", before.version, ", not ", after.version));
  }
  compare_words("ISA flags", before.isa, after.isa, out);
  compare_words("compiler options", before.options, after.options, out);
  if (before.options == after.options)  // else these differ, too
    compare_words("options as they reach the compiler", before.arrived, after.arrived, out);
  if (before.wrapper != after.wrapper)
    out.push_back("its compiler's wrapper script differs, or it had none");
}

std::string display_name(const std::string& source) {
  return source == kUnitSource ? "the translation unit" : source;
}

// The elements of a unit's lists, such as "amsgrad = false".
std::set<std::string> parts_of_unit(const std::string& unit) {
  std::set<std::string> elements;
  std::string element;
  const auto end = [&] {
    const std::size_t begin = element.find_first_not_of(" .");
    if (begin != element.npos) elements.insert(element.substr(begin));
    element.clear();
  };
  for (const char c : unit) {
    if (std::string_view("{}<>(),;\n").find(c) == std::string_view::npos)
      element += c;
    else
      end();
  }
  end();
  return elements;
}

// Options, formats and configuration are in the translation unit.
std::string compare_units(const std::string& had, const std::string& now) {
  constexpr std::size_t kShown = 4;
  const auto before = parts_of_unit(had), after = parts_of_unit(now);
  const auto beyond = [&](const auto& all, const auto& others) {
    Phrases shown;
    std::set_difference(all.begin(), all.end(), others.begin(), others.end(),
                        std::back_inserter(shown));
    return first_words(std::move(shown), kShown);
  };
  const std::string with = beyond(before, after), without = beyond(after, before);
  if (with.empty() && without.empty()) return display_name(kUnitSource) + " has changed";
  return str_cat("it was generated", with.empty() ? "" : " with ", with,
                 with.empty() || without.empty() ? "" : " and", without.empty() ? "" : " without ",
                 without);
}

void compare_sources(const EntryHeader& entry, const EntryHeader& wanted, Phrases& out) {
  const Sources &had = entry.sources, &now = wanted.sources;
  for (const auto& [name, digest] : now) {
    const auto before = had.find(name);
    if (before == had.end()) {
      out.push_back(display_name(name) + " is new");
    } else if (before->second == digest) {
      continue;
    } else if (name == kUnitSource && !entry.unit.empty() && !wanted.unit.empty()) {
      out.push_back(compare_units(entry.unit, wanted.unit));
    } else {
      out.push_back(display_name(name) + " has changed");
    }
  }
  for (const auto& [name, digest] : had) {
    if (!now.contains(name)) out.push_back(display_name(name) + " was removed");
  }
}

std::string short_digest(const Key& key) { return key.digest().substr(0, 12); }

}  // namespace

std::vector<std::string> differences(const EntryHeader& entry, const EntryHeader& wanted,
                                     const WhyUnusable& why_unusable) {
  Phrases out;
  if (entry.key == wanted.key) return out;
  if (entry.key.target != wanted.key.target) {
    out.push_back(
        str_cat("it is for ", to_string(entry.key.target), ", not ", to_string(wanted.key.target)));
  }
  if (!why_unusable) {
    compare_compilers(entry.key.compiler, wanted.key.compiler, out);
  } else if (const std::string phrase = why_unusable(entry.key.compiler); !phrase.empty()) {
    out.push_back(phrase);
  }
  if (entry.key.token_digest != wanted.key.token_digest) {
    const std::size_t before = out.size();
    compare_sources(entry, wanted, out);
    if (out.size() == before)
      out.push_back("its source differs in the names or the order of files");
  }
  return out;
}

std::string explain_miss(const EntryHeader& wanted, const std::vector<EntryHeader>& entries,
                         const WhyUnusable& why_unusable) {
  const EntryHeader* nearest = nullptr;
  Phrases least;
  std::size_t same_name = 0;
  for (const EntryHeader& entry : entries) {
    if (entry.name != wanted.name || entry.key.target.kind != wanted.key.target.kind) continue;
    ++same_name;
    Phrases phrases = differences(entry, wanted, why_unusable);
    if (nearest && phrases.size() >= least.size()) continue;
    nearest = &entry;
    least = std::move(phrases);
  }
  if (entries.empty()) return "there are no entries";
  if (!nearest) {
    return str_cat("no entry of ", entries.size(), " has this name and kind of target");
  }
  return str_cat("the most similar of ", same_name, " with this name, ", short_digest(nearest->key),
                 least.empty() ? ", has this key. Its file may be damaged"
                               : ", differs: " + joined(least, "; "));
}

EntryHeader renewed(const EntryHeader& entry, const TemplateStore& store,
                    const std::string& compiler) {
  EntryHeader now = entry;
  now.key.compiler = compiler;
  now.sources = current_sources(entry.sources, store);
  if (now.sources != entry.sources) now.key.token_digest.clear();
  return now;
}

}  // namespace jitstep::jit
