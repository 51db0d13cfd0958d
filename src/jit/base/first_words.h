// The first of many words, for messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "jit/base/text.h"

namespace jitstep::jit {

/// Joins at most `most` words: "a, b". "..." stands for further ones: "a, b, ...".
inline std::string first_words(std::vector<std::string> words, std::size_t most,
                               std::string_view between = ", ") {
  if (words.size() > most) {
    words.resize(most);
    words.emplace_back("...");
  }
  return joined(words, between);
}

}  // namespace jitstep::jit
