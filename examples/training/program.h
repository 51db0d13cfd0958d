// What the training programs do: every optimizer on the same problem, then a table and a file.
#pragma once

#include <functional>

#include "flags.h"
#include "task.h"

namespace training {

/// Loads the data of a program and says what is to be trained on this device.
using ProblemMaker = std::function<Problem(torch::Device device)>;

/// Trains with every optimizer that the flags choose. Returns the exit code; what went wrong has then been explained on
/// standard error: 2 for a wrong choice, 1 for anything else.
int run_program(const std::string& program, Flags flags, const ProblemMaker& make_problem);

}  // namespace training
