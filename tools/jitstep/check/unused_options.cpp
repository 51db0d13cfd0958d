#include "unused_options.h"

#include <jit/base/characters.h>
#include <jit/base/text.h>
#include <jit/source/preprocess.h>

#include <map>

namespace jitstep::tool::check {
namespace {

using WordCounts = std::map<std::string, int>;

void add_words(const std::string& text, WordCounts& counts) {
  std::string word;
  for (const char c : text + ' ') {
    if (jit::in_word(c)) {
      word += c;
    } else {
      ++counts[word];
      word.clear();
    }
  }
}

// The words of the rule's file and of what it includes. The kernel language uses no option.
WordCounts words_of(const jit::Manifest& rule, const jit::TemplateStore& store) {
  jit::Texts included;
  preprocess(jit::str_cat("#include \"", rule.source, "\"\n"), rule.name, store, included);
  WordCounts counts;
  for (const auto& [name, text] : included)
    if (!name.starts_with("lang/")) add_words(text, counts);
  return counts;
}

}  // namespace

std::vector<std::string> unused_options(const jit::Manifest& rule,
                                        const jit::TemplateStore& store) {
  std::vector<std::string> unused;
  if (rule.kind != jit::Manifest::Kind::rule || !rule.transforms.empty()) return unused;
  WordCounts counts = words_of(rule, store);
  for (const auto* const options : {&rule.hyper, &rule.flags})
    for (const jit::Option& option : *options)
      if (counts[option.name] == 1) unused.push_back(option.name);
  return unused;
}

}  // namespace jitstep::tool::check
