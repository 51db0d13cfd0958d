// Any text as an optimizer's spec, a codec and the formats of an archive: read, or refused as an argument is.
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "jitstep/jit/formats.h"
#include "jitstep/options.h"
#include "optim/options/spec_text.h"

namespace {

template <class Read>
void read(const Read& reader) {
  try {
    reader();
  } catch (const c10::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string given(reinterpret_cast<const char*>(data), size);
  read([&] { jitstep::parse_spec(given); });
  read([&] { jitstep::to_json(jitstep::parse_codec(given)); });
  read([&] { jitstep::formats_from_json(jitstep::to_json(jitstep::formats_from_json(given))); });
  return 0;
}
