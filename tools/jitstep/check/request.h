// What `jitstep check` is asked for.
#pragma once

#include <jitstep/jit/target.h>

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// The words of the command line.
struct Request {
  std::string file;
  std::vector<std::string>
      codecs;  // names, objects as parse_codec takes them, or files; empty: a cover
  std::vector<std::string> weights;  // names; empty: a cover
  std::vector<jit::Target> targets;  // beside the CPU
  bool json = false;
};

}  // namespace jitstep::tool::check
