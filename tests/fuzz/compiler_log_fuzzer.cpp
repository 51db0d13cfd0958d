// Reads arbitrary text as a unit and, after its first zero byte, as a compiler's log. The preprocessed source must
// split into its files again, and reported locations must exist in the text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "jit/compiler/diagnosis.h"
#include "jit/source/preprocess.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/error.h"

using namespace jitstep::jit;

namespace {

std::string preprocessed_of(const std::string& unit) {
  static const TemplateStore store("", true);
  try {
    return preprocess(unit, "unit", store);
  } catch (const Error&) {
    return unit;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const std::string preprocessed = preprocessed_of(all.substr(0, end)),
                    log = all.substr(std::min(end + 1, all.size()));
  const std::string first = diagnosis(preprocessed, log);
  if (first.size() > 240 || first.find('\n') != first.npos) std::abort();
  excerpt(preprocessed, log);
  numbered_sources(preprocessed, log);
  file_names(preprocessed);
  return 0;
}
