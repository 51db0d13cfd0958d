// What `jitstep check` is asked for.
#pragma once

#include <jitstep/jit/target.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// The words of the command line.
struct Request {
  std::string file;
  std::vector<std::string> codecs;   // names, JSON or files; empty: a covering set
  std::vector<std::string> weights;  // names; empty: a covering set
  std::vector<jit::Target> targets;  // in addition to the CPU
  bool json = false;
};

}  // namespace jitstep::tool::check
