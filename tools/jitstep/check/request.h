// The arguments of `jitstep check`.
#pragma once

#include <jitstep/jit/target.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// The values of the command line.
struct Request {
  std::string file;
  std::vector<std::string> codecs;   // names, JSON or files; empty: all codecs
  std::vector<std::string> weights;  // names; empty: all weight formats
  std::vector<jit::Target> targets;  // in addition to the CPU
  bool json = false;
};

}  // namespace jitstep::tool::check
