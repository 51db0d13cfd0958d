// The main function of the training programs: trains every optimizer on the same problem, then prints a table and
// writes a file.
#pragma once

#include <functional>

#include "flags.h"
#include "task.h"

namespace training {

/// Loads the data of a program, and returns the problem to train on this device.
using ProblemMaker = std::function<Problem(torch::Device device)>;

/// Trains every optimizer that the flags select. Prints errors to standard error. Returns the exit status: 2 for an
/// invalid choice, 1 for any other failure.
int run_program(const std::string& program, Flags flags, const ProblemMaker& make_problem);

}  // namespace training
