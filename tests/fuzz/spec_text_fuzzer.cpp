// Reads arbitrary text as an optimizer's spec, as a codec and as the formats of a checkpoint. The readers must succeed
// or throw an Error.
#include <cstdint>
#include <string>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/error.h"

namespace {

template <class Read>
void read(const Read& reader) {
  try {
    reader();
  } catch (const jitstep::jit::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace jitstep::jit;
  const std::string given(reinterpret_cast<const char*>(data), size);
  read([&] { parse_spec(given); });
  read([&] { to_json(parse_codec(given)); });
  read([&] { formats_from_json(to_json(formats_from_json(given))); });
  return 0;
}
