#include "jitstep/jit/target.h"

#include <charconv>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

std::string to_string(const Target& target) {
  switch (target.kind) {
    case Target::Kind::cpu:
      return "cpu";
    case Target::Kind::cuda:
      return str_cat("sm_", target.sm);
    case Target::Kind::emulated:
      return "emulated";
  }
  throw Error("the kind of a Target is unknown");
}

Target parse_target(std::string_view word) {
  if (word == "cpu") return Target::cpu();
  if (word == "emulated") return Target::emulated();
  if (word.starts_with("sm_")) {
    const char* begin = word.data() + 3;
    const char* end = word.data() + word.size();
    int sm = 0;
    const auto [stop, failure] = std::from_chars(begin, end, sm);
    if (failure == std::errc() && stop == end && sm >= 10 && sm < 1000) return Target::cuda(sm);
  }
  throw Error(str_cat("'", word,
                      "' is not a target. Use cpu, emulated or sm_ with a number, such as sm_90."));
}

}  // namespace jitstep::jit
