// Starts a program that ends with this process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace jitstep::jit {

/// Names and values of an environment.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Descriptors above 2 that become a program's standard streams.
struct Streams {
  int in, out, error;
};

/// Process group and lifetime of a program.
struct ChildOptions {
  pid_t group = 0;  // process group to join; 0: a new one
  /// The kernel kills it when the calling thread ends. That thread must therefore wait for it.
  bool dies_with_thread = true;
};

/// Starts `arguments[0]`, a path. Throws an Error on failure.
pid_t spawn(std::vector<std::string> arguments, const Variables& environment,
            const Streams& streams, const ChildOptions& options);

/// Waits for a child and returns waitpid's status, or -1 if the host process ignores SIGCHLD.
int wait_for(pid_t child);

}  // namespace jitstep::jit
