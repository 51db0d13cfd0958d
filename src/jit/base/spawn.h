// Starting a program that need not outlive this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace jitstep::jit {

/// Names and values of an environment.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// File descriptors above 2 that become a program's standard streams.
struct Streams {
  int in, out, error;
};

/// How a program lives beside this one.
struct Kinship {
  pid_t group = 0;  // the process group that it joins; 0: one of its own
  /// The kernel kills it when the calling thread ends, which must wait for it therefore.
  bool dies_with_thread = true;
};

/// Starts `arguments[0]` (a path). An Error if that cannot be done.
pid_t spawn(std::vector<std::string> arguments, const Variables& environment,
            const Streams& streams, const Kinship& kinship);

/// The end of a child by waitpid's status; -1 if the host process ignores its children's ends.
int wait_for(pid_t child);

}  // namespace jitstep::jit
