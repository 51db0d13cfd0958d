// Any text as an optimizer's spec, a codec and the formats of an archive: read, or refused with an Error.
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
