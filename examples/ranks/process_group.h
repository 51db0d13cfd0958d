// A process group for programs that torchrun starts.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

/// Reads the variables that torchrun sets. Without them, the group has one process.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group();
