// What a program prints has to arrive: a file that the disk had no room for would be taken for a whole one.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

namespace jitstep::tool {

/// A program's exit status once all is printed: 1, with a sentence, in place of 0 if that cannot be written.
inline int status_of_output(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  if (flushed && std::cout.good()) return status;
  std::cerr << "jitstep: what it prints could not be written whole"
            << (reason != 0 ? std::string(": ") + std::strerror(reason) : "") << "\n";
  return status == 0 ? 1 : status;
}

}  // namespace jitstep::tool
