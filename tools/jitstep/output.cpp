#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "json_output.h"
#include "usage.h"

namespace jitstep::tool {

int status_of_output(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  if (flushed && std::cout.good()) return status;
  std::cerr << "jitstep: cannot write to standard output"
            << (reason != 0 ? std::string(": ") + std::strerror(reason) : "") << "\n";
  return status == kSuccess ? kFailure : status;
}

int report_error(const std::string& message, int status, bool as_json) {
  if (as_json)
    std::cerr << json_text({{"error", {{"message", message}, {"status", status}}}});
  else
    std::cerr << "jitstep: " << message << "\n";
  return status;
}

}  // namespace jitstep::tool
