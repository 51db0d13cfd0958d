// Reads arbitrary bytes as a file of tuning records. Each line must be a record that can be written again, or must be
// skipped.
#include <cstdint>
#include <cstdlib>

#include "jit/tuning/tuning_files.h"

using namespace jitstep::jit;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  for (const TuningRecord& record : parse_records(content, "f").records)
    if (!read_record(to_json(record)).record) std::abort();
  return 0;
}
